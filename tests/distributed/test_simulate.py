"""A simulated survey is what real devices would have told: the same people, the same sums, the same law of noise."""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heathaze.distributed import Cohort, Device, Population, Survey, simulate
from heathaze.distributed.simulate import _some, true_sum
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.errors import InvalidInput, ShardAborted
from heathaze.privacy.noise_shares import decode
from heathaze.privacy.randomness import SecureRandomness, Simulation
from heathaze.testing import assert_distribution, assert_same_distribution, discrete_laplace_law, goodness_of_fit
from heathaze.testing.statistics import chi_square
from tests.distributed.parties import COHORT, GRID, fresh_name, opened, quadtree, question

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: almost no noise, so that numbers are exact."""

ALPHA = 1e-6
WIDE = Grid.plane(x=(0, 64), y=(0, 64), size=64)
FINE = Partition.whole_level(WIDE, 6)


def hills(side: int) -> np.ndarray:
    """Three hills, one of them steep."""
    at = np.indices((side, side)) / side
    return 0.01 + sum(
        weight * np.exp(-((at - np.array(centre)[:, None, None]) ** 2).sum(axis=0) / (2 * width**2))
        for centre, width, weight in (((0.25, 0.62), 0.06, 3), ((0.7, 0.3), 0.12, 1), ((0.5, 0.5), 0.3, 0.3))
    )


def one_round(cohort: Cohort, epsilon: Any = Fraction(1, 3), **changed: Any) -> Survey:
    """A survey of a single round about every cell of the wide grid."""
    return Survey(quadtree(WIDE, epsilon, start=FINE, max_rounds=1, **changed), cohort)


# ── populations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_people_are_drawn_from_the_raster() -> None:
    raster = hills(8)
    raster[3, :] = 0
    people = Population.from_raster(GRID, raster, 50_000, Simulation(1))
    assert len(people) == 50_000
    found = np.bincount(Partition.whole_level(GRID, 3).locate(people.codes), minlength=64)
    order = Partition.whole_level(GRID, 3).locate(
        np.array([c for r in range(8) for c in [_code(r, col) for col in range(8)]])
    )
    expected = np.zeros(64)
    expected[order] = 50_000 * (raster / raster.sum()).ravel()
    assert found[expected == 0].sum() == 0
    assert chi_square(found, expected) > ALPHA
    assert chi_square(found, np.roll(expected, 1)) < ALPHA
    assert repr(people) == str(people) == "<Population>"


def _code(row: int, col: int) -> int:
    return sum(((row >> k & 1) << 2 * k + 1) | ((col >> k & 1) << 2 * k) for k in range(3))


@pytest.mark.parametrize(
    "raster", [np.zeros((8, 8)), np.ones((8, 7)), -np.ones((8, 8)), np.full((8, 8), np.nan), np.full((8, 8), np.inf)]
)
def test_rasters_that_are_no_density_are_refused(raster: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="The raster must have a number for each of"):
        Population.from_raster(GRID, raster, 10, Simulation(1))


TABLE = {
    "person": ["c", "a", "b", "a", "c", "a", "d"],
    "x": [1.5, 0.5, 99.0, 7.5, 1.5, 0.5, math.nan],
    "y": [1.5, 0.5, 1.0, 7.5, 1.5, 0.5, 1.0],
}


def test_a_table_gives_everyone_their_places() -> None:
    people = Population.from_table(GRID, **TABLE, flags=[True, False, False, True])
    assert len(people) == 4
    cells = [sorted(people.codes[begin:end].tolist()) for begin, end in itertools.pairwise(people.first)]
    assert cells == [[0, 0, 63], [], [3, 3], []], "a, b outside, c, d nowhere"
    assert people.flags is not None
    assert people.flags.tolist() == [True, False, False, True]
    assert people.flagged([False] * 4).flags.tolist() == [False] * 4


def test_tables_and_flags_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="6 persons and 7 places"):
        Population.from_table(GRID, **{**TABLE, "person": TABLE["person"][1:]})
    with pytest.raises(InvalidInput, match="3 flags for 4 people"):
        Population.from_table(GRID, **TABLE).flagged([True] * 3)


# ── the sums without noise ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flagged", [False, True])
def test_people_with_one_place_add_up_as_their_devices_do(flagged: bool) -> None:
    source = Simulation(2)
    places = source.uniforms(80).reshape(40, 2) * 9 - 0.5  # some of them outside
    flags = source.uniforms(40) < 0.3
    people = Population.from_table(GRID, np.arange(40), *places.T, flags=flags)
    divided = Partition(GRID, np.array([0, 1, 2, 3]), np.array([0, 1, 9, 63]))
    asked = question(divided, epsilon=1000, flagged=flagged, cohort=Cohort(40), mass=1)
    devices = [Device(place, budget=1000, flag=bool(flag)) for place, flag in zip(places, flags, strict=True)]
    wanted = opened(asked, devices, source)
    assert true_sum(asked, people, np.arange(40), source).tolist() == wanted.values.tolist()
    some = np.array([3, 17, 5])
    wanted = opened(
        dataclasses.replace(asked, survey=fresh_name()),
        [Device(places[k], budget=1000, flag=bool(flags[k])) for k in some],
        source,
    )
    assert true_sum(asked, people, some, source).tolist() == wanted.values.tolist()


def test_people_with_several_places_keep_their_mass_and_their_shares() -> None:
    people = Population.from_table(GRID, **TABLE)
    asked = question(Partition.whole_level(GRID, 3), mass=1000)
    source = Simulation(3)
    sums = [true_sum(asked, people, np.arange(4), source) for _ in range(50)]
    assert {int(found.sum()) for found in sums} == {2000}, "two people have places on the map"
    assert {int(found[3]) for found in sums} == {1000}
    assert {int(found[0]) for found in sums} == {666, 667}
    assert {int(found[63]) for found in sums} == {333, 334}
    assert true_sum(asked, people, np.array([1, 3]), source).sum() == 0


# ── the noise ───────────────────────────────────────────────────────────────────────────────────────────────────────


def noise_of(cohort: Cohort, seed: int, **changed: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Totals of a survey of people who are nowhere: noise alone."""
    nowhere = Population(WIDE, np.empty(0, np.int64), np.zeros(cohort.people + 1, np.int64))
    (found,) = simulate(one_round(cohort), nowhere, randomness=Simulation(seed), **changed).rounds
    return found.totals, found.delivered


