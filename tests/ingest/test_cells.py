"""Counts made of cells that a program already has."""

import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit


def test_cells_come_in_any_order_but_only_once() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=4)
    found = Counts.from_cells(grid, [3, 0, 1], [2, 1, 1], [5, 6, 7], bound=1, one=1, unit=Unit.PERSON)
    assert [int(found.dense()[at]) for at in ((3, 2), (0, 1), (1, 1))] == [5, 6, 7]
    with pytest.raises(InvalidInput, match="A cell is given twice"):
        Counts.from_cells(grid, [3, 0, 3], [2, 1, 2], [5, 6, 7], bound=1, one=1, unit=Unit.PERSON)
