"""The server's half: which sums it takes, how it adds them up, and what it may promise afterwards."""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.distributed import AdaptiveQuadtree, Cohort, Device, Round, Survey, run_survey
from heathaze.domain.partition import Partition
from heathaze.errors import InvalidInput, PromiseBroken, ShardAborted, SimulatedRelease
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, NoiseShares, event_from_dict, flatten
from heathaze.privacy.guarantee import Adjacency, Trust, Unit
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Sum
from tests.distributed.parties import (
    COHORT,
    GRID,
    NAME,
    epsilons,
    quadtree,
    question,
    run,
    spread,
    summed,
    sums_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: almost no noise, so that numbers are exact."""

TWO = Cohort(20, shards=2, dropout="1/5", colluding="1/10")


def flat(count: int, survivors: int, length: int = 4) -> Sum:
    """A sum of the first question, the same in every region."""
    asked = Survey(quadtree(), TWO, NAME).ask()
    return summed(asked, np.full(length, count, dtype=np.uint64), range(survivors))


def with_values(values: np.ndarray) -> Sum:
    return dataclasses.replace(flat(1, 9), values=values)


@pytest.fixture
def survey() -> Survey:
    return Survey(quadtree(), TWO, NAME)


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rounds_are_numbered_and_bear_the_survey_s_name() -> None:
    survey = Survey(quadtree(epsilon=20), Cohort(100, dropout=0, colluding=0), NAME)
    seen = []
    while (asked := survey.ask()) is not None:
        assert (asked.survey, asked.number) == (NAME, len(seen) + 1)
        assert asked.fingerprint == survey.ask().fingerprint, "asking again changes nothing"
        seen.append(asked.fingerprint)
        before = survey
        survey = survey.answered(sums_of(asked, spread(asked)))
        assert len(before.rounds) == len(seen) - 1, "a survey never changes"
    assert len(set(seen)) == len(seen) >= 2
    with pytest.raises(InvalidInput, match="The survey is over"):
        survey.answered([])


def test_each_question_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, planned = AdaptiveQuadtree.ask, []

    def ask(mechanism: AdaptiveQuadtree, cohort: Cohort, rounds: Sequence[Round]) -> object:
        planned.append(len(rounds))
        return plan(mechanism, cohort, rounds)

    monkeypatch.setattr(AdaptiveQuadtree, "ask", ask)
    survey = run(Survey(quadtree(epsilon=20), Cohort(100, dropout=0, colluding=0)), spread)
    assert planned == list(range(len(survey.rounds) + 1))


def test_every_survey_has_a_name_of_its_own() -> None:
    names = {Survey(quadtree(), TWO).name for _ in range(50)}
    assert len(names) == 50
    assert all(len(bytes.fromhex(name)) == 16 for name in names)


# ── sums ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_shards_are_centred_before_they_are_added() -> None:
    """Errata E3-9: added first and centred afterwards, full shards wrap, and negative noise becomes a crowd."""
    cells = quadtree(epsilon=1000, start=Partition.whole_level(GRID, 1), max_rounds=1)
    survey = Survey(cells, TWO, NAME)
    asked = survey.ask()
    assert asked.bits == 4
    minus_one = 2**asked.bits - 1
    sums = [
        summed(asked, np.array([10, 0, minus_one, 5], dtype=np.uint64), range(10)),
        summed(asked, np.array([10, minus_one, minus_one, 5], dtype=np.uint64), range(9)),
    ]
    (found,) = survey.answered(sums).rounds
    assert found.totals.tolist() == [20, -1, -2, 10]
    added = (sums[0].values + sums[1].values) % np.uint64(2**asked.bits)
    assert added.tolist()[0] == 4, "what the printed order would have made of twenty people"
    assert (found.delivered, found.people) == ((10, 9), 19)


def test_a_sum_of_another_question_is_refused(survey: Survey) -> None:
    other = Survey(quadtree(), TWO).ask()
    with pytest.raises(PromiseBroken, match="belong to another question"):
        survey.answered([summed(other, np.ones(4, dtype=np.uint64), range(9))])
    with pytest.raises(InvalidInput, match="another question than the one this survey asks"):
        survey.with_round(Round(other, np.ones(4, dtype=np.int64), (9,)))
    weaker = Survey(quadtree(), Cohort(20, shards=2, dropout="1/5", colluding=0), NAME).ask()
    with pytest.raises(InvalidInput, match="another question than the one this survey asks"):
        survey.with_round(Round(weaker, np.ones(4, dtype=np.int64), (9,)))
    assert survey.with_round(Round(survey.ask(), np.ones(4, dtype=np.int64), (9,))).rounds[0].people == 9


def test_an_unopened_shard_is_left_out_and_the_survey_goes_on(survey: Survey) -> None:
    one = survey.answered([flat(2, 8)])
    assert one.rounds[0].delivered == (8,)
    assert one.rounds[0].counts().tolist() == [2, 2, 2, 2]
    with pytest.raises(ShardAborted, match="No shard was opened"):
        survey.answered([])


@pytest.mark.parametrize(
    ("sums", "sentence"),
    [
        ([flat(1, 9)] * 3, "There are 3 sums; expected at most 2"),
        ([flat(1, 9, length=5)], r"shape \(5,\); the question needs 4 numbers"),
        ([with_values(np.ones((2, 2), dtype=np.uint64))], r"shape \(2, 2\)"),
        ([flat(2**40, 9)], "outside 0"),
        ([with_values(np.full(4, -1))], "outside 0"),
        ([with_values(np.full(4, 0.5))], "whole numbers"),
        ([flat(1, 9)] * 2, "The same sum was given twice"),
        ([dataclasses.replace(flat(1, 9), survivors=(0,) * 9)], "names a client twice"),
        ([dataclasses.replace(flat(1, 9), survivors=tuple(range(2, 11)))], "not invited"),
    ],
)
def test_sums_of_something_else_are_refused(survey: Survey, sums: list[Sum], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        survey.answered(sums)
    assert survey.rounds == ()


def test_sums_of_too_few_are_refused(survey: Survey) -> None:
    with pytest.raises(PromiseBroken, match="of 7 to 9 people; expected 8 to 10"):
        survey.answered([flat(1, 9), flat(1, 7)])
    assert survey.rounds == ()


def test_values_are_in_people_and_by_flag() -> None:
    asked = question(mass=4, flagged=True)
    found = Round(asked, np.array([8, 4, 0, -4, 2, 2, 40, 0]), (18,))
    assert found.values().tolist() == [[2, 1], [0, -1], [0.5, 0.5], [10, 0]]
    assert found.counts().tolist() == [3, -1, 1, 10]
    assert found.density().dense().mass_in(hz.Box.plane(x=(0, 4), y=(0, 4))) == pytest.approx(3 / 14)


def test_the_deviation_is_that_of_all_noise_that_was_added() -> None:
    """Every device that delivered added a share, colluders too: √(people · shape) times that of discrete Laplace."""
    fine = Partition.whole_level(hz.Grid.plane(x=(0, 64), y=(0, 64), size=64), 6)
    cohort = Cohort(20, shards=2, dropout="1/5", colluding="1/5")
    asked = question(fine, epsilon=Fraction(1, 5), cohort=cohort, mass=3)
    source = Simulation(1)
    totals = np.zeros(len(fine), dtype=np.int64)
    for survivors in (10, 8):
        for _ in range(survivors):
            share = Device([], budget=1).answer(asked, randomness=source).astype(np.int64)
            totals += np.where(share >= 2 ** (asked.bits - 1), share - 2**asked.bits, share)
    found = Round(asked, totals, (10, 8))
    # Of 4096 numbers of kurtosis at most 6: the deviation is known to about √(5/4096)/2.
    assert found.values().std() == pytest.approx(found.deviation(), rel=5 * math.sqrt(5 / 4096) / 2)
    assert found.deviation() == pytest.approx(math.sqrt(18 / 4) * math.sqrt(2) * 5, rel=0.01)


# ── what is promised ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_promise_is_restated_from_those_who_delivered(survey: Survey) -> None:
    asked = survey.ask()
    for delivered in ((10, 10), (9, 8), (8, 10)):
        found = survey.answered([flat(2, n) for n in delivered])
        (event,) = flatten(found.event)
        assert event == NoiseShares(1, asked.scales[0], Fraction(min(delivered) - 2, 6))
        assert event.shape >= 1
        assert found.guarantee.loss.epsilon == compose([event]).epsilon <= asked.epsilon
    assert found.guarantee.colluders == TWO.colluders == 2
    assert (found.guarantee.unit, found.guarantee.trust) == (Unit.PERSON, Trust.SECURE_SUM)
    assert found.guarantee.adjacency is Adjacency.ZERO_OUT


def test_a_sum_of_too_few_makes_no_round(survey: Survey) -> None:
    """However it came about; and its event would have no price."""
    asked = survey.ask()
    with pytest.raises(PromiseBroken, match="expected 8 to 10, the size of a shard"):
        Round(asked, np.full(4, 2), (10, 7))
    with pytest.raises(PromiseBroken, match=r"shape 0\.8333 and needs at least 1"):
        compose([asked.event(7)])


def test_rounds_add_up_unless_nobody_was_asked_twice() -> None:
    joint = run(Survey(quadtree(epsilon=20), Cohort(100)), spread)
    assert len(flatten(joint.event)) == len(joint.rounds) >= 2
    assert isinstance(joint.event, Composition)
    assert 20 * (1 - 1e-6) <= joint.guarantee.epsilon <= 20
    apart = run(Survey(quadtree(epsilon=20, disjoint=True), Cohort(100)), spread)
    assert sum(epsilons(apart.rounds)) == 20 * len(apart.rounds) > 20
    assert apart.guarantee.loss.epsilon <= 20


# ── the release ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_is_no_map_without_a_round_and_no_single_draw(survey: Survey) -> None:
    with pytest.raises(InvalidInput, match="No round was answered yet"):
        survey.estimate()
    answered = survey.answered([flat(2, 9)])
    for draws in (1, -1):
        with pytest.raises(InvalidInput, match="give 0, or at least 2"):
            answered.estimate(draws=draws)


@pytest.fixture(scope="module")
def conducted() -> Survey:
    """Real devices, real secure sums, real randomness: 20 people in two shards, all of them in the west."""
    places = 8 * Simulation(1).uniforms(40).reshape(20, 2) * [0.5, 1]
    devices = [Device(place, budget=50) for place in places]
    survey = run_survey(Survey(quadtree(epsilon=40), TWO), devices)
    assert all(device.remaining >= 10 for device in devices)
    return survey


def test_a_release_tells_its_rounds_and_survives_its_file(conducted: Survey, tmp_path: Path) -> None:
    release = conducted.estimate(draws=2)
    assert not release.simulated
    assert release.knows_uncertainty
    assert release.estimate.density.mass_in(hz.Box.plane(x=(0, 4), y=(0, 8))) > 0.6
    again = hz.load(release.save(tmp_path / "map.npz"))
    assert again.guarantee == release.guarantee == conducted.guarantee
    assert again.guarantee.colluders == 2
    assert again.provenance == release.provenance
    found = again.provenance.to_dict()
    assert found["extra"]["cohort"] == TWO.to_dict()
    assert [one["numbers"] for one in found["extra"]["rounds"]] == [r.question.length for r in conducted.rounds]
    assert sum(Fraction(one["epsilon"]) for one in found["extra"]["rounds"]) == 40
    assert [one["delivered"] for one in found["extra"]["rounds"]] == [[10, 10]] * len(conducted.rounds)
    assert found["parameters"]["epsilon"] == "40"
    assert event_from_dict(dict(found["event"])) == conducted.event
    assert compose([event_from_dict(dict(found["event"]))]) == again.guarantee.loss
    assert np.allclose(again.density.values, release.density.values)
    assert again.total == release.total


def test_a_simulated_survey_is_never_saved(tmp_path: Path) -> None:
    devices = [Device((1, 1), budget=1) for _ in range(20)]
    survey = run_survey(Survey(quadtree(), COHORT), devices, randomness=Simulation(1))
    release = survey.estimate(draws=0)
    assert release.simulated
    assert not release.knows_uncertainty
    with pytest.raises(SimulatedRelease):
        release.save(tmp_path / "map.npz")
    assert list(tmp_path.iterdir()) == []
