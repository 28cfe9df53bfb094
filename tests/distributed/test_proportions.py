"""Shares and their intervals: they hold what they promise, and say so where nothing is known."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.distributed import Cohort, Population, Round, Survey, proportions, simulate
from heathaze.distributed.encodings import Regions
from heathaze.distributed.proportions import Proportions, combined, interval
from heathaze.distributed.question import Part
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Simulation
from tests.distributed.parties import COHORT, GRID, quadtree, question, run, spread

QUARTERS = Partition.whole_level(GRID, 1)


# ── the interval ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("flagged", "people"), [(0, 10), (3, 20), (50, 100), (99, 100), (10, 10)])
def test_without_noise_it_is_wilson_s(flagged: int, people: int) -> None:
    z = 1.959963984540054
    share = flagged / people
    middle = (share + z**2 / (2 * people)) / (1 + z**2 / people)
    half = z / (1 + z**2 / people) * math.sqrt(share * (1 - share) / people + z**2 / (4 * people**2))
    low, high = interval(np.array([float(flagged)]), np.array([float(people)]), 0.0, 0.95)
    assert (low[0], high[0]) == pytest.approx((max(0, middle - half), min(1, middle + half)), abs=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.97])
@pytest.mark.parametrize(("people", "noise"), [(100, 0.0), (1000, 14.0), (300, 60.0)])
def test_the_interval_holds_the_share_as_often_as_it_says(share: float, people: int, noise: float) -> None:
    """10,000 regions each: people and their flags by chance, noise on both numbers. Beyond 5 deviations is 1e-6."""
    generator = np.random.default_rng(1)
    runs = 10_000
    flagged = generator.binomial(people, share, runs)
    a = flagged + generator.laplace(scale=noise / math.sqrt(2), size=runs)
    b = people - flagged + generator.laplace(scale=noise / math.sqrt(2), size=runs)
    low, high = interval(a, a + b, noise**2, 0.9)
    held = ((low <= share) & (share <= high)).mean()
    # Wilson's interval swings by a few hundredths around its level where hardly anybody has the flag.
    assert 0.85 <= held <= (0.96 if noise < people / 10 else 1.0)
    assert ((low >= 0) & (high <= 1) & (low <= high)).all()
    # Half the noise declared, and it would not.
    if noise > people / 20:
        low, high = interval(a, a + b, noise**2 / 16, 0.9)
        assert ((low <= share) & (share <= high)).mean() < held - 0.02


@pytest.mark.parametrize(
    ("flagged", "people", "variance"),
    [(0.0, 0.0, 100.0), (-5.0, -20.0, 100.0), (3.0, 5.0, 10_000.0), (0.0, 0.0, 0.0), (50.0, -1.0, 1.0)],
)
def test_where_nothing_is_known_it_is_everything(flagged: float, people: float, variance: float) -> None:
    low, high = interval(np.array([flagged]), np.array([people]), variance, 0.9)
    assert (low[0], high[0]) == (0, 1)


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.floats(0, 1e9),
    st.floats(0.01, 0.999),
)
def test_an_interval_is_always_within_zero_and_one(
    flagged: float, people: float, variance: float, level: float
) -> None:
    low, high = interval(np.array([flagged]), np.array([people]), variance, level)
    assert 0 <= low[0] <= high[0] <= 1


def test_surer_is_wider() -> None:
    ends = [interval(np.array([30.0]), np.array([100.0]), 25.0, level) for level in (0.5, 0.9, 0.99)]
    widths = [float(high[0] - low[0]) for low, high in ends]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


# ── rounds combined ─────────────────────────────────────────────────────────────────────────────────────────────────


def a_round(partition: Partition, epsilon: Any, values: list[list[int]], delivered: tuple[int, ...] = (20,)) -> Round:
    asked = question(epsilon=epsilon, parts=(Part(Regions(partition), epsilon),), flagged=True)
    return Round(asked, np.array(values).ravel(), delivered)


def test_rounds_about_the_same_regions_are_weighed_by_their_noise() -> None:
    first = a_round(QUARTERS, "1/2", [[8, 4], [6, 2], [9, 9], [1, 0]], (16,))
    second = a_round(QUARTERS, 2, [[10, 5], [5, 4], [8, 10], [0, 2]], (20,))
    values, variance = combined([first, second])
    ratio = 20 / 16
    for entry in range(4):
        for flag in range(2):
            one, two = first.values()[entry, flag] * ratio, second.values()[entry, flag]
            v1, v2 = (first.deviation() * ratio) ** 2, second.deviation() ** 2
            assert values[entry, flag] == pytest.approx((one / v1 + two / v2) / (1 / v1 + 1 / v2))
            assert variance[entry] == pytest.approx(1 / (1 / v1 + 1 / v2))
    assert variance.max() < second.deviation() ** 2


def test_only_the_very_same_region_is_weighed_in() -> None:
    """A quarter that has lost a corner to a finer region is another region than the whole quarter."""
    divided = Partition(GRID, np.array([0, 1, 1, 1, 1, 2]), np.array([0, 0, 1, 2, 3, 0]))
    first = a_round(QUARTERS, 1, [[5, 5]] * 4)
    second = a_round(divided, 1, [[1, 1]] * 5)
    values, variance = combined([first, second])
    alone = second.deviation() ** 2
    assert variance == pytest.approx([alone, alone / 2, alone / 2, alone / 2, alone])
    assert values[:, 0] == pytest.approx([1, 3, 3, 3, 1])
    # The corner in the other quarter: that one is no longer the same, the first one is.
    values, variance = combined(
        [first, a_round(Partition(GRID, divided.levels, np.array([0, 0, 1, 2, 3, 15])), 1, [[1, 1]] * 5)]
    )
    assert variance == pytest.approx([alone / 2, alone / 2, alone / 2, alone, alone])


def test_one_round_alone_is_left_as_it_is() -> None:
    only = a_round(QUARTERS, 1, [[8, 4], [6, 2], [9, 9], [1, 0]])
    values, variance = combined([only])
    assert values.tolist() == only.values().tolist()
    assert variance == pytest.approx(np.full(4, only.deviation() ** 2))


# ── a survey ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_shares_of_a_survey_lie_in_their_intervals() -> None:
    """West a fifth has the flag, east four fifths; the intervals of 30 surveys hold it nine times in ten."""
    source = Simulation(1)
    crowd = Population.from_raster(GRID, np.ones((8, 8)), 20_000, source)
    west = (crowd.codes & 0b010000) == 0
    crowd = crowd.flagged(source.uniforms(20_000) < np.where(west, 0.2, 0.8))
    survey = Survey(quadtree(flagged=True, interval=0.2), Cohort(5000))
    held, widths = [], []
    for seed in range(30):
        found = proportions(simulate(survey, crowd, randomness=Simulation(seed)))
        middles = found.partition.codes[found.partition.regions] >> 2 * (
            found.partition.levels[found.partition.regions] - 1
        )
        truth = np.where(middles % 2 == 0, 0.2, 0.8)
        held += ((found.low <= truth) & (truth <= found.high)).tolist()
        widths += found.width.tolist()
        assert ((found.low <= found.share) & (found.share <= found.high)).all()
    assert len(held) >= 30 * 4
    assert 0.82 <= np.mean(held) <= 0.98
    assert np.mean(widths) < 0.2


def test_shares_need_a_survey_that_asked_for_them() -> None:
    plain = run(Survey(quadtree(), COHORT), spread)
    with pytest.raises(InvalidInput, match="did not ask for a share"):
        proportions(plain)
    with pytest.raises(InvalidInput, match="No round was answered yet"):
        proportions(Survey(quadtree(flagged=True), COHORT))
    asked = run(Survey(quadtree(flagged=True), COHORT), spread)
    assert proportions(asked).confidence == 0.9
    assert proportions(asked).people.sum() == pytest.approx(asked.rounds[-1].counts().sum(), rel=0.1)
    for confidence in (0, 1, -0.5, math.nan):
        with pytest.raises(InvalidInput):
            proportions(asked, confidence)


def test_empty_regions_know_nothing() -> None:
    asked = run(Survey(quadtree(flagged=True), COHORT), lambda q: np.zeros(q.length))
    found = proportions(asked)
    assert found.low.tolist() == [0.0] * len(found.low)
    assert found.high.tolist() == [1.0] * len(found.high)
    assert dataclasses.is_dataclass(found)


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_next_to_no_noise_is_no_accident() -> None:
    survey = run(Survey(quadtree(epsilon=1000, flagged=True), Cohort(100, dropout=0, colluding=0)), spread)
    found = proportions(survey)
    assert np.isfinite(found.low).all()
    assert np.isfinite(found.high).all()
    assert (found.low <= found.high).all()


def test_a_table_has_a_row_for_each_region_and_says_where_it_is() -> None:
    """A corner cut out of the whole: the rest still spans everything, with fewer cells."""
    corner = Partition(GRID, np.array([0, 1]), np.array([0, 0]))
    half = Proportions(corner, *(np.array(pair) for pair in ((0.5, 0.2), (0.4, 0.1), (0.6, 0.3), (40.0, 10.0))), 0.9)
    table = half.to_table()
    assert {len(column) for column in table.values()} == {2}
    assert table["cells"] == [48, 16]
    assert (table["share"], table["people"]) == ([0.5, 0.2], [40.0, 10.0])
    (x, width), (y, height) = GRID.x, GRID.y
    assert (table["x_min"], table["x_max"]) == ([x, x], [width, (x + width) / 2])
    assert (table["y_min"], table["y_max"]) == ([y, y], [height, (y + height) / 2])  # of a plane row 0 has the least y


def test_on_the_globe_the_first_quarter_is_in_the_north() -> None:
    globe = Grid.over(lon=(0, 8), lat=(40, 48), size=8)
    north_west = Partition(globe, np.array([0, 1]), np.array([0, 0]))
    numbers = np.zeros(2)
    table = Proportions(north_west, numbers, numbers, numbers, numbers, 0.9).to_table()
    assert (table["y_min"][1], table["y_max"][1]) == (pytest.approx(44), pytest.approx(48))
