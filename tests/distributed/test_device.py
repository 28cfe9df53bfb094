"""The device's half: what leaves it, what it costs, and every question it refuses before it pays."""

import copy
import dataclasses
import itertools
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.distributed import Cohort, Device, Question
from heathaze.distributed import device as device_module
from heathaze.distributed.device import codes_of, encode
from heathaze.distributed.encodings import Regions
from heathaze.distributed.question import Part
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.errors import (
    BudgetExceeded,
    HeathazeError,
    InvalidInput,
    LedgerMismatch,
    PromiseBroken,
    SensitivityExceeded,
)
from heathaze.privacy.events import DiscreteLaplace, NoiseShares, flatten
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.noise_shares import noise_share, split_mass
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Client, Identity, Parameters
from heathaze.testing import assert_distribution, discrete_laplace_law, goodness_of_fit
from tests.distributed.parties import COHORT, GRID, fresh_name, opened, question

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: almost no noise, so that numbers are exact."""

ALPHA = 1e-6
FIVE_SIGMA = 5.0
NOISELESS = 1000
"""An ε of 1000 for each entry that a person touches: noise other than 0 is as likely as e^−1000."""

HERE = (2.5, 5.5)
"""Column 2, row 5."""

TORN = Partition(GRID, np.array([0, 1, 2, 3, 3]), np.array([0, 1, 9, 0, 63]))
"""The root, one quarter, a grandchild and two orphaned cells."""


class Given(Simulation):
    """Randomness whose uniform integers are all the same given number."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self.number = number

    def below(self, bound: int, count: int) -> np.ndarray:
        assert 0 <= self.number < bound
        return np.full(count, self.number, dtype=np.uint64)


# ── one mass, split over places (errata E3-8) ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mass", [1, 7, 100, 10**4, 2**30])
@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [3, 1, 4, 1, 5], [1] * 64, [*range(1, 17)]], ids=len)
def test_the_mass_is_split_exactly_and_without_bias(mass: int, counts: list[int]) -> None:
    total = sum(counts)
    wanted = [Fraction(mass * count, total) for count in counts]
    sums = [0] * len(counts)
    for number in range(total):
        found = split_mass(mass, np.array(counts), Given(number)).tolist()
        assert sum(found) == mass
        assert min(found) >= 0
        assert all(abs(z - v) < 1 for z, v in zip(found, wanted, strict=True))
        sums = [before + z for before, z in zip(sums, found, strict=True)]
    assert [Fraction(z, total) for z in sums] == wanted, "the mean over all u is exact"


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=64), st.integers(1, 2**30), st.integers(0, 10**6))
def test_whatever_the_places_the_mass_is_kept(counts: list[int], mass: int, seed: int) -> None:
    found = split_mass(mass, np.array(counts), Simulation(seed))
    assert found.sum() == mass
    assert (found >= 0).all()
    assert all(abs(z - Fraction(mass * v, sum(counts))) < 1 for z, v in zip(found.tolist(), counts, strict=True))


