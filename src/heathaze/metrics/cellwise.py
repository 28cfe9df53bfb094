"""Metrics that compare two maps cell by cell.

SIM, CC and KL are the measures that the study of saliency uses (Bylinskii et al., TPAMI 41(3), 2019, section 4). The
paper on central heat maps reports them on maps smoothed with :meth:`heathaze.Density.smooth`. MSE, L1, MAPE, SMAPE and
MAAPE are those of section 6 and table 3 of the paper on distributed heat maps.
"""

from __future__ import annotations

import numpy as np

from heathaze.metrics.pair import Map, pair

KL_REGULARISER = 2.0**-52
"""The distance from 1 to the next float (2.22e-16), which the saliency benchmark adds to both denominators of KL."""


def similarity(truth: Map, estimate: Map) -> float:
    """SIM, the mass that both maps share.

        SIM(p, q) = Σ min(p_i, q_i) = 1 − TV(p, q)

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        From 0 (disjoint) to 1 (equal).

    >>> similarity([[3, 1]], [[1, 1]])
    0.75
    """
    p, q = pair(truth, estimate)
    return float(np.minimum(p, q).sum())


def total_variation(truth: Map, estimate: Map) -> float:
    """TV, the mass that would have to move.

        TV(p, q) = ½ Σ |p_i − q_i|

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        From 0 (equal) to 1 (disjoint).

    >>> total_variation([[3, 1]], [[1, 1]])
    0.25
    """
    p, q = pair(truth, estimate)
    return float(np.abs(p - q).sum() / 2)


def pearson(truth: Map, estimate: Map) -> float:
    """CC, Pearson's correlation of the two maps cell by cell.

        CC(p, q) = cov(p, q) / (sd(p) sd(q))

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        From −1 to 1 (equal up to scale); 0 when either map is the same everywhere.

    >>> round(pearson([[1, 2, 3]], [[2, 4, 6]]), 12), round(pearson([[1, 2, 3]], [[3, 2, 1]]), 12)
    (1.0, -1.0)
    """
    p, q = pair(truth, estimate)
    p, q = p - 1 / p.size, q - 1 / q.size  # Both sum to 1, so this is their mean.
    flat = 1e-14 / p.size  # What rounding leaves of a map that is the same everywhere.
    if np.abs(p).max() <= flat or np.abs(q).max() <= flat:
        return 0.0
    p, q = p / np.abs(p).max(), q / np.abs(q).max()
    return float(np.clip((p * q).sum() / np.sqrt((p * p).sum() * (q * q).sum()), -1.0, 1.0))


def kl(truth: Map, estimate: Map) -> float:
    """KL, the Kullback–Leibler divergence of the truth from the estimate.

        KL(p ‖ q) = Σ p_i · ln(η + p_i / (η + q_i)),   η = 2^−52

    It is not symmetric: a cell with truth and no estimate costs p_i·ln(p_i/η), a cell with estimate and no truth costs
    nothing. η keeps the first kind finite. It is that of the saliency benchmark, so values are comparable with the
    paper's. They depend on η wherever the estimate is nearly zero, for example in a Gaussian heat map far from its
    mass.

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

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
    """Mean squared error: (1/cells) Σ (p_i − q_i)².

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        0 (equal) or more.

    >>> mse([[1, 1]], [[1, 0]])
    0.25
    """
    p, q = pair(truth, estimate)
    return float(((p - q) ** 2).mean())


def l1(truth: Map, estimate: Map) -> float:
    """Sum of absolute errors, Σ |p_i − q_i|: twice the total variation.

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        From 0 (equal) to 2 (disjoint).

    >>> l1([[1, 1]], [[1, 0]])
    1.0
    """
    p, q = pair(truth, estimate)
    return float(np.abs(p - q).sum())


def mape(truth: Map, estimate: Map) -> float:
    """Mean absolute percentage error as a fraction: (1/cells) Σ |p_i − q_i| / p_i.

    A cell without truth is divided by the smallest positive truth, as in the paper on distributed heat maps.

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        0 (equal) or more.

    >>> mape([[3, 1]], [[1, 1]])  # |0.75 − 0.5| / 0.75 and |0.25 − 0.5| / 0.25
    0.6666666666666666
    """
    p, q = pair(truth, estimate)
    return float((np.abs(p - q) / np.where(p > 0, p, p[p > 0].min())).mean())


def smape(truth: Map, estimate: Map) -> float:
    """Symmetric percentage error as a fraction: (1/cells) Σ |p_i − q_i| / ((p_i + q_i)/2), where 0/0 counts as 0.

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

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
    """Mean arctangent of the percentage error: (1/cells) Σ arctan(|p_i − q_i| / p_i).

    The angle stays finite where the truth is 0: π/2 when the estimate is not, 0 when it is (Kim and Kim, Int. J. of
    Forecasting 32(3), 2016).

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.

    Returns:
        From 0 (equal) to π/2.

    >>> round(maape([[1, 0]], [[1, 1]]) / np.pi, 6)  # arctan(1/2) and π/2, halved
    0.323792
    """
    p, q = pair(truth, estimate)
    return float(np.arctan2(np.abs(p - q), p).mean())
