"""Weights divide a person's mass: in proportion, in integers, and never to more than the bound."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.count import count

GRID = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))


def table(rows: list[tuple[str, int, Any]]) -> dict[str, list[Any]]:
    return {
        "who": [who for who, _, _ in rows],
        "x": [cell + 0.5 for _, cell, _ in rows],
        "y": [0.5] * len(rows),
        "seconds": [weight for _, _, weight in rows],
    }


def counted(rows: list[tuple[str, int, Any]], mass: int = 12, **options: Any) -> list[int]:
    found: list[int] = (
        count(table(rows), GRID, person="who", weight_column="seconds", mass=mass, **options).dense()[0].tolist()
    )
    return found


def right(rows: list[tuple[str, int, Any]], mass: int) -> list[int]:
    """The formula of docs/decisions/0002, in Python's integers."""
    amounts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * 4)
    for who, cell, weight in rows:
        if weight is not None:
            amounts[who][cell] += math.floor(min(weight, 2.0**32) * 1000)
    total = [0] * 4
    for parts in amounts.values():
        whole = sum(parts)
        s = whole // 2**32 + 1
        for cell, part in enumerate(parts):
            total[cell] += mass * (part // s) // (whole // s) if whole else 0
    return total


def test_mass_is_divided_in_proportion() -> None:
    assert counted([("a", 0, 30), ("a", 1, 60.0), ("a", 1, 30), ("b", 3, 0.001)]) == [3, 9, 0, 12]
    assert counted([("a", 0, 1), ("a", 1, 1), ("a", 2, 1)], mass=10) == [3, 3, 3, 0]
    assert counted([("a", 0, 0), ("a", 1, None), ("a", 2, float("nan")), ("b", 3, 5)]) == [0, 0, 0, 12]


weights = st.one_of(
    st.none(), st.integers(0, 2**40), st.floats(0, 1e300), st.sampled_from([0.0004, 2.0**32, 2.0**32 + 1, 1e12])
)
some_rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), weights), max_size=30)


@settings(max_examples=15)
@given(some_rows, st.sampled_from([1, 7, 2**20, 2**30]))
def test_weighted_masses_are_floors_and_bounded(rows: list[tuple[str, int, Any]], mass: int) -> None:
    rows = [*rows, ("z", 0, 1)]
    found = counted(rows, mass)
    assert found == right(rows, mass)
    for who in "abc":
        alone = right([row for row in rows if row[0] == who], mass)
        rest = counted([row for row in rows if row[0] != who], mass)
        assert [a - b for a, b in zip(found, rest, strict=True)] == alone
        assert sum(alone) <= mass


def test_many_of_the_largest_weights_stay_in_64_bits() -> None:
    rows = [("a", cell, 1e300) for cell in (0, 1)] * 5000
    assert counted(rows, mass=2**30) == right(rows, 2**30)


def test_large_weights_are_rounded_down() -> None:
    """Five equal weights 7k + 1 are divided by s = 7. Rounded up to k + 1 each, they would weigh M + 1."""
    k = 797_000_857
    line = Grid.plane(x=(0, 5), y=(0, 1), shape=(1, 5))
    weights = table([("a", cell, (7 * k + 1) // 1000) for cell in range(5)])
    assert 5 * (7 * k + 1) // 2**32 + 1 == 7
    assert (7 * k + 1) % 1000 == 0
    assert 5 * (2**30 * (k + 1) // (5 * (7 * k + 1) // 7)) == 2**30 + 1
    found = count(weights, line, person="who", weight_column="seconds", mass=2**30)
    assert found.mass.tolist() == [2**30 * k // (5 * k)] * 5


def test_at_most_and_weights() -> None:
    found = counted([("a", 0, 1), ("a", 1, 2), ("a", 2, 3)], at_most=1)
    assert sorted(found) == [0, 0, 0, 12]


def test_weights_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("who;x;y;s\na;0,5;0,5;1,5\na;1,5;0,5;0,5\nb;2,5;0,5;\n")
    options: dict[str, Any] = {"person": "who", "weight_column": "s", "decimal": ",", "mass": 12}
    assert count(path, GRID, **options).dense()[0].tolist() == [9, 3, 0, 0]


@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        ([("a", 0, -1)], {}, "holds a negative weight"),
        ([("a", 0, "long")], {}, "Column 'seconds' holds text that is not a number"),
        ([("a", 0, 1)], {"weight": "presence", "at_most": 1}, "weight 'share'"),
        ([("a", 0, 1)], {"unit": "visit"}, "a person column"),
    ],
)
def test_weights_that_cannot_be_used(rows: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((InvalidInput, UnreadableData), match=sentence):
        counted(rows, **options)
