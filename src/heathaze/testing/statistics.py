"""Chi-square tests of whether the integers of a sampler follow a distribution.

Bins depend on the distribution only, not on the samples. The expected number of samples in a bin is at least five;
smaller bins are pooled with their neighbour. A bin that received no sample counts like every other bin. At the usual
significance alpha = 1e-6, a correct sampler fails for one seed in a million.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.privacy.loss import Number, exact
from heathaze.types import Floats, Integers

Law = Callable[[Integers], Floats]
"""A cumulative distribution function: Pr[X ≤ x] for each integer x."""

_LEAST_EXPECTED = 5.0

_TAILS = 2.0 ** -np.arange(7, 28)
_SHARES = np.sort(np.concatenate([_TAILS, np.linspace(0.01, 0.99, 99), 1 - _TAILS]))
"""The cumulative probabilities at which bins end: evenly spaced in the middle, and halving in both tails."""


def assert_distribution(samples: npt.ArrayLike, law: Law, alpha: float = 1e-6) -> None:
    """Raise AssertionError if samples are unlikely under a distribution.

    Args:
        samples: Independent integers.
        law: The cumulative distribution function.
        alpha: The test fails if the p-value is below this.

    Raises:
        AssertionError: The p-value is below ``alpha``.

    >>> coin = lambda x: np.select([x < 0, x < 1], [0, 0.5], 1.0)
    >>> assert_distribution(np.repeat([0, 1], [50, 50]), coin)
    """
    p = goodness_of_fit(samples, law)
    assert p >= alpha, f"The samples do not follow the law: p = {p:.3g} is below alpha = {alpha:g}."


def assert_same_distribution(first: npt.ArrayLike, second: npt.ArrayLike, alpha: float = 1e-6) -> None:
    """Raise AssertionError if two samples are unlikely to come from the same distribution.

    Args:
        first: Independent integers.
        second: Independent integers.
        alpha: The test fails if the p-value is below this.

    Raises:
        AssertionError: The p-value is below ``alpha``.

    >>> assert_same_distribution(np.repeat([0, 1], [50, 50]), np.repeat([0, 1], [60, 40]))
    """
    p = two_sample(first, second)
    assert p >= alpha, f"The samples do not follow one law: p = {p:.3g} is below alpha = {alpha:g}."


def goodness_of_fit(samples: npt.ArrayLike, law: Law) -> float:
    """Return the p-value of Pearson's chi-square test that samples follow a distribution.

        χ² = Σ over bins (observed − expected)² / expected,   bins − 1 degrees of freedom

    Args:
        samples: Independent integers.
        law: The cumulative distribution function that the samples should follow.

    Returns:
        The p-value, 0 to 1.

    Raises:
        InvalidInput: There are too few samples.

    >>> coin = lambda x: np.select([x < 0, x < 1], [0, 0.5], 1.0)
    >>> goodness_of_fit(np.repeat([0, 1], [50, 50]), coin), goodness_of_fit(np.repeat([0, 1], [99, 1]), coin) < 1e-6
    (1.0, True)
    """
    found = np.sort(np.asarray(samples, dtype=np.int64))
    if len(found) == 0:
        raise InvalidInput("There are no samples to test; give some.")
    ends = _quantiles(law)
    expected = np.diff(law(ends), prepend=0.0, append=1.0) * len(found)
    observed = np.diff(np.searchsorted(found, ends, side="right"), prepend=0, append=len(found))
    return chi_square(observed, expected)


def chi_square(observed: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the p-value of the chi-square test for counts in bins; bins that expect fewer than five are pooled.

    Args:
        observed: The number of samples in each bin.
        expected: The expected number of samples in each bin.

    Raises:
        InvalidInput: Fewer than two bins are left after pooling.

    >>> chi_square([0, 100], [50, 50]) < 1e-6
    True
    """
    from scipy.stats import chi2

    pooled = _pool(np.asarray(observed, dtype=np.float64), np.asarray(expected, dtype=np.float64))
    if len(pooled) < 2:
        raise InvalidInput("Fewer than two bins expect five samples each; draw more samples.")
    found, wanted = pooled.T
    return float(chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(pooled) - 1))


