"""Metrics that compare two maps cell by cell.

SIM, CC and KL are the usual metrics for saliency maps (Bylinskii et al., TPAMI 41(3), 2019, section 4). The paper on
central heat maps reports them for maps smoothed with :meth:`heathaze.Density.smooth`. MSE, L1, MAPE, SMAPE and MAAPE
are the metrics in section 6 and table 3 of the paper on distributed heat maps.
"""

from __future__ import annotations

import numpy as np

from heathaze.metrics.pair import Map, pair

KL_REGULARISER = 2.0**-52
"""The distance from 1 to the next float (2.22e-16), which the saliency benchmark adds to q_i and to the ratio in KL."""


def similarity(truth: Map, estimate: Map) -> float:
    """Compute the similarity SIM of two maps: the share of mass that they have in common.

        SIM(p, q) = Σ min(p_i, q_i) = 1 − TV(p, q)

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From 0 (disjoint) to 1 (equal).

    >>> similarity([[3, 1]], [[1, 1]])
    0.75
    """
    p, q = pair(truth, estimate)
    return float(np.minimum(p, q).sum())


def total_variation(truth: Map, estimate: Map) -> float:
    """Compute the total variation distance TV: the share of mass that would have to move to make the maps equal.

        TV(p, q) = ½ Σ |p_i − q_i|

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From 0 (equal) to 1 (disjoint).

    >>> total_variation([[3, 1]], [[1, 1]])
    0.25
    """
    p, q = pair(truth, estimate)
    return float(np.abs(p - q).sum() / 2)


def pearson(truth: Map, estimate: Map) -> float:
    """Compute Pearson's correlation CC of two maps, cell by cell.

        CC(p, q) = cov(p, q) / (sd(p) sd(q))

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From −1 to 1 (equal up to scale); 0 if a map has the same mass in every cell.

    >>> round(pearson([[1, 2, 3]], [[2, 4, 6]]), 12), round(pearson([[1, 2, 3]], [[3, 2, 1]]), 12)
    (1.0, -1.0)
    """
    p, q = pair(truth, estimate)
    p, q = p - 1 / p.size, q - 1 / q.size  # Both maps sum to 1, so their mean is 1 / size.
    flat = 1e-14 / p.size  # Smaller differences in a map are rounding errors.
    if np.abs(p).max() <= flat or np.abs(q).max() <= flat:
        return 0.0
    p, q = p / np.abs(p).max(), q / np.abs(q).max()
    return float(np.clip((p * q).sum() / np.sqrt((p * p).sum() * (q * q).sum()), -1.0, 1.0))


def kl(truth: Map, estimate: Map) -> float:
    """Compute the Kullback–Leibler divergence KL of the truth p from the estimate q.

        KL(p ‖ q) = Σ p_i · ln(η + p_i / (η + q_i)),   η = 2^−52

    KL is not symmetric. A cell with p_i > 0 and q_i = 0 adds p_i·ln(p_i/η), which is finite because of η. A cell with
    p_i = 0 adds nothing. The saliency benchmark uses the same η, so values are comparable with those of the paper. The
    value depends on η if the estimate is nearly zero somewhere, for example in a Gaussian heat map far from its mass.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From 0 (equal) to about 36, in nats.

    >>> round(kl([[1, 1]], [[1, 1]]), 12)
    0.0
    >>> round(kl([[1, 0]], [[1, 1]]), 6)    # ln 2
    0.693147
    """
    p, q = pair(truth, estimate)
    terms = p * np.log(KL_REGULARISER + p / (KL_REGULARISER + q))
    return float(max(terms.sum(), 0.0))


def mse(truth: Map, estimate: Map) -> float:
    """Compute the mean squared error of two maps: (1/cells) Σ (p_i − q_i)².

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        0 (equal) or more.

    >>> mse([[1, 1]], [[1, 0]])
    0.25
    """
    p, q = pair(truth, estimate)
    return float(((p - q) ** 2).mean())


def l1(truth: Map, estimate: Map) -> float:
    """Compute the sum of absolute errors of two maps, Σ |p_i − q_i|, which is twice the total variation distance.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From 0 (equal) to 2 (disjoint).

    >>> l1([[1, 1]], [[1, 0]])
    1.0
    """
    p, q = pair(truth, estimate)
    return float(np.abs(p - q).sum())


def mape(truth: Map, estimate: Map) -> float:
    """Compute the mean absolute percentage error of two maps as a fraction: (1/cells) Σ |p_i − q_i| / p_i.

    If p_i is 0, the smallest positive value of the truth p is the divisor, as in the paper on distributed heat maps.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        0 (equal) or more.

    >>> mape([[3, 1]], [[1, 1]])  # |0.75 − 0.5| / 0.75 and |0.25 − 0.5| / 0.25
    0.6666666666666666
    """
    p, q = pair(truth, estimate)
    return float((np.abs(p - q) / np.where(p > 0, p, p[p > 0].min())).mean())


def smape(truth: Map, estimate: Map) -> float:
    """Compute the symmetric percentage error of two maps as a fraction: (1/cells) Σ |p_i − q_i| / ((p_i + q_i)/2).

    A cell that is empty in both maps counts as 0.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From 0 (equal) to 2 (disjoint).

    >>> smape([[1, 0]], [[0, 1]])
    2.0
    """
    p, q = pair(truth, estimate)
    total = p + q
    held = total > 0
    shares = np.zeros_like(total)
    shares[held] = 2 * (np.abs(p - q)[held] / total[held])
    return float(shares.mean())


def maape(truth: Map, estimate: Map) -> float:
    """Compute the mean arctangent of the percentage error of two maps: (1/cells) Σ arctan(|p_i − q_i| / p_i).

    The angle is finite even if the truth p_i is 0: it is then π/2 if the estimate q_i is positive, and 0 otherwise (Kim
    and Kim, Int. J. of Forecasting 32(3), 2016).

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.

    Returns:
        From 0 (equal) to π/2.

    >>> round(maape([[1, 0]], [[1, 1]]) / np.pi, 6)  # arctan(1/2) and π/2, halved
    0.323792
    """
    p, q = pair(truth, estimate)
    return float(np.arctan2(np.abs(p - q), p).mean())
