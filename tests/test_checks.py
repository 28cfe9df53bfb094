"""Checks of arguments: what is refused, what is kept, and the sentence."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heathaze import Counts, Density, Grid, count
from heathaze.central import AdaptiveTree, Flat
from heathaze.checks import assign, positive, shown, whole
from heathaze.distributed import AdaptiveQuadtree
from heathaze.domain.density import TreeDensity
from heathaze.domain.partition import Partition
from heathaze.errors import InvalidInput
from heathaze.local import DiskArea
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.loss import exact, parse_delta, parse_epsilon


@pytest.mark.parametrize("value", [1, 7, np.int64(7), np.uint8(3), 10**30])
def test_whole_numbers_become_python_integers(value: Any) -> None:
    found = whole(value, "size")
    assert (found, type(found)) == (int(value), int)


@pytest.mark.parametrize(
    "value", [True, np.True_, 1.0, np.float64(1), "1", None, math.nan, math.inf, 1j, Fraction(1), Decimal(1), [1], b"1"]
)
def test_what_is_not_a_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^size is .*; give a whole number of at least 1\.$"):
        whole(value, "size")


@pytest.mark.parametrize(
    ("value", "limits", "sentence"),
    [
        (0, {}, "size is 0; give a whole number of at least 1."),
        (-1, {"least": 0}, "size is -1; give a whole number of at least 0."),
        (5000, {"most": 4096}, "size is 5000; give a whole number from 1 to 4,096."),
        (1, {"least": 2, "most": 3, "meaning": "cells"}, "size is 1; give cells, a whole number from 2 to 3."),
    ],
)
def test_the_range_is_in_the_sentence(value: int, limits: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        whole(value, "size", **limits)
    assert str(refusal.value) == sentence


def test_both_ends_of_the_range_are_inside() -> None:
    assert [whole(value, "size", least=2, most=4) for value in (2, 4)] == [2, 4]


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), Fraction(1, 2), "2", 1e-300])
def test_positive_numbers_become_floats(value: Any) -> None:
    assert positive(value, "width", "metres") == float(value)
    assert type(positive(value, "width", "metres")) is float


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf, True, None, "wide", [1], 10**400, 1j])
def test_what_is_not_positive_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^width is .*; give metres, a positive number\.$"):
        positive(value, "width", "metres")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        ("a\nb", r"'a\nb'"),
        (Fraction(-1, 3), "-1/3"),
        ("x" * 78, "'" + "x" * 78 + "'"),
        ("x" * 79, "'" + "x" * 39 + "… (81 characters)"),
        (10**4000, "1" + "0" * 39 + "… (4001 characters)"),
        (10**5000, "a number of thousands of digits"),
        (Fraction(1, 10**5000), "a number of thousands of digits"),
    ],
    ids=range(8),
)
def test_values_are_shown_in_one_short_line(value: Any, text: str) -> None:
    assert shown(value) == text


@dataclasses.dataclass(frozen=True, init=False)
class Half:
    """A frozen class with its own constructor."""

    value: Fraction

    def __init__(self, value: str | Fraction) -> None:
        assign(self, value=Fraction(value) / 2)


def test_a_frozen_class_can_set_its_fields_and_be_replaced() -> None:
    assert Half("1/2").value == Fraction(1, 4)
    assert dataclasses.replace(Half("1/2"), value=Fraction(3)) == Half(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Half("1").value = Fraction(1)  # type: ignore[misc]


ONE = np.array([0])


@pytest.mark.parametrize("grid", [None, "grid", 8, (8, 8), Grid, np.ones((8, 8))], ids=lambda grid: type(grid).__name__)
@pytest.mark.parametrize(
    "make",
    [
        lambda grid: Flat(grid, 1),
        lambda grid: AdaptiveTree(grid, 1),
        lambda grid: DiskArea(grid, 1),
        lambda grid: AdaptiveQuadtree(grid, 1),
        lambda grid: Density(grid, np.ones((1, 1))),
        lambda grid: TreeDensity(grid, ONE, ONE, np.ones(1)),
        lambda grid: Partition(grid, ONE, ONE),
        lambda grid: Counts(grid, ONE, ONE, 1, 1, Unit.PERSON),
        lambda grid: count({"x": [0.5], "y": [0.5]}, grid, person=None),
    ],
)
def test_what_is_no_grid_is_refused_with_a_sentence(make: Any, grid: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^The grid (has the type|is) .*Grid.*\.$"):
        make(grid)


@pytest.mark.parametrize(
    "value",
    [10**400, -(10**400), 10**5000, "9" * 5000, "1e400", "1e999999999", Decimal("1e999999999"), Decimal("sNaN"), 1j,
     np.array([1, 2]), [], b"1", object(), "1/0", True, None],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_absurd_epsilons_and_deltas_are_refused_with_a_sentence(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^epsilon is .*; .*\.$"):
        parse_epsilon(value)
    with pytest.raises(InvalidInput, match=r"^delta is .*; give .*\.( It is .*\.)?$"):
        parse_delta(value)


def test_numbers_of_numpy_become_exact_python_numbers() -> None:
    assert type(exact(np.int64(3)).numerator) is int
    assert parse_epsilon(np.int64(1)) == parse_epsilon(np.float64(1)) == 1
    with pytest.raises(InvalidInput, match=r"^delta is np\.int64\(1\); give"):
        parse_delta(np.int64(1))


def test_absurd_bounds_and_shapes_of_a_grid_are_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"^x is .*; give two numbers, the lower bound first\.$"):
        Grid.plane(x=(10**400, 10**5000), y=(0, 1), size=4)
    with pytest.raises(InvalidInput, match=r"^shape is 5; give two numbers, \(rows, columns\)\.$"):
        Grid.plane(x=(0, 1), y=(0, 1), shape=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^The projection is a str; expected Projection\.$"):
        Grid((0, 1), (0, 1), 4, 4, "plane")  # type: ignore[arg-type]