def test_rounding_each_place_by_itself_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The known bug put back: independent rounding can exceed the mass by the number of places."""
    places = [(col + 0.5, row + 0.5) for col in range(8) for row in range(8)]
    asked = question(Partition.whole_level(GRID, 3), mass=7)
    assert encode(asked, codes_of(GRID, np.array(places)), False, Simulation(1)).sum() == 7
    monkeypatch.setattr(device_module, "split_mass", lambda mass, counts, _: -(-mass * counts // counts.sum()))
    with pytest.raises(SensitivityExceeded, match="nothing leaves"):
        Device(places, budget=1).answer(asked)


# ── sensitivity, by looking at every place ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flagged", [False, True])
@pytest.mark.parametrize("mass", [1, 5])
def test_nobody_weighs_more_than_the_noise_is_made_for(mass: int, flagged: bool) -> None:
    """Every pair of cells, on a partition with orphans, in two parts: ℓ1 is the mass in each part, never more."""
    parts = (Part(Regions(TORN), Fraction(1)), Part(Regions(Partition.whole_level(GRID, 2)), Fraction(1)))
    asked = question(parts=parts, mass=mass, flagged=flagged)
    for one, two in itertools.combinations_with_replacement(range(0, 64, 3), 2):
        vector = encode(asked, np.array([one, two]), True, Simulation(one))
        assert (vector >= 0).all()
        ends = np.cumsum([0, *asked.lengths])
        for part, (start, end) in zip(asked.parts, itertools.pairwise(ends), strict=True):
            assert vector[start:end].sum() == mass == asked.sensitivity(part)
        if flagged:
            assert vector[0::2].sum() == 0, "entries of people without the flag stay empty"


def test_a_place_is_counted_in_its_region() -> None:
    asked = question(TORN, epsilon=NOISELESS)
    for row, col in itertools.product(range(8), range(8)):
        vector = Device((col + 0.5, row + 0.5), budget=NOISELESS).answer(asked)
        code = codes_of(GRID, np.array([[col + 0.5, row + 0.5]]))
        assert np.flatnonzero(vector).tolist() == TORN.locate(code).tolist()
        assert vector.sum() == 1


@pytest.mark.parametrize(
    "places",
    [[], np.empty((0, 2)), (-1, 4), (4, 8.001), [(-7, 1), (1, 99)], (1e300, -1e300)],
    ids=str,
)
def test_someone_who_is_nowhere_on_the_map_sends_noise_alone(places: Any) -> None:
    asked = question(epsilon=NOISELESS)
    assert Device(places, budget=NOISELESS, plane=True).answer(asked).tolist() == [0, 0, 0, 0]
    # They add their share of the noise all the same, and pay: nobody can tell them from the others.
    device = Device(places, budget=1, plane=True)
    noise = device.answer(question(Partition.whole_level(GRID, 3), epsilon=Fraction(1, 100)), randomness=Simulation(1))
    assert (noise != 0).any()
    assert device.remaining == Fraction(99, 100)


def test_places_outside_take_no_mass_from_those_inside() -> None:
    asked = question(epsilon=NOISELESS, mass=1)
    vector = Device([HERE, (-5, 3), (1, -3)], budget=NOISELESS).answer(asked)
    assert vector.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("places", ["home", [[1, 2, 3]], [[[1, 2]]], [("a", "b")], [1, 2, 3], {"x": 1}])
def test_places_that_are_no_rows_of_two_are_refused(places: Any) -> None:
    with pytest.raises(InvalidInput, match="two numbers: x and y"):
        Device(places, budget=1)


@pytest.mark.parametrize("places", [(math.nan, 4), (4, math.inf), [HERE, (-math.inf, 1)], [HERE, (1, math.nan)]])
def test_places_that_are_not_finite_are_refused(places: Any) -> None:
    """As on a device that trusts nobody: what was not measured is left out, not sent as a place elsewhere."""
    with pytest.raises(InvalidInput, match="not a finite number; leave out positions that were not measured"):
        Device(places, budget=1)


CITY = Grid.over(lon=(-74.1, -73.78), lat=(40.58, 40.9), size=8)


@pytest.mark.parametrize("place", [(200, 99), (-180.001, 0), (0, 90.001), (0, -91), (540, 40.7), (583_000, 4_507_000)])
def test_a_place_that_is_not_on_the_globe_is_refused(place: tuple[float, float]) -> None:
    for places in (place, [(-73.9, 40.7), place]):
        with pytest.raises(InvalidInput, match=r"not on the globe; give longitude .* or say plane=True"):
            Device(places, budget=2)
    # On a plane it is a place like any other.
    Device(place, budget=2, plane=True).answer(question())


@pytest.mark.parametrize("projection", ["equirectangular", "web-mercator"])
def test_a_device_on_a_plane_does_not_answer_about_the_globe(projection: str, tmp_path: Path) -> None:
    grid = Grid.over(lon=CITY.x, lat=CITY.y, size=8, projection=projection)
    asked = question(Partition.whole_level(grid, 1), epsilon=1)
    ledger = Ledger.open(tmp_path / "own.ledger", total=2)
    for device in (Device((1, 1), budget=2, plane=True), Device((1, 1), ledger=ledger, plane=True)):
        with pytest.raises(InvalidInput, match=r"places of this device lie on a plane. Nothing was paid"):
            device.answer(asked)
        assert device.remaining == 2
    assert ledger.entries() == []


@pytest.mark.parametrize("place", [(180, 90), (-180, -90), (0, 0), (-73.9, 40.7)])
def test_places_elsewhere_on_the_globe_are_answered_for(place: tuple[float, float]) -> None:
    device = Device(place, budget=2)
    device.answer(question(Partition.whole_level(CITY, 1), epsilon=1))
    assert device.remaining == 1


def test_a_device_needs_one_purse() -> None:
    with pytest.raises(InvalidInput, match="a budget or a ledger"):
        Device(HERE)
    for bad in (0, -1, math.nan, "much"):
        with pytest.raises(InvalidInput, match="budget is"):
            Device(HERE, budget=bad)


# ── noise ───────────────────────────────────────────────────────────────────────────────────────────────────────────

WIDE = Grid.plane(x=(0, 64), y=(0, 64), size=64)
FINE = Partition.whole_level(WIDE, 6)


def centred(question: Question, vectors: list[np.ndarray]) -> np.ndarray:
    total = sum(vectors, np.zeros(question.length, np.uint64)) & np.uint64(2**question.bits - 1)
    values = total.astype(np.int64)
    return np.where(values >= 2 ** (question.bits - 1), values - 2**question.bits, values)


def test_the_fewest_honest_devices_together_have_added_discrete_laplace_noise() -> None:
    asked = question(FINE, epsilon=Fraction(1, 3), cohort=COHORT)
    source = Simulation(1)
    honest = COHORT.threshold - COHORT.colluders
    samples = [
        centred(asked, [Device([], budget=1).answer(asked, randomness=source) for _ in range(honest)]) for _ in range(4)
    ]
    assert_distribution(np.concatenate(samples), discrete_laplace_law(3), ALPHA)
    # One device fewer, and it shows.
    fewer = [
        centred(asked, [Device([], budget=1).answer(asked, randomness=source) for _ in range(honest - 2)])
        for _ in range(4)
    ]
    assert goodness_of_fit(np.concatenate(fewer), discrete_laplace_law(3)) < ALPHA


def test_every_part_has_the_noise_it_pays_for() -> None:
    parts = (Part(Regions(FINE), Fraction(1, 2)), Part(Regions(FINE), Fraction(1, 20)))
    asked = question(parts=parts, mass=3)
    source = Simulation(2)
    honest = COHORT.threshold - COHORT.colluders
    noise = centred(asked, [Device([], budget=1).answer(asked, randomness=source) for _ in range(honest)])
    assert_distribution(noise[: len(FINE)], discrete_laplace_law(6), ALPHA)
    assert_distribution(noise[len(FINE) :], discrete_laplace_law(60), ALPHA)


def rounds_of_one_device(source: Simulation) -> list[np.ndarray]:
    device = Device([], budget=2)
    asked = question(FINE, epsilon=Fraction(1, 50))
    return [
        centred(asked, [device.answer(dataclasses.replace(asked, number=number), randomness=source)])
        for number in (1, 2, 3)
    ]


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """In standard deviations of what independent numbers of mean 0 would show."""
    products = first.astype(float) * second
    return float(abs(products.sum()) / math.sqrt((products**2).sum()))


def test_every_round_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = rounds_of_one_device(Simulation(3))
    assert max(correlation(one, two), correlation(two, three), correlation(one, three)) < FIVE_SIGMA
    # The known bug put back: noise drawn once and kept for the next round.
    kept: dict[tuple[Any, ...], np.ndarray] = {}

    def cached(scale: Any, shape: Any, size: int, randomness: Any) -> np.ndarray:
        return kept.setdefault((scale, shape, size), noise_share(scale, shape, size, randomness))

    monkeypatch.setattr(device_module, "noise_share", cached)
    one, two, _ = rounds_of_one_device(Simulation(3))
    assert correlation(one, two) > FIVE_SIGMA


def test_without_a_source_the_noise_is_never_the_same_twice() -> None:
    asked = question(FINE, epsilon=Fraction(1, 50))
    first, second = (Device([], budget=1).answer(asked) for _ in range(2))
    assert (first != second).any()


# ── the budget ──────────────────────────────────────────────────────────────────────────────────────────────────────


def purses(tmp_path: Path) -> dict[str, Callable[[Any], dict[str, Any]]]:
    """A budget in memory, or a ledger."""
    return {
        "memory": lambda total: {"budget": total},
        "ledger": lambda total: {"ledger": Ledger.open(tmp_path / f"{fresh_name()}.ledger", total=total)},
    }


@pytest.fixture(params=["memory", "ledger"])
def purse(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], dict[str, Any]]:
    return purses(tmp_path)[request.param]


def test_a_device_pays_exactly_and_refuses_beyond_its_budget(purse: Callable) -> None:
    device = Device(HERE, **purse("7/10"))
    third = question(epsilon=Fraction(1, 3))
    device.answer(third)
    assert device.remaining == Fraction(7, 10) - Fraction(1, 3)
    device.answer(dataclasses.replace(third, number=2))
    assert device.remaining == Fraction(1, 30)
    with pytest.raises(BudgetExceeded, match=r"costs ε = 0\.333334"):
        device.answer(dataclasses.replace(third, number=3))
    assert device.remaining == Fraction(1, 30)
    device.answer(question(epsilon=Fraction(1, 30), number=3))
    assert device.remaining == 0
    with pytest.raises(BudgetExceeded):
        device.answer(question(epsilon=Fraction(1, 10**6), survey=fresh_name()))


def test_an_answer_is_paid_for_before_it_is_made(purse: Callable) -> None:
    """A source that fails wastes the payment: nothing was drawn before it."""

    class Broken(Simulation):
        def fill(self, _: np.ndarray) -> None:
            raise RuntimeError("no entropy")

    device = Device(HERE, **purse(3))
    with pytest.raises(RuntimeError, match="no entropy"):
        device.answer(question(), randomness=Broken(1))
    assert device.remaining == 2


def test_of_two_programs_on_one_ledger_one_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked at the ledger before either of them paid, so the charge itself has to refuse the second."""
    monkeypatch.setattr(Device, "_last", lambda *_: None)
    ledger = Ledger.open(tmp_path / "own.ledger", total=3)
    asked = question()
    Device(HERE, ledger=ledger).answer(asked)
    with pytest.raises(PromiseBroken, match="answered meanwhile"):
        Device(HERE, ledger=Ledger.open(ledger.path)).answer(asked)
    assert ledger.spent == 1


