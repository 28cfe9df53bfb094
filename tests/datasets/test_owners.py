"""The made-up market: the town is a mixture of two suppliers and like none of the five."""

from __future__ import annotations

import numpy as np
import pytest

from heathaze.datasets.owners import HEATING, market
from heathaze.errors import InvalidInput
from heathaze.marketplace.mmd import mmd_squared
from heathaze.marketplace.study import Study


def test_the_seed_decides_and_all_tables_have_the_same_columns() -> None:
    one, same, other = market(1), market(1), market(2)
    assert np.array_equal(one.target["kwh"], same.target["kwh"])
    assert not np.array_equal(one.target["kwh"], other.target["kwh"])
    tables = [one.target, *one.owners.values()]
    assert all(set(table) == {*one.columns, "kwh"} for table in tables)
    assert [len(table["kwh"]) for table in tables] == [400, *[2000] * 5]
    assert {len(column) for column in one.target.values()} == {400}
    assert set(one.target["heating"]) <= set(HEATING)


def test_the_town_is_nearer_to_a_mixture_than_to_any_supplier() -> None:
    made = market(3)
    study = Study.of(made.columns)
    town = study.encode(made.target).points
    owners = {name: study.encode(table).points for name, table in made.owners.items()}
    mixed = np.concatenate([owners["hills"][:700], owners["new_suburbs"][:300]])
    apart = {name: mmd_squared(town, points, study.gamma) for name, points in owners.items()}
    assert mmd_squared(town, mixed, study.gamma) < min(apart.values()) / 3
    assert min(apart, key=lambda name: apart[name]) == "hills"


def test_some_records_are_outside_of_the_public_ranges() -> None:
    made = market()
    study = Study.of(made.columns)
    assert sum(fit.outside for table in made.owners.values() for fit in study.encode(table).fits.values()) > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": 0}, "target is 0"),
        ({"each": 1.5}, "each is 1.5"),
        ({"hills": 1.5}, "hills is 1.5"),
        ({"hills": float("nan")}, "hills is nan"),
    ],
)
def test_refusals(arguments: dict[str, float], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        market(**arguments)  # type: ignore[arg-type]
