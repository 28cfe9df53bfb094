"""Expectation maximisation (EM): find the density under which the tallies of reports have the highest likelihood.

Let f be the density over the cells, M the matrix of the channel (cells × outcomes) and n the tallies. One EM step
multiplies the mass of every cell by the mean ratio of observed to expected tallies among the outcomes of that cell:

    f ← f · M (n / fᵀM) / Σ n

The log-likelihood is concave, and no step lowers it, so the steps converge to its maximum. On a fine grid the maximum
overfits: neighbouring cells that reports cannot tell apart get very different masses. The prior of
:func:`heathaze.local.estimate.smooth_map` avoids overfitting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.local.channels import Channel
from heathaze.types import Floats

TOLERANCE = 0.01
"""EM stops when a step raises the log-likelihood by less than this amount, in nats.

The amount does not depend on the size of the log-likelihood, which grows with the number of outcomes even if most
outcomes carry no information. Reports cannot distinguish maps whose log-likelihoods differ by less than this amount.
"""

MOST_STEPS = 10_000

_SMOOTHING = np.array([0.25, 0.5, 0.25])


@dataclass(frozen=True, eq=False)
class EMFit:
    """The density that EM found, and how EM ended.

    Args:
        density: The density (rows × columns, sum 1).
        log_likelihood: The log-likelihood of the density before the last step or extrapolation.
        steps: How many EM steps were taken.
        converged: Whether the likelihood settled within the allowed steps.
    """

    density: Floats
    log_likelihood: float
    steps: int
    converged: bool


def expectation_maximisation(
    channel: Channel,
    tallies: npt.ArrayLike,
    *,
    start: Floats | None = None,
    steps: int = MOST_STEPS,
    tolerance: float = TOLERANCE,
    smooth: bool = False,
    accelerate: bool = True,
) -> EMFit:
    """Estimate a density from tallies by EM steps until the log-likelihood hardly rises.

    Args:
        channel: The probability of each outcome for each true cell.
        tallies: How often each outcome was reported.
        start: The density to start from; the uniform density if left out.
        steps: The largest number of steps.
        tolerance: EM stops when a step changes the log-likelihood by less than this amount, in nats.
        smooth: Whether to smooth the density after every step by the kernel [1 2 1]⊗[1 2 1]/16 (EMS). EMS is not
            accelerated, and it does not reach the maximum of the likelihood.
        accelerate: Whether to extrapolate from two steps at a time (SQUAREM, Varadhan and Roland 2008, scheme S3). An
            extrapolation that lowers the likelihood is discarded.

    Returns:
        The density, its log-likelihood, the number of steps, and whether EM converged.

    >>> from heathaze.local.channels import Matrix
    >>> coin = Matrix((1, 2), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> expectation_maximisation(coin, [70, 30]).density.round(3).tolist()
    [[0.75, 0.25]]
    """
    counts = np.asarray(tallies, dtype=np.float64).ravel()
    rows, cols = channel.shape
    density = np.full((rows, cols), 1.0 / (rows * cols)) if start is None else start / start.sum()
    if counts.sum() <= 0 or rows * cols == 1:
        return EMFit(density, 0.0, 0, True)
    stepper = _Stepper(channel, counts)
    last, likelihood, taken = -math.inf, -math.inf, 0
    while taken < steps:
        density, likelihood, used = stepper.leap(density) if accelerate and not smooth else stepper.one(density)
        taken += used
        if smooth:
            density = _spread(density)
        # A leap counts as ``used`` steps, so the tolerance is multiplied by that number.
        if abs(likelihood - last) <= tolerance * used:
            return EMFit(density, likelihood, taken, True)
        last = likelihood
    return EMFit(density, likelihood, taken, False)


class _Stepper:
    """The EM steps for one channel and its tallies."""

    def __init__(self, channel: Channel, counts: Floats) -> None:
        self.channel = channel
        self.found = np.flatnonzero(counts)
        self.counts = counts[self.found]
        self.total = float(counts.sum())
        self._ratio = np.zeros(channel.outcomes)

    def step(self, density: Floats) -> tuple[Floats, float]:
        """The density after one EM step, and the log-likelihood of the density before the step."""
        expected = self.channel.forward(density)[self.found]
        self._ratio[self.found] = self.counts / expected
        moved = density * self.channel.backward(self._ratio)
        return moved / moved.sum(), float((self.counts * np.log(expected)).sum())

    def one(self, density: Floats) -> tuple[Floats, float, int]:
        """One EM step without acceleration: new density, log-likelihood before the step, and number of steps, 1."""
        return *self.step(density), 1

    def leap(self, density: Floats) -> tuple[Floats, float, int]:
        """Accelerate EM: take two steps, extrapolate along them, and take one step from the extrapolated density.

        Let f be the density, r the change by the first step, and r + v the change by the second. The extrapolated
        density is f − 2αr + α²v with α = −|r| / |v|. It is discarded if its log-likelihood, which the last step
        computes, is lower than that of f.
        """
        first, before = self.step(density)
        second, _ = self.step(first)
        change = first - density
        bend = second - first - change
        size = _length(bend)
        if size == 0.0:
            return second, before, 2
        step = max(1.0, _length(change) / size)
        leapt = density + 2 * step * change + step**2 * bend
        # The extrapolated density may be negative. A small share of the density after two steps is its lower bound.
        leapt = np.maximum(leapt, 1e-3 * second)
        third, after = self.step(leapt / leapt.sum())
        if after < before:
            return second, before, 3
        return third, after, 3


def _length(change: Floats) -> float:
    """Euclidean length of a change of density. The sum avoids BLAS, whose threads would slow it down."""
    return math.sqrt(float((change * change).sum()))


def _spread(density: Floats) -> Floats:
    """Smooth a density over neighbouring cells; mass that would leave the map stays in the cell at the border."""
    for axis in (0, 1):
        padded = np.pad(density, [(1, 1) if side == axis else (0, 0) for side in (0, 1)], mode="edge")
        length = density.shape[axis]
        parts = [np.take(padded, np.arange(length) + shift, axis=axis) for shift in range(3)]
        density = sum(weight * part for weight, part in zip(_SMOOTHING, parts, strict=True))
    return np.asarray(density)
