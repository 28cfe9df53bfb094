"""Morton codes and nodes, against plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, deinterleave, exists, interleave, node_extent, nodes_at
from heathaze.errors import TooLarge

SIDE = st.integers(0, 2**20 - 1)


@given(SIDE, SIDE)
def test_interleaving_is_bit_by_bit(row: int, col: int) -> None:
    expected = sum(((row >> bit) & 1) << (2 * bit + 1) | ((col >> bit) & 1) << (2 * bit) for bit in range(20))
    code = interleave([row], [col])
    assert code.tolist() == [expected]
    assert [part.tolist() for part in deinterleave(code)] == [[row], [col]]


@given(st.integers(1, 40), st.integers(1, 40))
def test_every_level_is_a_partition(rows: int, cols: int) -> None:
    """Errata E0-11: padding nodes do not exist, and the others hold every cell exactly once."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=(rows, cols))
    for level in range(grid.depth + 1):
        nodes = nodes_at(grid, level)
        assert (np.diff(nodes) > 0).all()
        assert exists(grid, level, nodes).all()
        seen = np.zeros((rows, cols), dtype=int)
        for top, bottom, left, right in zip(*node_extent(grid, level, nodes), strict=True):
            assert top < bottom
            assert left < right
            seen[top:bottom, left:right] += 1
        assert (seen == 1).all()
        if level < grid.depth:
            offspring = children(nodes)
            assert set(offspring[exists(grid, level + 1, offspring)]) == set(nodes_at(grid, level + 1))


def test_the_papers_image_size_has_the_golden_number_of_nodes() -> None:
    grid = Grid.plane(x=(0, 320), y=(0, 240), shape=(240, 320))
    assert sum(len(nodes_at(grid, level)) for level in range(grid.depth + 1)) == 102_409


def test_a_level_too_fine_to_list_is_refused() -> None:
    with pytest.raises(TooLarge, match="coarser"):
        nodes_at(Grid.plane(x=(0, 1), y=(0, 1), size=2**20), 20)
