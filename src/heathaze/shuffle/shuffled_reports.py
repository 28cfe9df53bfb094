"""ShuffledReports: reports of a local mechanism through a shuffler, accounted by the mechanism's privacy blanket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.local.disk_area import DiskArea, informative_radius
from heathaze.local.estimate import estimate as estimate_from_reports
from heathaze.local.mechanism import WindowMechanism, mechanism_to_dict
from heathaze.local.reports import Reports
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import MixedReports
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.shuffling import Blanket, largest_local_epsilon
from heathaze.types import Integers

LARGEST_LOCAL = 16.0
"""The largest ε of one report that a search tries."""


def informative_discs(grid: Grid, epsilon: Number) -> DiskArea:
    """Discs of the radius with which a report is most informative.

    The default radius of :class:`DiskArea` is smaller. It suits the ε of reports without a shuffler, and is too small
    for the large ε that a shuffler allows: with a larger disc, less of ε is left for one report, and the map is better.
    """
    return DiskArea(grid, epsilon, radius=informative_radius(grid, epsilon))


@dataclass(frozen=True, init=False)
class ShuffledReports:
    """Local reports, one for each person, that a shuffler mixes; see ``shuffled_reports.md``.

    Args:
        mechanism: The local mechanism. Its report is one cell, drawn from a window of weights around the true cell:
            ``DiskArea``, ``HybridUniformExponential`` or ``RandomizedResponse``.
        people: The least number of people in a batch, for which ε is computed. Count only people who do not reveal
            their report to the server.
        delta: δ of the mixed reports, above 0.

    Raises:
        InvalidInput: The mechanism is of another kind, or a value is out of range.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    >>> shuffled = ShuffledReports.calibrated(grid, epsilon=1, people=10_000)
    >>> round(float(shuffled.epsilon), 3), round(float(shuffled.alone), 1)
    (1.0, 5.7)
    """

    mechanism: WindowMechanism
    people: int
    delta: Fraction
    epsilon: Fraction

    def __init__(self, mechanism: WindowMechanism, people: int, delta: Number = Fraction(1, 10**6)) -> None:
        if not isinstance(mechanism, WindowMechanism) or mechanism.adjacency is not Adjacency.ANY_TWO:
            raise InvalidInput(
                f"The blanket of a {type(mechanism).__name__} is not known; give a DiskArea, a "
                "HybridUniformExponential or a RandomizedResponse of hz.local."
            )
        number = whole(people, "people", "the least number of people in a batch")
        assign(self, mechanism=mechanism, people=number, delta=parse_delta(delta, zero=False))
        loss = compose([self.event], self.delta).epsilon
        # Mixing is post-processing, so the mixed reports are never less private than one report.
        assign(self, epsilon=min(loss, mechanism.epsilon))
        warn_if_weak(self.epsilon)

    @classmethod
    def calibrated(
        cls,
        grid: Grid,
        epsilon: Number,
        people: int,
        delta: Number = Fraction(1, 10**6),
        kind: Callable[[Grid, Fraction], WindowMechanism] = informative_discs,
    ) -> ShuffledReports:
        """Choose the largest ε of one report with which the mixed reports cost at most a promised ε.

        Args:
            grid: The public grid.
            epsilon: The promised ε of the mixed reports.
            people: As in :class:`ShuffledReports`.
            delta: As in :class:`ShuffledReports`.
            kind: Makes the local mechanism from a grid and the ε of one report; :func:`informative_discs` if left out.

        Returns:
            The mechanism. Its ε is the promised one, or a little smaller.
        """
        promised, allowed = parse_epsilon(epsilon), parse_delta(delta, zero=False)
        number = whole(people, "people", "the least number of people in a batch")

        def blanket(local: float) -> Blanket:
            weights, counts = _weights(kind(grid, _exact(local)))
            return Blanket.of_weights(np.array([w / weights[0] for w in weights]), np.array(counts, dtype=np.float64))

        # The search leaves a small margin, because the ε of the result is searched for again.
        bound, most = float(promised) * (1 - 2e-6), max(LARGEST_LOCAL, float(promised))
        local = largest_local_epsilon(blanket, bound, number, float(allowed), most)
        return cls(kind(grid, _exact(local)), number, allowed)

    @property
    def grid(self) -> Grid:
        """The public grid."""
        return self.mechanism.grid

    @property
    def alone(self) -> Fraction:
        """ε of one report, which holds even if shuffler and server collude."""
        return self.mechanism.epsilon

    @property
    def event(self) -> MixedReports:
        """The weights of one report, and the number of people."""
        return MixedReports(self.people, *_weights(self.mechanism))

    @property
    def least_messages(self) -> int:
        """Each person sends one report."""
        return 1

    @property
    def most_messages(self) -> int:
        """Each person sends one report."""
        return 1

    @property
    def numbers(self) -> int:
        """The number of integers in one report."""
        return self.mechanism.numbers

    @property
    def limit(self) -> int:
        """An upper bound: every integer of a report is below this limit."""
        return self.mechanism.limit

    def parameters(self) -> dict[str, Any]:
        """The public parameters, with those of the local mechanism."""
        local = mechanism_to_dict(self.mechanism)
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "people": self.people,
            "report": local["mechanism"],
            **{f"report_{name}": value for name, value in local["parameters"].items()},
        }

    def draw(self, cells: Integers, randomness: Randomness) -> tuple[Integers, Integers]:
        """Draw one report for each person.

        Args:
            cells: Indices of the true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            One row for each report, and the index of the person who sends it.
        """
        return self.mechanism.draw(cells, randomness), np.arange(len(cells))

    def infer(self, messages: Integers, people: int) -> Estimate:
        """Infer a map from mixed reports, as in the local model.

        Args:
            messages: One row for each report.
            people: The number of people who sent them.

        Raises:
            InvalidInput: The number of reports is not that of the people, or a report is impossible.
        """
        if len(messages) != people:
            raise InvalidInput(
                f"There are {len(messages)} reports of {people} people, and each person sends one; reports were lost, "
                "repeated or made up. Nothing was decoded."
            )
        return estimate_from_reports(Reports(self.mechanism, messages)).estimate


def _weights(mechanism: WindowMechanism) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The different weights of a report, ascending, and how many reports have each weight; equal for all positions."""
    window = mechanism.window
    raised, counts = np.unique(window.excess[window.excess > 0], return_counts=True)
    rest = window.outputs.size - int(counts.sum())
    if rest <= 0:
        raise InvalidInput("The window covers every report, so its blanket is not known; give a smaller radius.")
    return (window.low, *(window.low + int(excess) for excess in raised)), (rest, *counts.tolist())


def _exact(local: float) -> Fraction:
    """The ε of one report, rounded down to six digits after the point."""
    return Fraction(int(local * 10**6), 10**6)
