"""The price of trust: every model runs on the same people, under one adjacency, and the picture is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput
from heathaze.privacy.guarantee import Adjacency
from heathaze.trust import MODELS, Row, _people, compare_on, compare_trust, draw_trust, table_of


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compare_trust(2, 2000, size=16)


@pytest.mark.slow
def test_every_model_has_a_map_with_intervals(rows: list[Row]) -> None:
    assert tuple(row.model for row in rows) == MODELS
    for row in rows:
        assert 0 < row.emd < 0.3
        assert row.sent > 0
        assert row.coverage is not None
        assert row.coverage > 0.6
        assert row.release.simulated
    by = {row.model: row for row in rows}
    assert by["curator"].emd < by["nobody"].emd
    assert by["decoys"].sent < by["split and mix"].sent


@pytest.mark.slow
def test_all_models_are_compared_under_replacement(rows: list[Row]) -> None:
    """A mechanism that is stated for adding, removing or zeros pays half; the others pay all of epsilon."""
    for row in rows:
        promised, adjacency = row.release.guarantee.epsilon, row.release.guarantee.adjacency
        half = adjacency in (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
        assert promised * (2 if half else 1) == pytest.approx(2, rel=0.01)
        assert half == (row.model in ("curator", "secure sum"))


@pytest.mark.slow
def test_the_picture_is_drawn(tmp_path: Path, rows: list[Row]) -> None:
    draw_trust(rows, tmp_path / "trust.png", title="The price of trust")
    assert (tmp_path / "trust.png").stat().st_size > 20_000
    assert [len(row) for row in table_of(rows)] == [6] * 6


def test_the_numbers_are_means_over_cities() -> None:
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=16)
    [one], [both] = (compare_trust(2, 1000, size=16, cities=count, models=("curator",)) for count in (1, 2))
    [second] = compare_on(grid, _people(grid, 1000, 2), 2, seed=2, models=("curator",))
    assert both.emd == pytest.approx((one.emd + second.emd) / 2)
    assert second.coverage is not None
    assert both.coverage == pytest.approx((one.coverage + second.coverage) / 2)
    np.testing.assert_array_equal(both.truth.values, one.truth.values)


def test_intervals_are_compared_with_the_same_squares() -> None:
    """All people in one corner of a map whose rows are counted from the north: the interval of this corner is met."""
    grid = hz.Grid.over(lon=(0, 1), lat=(0, 1), size=16)
    [row] = compare_on(grid, np.full((5000, 2), 0.02), 5, models=("curator",))
    assert row.coverage is not None
    assert row.coverage > 0.95
    assert row.emd < 0.01


def test_wrong_arguments_are_refused() -> None:
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=8)
    for call in (
        lambda: compare_trust(1, 99),
        lambda: compare_trust(1, 1000, size=4),
        lambda: compare_trust(1, 1000, cities=0),
        lambda: compare_trust(1, 1000, models=("a friend",)),
        lambda: compare_on(grid, [(2.0, 2.0)], 1),
    ):
        with pytest.raises(InvalidInput):
            call()