def test_the_noise_of_a_shard_is_what_its_devices_add_up_to() -> None:
    """In law: 20 real devices, each with its own share, against one draw for all of them."""
    source = Simulation(4)
    asked = one_round(COHORT).ask()
    real, simulated = [], []
    for number in range(3):
        again = dataclasses.replace(asked, survey=fresh_name())
        found = opened(again, [Device([], budget=1) for _ in range(COHORT.shard)], source)
        real.append(decode(found.values, again.bits, COHORT.shard, 1))
        simulated.append(noise_of(COHORT, number)[0])
    first, second = np.concatenate(real), np.concatenate(simulated)
    assert_same_distribution(first, second, ALPHA)
    variance = 2 * float(COHORT.shard * COHORT.shape) * math.exp(-1 / 3) / (1 - math.exp(-1 / 3)) ** 2
    for noise in (first, second):
        assert noise.var() == pytest.approx(variance, rel=5 * math.sqrt(5 / len(noise)))
        assert abs(noise.mean()) < 5 * math.sqrt(variance / len(noise))


def test_what_colluders_leave_of_the_smallest_shard_is_discrete_laplace() -> None:
    """Errata E3-5; and with one colluder more than planned it is less than that."""
    tight = Cohort(20, dropout=0, colluding="1/4")
    assert (tight.threshold, tight.colluders) == (20, 5)
    left = np.concatenate([noise_of(tight, seed, colluding=5)[0] for seed in range(4)])
    assert_distribution(left, discrete_laplace_law(3), ALPHA)
    fewer = np.concatenate([noise_of(tight, seed, colluding=8)[0] for seed in range(4)])
    assert goodness_of_fit(fewer, discrete_laplace_law(3)) < ALPHA


