"""What is asked next: the schedule, the splits and the end, against the errata and against random answers."""

import dataclasses
import json
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.distributed import AdaptiveQuadtree, Cohort, Population, Question, Round, Survey, simulate
from heathaze.distributed import adaptive_quadtree as quadtree_module
from heathaze.distributed.proportions import interval, people_needed
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput
from heathaze.metrics.cellwise import mse
from heathaze.privacy.accountant import compose
from heathaze.privacy.noise import sigma_from_epsilon
from heathaze.privacy.randomness import Simulation
from tests.distributed.parties import GRID, epsilons, quadtree, run, spread, sums_of

FINE = Grid.plane(x=(0, 32), y=(0, 32), size=32)
EXACT = Cohort(10_000, dropout=0, colluding=0)
"""Everybody delivers and nobody colludes: the noise of a shard is discrete Laplace and no more."""


def partition_of(asked: Question) -> Partition:
    return asked.parts[0].encoding.partition


def sigma(left: Fraction, cohort: Cohort, mass: int = 1) -> float:
    """Standard deviation of the sum of all shards for an ε, in people, by the formula of E3-6."""
    return math.sqrt(float(cohort.people * cohort.shape)) * sigma_from_epsilon(left, mass) / mass


# ── the schedule (errata E3-6, E3-7) ────────────────────────────────────────────────────────────────────────────────


def test_the_schedule_of_a_full_split() -> None:
    survey = run(Survey(quadtree(FINE), EXACT), spread)
    assert [float(epsilon) for epsilon in epsilons(survey.rounds)] == pytest.approx(
        [0.00566, 0.02263, 0.09048, 0.36009, 0.52115], abs=1e-5
    )
    assert [one.question.length for one in survey.rounds] == [4, 16, 64, 256, 1024]
    assert sum(epsilons(survey.rounds)) == 1
    assert survey.numbers_sent == 1364
    assert [one.question.final for one in survey.rounds] == [False] * 4 + [True]


@pytest.mark.parametrize("mass", [1, 10_000])
def test_shards_and_dropouts_are_reckoned_with(mass: int) -> None:
    """Errata E3-6: the target is a deviation of the whole sum; one shard has √shards less."""
    cells = Partition.whole_level(FINE, 5)
    for cohort in (
        Cohort(100_000, shards=10, dropout=0, colluding=0),
        Cohort(100_000, shards=10, dropout=0.1, colluding=0.2),
    ):
        survey = Survey(quadtree(FINE, 3, start=cells, mass=mass), cohort)
        asked = survey.ask()
        assert not asked.final
        wanted = 0.1 * 100_000 / 1024
        assert survey.answered(sums_of(asked, np.zeros(1024))).rounds[0].deviation() == pytest.approx(wanted, rel=1e-5)
        shape = float(cohort.shard * cohort.shape)
        assert float(asked.epsilon) == pytest.approx(
            2 * math.asinh(math.sqrt(10 * shape) / (math.sqrt(2) * wanted)) if mass == 1 else float(asked.epsilon),
            abs=2e-6,
        )


def test_the_golden_number_of_ten_shards() -> None:
    """U = 10⁵, S = 10⁴, T = 1000: 0.4436, not the printed 0.1413."""
    strip = Grid.plane(x=(0, 1000), y=(0, 1), shape=(1, 1000))
    cells = Partition.whole_level(strip, strip.depth)
    assert len(cells) == 1000
    asked = Survey(quadtree(strip, start=cells), Cohort(100_000, shards=10, dropout=0, colluding=0)).ask()
    assert float(asked.epsilon) == pytest.approx(0.4436, abs=1e-4)


COHORTS = st.sampled_from(
    [EXACT, Cohort(60, shards=2), Cohort(10**6, shards=100, dropout=0.2, colluding=0.1), Cohort(5)]
)


