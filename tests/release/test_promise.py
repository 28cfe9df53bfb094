"""A file whose guarantee does not follow from its event is refused, whatever its format."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from heathaze.errors import UnreadableData
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import (
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    LaplaceOnPaths,
    NoiseShares,
    RandomizedReport,
    event_to_dict,
)
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import PrivacyLoss
from heathaze.release.formats import LOADABLE
from heathaze.release.release import Release, load

DELTA = Fraction(1, 10**6)
THIRD = Fraction(1, 3)
LAPLACE = Composition((DiscreteLaplace(1, Fraction(12)), LaplaceOnPaths(7, Fraction(1, 4))))
GAUSSIAN = DiscreteGaussian(1, Fraction(20))
REPORT = RandomizedReport(THIRD)
METRE = RandomizedReport(THIRD, "metre")
SUMS = Composition((NoiseShares(1, Fraction(6), Fraction(1)), NoiseShares(1, Fraction(6), Fraction(5, 4))))

CENTRAL = Guarantee(PrivacyLoss(THIRD), Unit.PERSON)
LOCAL = Guarantee(PrivacyLoss(THIRD), Unit.PERSON, Adjacency.ANY_TWO, Trust.LOCAL)
SUM = Guarantee(PrivacyLoss(THIRD), Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM, 5)


def stated(release: Release, guarantee: Guarantee, event: Event) -> Release:
    made = dataclasses.replace(release.provenance, event=event_to_dict(event))
    return dataclasses.replace(release, guarantee=guarantee, provenance=made)


FOLLOWS: dict[str, tuple[Guarantee, Event]] = {
    "as it costs": (CENTRAL, LAPLACE),
    "more than it costs": (dataclasses.replace(CENTRAL, loss=PrivacyLoss(Fraction(1))), LAPLACE),
    "a delta that is not needed": (dataclasses.replace(CENTRAL, loss=PrivacyLoss(THIRD, DELTA)), LAPLACE),
    "of a visit": (dataclasses.replace(CENTRAL, unit=Unit.VISIT), LAPLACE),
    "Gaussian": (dataclasses.replace(CENTRAL, loss=compose([GAUSSIAN], DELTA)), GAUSSIAN),
    "a report": (LOCAL, REPORT),
    "by the metre": (dataclasses.replace(LOCAL, adjacency=Adjacency.PER_METRE), METRE),
    "a secure sum": (SUM, SUMS),
}


@pytest.mark.parametrize("ending", LOADABLE)
@pytest.mark.parametrize("case", FOLLOWS)
def test_a_guarantee_that_follows_is_loaded(small: Release, case: str, ending: str, tmp_path: Path) -> None:
    guarantee, event = FOLLOWS[case]
    assert load(stated(small, guarantee, event).save(tmp_path / f"a{ending}")).guarantee == guarantee


def _less(guarantee: Guarantee, **loss: Fraction) -> Guarantee:
    return dataclasses.replace(guarantee, loss=dataclasses.replace(guarantee.loss, **loss))


COST = compose([GAUSSIAN], DELTA)
REFUSED: dict[str, tuple[Guarantee, Event, str]] = {
    "a little less": (_less(CENTRAL, epsilon=THIRD - Fraction(1, 10**9)), LAPLACE, "its event costs ε = 0.333334"),
    "a tenth": (_less(CENTRAL, epsilon=THIRD / 10), LAPLACE, r"states ε = 0\.0333334, and its event costs ε = 0\.33"),
    "Gaussian for less": (
        Guarantee(PrivacyLoss(COST.epsilon * Fraction(99, 100), DELTA), Unit.PERSON), GAUSSIAN, "costs ε =",
    ),
    "a smaller delta": (Guarantee(PrivacyLoss(COST.epsilon, DELTA / 2), Unit.PERSON), GAUSSIAN, "costs ε ="),
    "no delta": (
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON), GAUSSIAN, "states δ = 0, and its event has noise that",
    ),
    "a report for less": (_less(LOCAL, epsilon=THIRD / 2), REPORT, "its event costs ε = 0.333334"),
    "sums for less": (_less(SUM, epsilon=THIRD / 2), SUMS, "its event costs ε = 0.333334"),
    "a sum of too few": (SUM, NoiseShares(1, Fraction(3), Fraction(99, 100)), "needs at least 1"),
    "no noise": (CENTRAL, DiscreteLaplace(1, Fraction(0)), "without noise has an infinite privacy loss"),
    "nothing happened": (CENTRAL, Composition(()), "event is empty"),
    "two models at once": (CENTRAL, Composition((LAPLACE, REPORT)), "mixes noise of different trust"),
    "nobody to trust": (LOCAL, LAPLACE, "states trust local, and from its event follows central"),
    "a sum to trust": (SUM, LAPLACE, "states trust secure-sum, and from its event follows central"),
    "a curator to trust": (CENTRAL, SUMS, "states trust central, and from its event follows secure-sum"),
    "another change": (
        dataclasses.replace(CENTRAL, adjacency=Adjacency.REPLACE), LAPLACE, "adjacency replace-one, .* add-remove",
    ),
    "removal by a sum": (
        dataclasses.replace(SUM, adjacency=Adjacency.ADD_REMOVE), SUMS, "adjacency add-remove, .* follows zero-out",
    ),
    "an epsilon without its metre": (LOCAL, METRE, "adjacency any-two-positions, .* follows per-metre"),
    "a metre that the event does not name": (
        dataclasses.replace(LOCAL, adjacency=Adjacency.PER_METRE), REPORT, "per-metre, .* follows any-two-positions",
    ),
    "another length": (
        dataclasses.replace(LOCAL, adjacency=Adjacency.PER_LENGTH), METRE, "per-unit-of-length, .* follows per-metre",
    ),
    "a visit in a sum": (dataclasses.replace(SUM, unit=Unit.VISIT), SUMS, "unit visit, .* follows person"),
    "a record on a map": (dataclasses.replace(CENTRAL, unit=Unit.RECORD), LAPLACE, "unit record"),
}  # fmt: skip


@pytest.mark.parametrize("ending", LOADABLE)
@pytest.mark.parametrize("case", REFUSED)
def test_a_guarantee_that_does_not_follow_is_refused(small: Release, case: str, ending: str, tmp_path: Path) -> None:
    guarantee, event, sentence = REFUSED[case]
    path = stated(small, guarantee, event).save(tmp_path / f"a{ending}")
    with pytest.raises(UnreadableData, match=sentence) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"{path} is not a sound release: ")


def _edited(release: Release, path: Path, **guarantee: Any) -> Path:
    fields = json.loads(release.save(path).read_bytes())
    fields["heathaze"]["guarantee"] |= guarantee
    path.write_text(json.dumps(fields))
    return path


def test_a_unit_that_was_edited_shows_in_the_sentence(small: Release, tmp_path: Path) -> None:
    """From the visits of everybody to whole persons: no event tells these apart."""
    visits = stated(small, dataclasses.replace(CENTRAL, unit=Unit.VISIT), LAPLACE)
    with pytest.raises(UnreadableData, match="states unit person and adjacency add-remove, and its sentence says visi"):
        load(_edited(visits, tmp_path / "a.geojson", unit="person"))
    with pytest.raises(UnreadableData, match="no sentence that names unit and adjacency"):
        load(_edited(visits, tmp_path / "a.geojson", unit="person", sentence="Worded in another way."))


def test_a_file_that_says_it_was_simulated_is_refused(small: Release, tmp_path: Path) -> None:
    path = small.save(tmp_path / "a.geojson")
    fields = json.loads(path.read_bytes())
    fields["heathaze"]["provenance"]["simulated"] = True
    path.write_text(json.dumps(fields))
    with pytest.raises(UnreadableData, match="is not a sound release: The map was made with simulated randomness"):
        load(path)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"kind": "teleport"},
        {"kind": "laplace-on-paths", "sensitivity": 1, "epsilon": "-5"},
        {"kind": "laplace-on-paths", "sensitivity": 1, "epsilon": "1e999999999"},
        {"kind": "laplace-on-paths", "sensitivity": 1.5, "epsilon": "1"},
        {"kind": "composition", "events": [[]]},
    ],
)
def test_what_is_no_event_is_refused(small: Release, event: dict[str, Any], tmp_path: Path) -> None:
    made = dataclasses.replace(small, provenance=dataclasses.replace(small.provenance, event=event))
    with pytest.raises(UnreadableData, match=r"is not a sound release: .*(event|LaplaceOnPaths)"):
        load(made.save(tmp_path / "a.npz"))