def test_shards_have_noise_of_their_own() -> None:
    four = Cohort(80, shards=4, dropout=0, colluding=0)
    noise = noise_of(four, 1)[0]
    alone = 2 * math.exp(-1 / 3) / (1 - math.exp(-1 / 3)) ** 2
    assert noise.var() == pytest.approx(4 * alone, rel=5 * math.sqrt(5 / len(noise)))


# ── dropouts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_shard_below_its_threshold_is_not_opened_and_the_others_are() -> None:
    cohort = Cohort(500, shards=50, dropout="1/5", colluding=0)
    _, delivered = noise_of(cohort, 1, dropout=0.2)
    assert 1 < len(delivered) < 50
    assert set(delivered) <= {8, 9, 10}
    # Pr[Binomial(10, 0.8) ≥ 8] = 0.678
    opened_shards = [len(noise_of(cohort, seed, dropout=0.2)[1]) for seed in range(20)]
    assert np.mean(opened_shards) == pytest.approx(50 * 0.6778, abs=5 * math.sqrt(50 * 0.6778 * 0.3222 / 20))


def test_if_all_are_below_the_survey_says_so() -> None:
    with pytest.raises(ShardAborted, match="In round 1 no shard was opened: fewer than 16 of 20"):
        noise_of(COHORT, 1, dropout=0.9)


def test_sums_are_exact_over_those_who_are_left() -> None:
    """Without noise: as many people as delivered, wherever they are."""
    people = Population.from_raster(WIDE, hills(64), 400, Simulation(5))
    survey = simulate(
        one_round(Cohort(400, shards=4, dropout=0.4, colluding=0), 1000),
        people,
        randomness=Simulation(6),
        dropout=0.3,
    )
    (found,) = survey.rounds
    assert found.totals.sum() == found.people == sum(found.delivered) < 400
    everyone = np.bincount(FINE.locate(people.codes), minlength=4096)
    assert (found.totals <= everyone).all()


# ── who is asked ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The people of every round, one shard after the other."""
    import sys

    module = sys.modules["heathaze.distributed.simulate"]
    seen: list[list[int]] = []

    def watch(question: Any, population: Any, people: np.ndarray, source: Any) -> np.ndarray:
        seen.append(people.tolist())
        return true_sum(question, population, people, source)

    monkeypatch.setattr(module, "true_sum", watch)
    return seen


def crowd(people: int) -> Population:
    return Population.from_raster(WIDE, hills(64), people, Simulation(7))


def test_shards_are_disjoint(asked: list[list[int]]) -> None:
    """Errata E3-3: sampled once without replacement and then parted; whoever is in two shards pays twice."""
    survey = simulate(Survey(quadtree(WIDE, 5), Cohort(1000, shards=4)), crowd(1500), randomness=Simulation(8))
    assert len(asked) == len(survey.rounds) >= 2
    for people in asked:
        assert len(set(people)) == len(people) == 1000
    assert set(asked[0]) != set(asked[1]), "fresh people in every round"


def test_the_same_people_are_asked_if_wanted(asked: list[list[int]]) -> None:
    simulate(Survey(quadtree(WIDE, 5), Cohort(500)), crowd(5000), randomness=Simulation(9), fresh=False)
    assert len(asked) >= 2
    assert all(set(people) == set(asked[0]) for people in asked)


def test_a_disjoint_survey_asks_nobody_twice(asked: list[list[int]]) -> None:
    survey = Survey(quadtree(WIDE, 5, disjoint=True), Cohort(500))
    simulate(survey, crowd(5000), randomness=Simulation(10))
    everyone = list(itertools.chain(*asked))
    assert len(asked) >= 2
    assert len(set(everyone)) == len(everyone)
    with pytest.raises(InvalidInput, match="Round 2 asks 500 people, and there are 400 left"):
        simulate(survey, crowd(900), randomness=Simulation(10))