def two_sample(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the p-value of the chi-square test that two samples of integers come from one distribution.

    The bins are quantiles of both samples together. If both samples have the same distribution, the share of the first
    sample in a bin differs from bin to bin by chance only.

    Args:
        first: Independent integers.
        second: Independent integers.

    Returns:
        The p-value, 0 to 1.

    Raises:
        InvalidInput: There are too few samples.

    >>> two_sample(np.repeat([0, 1], [50, 50]), np.repeat([0, 1], [50, 50]))
    1.0
    """
    from scipy.stats import chi2

    a, b = np.sort(np.asarray(first, dtype=np.int64)), np.sort(np.asarray(second, dtype=np.int64))
    both = np.sort(np.concatenate([a, b]))
    ends = np.unique(both[(_SHARES * len(both)).astype(int)])
    share = len(a) / len(both)
    rows = [
        np.diff(np.searchsorted(s, ends, side="right"), prepend=0, append=len(s)).astype(np.float64) for s in (a, b)
    ]
    smaller = (rows[0] + rows[1]) * min(share, 1 - share)
    pooled = [_pool(row, smaller)[:, 0] for row in rows]
    if len(pooled[0]) < 2:
        raise InvalidInput("Fewer than two bins expect five samples each; draw more samples.")
    total = pooled[0] + pooled[1]
    statistic = sum(
        ((row - total * part) ** 2 / (total * part)).sum() for row, part in zip(pooled, (share, 1 - share), strict=True)
    )
    return float(chi2.sf(statistic, len(total) - 1))


def discrete_laplace_law(scale: Number) -> Law:
    """Return the distribution function Pr[X ≤ x] of discrete Laplace noise, for tests of samplers.

    Pr[x] = (1 − r)/(1 + r) · r^|x| with r = exp(−1/scale).

    Args:
        scale: The scale of the noise, above 0.

    Returns:
        The function, which takes an array of integers.

    >>> float(discrete_laplace_law(1)(np.array([0]))[0]) == 1 - math.exp(-1) / (1 + math.exp(-1))
    True
    """
    step = float(1 / exact(scale))
    total = 1 + math.exp(-step)

    def law(x: Integers) -> Floats:
        below = np.exp(np.minimum(x, 0) * step) / total
        above = 1 - np.exp(-(np.maximum(x, 0) + 1.0) * step) / total
        return np.where(x < 0, below, above)

    return law


def discrete_gaussian_law(sigma: Number) -> Law:
    """Return the distribution function Pr[X ≤ x] of discrete Gaussian noise, Pr[x] ∝ exp(−x²/2σ²), up to 40 σ.

    Args:
        sigma: σ, the width of the noise, above 0.

    Returns:
        The function, which takes an array of integers.

    >>> round(float(discrete_gaussian_law(3)(np.array([-1]))[0] + discrete_gaussian_law(3)(np.array([0]))[0]), 9)
    1.0
    """
    width = float(exact(sigma))
    end = math.ceil(40 * width) + 1
    weights = np.exp(-(np.arange(-end, end + 1) ** 2) / (2 * width**2))
    cumulative = np.cumsum(weights) / weights.sum()

    def law(x: Integers) -> Floats:
        return np.where(x < -end, 0.0, cumulative[np.clip(x + end, 0, 2 * end)])

    return law


def _quantiles(law: Law) -> Integers:
    """Return the upper ends of the bins of a chi-square test: quantiles of the distribution."""
    low, high = np.full(len(_SHARES), -(2**61)), np.full(len(_SHARES), 2**61)
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        enough = law(middle) >= _SHARES
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.unique(high)


def _pool(observed: Floats, expected: Floats) -> Floats:
    """Pool neighbouring bins until each expects at least five samples; a remainder joins the last bin."""
    bins: list[list[float]] = []
    found = wanted = 0.0
    for here, there in zip(observed, expected, strict=True):
        found, wanted = found + here, wanted + there
        if wanted >= _LEAST_EXPECTED:
            bins.append([found, wanted])
            found = wanted = 0.0
    if bins:
        bins[-1][0] += found
        bins[-1][1] += wanted
    return np.array(bins).reshape(-1, 2)
