"""JourneyTrees: a private model of journeys without transitions, from which made-up journeys are drawn.

Four measurements are taken of the secret journeys, or five if the hours are wanted. Each costs a fixed share of ε:

                                                                       without   with hours
    count     the number of units                                      0.02      0.02
    visits    a tree of visited squares                                0.25      0.24
    pairs     a tree over pairs of first and last square               0.50      0.48
    shapes    a tree over classes of length × classes of straightness  0.23      0.22
    hours     a tree over the hours in which journeys begin                      0.04

Each tree is an :class:`heathaze.central.AdaptiveTree`, and the map is the mean of its posterior. The proof is in
``journey_trees.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.central.adaptive_tree import AdaptiveTree
from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput, expect
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts, closed
from heathaze.ingest.journeys import Journeys
from heathaze.privacy.events import Composition, DiscreteLaplace
from heathaze.privacy.loss import Number, decimal, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.facts import MASS, Facts, count_facts
from heathaze.trajectories.frame import HOURS, Frame
from heathaze.trajectories.synthesis import JourneyModel
from heathaze.types import Floats, Integers

SHARES = {
    False: (Fraction(2, 100), Fraction(25, 100), Fraction(50, 100), Fraction(23, 100)),
    True: (Fraction(2, 100), Fraction(24, 100), Fraction(48, 100), Fraction(22, 100), Fraction(4, 100)),
}
"""The shares of ε of count, visits, pairs and shapes, and with hours also of hours. Each row adds up to 1."""

ENOUGH = 500
"""Readers are warned of noise if the number of units is below this number divided by ε."""

STAND_OUT = 4
"""Hours are more signal than noise if an average hour has at least this many standard deviations of its noise."""

MOST_SQUARES = 64
"""The most squares a side of the map of visits; cheapest paths from all squares take 84 MB."""


@dataclass(frozen=True, init=False)
class JourneyTrees:
    """A model of journeys from noisy trees of visits, of start–end pairs and of shapes; see ``journey_trees.md``.

    Args:
        grid: The public frame. Only its box matters; squares are chosen by ``squares``.
        epsilon: Privacy loss of the whole release, above 0.
        squares: Squares a side of the map of visits, a power of two from 8 to 64. Starts and ends are distinguished on
            half as many squares a side.
        hours: Whether to measure the hour of the day in which each journey begins. Made-up journeys then have times.

    Raises:
        InvalidInput: A value is out of range.

    >>> JourneyTrees(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1).parameters()
    {'epsilon': '1', 'squares': 64}
    """

    grid: Grid
    epsilon: Fraction
    squares: int
    hours: bool

    def __init__(self, grid: Grid, epsilon: Number, squares: int = 64, *, hours: bool = False) -> None:
        expect(Grid, grid, "The grid")
        squares = whole(squares, "squares", "squares a side", least=8, most=MOST_SQUARES)
        if squares & (squares - 1):
            raise InvalidInput(f"squares is {squares}; give a power of two: 8, 16, 32 or 64.")
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), squares=squares, hours=bool(hours))

    @property
    def frame(self) -> Frame:
        """The public numbers with which journeys are counted."""
        depth = self.squares.bit_length() - 1
        return Frame(self.grid, depth, depth - 1)

    def event(self) -> Composition:
        """Describe the measurements, which cost ε together.

        Returns:
            The privacy event.

        Raises:
            InvalidInput: The noise would not fit into 64 bits; give a larger epsilon.
        """
        count = DiscreteLaplace(1, laplace_scale(1, self.epsilon * SHARES[self.hours][0]))
        return Composition((count, *(tree.event(MASS) for tree in self._trees())))

    def _trees(self) -> tuple[AdaptiveTree, ...]:
        """Return the trees of visits, pairs and shapes, and of hours if they are measured."""
        frames = (self.frame.squares, self.frame.pairs, self.frame.shapes, self.frame.hours)
        shares = SHARES[self.hours][1:]
        return tuple(AdaptiveTree(grid, self.epsilon * share) for grid, share in zip(frames, shares, strict=False))

    def run(self, journeys: Journeys, randomness: Randomness) -> JourneyModel:
        """Count the facts of the journeys, add noise, and infer the model from the noisy counts only.

        Args:
            journeys: The secret journeys.
            randomness: The source of the noise.

        Returns:
            The model.
        """
        return self.measure(count_facts(journeys, self.frame, hours=self.hours), randomness)

    def measure(self, facts: Facts, randomness: Randomness) -> JourneyModel:
        """Add noise to facts, and infer the model from the noisy counts only.

        Args:
            facts: The secret tables.
            randomness: The source of the noise.

        Returns:
            The model.
        """
        visits, pairs, shapes, *hours = self._trees()
        noise = discrete_laplace(laplace_scale(1, self.epsilon * SHARES[self.hours][0]), 1, randomness)
        where = visits.run(facts.visits, randomness).density.dense().values
        found = pairs.measure(facts.pairs, randomness)
        levels, codes = _leaves(found)
        shape = shapes.run(facts.shapes, randomness).density.dense().values
        begun = None
        if hours and facts.hours is not None:
            begun = hours[0].run(facts.hours, randomness).density.dense().values.ravel()
        return JourneyModel(
            frame=self.frame,
            count=float(facts.units + noise[0]),
            visits=where,
            pair_levels=levels,
            pair_codes=codes,
            pair_mass=_masses(Estimate.infer(found), levels, codes),
            shapes=shape,
            hours=begun,
        )

    def caution(self, count: float) -> str:
        """Return a warning that the units are few for this ε; empty if they are enough.

        Args:
            count: The noisy number of units. Public.

        >>> trees = JourneyTrees(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=2)
        >>> trees.caution(200.0)[:62]
        'About 200 units are few for ε = 2, and 250 or more are needed:'
        >>> trees.caution(300.0)
        ''
        """
        enough = ENOUGH / float(self.epsilon)
        if count >= enough:
            return ""
        return (
            f"About {max(0.0, count):,.0f} units are few for ε = {decimal(self.epsilon)}, and {enough:,.0f} or more "
            "are needed: most of where these journeys go is noise; rely on the rough extent of the places at most."
        )

    def caution_about_hours(self, count: float) -> str:
        """Return a warning that hours are mostly noise; empty if hours stand out of the noise or are not measured.

        The noise of an hour is at least the noise of a single count that is measured with the whole share of ε for
        hours.

        Args:
            count: The noisy number of units. Public.

        >>> trees = JourneyTrees(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1, hours=True)
        >>> trees.caution_about_hours(3000.0)[:80]
        'The hours of the day are mostly noise: for ε = 1, its standard deviation is 35 o'
        >>> trees.caution_about_hours(4000.0)
        ''
        """
        if not self.hours:
            return ""
        deviation = math.sqrt(2) / float(self.epsilon * SHARES[True][-1])
        if max(0.0, count) / HOURS >= STAND_OUT * deviation:
            return ""
        return (
            f"The hours of the day are mostly noise: for ε = {decimal(self.epsilon)}, its standard deviation is "
            f"{deviation:,.0f} or more an hour, and an hour has about {max(0.0, count) / HOURS:,.0f} units on average; "
            "do not rely on when journeys begin."
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "squares": self.squares, **({"hours": True} if self.hours else {})}


def _leaves(noisy: NoisyCounts) -> tuple[Integers, Integers]:
    """Return level and code of the leaves of a tree of noisy counts."""
    tree = closed(noisy)
    inner = [*(np.unique(below >> 2) for below in tree[1:]), np.zeros(0, np.int64)]
    leaves = [codes[~np.isin(codes, above)] for codes, above in zip(tree, inner, strict=True)]
    return np.repeat(np.arange(len(leaves)), [len(codes) for codes in leaves]), np.concatenate(leaves)


def _masses(estimate: Estimate, levels: Integers, codes: Integers) -> Floats:
    """Return the mass of an estimate in each leaf, from cumulative sums over the cells in the order of their codes."""
    grid = estimate.grid
    mass = np.empty(grid.cells)
    mass[interleave(*np.divmod(np.arange(grid.cells), grid.cols))] = estimate.density.dense().values.ravel()
    sums = np.concatenate([[0.0], np.cumsum(mass)])
    shift = 2 * (grid.depth - levels)
    return np.asarray(np.maximum(sums[(codes + 1) << shift] - sums[codes << shift], 0.0))