@pytest.mark.parametrize(("size", "count"), [(40, 10), (40, 30), (1000, 7)])
def test_everyone_is_asked_equally_often(size: int, count: int) -> None:
    source = Simulation(11)
    drawn = np.array([_some(size, count, source) for _ in range(2000)])
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert chi_square(np.bincount(drawn.ravel(), minlength=size), np.full(size, 2000 * count / size)) > ALPHA
    # And in every place of the order: shards are parts of it.
    assert chi_square(np.bincount(drawn[:, -1] * 10 // size, minlength=10), np.full(10, 200)) > ALPHA


# ── what is refused, and what is marked ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("source", [None, Simulation(1), SecureRandomness()])
def test_what_comes_out_is_marked_simulated(source: Any) -> None:
    survey = simulate(one_round(Cohort(50)), crowd(50), randomness=source)
    assert survey.simulated
    assert survey.ask() is None


def test_the_same_seed_is_the_same_survey() -> None:
    def totals(seed: int) -> list[int]:
        return simulate(one_round(Cohort(50)), crowd(60), randomness=Simulation(seed)).rounds[0].totals.tolist()

    assert totals(1) == totals(1) != totals(2)


def test_surveys_that_cannot_be_simulated_are_refused() -> None:
    with pytest.raises(InvalidInput, match="different grids"):
        simulate(one_round(Cohort(50)), Population.from_raster(GRID, np.ones((8, 8)), 50, Simulation(1)))
    with pytest.raises(InvalidInput, match="asks 50 people, and there are 49 left"):
        simulate(one_round(Cohort(50)), crowd(49))
    with pytest.raises(InvalidInput, match="give the population flags"):
        simulate(one_round(Cohort(50), flagged=True), crowd(50))
    for dropout in (-0.1, 1, math.nan):
        with pytest.raises(InvalidInput, match="dropout is"):
            simulate(one_round(Cohort(50)), crowd(50), dropout=dropout)


# ── what dropouts cost, and many people ─────────────────────────────────────────────────────────────────────────────


def test_a_tenth_lost_costs_little() -> None:
    """Planned for and lost, against planned for and all there: the root mean square error of the last round's map."""
    grid = Grid.plane(x=(0, 32), y=(0, 32), size=32)
    people = Population.from_raster(grid, hills(32), 50_000, Simulation(12))
    truth = hills(32) / hills(32).sum()
    survey = Survey(quadtree(grid), Cohort(10_000, dropout=0.12, colluding=0))

    def error(dropout: float) -> float:
        maps = (
            simulate(survey, people, randomness=Simulation(seed), dropout=dropout).rounds[-1].density().dense().values
            for seed in range(20)
        )
        return math.sqrt(np.mean([((found - truth) ** 2).mean() for found in maps]))

    without, lost = error(0.0), error(0.1)
    assert 0.95 * without < lost < 1.07 * without


@pytest.mark.slow
def test_ten_million_people_in_a_hundred_shards() -> None:
    grid = Grid.plane(x=(0, 256), y=(0, 256), size=256)
    people = Population.from_raster(grid, hills(256), 10_000_000, Simulation(13))
    survey = simulate(
        Survey(quadtree(grid), Cohort(10_000_000, shards=100)), people, randomness=Simulation(14), dropout=0.05
    )
    assert sum(one.question.epsilon for one in survey.rounds) == 1
    last = survey.rounds[-1]
    assert len(last.delivered) == 100
    assert last.people == pytest.approx(9_500_000, rel=0.001)
    found = last.density().dense().values
    truth = hills(256) / hills(256).sum()
    assert np.abs(found - truth).sum() < 0.2
    assert survey.guarantee.epsilon <= 1
