"""Intervals for an amount that cannot be negative, from its mean and standard deviation.

The amount is assumed to have a gamma distribution. This distribution is nearly normal if the deviation is small
compared with the mean, and has its peak at zero if the deviation is at least as large as the mean. The interval is the
shortest one with the wanted probability, so it starts at zero exactly if zero is the most likely amount.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from heathaze.checks import check_confidence
from heathaze.types import Floats

_SHAPES = np.exp(np.linspace(np.log(1e-4), np.log(1e6), 321))
_TAILS = 65


def interval(mean: npt.ArrayLike, deviation: npt.ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Compute the shortest interval of each amount that contains it with the given probability.

    Args:
        mean: Means, not negative.
        deviation: Standard deviations, not negative.
        confidence: Probability that the interval contains the amount, between 0 and 1.

    Returns:
        The lower and the upper ends. The interval always contains the mean.

    Raises:
        InvalidInput: The confidence is not between 0 and 1.

    >>> low, high = interval([100.0, 1.0], [1.0, 2.0], 0.9)
    >>> low.round(1).tolist(), high.round(1).tolist()
    ([98.4, 0.0], [101.7, 3.0])
    """
    check_confidence(confidence)
    mean, deviation = np.asarray(mean, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    sure = (deviation <= 0) | (mean <= 0)
    shape = np.divide(mean**2, deviation**2, out=np.full(mean.shape, _SHAPES[-1]), where=~sure)
    lows, highs = _table(confidence)
    at = np.log(np.clip(shape, _SHAPES[0], _SHAPES[-1]))
    low, high = (mean * np.interp(at, np.log(_SHAPES), ends) for ends in (lows, highs))
    # If an amount is nearly always zero and rarely large, its shortest interval may end below the mean. The interval
    # is then extended to contain the mean.
    return np.minimum(low, mean), np.maximum(high, mean)


@functools.cache
def _table(confidence: float) -> tuple[Floats, Floats]:
    """Tabulate the shortest interval of a gamma distribution with mean 1 for each shape parameter in _SHAPES."""
    from scipy.special import gammaincinv

    tails = np.linspace(0, 1 - confidence, _TAILS)
    lows = gammaincinv(_SHAPES[:, None], tails[None])
    highs = gammaincinv(_SHAPES[:, None], np.minimum(tails + confidence, 1 - 1e-12)[None])
    best = np.where(_SHAPES <= 1, 0, np.argmin(highs - lows, axis=1))
    each = np.arange(len(_SHAPES))
    return lows[each, best] / _SHAPES, highs[each, best] / _SHAPES