def test_surveys_with_other_names_add_up(purse: Callable) -> None:
    """Errata E3-10: whoever asks, and however often, it is one person's budget."""
    device = Device(HERE, **purse(1))
    for _ in range(3):
        device.answer(question(epsilon=Fraction(1, 4), survey=fresh_name()))
    assert device.remaining == Fraction(1, 4)


def other_grid(**changed: Any) -> Question:
    shifted = Grid.plane(x=(0, 8.5), y=(0, 8), size=8)
    return question(Partition.whole_level(shifted, 1), **changed)


REFUSED: dict[str, tuple[Callable[[], Question], type[HeathazeError], str]] = {
    "the same round": (lambda: question(number=3), PromiseBroken, "Round 3 was answered before"),
    "the same number, asked otherwise": (
        lambda: question(Partition.whole_level(GRID, 2), number=3, epsilon=Fraction(1, 5)),
        PromiseBroken,
        "Round 3 was answered before",
    ),
    "an earlier round": (lambda: question(number=2), PromiseBroken, "expected a later one than 2"),
    "another grid": (lambda: other_grid(number=4), PromiseBroken, "another grid, mass or flag"),
    "another mass": (lambda: question(number=4, mass=2), PromiseBroken, "another grid, mass or flag"),
    "another flag": (lambda: question(number=4, flagged=True), PromiseBroken, "another grid, mass or flag"),
    "too dear": (lambda: question(number=4, epsilon=9), BudgetExceeded, "costs ε = 9"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_question_that_may_not_be_answered_costs_nothing(case: str, purse: Callable) -> None:
    make, error, sentence = REFUSED[case]
    device = Device(HERE, **purse(5), flag=True)
    device.answer(question(number=1))
    device.answer(question(number=3))
    with pytest.raises(error, match=sentence):
        device.answer(make())
    assert device.remaining == 3
    device.answer(question(number=5)), "and the device goes on"
    assert device.remaining == 2


def test_nothing_is_answered_after_the_last_round(purse: Callable) -> None:
    device = Device(HERE, **purse(5))
    device.answer(question(number=2, final=True))
    for number, sentence in ((1, "expected a later one"), (2, "answered before"), (3, "announced as the last")):
        with pytest.raises(PromiseBroken, match=sentence):
            device.answer(question(number=number))
    assert device.remaining == 4
    device.answer(question(survey=fresh_name()))


def test_a_share_is_not_told_by_someone_who_has_none(purse: Callable) -> None:
    device = Device(HERE, **purse(1))
    with pytest.raises(InvalidInput, match="give flag=True or flag=False"):
        device.answer(question(flagged=True))
    assert device.remaining == 1


def test_flags_go_into_entries_of_their_own() -> None:
    asked = question(epsilon=NOISELESS, flagged=True)
    for flag in (False, True):
        vector = Device(HERE, budget=NOISELESS, flag=flag).answer(asked)
        assert vector.reshape(4, 2)[2].tolist() == [not flag, flag]
        assert vector.sum() == 1


def test_noise_that_is_too_small_for_its_price_is_refused(purse: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back: shares shaped on those invited (E3-2), and a scale made for half the sensitivity."""
    device, asked = Device(HERE, **purse(2)), question()
    with monkeypatch.context() as patch:
        patch.setattr(Cohort, "shape", property(lambda cohort: Fraction(1, cohort.shard)))
        with pytest.raises(PromiseBroken, match="needs at least 1"):
            device.answer(asked)
    with monkeypatch.context() as patch:
        patch.setattr(Question, "scales", property(lambda _: [Fraction(1, 2)]))
        with pytest.raises(PromiseBroken, match="more than the"):
            device.answer(asked)
    assert device.remaining == 2


# ── the ledger ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_charge_says_what_was_answered(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "mine.ledger", total=2)
    asked = question(epsilon=Fraction(1, 3), mass=4)
    Device(HERE, ledger=ledger).answer(asked)
    (entry,) = ledger.entries()
    assert entry.guarantee == asked.guarantee
    assert entry.guarantee.colluders == 2
    assert flatten(entry.event) == [NoiseShares(4, asked.scales[0], Fraction(1))]
    assert f"survey {asked.survey} round 1" in entry.note


@pytest.mark.parametrize("case", REFUSED)
def test_a_ledger_remembers_what_was_answered_before_a_restart(case: str, tmp_path: Path) -> None:
    make, error, sentence = REFUSED[case]
    path = tmp_path / "mine.ledger"
    first = Device(HERE, ledger=Ledger.open(path, total=5))
    first.answer(question(number=1))
    first.answer(question(number=3))
    again = Device(HERE, ledger=Ledger.open(path), flag=True)
    with pytest.raises(error, match=sentence):
        again.answer(make())
    assert again.remaining == 3
    again.answer(question(number=4, final=True))
    with pytest.raises(PromiseBroken, match="announced as the last"):
        Device(HERE, ledger=Ledger.open(path)).answer(question(number=5))


def test_a_ledger_of_another_promise_is_not_touched(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "mine.ledger", total=5)
    ledger.charge(
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON), DiscreteLaplace(1, Fraction(1)), note="survey of my own"
    )
    device = Device(HERE, ledger=ledger)
    with pytest.raises(LedgerMismatch, match="adjacency"):
        device.answer(question())
    assert device.remaining == 4
    assert len(ledger.entries()) == 1


# ── parameters ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def people() -> list[Identity]:
    source = Simulation(4)
    return [Identity(source) for _ in range(COHORT.shard + 1)]


def listed(people: list[Identity]) -> dict[int, bytes]:
    return {index: person.public for index, person in enumerate(people[:-1])}


def join(device: Device, asked: Question, parameters: Parameters, people: list[Identity], **changed: Any) -> Client:
    given: dict[str, Any] = {"index": 0, "identity": people[0], "directory": listed(people)}
    given |= {"server_key": people[-1].public} | changed
    return device.join(asked, parameters, **given, randomness=Simulation(5))


def test_planned_parameters_keep_the_promise(people: list[Identity]) -> None:
    asked = question()
    device = Device(HERE, budget=1)
    parameters = asked.plan_parameters(Simulation(1))
    assert (parameters.clients, parameters.length, parameters.bits) == (COHORT.shard, asked.length, asked.bits)
    assert (parameters.survivors_at_least, parameters.corrupt_at_most) == (COHORT.threshold, COHORT.colluders)
    client = join(device, asked, parameters, people)
    assert client.index == 0
    assert len(client.begin()) == 1
    assert device.remaining == 0
    with pytest.raises(PromiseBroken, match="answered before"):
        join(device, asked, parameters, people)


@pytest.mark.parametrize("colluding", ["1/3", "1/1000000000000", "0.07"])
def test_planned_parameters_are_accepted_whatever_the_shares(colluding: str, people: list[Identity]) -> None:
    asked = question(cohort=Cohort(20, dropout="1/19", colluding=colluding))
    assert join(Device(HERE, budget=1), asked, asked.plan_parameters(), people).index == 0


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"survivors_at_least": 15, "dropped_at_most": 5}, PromiseBroken, "survivors_at_least 15.* at least 16"),
        ({"corrupt_at_most": 1}, PromiseBroken, "corrupt_at_most 1.* at least 2"),
        ({"purpose": bytes(32)}, PromiseBroken, "belong to another question"),
        ({"length": 5}, InvalidInput, "length 5; the question needs 4"),
        ({"bits": 20}, InvalidInput, "bits 20; the question needs"),
        ({"clients": 21, "neighbours": 18, "shares_needed": 10}, InvalidInput, "clients 21; the question needs 20"),
        ({"neighbours": 4, "shares_needed": 3}, PromiseBroken, "learns more than the sum with probability up to"),
    ],
)
def test_weaker_parameters_are_refused_before_anything_is_paid(
    changed: dict[str, Any], error: type[HeathazeError], sentence: str, people: list[Identity], purse: Callable
) -> None:
    asked = question()
    parameters = dataclasses.replace(asked.plan_parameters(Simulation(1)), **changed)
    device = Device(HERE, **purse(1))
    with pytest.raises(error, match=sentence):
        join(device, asked, parameters, people)
    assert device.remaining == 1
    assert join(device, asked, asked.plan_parameters(), people).index == 0, "the right parameters are taken afterwards"


@pytest.mark.parametrize(
    "changed", [{"index": 20}, {"index": 1}, {"directory": {}}, {"server_key": b"short"}], ids=lambda c: next(iter(c))
)
def test_a_client_that_cannot_be_made_costs_nothing(changed: dict[str, Any], people: list[Identity]) -> None:
    asked = question()
    device = Device(HERE, budget=1)
    with pytest.raises(HeathazeError):
        join(device, asked, asked.plan_parameters(), people, **changed)
    assert device.remaining == 1
    assert join(device, asked, asked.plan_parameters(), people).index == 0


@pytest.mark.parametrize("crowd", [1, -3, float("nan"), None, "5", True])
def test_a_crowd_is_a_number_of_people(crowd: Any) -> None:
    with pytest.raises(InvalidInput, match="crowd is"):
        Device(HERE, budget=1, crowd=crowd)


def test_a_device_answers_one_round_of_a_disjoint_survey(purse: Callable) -> None:
    device = Device(HERE, **purse(3))
    device.answer(question(disjoint=True))
    with pytest.raises(PromiseBroken, match="promised to ask no person twice"):
        device.answer(question(number=2, disjoint=True))
    assert device.remaining == 2


def test_a_device_is_not_copied() -> None:
    device = Device(HERE, budget=1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="secrets"):
            copied(device)


def test_a_device_chooses_its_crowd(purse: Callable) -> None:
    asked = question()
    honest = asked.cohort.threshold - asked.cohort.colluders
    shy = Device(HERE, **purse(1), crowd=honest + 1)
    with pytest.raises(PromiseBroken, match=f"with {honest} honest people; .* at least {honest + 1}"):
        shy.answer(asked)
    assert shy.remaining == 1
    assert Device(HERE, budget=1, crowd=honest).answer(asked).size == asked.length


def test_stronger_parameters_are_welcome(people: list[Identity]) -> None:
    asked = question()
    parameters = dataclasses.replace(asked.plan_parameters(), survivors_at_least=18, dropped_at_most=2)
    assert join(Device(HERE, budget=1), asked, parameters, people).index == 0


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_prints_no_place(people: list[Identity]) -> None:
    secret = (2.123456, 5.654321)
    device = Device([secret], budget=1, flag=True)
    shown = [repr(device), str(device), f"{device}"]
    asked = question()
    client = join(device, asked, asked.plan_parameters(), people)
    shown += [repr(client), repr(opened(question(survey=fresh_name()), [Device(secret, budget=1)], Simulation(1)))]
    for asked in (question(), question(survey=fresh_name(), epsilon=9)):
        with pytest.raises(HeathazeError) as caught:
            device.answer(asked)
        shown.append(str(caught.value))
    assert not [text for text in shown if "2.1" in text or "5.6" in text or "True" in text]
    assert shown[0] == "<Device: ε = 1 left>"


def test_what_a_ledger_keeps_says_nothing_of_the_place(tmp_path: Path) -> None:
    contents = []
    for place in ((0.5, 0.5), (7.5, 7.5), []):
        ledger = Ledger.open(tmp_path / f"{len(contents)}.ledger", total=1)
        Device(place, ledger=ledger).answer(question())
        contents.append([(entry.note, entry.guarantee, entry.event) for entry in ledger.entries()])
    assert contents[0] == contents[1] == contents[2]


def test_the_promise_names_its_trust() -> None:
    found = question().guarantee
    assert (found.unit, found.adjacency, found.trust) == (Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM)