@st.composite
def mechanisms(draw) -> AdaptiveQuadtree:
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=draw(st.sampled_from([(8, 8), (1, 40), (13, 5), (1, 1), (64, 64)])))
    flagged = draw(st.booleans())
    return AdaptiveQuadtree(
        grid,
        draw(st.fractions(Fraction(1, 1000), 30, max_denominator=10**7) | st.just(Fraction(1))),
        mass=draw(st.sampled_from([1, 7, 10_000])),
        split_above=draw(st.sampled_from([0.01, 1.0, 2.0, 50.0])),
        early_noise=draw(st.sampled_from([1e-4, 0.1, 10.0])),
        reserve=draw(st.sampled_from([0.01, 1.0, 2.0, 10.0])),
        max_rounds=draw(st.integers(1, 15)),
        flagged=flagged,
        interval=draw(st.sampled_from([None, 0.1])) if flagged else None,
        disjoint=draw(st.booleans()),
        levels_at_once=draw(st.sampled_from([1, 2, 9])),
        first_share=draw(st.sampled_from([0, 0.125, 1])),
        earlier=draw(st.sampled_from([None, Density.uniform(grid)])),
    )


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
@given(mechanisms(), COHORTS, st.integers(0, 10**6))
def test_whatever_the_sums_say_it_ends_and_never_overspends(
    mechanism: AdaptiveQuadtree, cohort: Cohort, seed: int
) -> None:
    """Errata E3-7: printed, an unchanged tree repeats the same tiny ε, for 177 rounds."""
    coins = Simulation(seed)

    def counts(asked: Question) -> np.ndarray:
        size = cohort.shard * coins.uniforms(asked.length) ** 4
        return np.where(coins.uniforms(asked.length) < 0.2, -size / 20, size)

    survey = run(Survey(mechanism, cohort), counts)
    rounds = survey.rounds
    assert 1 <= len(rounds) <= mechanism.max_rounds
    assert [one.question.final for one in rounds] == [False] * (len(rounds) - 1) + [True]
    spent = epsilons(rounds)
    if mechanism.disjoint:
        assert spent == [mechanism.epsilon] * len(rounds)
    else:
        assert sum(spent, Fraction(0)) == mechanism.epsilon, "in exact rationals, the last round spends the rest"
    assert compose([survey.event]).epsilon <= mechanism.epsilon
    assert survey.guarantee.loss.epsilon <= mechanism.epsilon
    partitions = [partition_of(one.question) for one in rounds]
    for partition in partitions:
        assert (partition.levels[0], partition.codes[0]) == (0, 0)
        assert partition.levels.max() <= mechanism.grid.depth
        assert partition.region_areas.sum() == mechanism.grid.cells


def test_an_unchanged_tree_is_asked_about_once_more_with_the_rest() -> None:
    survey = run(Survey(quadtree(FINE), EXACT), lambda asked: np.full(asked.length, 2.0))
    assert len(survey.rounds) == 2
    assert partition_of(survey.rounds[0].question) == partition_of(survey.rounds[1].question)
    assert sum(epsilons(survey.rounds)) == 1


def test_the_last_round_is_the_last_at_the_latest() -> None:
    survey = run(Survey(quadtree(FINE, max_rounds=3), EXACT), spread)
    assert [one.question.length for one in survey.rounds] == [4, 16, 64]
    assert float(survey.rounds[-1].question.epsilon) == pytest.approx(1 - 0.00566 - 0.02263, abs=1e-5)


# ── splits and collapses ────────────────────────────────────────────────────────────────────────────────────────────


def test_regions_are_split_above_two_deviations_and_given_back_below_half_of_one() -> None:
    survey = Survey(quadtree(FINE, mass=10_000), EXACT)
    first = survey.ask()
    noise = sigma(1 - first.epsilon, EXACT, 10_000)
    assert 2 * noise == pytest.approx(2 * math.sqrt(2) / (1 - float(first.epsilon)), rel=1e-6)
    limits = 2 * noise * np.array([1.01, 0.99, 0.26, 0.24])
    asked = survey.answered(sums_of(first, limits)).ask()
    found = partition_of(asked)
    assert found.levels.tolist() == [0, 1, 1, 1, 2, 2, 2, 2]
    assert found.codes.tolist() == [0, 0, 1, 2, 0, 1, 2, 3]
    # Region 3 fell to the root, whose other quarters are still there.
    assert found.areas.tolist() == [256, 0, 256, 256, 64, 64, 64, 64]


def test_limits_are_measured_in_the_noise_that_is_still_to_come() -> None:
    """Half of the budget is gone: twice the noise, and what was crowded no longer is."""
    cells = Partition.whole_level(FINE, 1)
    for early_noise, children in ((0.1, 4), (0.00112, 0)):
        survey = Survey(quadtree(FINE, 1, start=cells, early_noise=early_noise, reserve=0.01), EXACT)
        asked = survey.ask()
        survey = survey.answered(sums_of(asked, np.array([4.0, 2, 2, 2])))
        found = partition_of(survey.ask())
        assert (found.levels == 2).sum() == children, f"ε = {float(asked.epsilon)} was spent"


