"""Facts: what is counted of secret journeys, in integers, with at most the mass M = 2^20 of one unit in each table.

This is the secret side of the model. A unit's mass is divided over its k journeys by floor division, m = ⌊M / k⌋, and

- *visits* receive ⌊m n_i / n⌋ in square i, for a journey with n visits, n_i of them in square i;
- *pairs* receive m at the journey's pair of first and last square;
- *shapes* receive m at the journey's class of length and straightness;
- *hours* receive m at the hour of the day in which the journey begins, if hours are measured.

So one unit adds at most M to the sum of each table, whatever its journeys are. It adds 1 to the number of units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput, SensitivityExceeded
from heathaze.ingest.counts import Counts
from heathaze.ingest.journeys import Journeys
from heathaze.trajectories.frame import DAY, HOURS, Frame, pair_codes, shape_of
from heathaze.types import Integers

MASS = 2**20
"""M, the integer that stands for one unit."""


@dataclass(frozen=True, eq=False, repr=False)
class Facts:
    """What was counted of secret journeys: the number of units, and tables; a unit adds at most MASS to each.

    ``repr`` shows no values.
    """

    units: int
    visits: Counts
    pairs: Counts
    shapes: Counts
    hours: Counts | None = None

    def __repr__(self) -> str:
        return "<Facts: secret>"


def count_facts(journeys: Journeys, frame: Frame, *, hours: bool = False) -> Facts:
    """Count the facts of secret journeys.

    Args:
        journeys: The secret journeys.
        frame: The public numbers.
        hours: Whether to count the hours in which journeys begin.

    Raises:
        InvalidInput: Hours are to be counted, and the journeys have no times.
        SensitivityExceeded: A unit has more mass than the bound, which would be an error of this function.
    """
    lines, owner = journeys.lines, journeys.owner
    if hours and journeys.begins is None:
        raise InvalidInput("The hours of journeys are to be measured, but the journeys have no times; leave out hours.")
    mass = (MASS // np.bincount(owner))[owner]
    squares, ends = frame.squares, frame.ends
    journey, square, part = _divided(*lines.visits(squares), mass, squares.cells)
    row, col = ends.nearest_cell(lines.x, lines.y)
    code = interleave(row, col)
    pair = pair_codes(code[lines.offsets[:-1]], code[lines.offsets[1:] - 1])
    shape = shape_of(lines.lengths(squares), lines.distances(squares), frame.length_borders)

    def table(grid: Grid, codes: Integers, masses: Integers, unit_of: Integers) -> Counts:
        each = np.zeros(journeys.units, np.int64)
        np.add.at(each, unit_of, masses)
        if (each > MASS).any():
            raise SensitivityExceeded("A unit has more mass than its bound; nothing was charged. Please report this.")
        found, where = np.unique(codes, return_inverse=True)
        total = np.zeros(len(found), np.int64)
        np.add.at(total, where, masses)
        return Counts(grid, found, total, MASS, MASS, journeys.unit)

    return Facts(
        units=journeys.units,
        visits=table(squares, interleave(*np.divmod(square, squares.cols)), part, owner[journey]),
        pairs=table(frame.pairs, pair, mass, owner),
        shapes=table(frame.shapes, interleave(*shape), mass, owner),
        hours=table(frame.hours, _hour_codes(journeys), mass, owner) if hours else None,
    )


def _hour_codes(journeys: Journeys) -> Integers:
    """Return the hour of the day in which each journey begins, 0 to 23, as a code of ``Frame.hours``.

    Times are in seconds, and every day counts as 86,400 seconds, even if clocks were changed on that day.
    """
    begins = np.zeros(len(journeys.owner)) if journeys.begins is None else journeys.begins
    hour = np.clip(np.floor(np.mod(begins, DAY) / (DAY // HOURS)).astype(np.int64), 0, HOURS - 1)
    return interleave(np.zeros_like(hour), hour)


def _divided(whose: Integers, cell: Integers, mass: Integers, cells: int) -> tuple[Integers, Integers, Integers]:
    """Divide the mass m of each journey over its visited cells: the journey, the cell, and ⌊m n_i / n⌋."""
    key, times = np.unique(whose * cells + cell, return_counts=True)
    journey = key // cells
    visits = np.bincount(whose, minlength=len(mass))
    return journey, key % cells, mass[journey] * times // visits[journey]
