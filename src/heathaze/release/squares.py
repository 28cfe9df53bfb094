"""Certain squares of a release: the finest quadtree squares whose class of density the release is sure of.

Uncertainty is measured in classes of the legend. The limits of the classes are 1, 3, 10, 30, … in people per area. A
square is certain if the interval of its density spans at most two classes, or lies wholly below the first class. A
square is divided only where something certain lies below it. All of this is post-processing and costs no budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heathaze.checks import check_confidence, whole
from heathaze.domain.grid import Grid
from heathaze.domain.projection import EARTH_RADIUS_METRES
from heathaze.domain.quadtree import children, exists, interleave, node_extent
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnPosterior
from heathaze.inference.estimate import Estimate
from heathaze.inference.posterior import Posterior
from heathaze.maps.squares import MOST_CLASSES, UNKNOWN, WHITE, Squares
from heathaze.types import Booleans, Floats, Integers

MOST_UNKNOWN = 0.2
"""A coloured square is divided only if at most this share of its people would then be in unknown squares.

With a larger share, the map has smaller squares, more hatching, and more squares in a wrong class.
"""

MOST_WHITE, AS_GOOD = 1 / 12, 0.9
"""The first class is the highest one with at most this share of the people in white squares, among those with at least
``AS_GOOD`` times the best score; see :func:`choose_first`."""

CHOSEN_LOW = 2.5
"""Both ends of the interval of all white people are this many times as far away as in drawn maps.