def test_lost_people_would_have_been_somewhere_too() -> None:
    cohort = Cohort(10_000, dropout=0.4, colluding=0)
    survey = Survey(quadtree(FINE), cohort)
    asked = survey.ask()
    noise = sigma(1 - asked.epsilon, cohort)
    count = math.ceil(2 * noise)  # in 10,000 people enough; of 6,000 as good as 10,000/6,000 times as many
    few = math.ceil(0.7 * 2 * noise)
    assert few < 2 * noise < few / 0.6
    for survivors, wanted in ((10_000, 0), (6_000, 16)):
        (whole,) = sums_of(asked, np.full(4, few))
        answered = survey.answered([dataclasses.replace(whole, survivors=tuple(range(survivors)))])
        assert (partition_of(answered.ask()).levels == 2).sum() == wanted
    assert count > few


@pytest.mark.parametrize("flagged", [False, True])
def test_no_more_is_asked_than_a_device_sends(flagged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fullest regions are split first; the survey goes on to its end."""
    monkeypatch.setattr(quadtree_module, "LONGEST", 100)
    counts = Simulation(1).uniforms(1024)

    def crowd(asked: Question) -> np.ndarray:
        return 500 + 1000 * counts[: asked.length]

    survey = run(Survey(quadtree(FINE, flagged=flagged), EXACT), crowd)
    lengths = [one.question.length for one in survey.rounds]
    assert 90 < max(lengths) <= 100
    assert sum(epsilons(survey.rounds)) == 1
    first = next(k for k, length in enumerate(lengths) if length > 90)
    before, after = (partition_of(one.question) for one in survey.rounds[first - 1 : first + 1])
    alive = set(zip(after.levels[after.regions].tolist(), after.codes[after.regions].tolist(), strict=True))
    nodes = zip(before.levels[before.regions].tolist(), before.codes[before.regions].tolist(), strict=True)
    whole = np.array([node in alive for node in nodes])
    found = survey.rounds[first - 1].counts()
    assert found[~whole].min() >= found[whole].max()


def test_a_round_without_more_regions_is_the_last() -> None:
    """Merging alone would go on for many rounds, each with a little of the budget."""
    survey = run(Survey(quadtree(FINE, start=Partition.whole_level(FINE, 3)), EXACT), lambda q: -np.ones(q.length))
    assert [one.question.length for one in survey.rounds] == [64, 16]
    last = partition_of(survey.rounds[-1].question)
    assert (last.levels.tolist(), last.codes.tolist()) == ([0, 1, 1, 1, 1, *[2] * 16], [0, *range(4), *range(16)])
    assert sum(epsilons(survey.rounds)) == 1


def test_a_single_cell_is_asked_about_as_it_is() -> None:
    survey = run(Survey(quadtree(Grid.plane(x=(0, 1), y=(0, 1), size=1)), EXACT), lambda q: np.full(q.length, 9000.0))
    assert [one.question.length for one in survey.rounds] == [1, 1]
    assert survey.estimate(draws=0).density.values.tolist() == [[1.0]]


def test_the_regions_that_come_back_are_those_that_were_asked() -> None:
    """Errata E3-7: the printed algorithm returns the tree after the last split, which nobody was asked about."""
    survey = run(Survey(quadtree(FINE), EXACT), spread)
    for found in survey.rounds:
        assert len(found.totals) == found.question.length == len(partition_of(found.question))
        assert found.counts().tolist() == spread(found.question).tolist()
    assert survey.ask() is None
    last = survey.rounds[-1]
    assert partition_of(last.question).sums(last.density()) == pytest.approx(np.full(1024, 1 / 1024))


# ── an earlier map ──────────────────────────────────────────────────────────────────────────────────────────────────


CITY = Grid.plane(x=(0, 1), y=(0, 1), size=256)
TOWNS = np.full((256, 256), 0.05)
TOWNS[64:80, 160:176] = TOWNS[192:194, 32:34] = TOWNS[132:134, 132:134] = 60
"""Three towns in a wide country: one of 256 cells, and two of four cells."""

BLOCKS = TOWNS.reshape(8, 32, 8, 32)
MAPS = {
    "right": TOWNS,
    "wrong": TOWNS.T[::-1],
    # All sums of the first round are right, and within each of its squares everything is elsewhere.
    "mirrored": BLOCKS[:, ::-1, :, ::-1].reshape(256, 256),
}


def surveyed(name: str | None, seed: int = 1) -> Survey:
    """A survey of the towns, which starts from no map or from one of the maps."""
    people = Population.from_raster(CITY, TOWNS, 10_000, Simulation(seed))
    mechanism = AdaptiveQuadtree(CITY, 1)
    if name is not None:
        mechanism = mechanism.starting_from(Density.from_mass(CITY, MAPS[name]))
    return simulate(Survey(mechanism, EXACT), people, randomness=Simulation(seed + 1))


def nodes_of(one: Round) -> set[tuple[int, int]]:
    partition = partition_of(one.question)
    return set(zip(partition.levels.tolist(), partition.codes.tolist(), strict=True))


def test_a_right_map_finds_the_towns_at_once() -> None:
    plain, helped = surveyed(None), surveyed("right")
    town = (8, int(interleave(np.array([133]), np.array([133]))[0]))
    assert partition_of(plain.rounds[0].question) == partition_of(helped.rounds[0].question)
    assert town in nodes_of(helped.rounds[1])
    assert town not in nodes_of(plain.rounds[1])
    assert re.fullmatch("[0-9a-f]{64}", helped.estimate(draws=0).provenance.parameters["earlier"])


def test_a_wrong_map_changes_nothing() -> None:
    plain, misled = surveyed(None), surveyed("wrong")
    assert [one.totals.tolist() for one in misled.rounds] == [one.totals.tolist() for one in plain.rounds]


def test_no_map_makes_a_region_larger() -> None:
    """A map that is wrong where the first round cannot see it is believed; it may add regions, and removes none."""
    plain, misled = surveyed(None), surveyed("mirrored")
    assert nodes_of(misled.rounds[1]) > nodes_of(plain.rounds[1])


def test_no_map_makes_the_published_map_worse() -> None:
    """Two standard errors of the two runs are about a tenth; a wrong map changes nothing at all (see above)."""
    truth = TOWNS / TOWNS.sum()
    plain, right, mirrored = (
        np.mean([mse(truth, surveyed(name, seed).estimate(draws=0).density.dense().values) for seed in (10, 20)])
        for name in (None, "right", "mirrored")
    )
    assert right < 1.1 * plain
    assert mirrored < 1.1 * plain


def test_an_earlier_map_without_people_here_is_no_reason_to_split() -> None:
    """All people are where the earlier map has nobody, and the counts are negative elsewhere."""
    half = np.zeros((32, 32))
    half[:16] = 1
    survey = Survey(quadtree(FINE).starting_from(Density.from_mass(FINE, half)), EXACT)
    answered = survey.answered(sums_of(survey.ask(), np.array([-3, -3, 1, 1])))
    plain = Survey(quadtree(FINE), EXACT, name=survey.name)
    expected = plain.answered(sums_of(plain.ask(), np.array([-3, -3, 1, 1])))
    assert partition_of(answered.ask()) == partition_of(expected.ask())


# ── many levels at once ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("cohort", "regions", "epsilon"),
    [(EXACT, 64, 0.0452), (Cohort(100_000, 10, 0, 0), 256, 0.0572), (Cohort(100_000, 1, 0, 0), 1024, 0.0724)],
)
def test_the_first_round_is_as_fine_as_an_eighth_of_the_budget_allows(
    cohort: Cohort, regions: int, epsilon: float
) -> None:
    asked = AdaptiveQuadtree(CITY, 1).ask(cohort, ())
    assert asked.parts[0].encoding.length == regions
    assert float(asked.parts[0].epsilon) == pytest.approx(epsilon, abs=1e-4)
    finer = AdaptiveQuadtree(CITY, 1, start=Partition.whole_level(CITY, round(math.log(regions, 4)) + 1))
    assert finer.ask(cohort, ()).parts[0].epsilon > Fraction(1, 8)


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_the_first_round_has_at_most_one_region_for_each_person() -> None:
    assert AdaptiveQuadtree(CITY, 1000).ask(Cohort(300), ()).parts[0].encoding.length == 256
    assert AdaptiveQuadtree(CITY, 1, first_share=0).ask(EXACT, ()).parts[0].encoding.length == 4


def test_a_crowded_region_is_split_several_times_at_once() -> None:
    """Above upper · 4^k people a region is split k + 1 times, up to the limit."""
    survey = Survey(quadtree(FINE, levels_at_once=3, mass=10_000), EXACT)
    first = survey.ask()
    upper = 2 * sigma(1 - first.epsilon, EXACT, 10_000)
    answered = survey.answered(sums_of(first, upper * np.array([0.99, 3.99, 4.01, 500])))
    found = partition_of(answered.ask())
    assert np.bincount(found.levels[found.regions], minlength=6).tolist() == [0, 1, 4, 16, 64, 0]


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, "1"])
def test_the_share_of_the_first_round_is_a_share(share: Any) -> None:
    with pytest.raises(InvalidInput, match="first_share is"):
        AdaptiveQuadtree(CITY, 1, first_share=share)


def test_a_map_on_another_grid_is_refused() -> None:
    with pytest.raises(InvalidInput, match="lies on another grid"):
        quadtree(FINE).starting_from(Density.uniform(Grid.plane(x=(0, 32), y=(0, 33), size=32)))
    with pytest.raises(InvalidInput, match="lie on another grid"):
        quadtree(FINE, start=Partition.whole_level(GRID, 1))


# ── other people in every round, and flags ──────────────────────────────────────────────────────────────────────────


def test_disjoint_rounds_cost_the_dearest_of_them() -> None:
    """Errata E3-10: nobody is asked twice, so a person pays for one round."""
    survey = run(Survey(quadtree(FINE, disjoint=True), EXACT), spread)
    assert epsilons(survey.rounds) == [1] * len(survey.rounds)
    assert len(survey.rounds) > 2
    assert survey.guarantee.loss.epsilon == 1
    joint = dataclasses.replace(survey, mechanism=dataclasses.replace(survey.mechanism, disjoint=False))
    assert joint.guarantee.loss.epsilon == len(survey.rounds)


def test_a_count_with_a_flag_has_the_noise_of_two_numbers() -> None:
    """Counts are sums of two noisy numbers: limits and schedule know it."""
    plain, flagged = (Survey(quadtree(FINE, flagged=flag), EXACT) for flag in (False, True))
    noise = [
        survey.answered(sums_of(survey.ask(), spread(survey.ask()))).rounds[0].deviation()
        for survey in (plain, flagged)
    ]
    assert noise[0] == pytest.approx(250, rel=1e-3)
    assert math.sqrt(2) * noise[1] == pytest.approx(250, rel=1e-3)
    asked = flagged.ask()
    limit = 2 * math.sqrt(2) * sigma(1 - asked.epsilon, EXACT)
    assert 3 < limit < 4
    for count, children in ((3.0, 0), (4.0, 16)):
        answered = flagged.answered(sums_of(asked, np.tile([count, 0.0], 4)))
        assert (partition_of(answered.ask()).levels == 2).sum() == children


def test_splitting_on_the_width_of_the_interval_stops_in_time() -> None:
    """Every region of the last round holds enough people for the wanted width, and it is reached."""
    wanted = 0.2
    mechanism = quadtree(FINE, flagged=True, interval=wanted)
    survey = run(Survey(mechanism, EXACT), spread)
    last = survey.rounds[-1]
    assert 16 <= last.question.length // 2 < 1024
    values = last.values()
    low, high = interval(values[:, 1], values.sum(axis=1), last.deviation() ** 2, 0.9)
    assert (high - low).max() <= wanted * 1.05
    # One split further it would not have been: with a quarter of the people the interval is too wide.
    quarter = values / 4
    low, high = interval(quarter[:, 1], quarter.sum(axis=1), last.deviation() ** 2, 0.9)
    assert (high - low).min() > wanted


@pytest.mark.parametrize("width", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("noise", [0.0, 5.0, 300.0])
def test_people_needed_make_the_interval_as_narrow(width: float, noise: float) -> None:
    people = people_needed(width, noise)
    z = 1.6448536269514722
    assert 2 * z * math.sqrt(people / 4 + noise**2 / 2) / people == pytest.approx(width)
    assert people_needed(width, noise + 1) > people


# ── parameters ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"epsilon": 0}, "epsilon is 0"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
        ({"mass": 0}, "mass is 0"),
        ({"mass": 2**31}, "mass is"),
        ({"mass": True}, "mass is True"),
        ({"split_above": 0}, "split_above is 0"),
        ({"early_noise": -1.0}, "early_noise is -1"),
        ({"reserve": math.nan}, "reserve is nan"),
        ({"reserve": math.inf}, "reserve is inf"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"max_rounds": 2.5}, r"max_rounds is 2\.5"),
        ({"interval": 0.1}, "together with flagged=True"),
        ({"interval": 1.5, "flagged": True}, r"interval is 1\.5"),
    ],
)
def test_bad_parameters_are_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        quadtree(**{"epsilon": 1, **changed})


def test_parameters_are_plain_values() -> None:
    mechanism = quadtree(FINE, "1/3", start=Partition.whole_level(FINE, 2), flagged=True, interval=0.1)
    found = json.loads(json.dumps(mechanism.parameters()))
    assert found["epsilon"] == "1/3"
    assert found["start"] == Partition.whole_level(FINE, 2).to_dict()
    names = {field.name for field in dataclasses.fields(AdaptiveQuadtree)}
    assert set(found) == names - {"grid"}


def test_arguments_of_another_kind_are_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="The earlier map is a str; expected Density or TreeDensity or Release"):
        quadtree(FINE).starting_from("map.npz")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="The cohort is an int; expected Cohort"):
        Survey(quadtree(FINE), 1000)  # type: ignore[arg-type]
