"""Pairs of neighbouring datasets, which differ in one unit, chosen to reveal mistakes of a mechanism.

The additional unit has the largest allowed mass. In some pairs it is the only unit, and in others there are more; it
lies in one cell or in many. An audit of these pairs finds noise that is too small or a sensitivity that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit

Cells = Sequence[tuple[int, int]]
Visits = dict[str, list[int] | list[float]]

_CROWD = 7


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring datasets: ``second`` is ``first`` with one more unit.

    Args:
        name: What the pair tests.
        first: The counts without the unit.
        second: The counts with the unit.

    >>> pair = neighbouring_counts(Grid.plane(x=(0, 1), y=(0, 1), size=4), bound=10)[0]
    >>> int(pair.second.mass.sum() - pair.first.mass.sum())
    10
    """

    name: str
    first: Counts
    second: Counts


def neighbouring_counts(grid: Grid, *, bound: int = 2**20, one: int | None = None) -> list[Neighbours]:
    """Return pairs of neighbouring counts in which the additional unit has exactly the mass ``bound``.

    Args:
        grid: Any grid. The cases use its corners and up to nine cells of its diagonal.
        bound: The largest mass of one unit, at least 1.
        one: The mass that stands for one unit; ``bound`` if left out.

    Returns:
        The pairs.

    >>> pairs = neighbouring_counts(Grid.plane(x=(0, 1), y=(0, 1), size=4), bound=10)
    >>> {int(pair.second.mass.sum() - pair.first.mass.sum()) for pair in pairs}
    {10}
    """
    corner, opposite = [(0, 0)], [(grid.rows - 1, grid.cols - 1)]
    crowd = dict.fromkeys(corner, _CROWD * bound)
    scattered = dict.fromkeys(_diagonal(grid), bound)
    cases = [
        ("alone in one cell", {}, corner),
        ("alone in the last cell", {}, opposite),
        ("alone, spread over many cells", {}, _diagonal(grid)),
        ("in the cell of a crowd", crowd, corner),
        ("far from a crowd", crowd, opposite),
        ("spread over the cells of others", scattered, _diagonal(grid)),
    ]
    unit_mass = bound if one is None else one
    return [
        Neighbours(
            name, _counts(grid, others, bound, unit_mass), _counts(grid, added(others, cells, bound), bound, unit_mass)
        )
        for name, others, cells in cases
    ]


def neighbouring_visits(grid: Grid) -> list[tuple[str, Visits, Visits]]:
    """Return named pairs of neighbouring tables of visits; the second table has the visits of one more person.

    The tables have the columns person, x and y. For every way of counting, the counts of both tables must differ by at
    most ``bound`` in ℓ1.

    Args:
        grid: A grid on a plane.

    Returns:
        The name of each pair, and its two tables.

    >>> name, first, second = neighbouring_visits(Grid.plane(x=(0, 1), y=(0, 1), size=4))[0]
    >>> len(set(second["person"]) - set(first["person"]))
    1
    """
    middles = {cell: _middle(grid, cell) for cell in [*_diagonal(grid), (grid.rows - 1, grid.cols - 1)]}
    first, last = middles[(0, 0)], middles[(grid.rows - 1, grid.cols - 1)]
    others = [(1, first), (1, last), (2, first)]
    newcomers = {
        "one visit": [first],
        "one cell, very often": [first] * 1000,
        "many cells": list(middles.values()),
        "many cells, unevenly": [place for k, place in enumerate(middles.values()) for _ in range(k + 1)],
        "outside the grid": [(grid.x[1] + 1.0, grid.y[1] + 1.0)],
    }
    return [
        (name, _table(before), _table([*before, *((3, place) for place in places)]))
        for name, places in newcomers.items()
        for before in ([], others)
    ]


def added(others: dict[tuple[int, int], int], cells: Cells, bound: int) -> dict[tuple[int, int], int]:
    """Add one unit to the mass per cell; its mass is split over its cells into parts that sum to ``bound`` exactly.

    Args:
        others: The mass per cell without the unit.
        cells: The cells of the unit.
        bound: The mass of the unit.
    """
    mass = dict(others)
    for k, cell in enumerate(cells):
        # Cell k of n gets ⌊B (k+1)/n⌋ − ⌊B k/n⌋, where B is the bound; these parts sum to B.
        mass[cell] = mass.get(cell, 0) + bound * (k + 1) // len(cells) - bound * k // len(cells)
    return mass


def _counts(grid: Grid, mass: dict[tuple[int, int], int], bound: int, one: int) -> Counts:
    held = {cell: value for cell, value in mass.items() if value > 0}
    rows, cols = np.array(list(held), dtype=np.int64).reshape(-1, 2).T
    return Counts.from_cells(
        grid, rows, cols, list(held.values()), bound=bound, one=one, unit=Unit.PERSON, at_most=len(held) or 1
    )


def _diagonal(grid: Grid) -> list[tuple[int, int]]:
    steps = np.linspace(0, 1, min(9, max(grid.rows, grid.cols)))
    return list(dict.fromkeys((round(s * (grid.rows - 1)), round(s * (grid.cols - 1))) for s in steps.tolist()))


def _middle(grid: Grid, cell: tuple[int, int]) -> tuple[float, float]:
    return float(grid.x_at(cell[1] + 0.5)), float(grid.y_at(cell[0] + 0.5))


def _table(rows: Sequence[tuple[int, tuple[float, float]]]) -> Visits:
    return {"person": [person for person, _ in rows], "x": [x for _, (x, _) in rows], "y": [y for _, (_, y) in rows]}
