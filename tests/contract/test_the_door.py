"""What publish refuses, and what it tells of the data beside the map: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import heathaze as hz
from heathaze.central import AdaptiveTree, Flat
from heathaze.errors import PromiseBroken
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.guarantee import Unit
from heathaze.testing import noiseless

GRID = hz.Grid.plane(x=(0, 4), y=(0, 4), size=4)
MASS = 2**20


class HalfNoise(Flat):
    """Declares epsilon and has noise for twice as much."""

    def event(self, bound: int) -> DiscreteLaplace:
        honest = super().event(bound)
        return DiscreteLaplace(bound, honest.scale / 2)


def people(count: int) -> hz.Counts:
    return hz.Counts.from_cells(GRID, [1], [2], [count * MASS], bound=MASS, one=MASS, unit=Unit.PERSON)


@pytest.mark.parametrize(
    ("mechanism", "sentence"),
    [
        (noiseless(Flat(GRID, 1)), "promises nothing"),
        # Its event names no scale, so an infinite epsilon would have a price: an infinite one.
        (noiseless(AdaptiveTree(GRID, 1)), "promises nothing"),
        (HalfNoise(GRID, 1), "costs ε = 2, more than the declared ε = 1"),
    ],
    ids=["flat-without-noise", "tree-without-noise", "half-the-noise"],
)
def test_a_mechanism_that_keeps_less_than_it_promises_publishes_nothing(
    mechanism: Any, sentence: str, tmp_path: Path
) -> None:
    ledger = hz.Ledger.open(tmp_path / "a.ledger", total=10)
    for budget in (None, ledger):
        with pytest.raises(PromiseBroken, match=sentence):
            hz.publish(mechanism, people(3), ledger=budget)
    assert ledger.spent == 0


def test_beside_map_and_total_a_release_is_the_same_for_all_data() -> None:
    told = [hz.publish(Flat(GRID, 1), people(count)).to_dict() for count in (3, 4000)]
    for one in told:
        assert one.pop("total") is not None
    assert told[0] == told[1]


def test_a_release_says_the_day_and_no_finer_time() -> None:
    day = hz.publish(Flat(GRID, 1), people(3)).provenance.day
    assert len(day) == len("2026-01-31")


def test_counts_print_the_same_whatever_they_hold() -> None:
    assert repr(people(3)) == repr(people(4000))
