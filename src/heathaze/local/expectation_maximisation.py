"""Expectation maximisation: the density under which the tallies were most likely.

One step moves every cell's mass by how much better it explains the tallies than the whole density does:

    f ← f · M (n / fᵀM) / Σ n

The likelihood is concave and never falls, so this ends at a maximum of it. On a fine grid that maximum is no good map:
what reports cannot tell apart, it sets against each other (smooth_map.py does better, and says how sure it is).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.local.channels import Channel
from heathaze.types import Floats

TOLERANCE = 1e-8
"""Stop when a step raises the log-likelihood by less than this part of it."""

MOST_STEPS = 10_000

_SMOOTHING = np.array([0.25, 0.5, 0.25])


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the steps ended: the density (rows × columns, sum 1), its log-likelihood, and how many steps it took."""

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
) -> Fit:
    """Run EM from a flat density until the likelihood hardly rises.

    Args:
        channel: Which outcome a cell is tallied as, and how likely.
        tallies: How often each outcome was found.
        start: Where to begin; the same everywhere if left out.
        steps: When to stop at the latest.
        tolerance: When to stop: a step raised the log-likelihood by less than this part of it.
        smooth: After every step spread each cell over its neighbours by [1 2 1]⊗[1 2 1]/16 (EMS). Then nothing is
            maximised and steps are taken one by one until the likelihood settles.
        accelerate: Take two steps and leap as far as they point (SQUAREM, Varadhan and Roland 2008, scheme S3); a leap
            that lowers the likelihood is taken back.

    >>> from heathaze.local.channels import Matrix
    >>> coin = Matrix((1, 2), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> expectation_maximisation(coin, [70, 30]).density.round(6).tolist()
    [[0.75, 0.25]]
    """
    counts = np.asarray(tallies, dtype=np.float64).ravel()
    rows, cols = channel.shape
    density = np.full((rows, cols), 1.0 / (rows * cols)) if start is None else start / start.sum()
    if counts.sum() <= 0 or rows * cols == 1:
        return Fit(density, 0.0, 0, True)
    stepper = _Stepper(channel, counts)
    last, likelihood, taken = -math.inf, -math.inf, 0
    while taken < steps:
        density, likelihood, used = stepper.leap(density) if accelerate and not smooth else stepper.one(density)
        taken += used
        if smooth:
            density = _spread(density)
        # Several steps at once may raise it by as much more.
        if abs(likelihood - last) <= tolerance * abs(likelihood) * used:
            return Fit(density, likelihood, taken, True)
        last = likelihood
    return Fit(density, likelihood, taken, False)


class _Stepper:
    """The steps for one set of tallies."""

    def __init__(self, channel: Channel, counts: Floats) -> None:
        self.channel = channel
        self.found = np.flatnonzero(counts)
        self.counts = counts[self.found]
        self.total = float(counts.sum())
        self._ratio = np.zeros(channel.outcomes)

    def step(self, density: Floats) -> tuple[Floats, float]:
        """One step, and the log-likelihood of where it started."""
        expected = self.channel.forward(density)[self.found]
        self._ratio[self.found] = self.counts / expected
        moved = density * self.channel.backward(self._ratio)
        return moved / moved.sum(), float((self.counts * np.log(expected)).sum())

    def one(self, density: Floats) -> tuple[Floats, float, int]:
        """A single step."""
        return *self.step(density), 1

    def leap(self, density: Floats) -> tuple[Floats, float, int]:
        """Two steps r and r + v, then as far as they point: f − 2αr + α²v with α = −|r| / |v|; and one step from there.

        Likelihoods are those of where a step started, which is what a leap is judged by.
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
        # A leap may cross zero; the plain steps never do, so a sliver of theirs is kept.
        leapt = np.maximum(leapt, 1e-3 * second)
        third, after = self.step(leapt / leapt.sum())
        if after < before:
            return second, before, 3
        return third, after, 3


def _length(change: Floats) -> float:
    """Euclidean length; without BLAS, whose threads only get in each other's way here."""
    return math.sqrt(float((change * change).sum()))


def _spread(density: Floats) -> Floats:
    """Each cell over its neighbours; at the border the share that would leave stays."""
    for axis in (0, 1):
        padded = np.pad(density, [(1, 1) if side == axis else (0, 0) for side in (0, 1)], mode="edge")
        length = density.shape[axis]
        parts = [np.take(padded, np.arange(length) + shift, axis=axis) for shift in range(3)]
        density = sum(weight * part for weight, part in zip(_SMOOTHING, parts, strict=True))
    return np.asarray(density)