Squares become white because their noisy counts are low, so their sum tends to be underestimated; on maps with large
empty places the prior puts too many people there. The factor was chosen on the data of benchmarks/squares.py, which
prints how often the interval contains the truth.
"""

_LOWEST = -1000
"""The step of a density of zero: below every class."""


def certain_squares(
    estimate: Estimate, counted: str, confidence: float = 0.9, most: int = 8000, first: int | None = None
) -> Squares:
    """Divide the map of an estimate into the finest squares whose class of density is certain.

    Args:
        estimate: The map with its posterior.
        counted: What the map counts, in the plural: "people".
        confidence: Probability of the interval of each square, between 0 and 1.
        most: The most squares. If there are more, the squares with the fewest people are not divided.
        first: The step of :func:`step_of` at which the first class starts; chosen from the map if left out.

    Returns:
        Disjoint squares that cover the map.

    Raises:
        InvalidInput: The estimate has no error bars, or an argument is out of range.
    """
    check_confidence(confidence)
    whole(most, "most", "the largest number of squares")
    if estimate.posterior.grid != estimate.grid:
        raise InvalidInput("The error bars of this map belong to another grid; make its squares before it is rendered.")
    nodes = gather(estimate.posterior, confidence)
    first = choose_first(nodes) if first is None else first
    kinds = _kinds(nodes, first)
    drawn = _arrange(nodes, kinds, most)
    classes = max(1, int(kinds[drawn].max()) + 1)
    area, name = area_unit(nodes.grid, step_limit(first))
    white = drawn[kinds[drawn] == WHITE]
    by_level = [white[nodes.levels[white] == level] - start for level, start in enumerate(nodes.starts[:-1])]
    in_white = float(nodes.people[white].sum())
    low, high = estimate.posterior.sum_interval(by_level, confidence)
    return Squares(
        nodes.grid,
        tuple(step_limit(first + k, area) for k in range(classes)),
        f"{counted} per {name}",
        nodes.levels[drawn],
        nodes.codes[drawn],
        kinds[drawn],
        nodes.people[drawn],
        nodes.low[drawn],
        nodes.high[drawn],
        (nodes.people / nodes.area)[drawn] * area,
        confidence,
        (in_white, max(0.0, in_white - CHOSEN_LOW * (in_white - low)), in_white + CHOSEN_LOW * (high - in_white)),
    )


def one_scale(estimates: Sequence[Estimate], counted: str) -> tuple[int, list[Squares]]:
    """Divide maps into certain squares with the same classes.

    The classes reach from the lowest first class of the maps to the highest class of the maps. If these are more than
    seven classes, half of the surplus is left out at each end. If all of it were left out at the upper end, a map of
    many people would have one colour beside a map of few people.

    Args:
        estimates: The maps, all on one grid.
        counted: What the maps count, in the plural: "people".

    Returns:
        The step of :func:`step_of` at which the first class starts, and the squares of each map.
    """
    lowest, highest = [], []
    for estimate in estimates:
        nodes = gather(estimate.posterior, 0.9)
        lowest.append(choose_first(nodes))
        kinds = _kinds(nodes, lowest[-1])
        highest.append(lowest[-1] + int(kinds[_arrange(nodes, kinds)].max()))
    missing = max(0, max(highest) - min(lowest) + 1 - MOST_CLASSES)
    first = min(lowest) + (missing + 1) // 2
    maps = [certain_squares(estimate, counted, first=first) for estimate in estimates]
    classes = max((squares.classes for squares in maps), key=len)
    return first, [dataclasses.replace(squares, classes=classes) for squares in maps]


def plain_squares(estimate: Estimate, counted: str, most: int = 8000) -> Squares:
    """Divide a map without error bars into squares of one size, each in the class of its estimated density.

    Args:
        estimate: The map.
        counted: What the map counts, in the plural: "people".
        most: The most squares.

    Returns:
        Disjoint squares that cover the map. Their intervals are NaN, and none is unknown.
    """
    grid, level = estimate.grid, estimate.grid.depth
    while -(-grid.rows >> (grid.depth - level)) * -(-grid.cols >> (grid.depth - level)) > most:
        level -= 1
    size = 1 << (grid.depth - level)
    borders = [np.append(np.arange(0, side, size), side).astype(np.float64) for side in grid.shape]
    mass = estimate.density.mass_between(*borders)
    row, col = np.divmod(np.arange(mass.size), mass.shape[1])
    codes, levels = interleave(row, col), np.full(mass.size, level)
    people = mass.ravel() * max(estimate.total, 0.0)
    density = people / areas(grid, levels, codes)
    steps = step_of(density)
    first = densest = max(int(steps.max()), 0 if estimate.total <= 0 else _LOWEST)
    while first > densest - MOST_CLASSES + 1 and people[steps < first].sum() > MOST_WHITE * people.sum():
        first -= 1
    area, name = area_unit(grid, step_limit(first))
    classes = tuple(step_limit(first + k, area) for k in range(densest - first + 1))
    kinds = np.where(steps < first, WHITE, steps - first)
    unknown = np.full(mass.size, np.nan)
    return Squares(
        grid, classes, f"{counted} per {name}", levels, codes, kinds, people, unknown, unknown, density * area, np.nan
    )


# ── classes of density ──────────────────────────────────────────────────────────────────────────────────────────────


def step_of(density: Floats) -> Integers:
    """Find the step of each density on the scale …, 1, 3, 10, 30, …: step 0 starts at 1, step 1 at 3, step 2 at 10.

    >>> step_of(np.array([0.5, 1, 2.9, 3, 10, 0])).tolist()
    [-1, 0, 0, 1, 2, -1000]
    """
    held = density > 0
    decade = np.floor(np.log10(np.where(held, density, 1.0)) + 1e-12)
    steps = 2 * decade + (density >= 3 * 10.0**decade * (1 - 1e-12))
    return np.where(held, steps, _LOWEST).astype(np.int64)


def step_limit(step: int, area: float = 1.0) -> float:
    """Return the density at which a step of :func:`step_of` starts, for an area unit that is a power of 100 larger.

    >>> [step_limit(step) for step in (-1, 0, 1, 2)], step_limit(-3, 100.0)
    ([0.3, 1.0, 3.0, 10.0], 3.0)
    """
    shifted = step + 2 * round(np.log10(area))
    return float(f"{3 if shifted % 2 else 1}e{shifted // 2}")


def area_unit(grid: Grid, limit: float) -> tuple[float, str]:
    """Choose the unit of area, in km² or cells, in which the limit of the first class is a convenient number."""
    geographic = grid.projection.is_geographic
    if geographic and limit > 1e5:
        return 1e-6, "m²"
    side = 1
    while limit * side**2 < 0.1:
        side *= 10
    if geographic:
        return float(side**2), f"{side**2:,} km²" if side > 1 else "km²"
    return float(side**2), f"{side:,} × {side:,} cells" if side > 1 else "cell"


# ── nodes and their intervals ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Nodes:
    """All measured nodes of the quadtree, level after level; ``starts`` has the first node of every level."""

    grid: Grid
    starts: Integers
    levels: Integers
    codes: Integers
    parent: Integers
    people: Floats
    low: Floats
    high: Floats
    area: Floats
    divisible: Booleans


def gather(posterior: Posterior | DrawnPosterior, confidence: float) -> Nodes:
    """Collect the measured nodes with their intervals."""
    grid, intervals = posterior.grid, posterior.intervals(confidence)
    codes: list[Integers] = []
    people, parent, divisible = [], [], []
    start = 0
    for level, belief in enumerate(posterior.levels):
        here = belief.codes[belief.measured]
        shown = belief.mean if belief.shown is None else belief.shown
        if level:
            above = codes[-1]
            at = np.minimum(np.searchsorted(above, here >> 2), len(above) - 1)
            known = above[at] == here >> 2
            there = exists(grid, level, children(above)).reshape(-1, 4).sum(axis=1)
            divisible.append(np.bincount(at[known], minlength=len(above)) == there)
            parent.append(np.where(known, start + at, -1))
            start += len(above)
        else:
            parent.append(np.full(1, -1))
        codes.append(here)
        people.append(shown[belief.measured])
    divisible.append(np.zeros(len(codes[-1]), np.bool_))
    levels = np.concatenate([np.full(len(here), level) for level, here in enumerate(codes)])
    every = np.concatenate(codes)
    return Nodes(
        grid,
        np.cumsum([0, *map(len, codes)]),
        levels,
        every,
        np.concatenate(parent),
        np.concatenate(people),
        np.concatenate([low for low, _ in intervals]),
        np.concatenate([high for _, high in intervals]),
        areas(grid, levels, every),
        np.concatenate(divisible),
    )


def areas(grid: Grid, levels: Integers, codes: Integers) -> Floats:
    """Compute the area of quadtree squares: in km² on the globe, in cells on a plane.

    >>> earth = Grid.over(lon=(-180, 180), lat=(-90, 90), size=4)
    >>> round(float(areas(earth, np.array([0]), np.array([0]))[0]) / 1e6)
    510
    """
    top, bottom, left, right = node_extent(grid, levels, codes)
    if not grid.projection.is_geographic:
        return ((bottom - top) * (right - left)).astype(np.float64)
    # The area between two latitudes on a sphere is R² · (difference of longitudes) · (difference of their sines).
    sines = np.sin(np.radians(grid.y_at(np.arange(grid.rows + 1))))
    width = np.radians(grid.x[1] - grid.x[0]) * (right - left) / grid.cols
    return np.asarray((EARTH_RADIUS_METRES / 1000) ** 2 * width * np.abs(sines[top] - sines[bottom]))


# ── the choice of squares ───────────────────────────────────────────────────────────────────────────────────────────


def _kinds(nodes: Nodes, first: int) -> Integers:
    """Find the kind of every node if the first class is a step of :func:`step_of`."""
    steps, low, high = (step_of(people / nodes.area) for people in (nodes.people, nodes.low, nodes.high))
    last = first + MOST_CLASSES - 1
    certain = (steps >= max(first, _LOWEST + 1)) & (np.minimum(high, last) - np.minimum(low, last) <= 1)
    return np.where(high < first, WHITE, np.where(certain, np.minimum(steps, last) - first, UNKNOWN))


def choose_first(nodes: Nodes) -> int:
    """Choose the step at which the first class starts.

    A map is informative if people and area are distributed differently over the kinds of squares. Let p and a be the
    shares of people and area in the squares of each kind. The score of a step is Σ p · ln(p / a), times 1 minus the
    shares of people and area in unknown squares. The score is flat around its maximum. Of the steps with nearly the
    largest score, the highest one that leaves few people in white squares is chosen.
    """
    densest = int(step_of(nodes.people / nodes.area).max())
    lowest = max(int(step_of(nodes.low[:1] / nodes.area[:1])[0]), densest - 24) - 1
    scores, white = {}, {}
    for first in range(lowest, densest + 1):
        kinds = _kinds(nodes, first)
        drawn = _arrange(nodes, kinds)
        people, area = (
            np.bincount(kinds[drawn] - UNKNOWN, amount[drawn], MOST_CLASSES + 2) / amount[drawn].sum()
            for amount in (np.maximum(nodes.people, 1e-300), nodes.area)
        )
        if (kinds[drawn] >= 0).any():
            known = max(1 - float(people[0] + area[0]), 0.0)
            scores[first] = known * float(
                (people * np.log(np.maximum(people, 1e-300) / np.maximum(area, 1e-300))).sum()
            )
            white[first] = float(people[WHITE - UNKNOWN])
    if not scores:
        # No square certainly contains people, so the first class is chosen above the density of the whole map.
        return int(step_of(np.maximum(nodes.high[:1], 0.1) / nodes.area[:1])[0]) + 1
    good = [first for first in scores if scores[first] >= AS_GOOD * max(0.0, *scores.values())] or list(scores)
    return max((first for first in good if white[first] <= MOST_WHITE), default=min(good))


def _arrange(nodes: Nodes, kinds: Integers, most: int | None = None) -> Integers:
    """Choose the nodes that are drawn.

    Decisions go from the leaves to the root. A white square is divided if a coloured square lies below it, an unknown
    square if anything certain lies below it, and a coloured square if few of its people would become unknown.

    Args:
        nodes: The nodes.
        kinds: Their kinds.
        most: The most squares, or None for any number.

    Returns:
        The drawn nodes, ascending. They are disjoint and cover the map.
    """
    divided = np.zeros(len(kinds), np.bool_)
    coloured, certain = kinds >= 0, kinds != UNKNOWN
    unknown = np.where(certain, 0.0, nodes.people)
    for level in range(len(nodes.starts) - 3, -1, -1):
        here, below = (slice(*nodes.starts[one : one + 2]) for one in (level, level + 1))
        known = np.flatnonzero(nodes.parent[below] >= 0) + below.start
        place, length = nodes.parent[known] - here.start, here.stop - here.start
        any_coloured, any_certain = (np.bincount(place, one[known], length) > 0 for one in (coloured, certain))
        people = np.bincount(place, unknown[known], length)
        few = people <= MOST_UNKNOWN * nodes.people[here]
        worth = np.where(kinds[here] == WHITE, any_coloured, any_certain & (few | (kinds[here] == UNKNOWN)))
        divided[here] = divide = nodes.divisible[here] & worth
        coloured[here] = np.where(divide, any_coloured, coloured[here])
        certain[here] = np.where(divide, any_certain, certain[here])
        unknown[here] = np.where(divide, people, unknown[here])
    reached = _reached(nodes, divided)
    if most is not None and np.count_nonzero(reached & ~divided) > most:
        # Each division adds at most three squares. A node comes after its parent, which has at least as many people.
        order = np.lexsort((nodes.levels, -nodes.people * (1 - 1e-9 * nodes.levels)))
        order = order[(reached & divided)[order]][: (most - 1) // 3]
        divided[:] = False
        divided[order] = True
        reached = _reached(nodes, divided)
    return np.flatnonzero(reached & ~divided)


def _reached(nodes: Nodes, divided: Booleans) -> Booleans:
    """Find the nodes whose ancestors are all divided."""
    reached = np.zeros(len(divided), np.bool_)
    reached[0] = True
    for level in range(1, len(nodes.starts) - 1):
        here = slice(*nodes.starts[level : level + 2])
        parent = nodes.parent[here]
        reached[here] = (parent >= 0) & reached[parent] & divided[parent]
    return reached
