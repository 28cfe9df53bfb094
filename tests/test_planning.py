"""Plans: what to expect, from public facts alone."""

from __future__ import annotations

import dataclasses
import inspect
import json

import numpy as np
import pytest

import heathaze as hz
from heathaze.datasets.city import draw_people, synthetic_city
from heathaze.errors import InvalidInput
from heathaze.planning import Plan, PlanRow, _simulated, _wrong_by_level, plan

GRID = hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=64)
ROW = PlanRow(20_000, 1.0, 0.012, 0.009, 0.016, 0.87, 0.83, 0.9, level=6, side=312.0, finest=False, geographic=True)


@pytest.fixture(scope="module")
def small() -> Plan:
    return plan(GRID, epsilon=1, people=500)


def test_the_rows_surround_the_epsilon_asked_for(small: Plan) -> None:
    assert [row.epsilon for row in small.rows] == [0.25, 0.5, 1, 2, 4]
    assert small.row is small.rows[2]
    assert (small.people, small.cities) == (500, 5)
    for row in small.rows:
        assert 0 < row.emd_low <= row.emd <= row.emd_high < 0.3
        assert 0 < row.sim_low <= row.sim <= row.sim_high < 1


def test_a_larger_epsilon_gives_a_better_map(small: Plan) -> None:
    emds, sims = [row.emd for row in small.rows], [row.sim for row in small.rows]
    assert emds == sorted(emds, reverse=True)
    assert sims == sorted(sims)
    assert emds[0] > 2 * emds[-1]
    assert small.rows[0].level < small.rows[-1].level


def test_more_people_give_a_better_map(small: Plan) -> None:
    fewer, more = (plan(GRID, 1, people, times=()).row for people in (50, 5000))
    assert fewer.emd > 1.5 * small.row.emd > 1.5 * 1.5 * more.emd
    assert fewer.sim < small.row.sim < more.sim
    assert fewer.side > more.side


def test_a_plan_can_be_repeated_and_knows_no_data(small: Plan) -> None:
    assert plan(GRID, epsilon=1, people=500) == small
    assert list(inspect.signature(plan).parameters) == ["grid", "epsilon", "people", "cities", "times", "progress"]


def test_one_row_of_a_plan_is_the_same_alone(small: Plan) -> None:
    alone = plan(GRID, 1, 500, times=())
    assert alone.rows == (small.row,)
    assert alone.words == ""


def test_it_is_the_default_mechanism_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that says nothing but "everywhere the same" makes for another plan."""
    honest = plan(GRID, 8, 3000, cities=1, times=()).row
    monkeypatch.setattr(hz.central, "default", lambda grid, _: hz.central.Dense(grid, 1e-6, people=1))
    blind = plan(GRID, 8, 3000, cities=1, times=()).row
    assert blind.emd > 10 * honest.emd
    assert blind.level < honest.level


def test_a_finer_grid_is_simulated_in_the_same_quadtree() -> None:
    fine = hz.Grid.plane(x=(0, 1000), y=(0, 700), shape=(701, 1000))
    assert _simulated(fine).shape == (176, 250)
    assert _simulated(GRID) is GRID
    assert _simulated(fine.resized((2**20, 1))).shape == (256, 1)
    coarse, finer = (
        plan(hz.Grid.plane(x=(0, 1024), y=(0, 1024), size=size), 1, 200, cities=1, times=()).row
        for size in (256, 2**20)
    )
    assert coarse == finer


def test_the_signal_of_a_level() -> None:
    """A quarter of the mass one cell too far east: seen on the finest level, and above where it crosses a border."""
    difference = np.zeros((4, 4))
    difference[0, 2:4] = 0.25, -0.25
    assert _wrong_by_level(GRID.resized((4, 4)), difference).tolist() == [0, 0, 0.25]
    difference = np.zeros((3, 4))
    difference[2, 1:3] = 0.25, -0.25
    assert _wrong_by_level(GRID.resized((3, 4)), difference).tolist() == [0, 0.25, 0.25]


def test_the_side_of_a_square_is_in_metres_or_in_the_units_of_the_plane(small: Plan) -> None:
    assert small.row.side == max(GRID.cell_size) * 2 ** (6 - small.row.level)
    row = plan(hz.Grid.plane(x=(0, 320), y=(0, 200), shape=(20, 32)), 1, 300, cities=1, times=()).row
    assert row.side == 10 * 2 ** (5 - row.level)
    assert f"squares of about {row.side:g}." in str(row)


def test_the_sentence() -> None:
    assert str(ROW) == (
        "For about 20,000 people at ε = 1 expect: EMD 0.012 of the side (0.009 to 0.016), SIM 0.87 (0.83 to 0.90), "
        "signal down to squares of about 310 m."
    )
    assert "20,000 visits" in ROW.sentence("visits")
    assert "310 m or smaller" in str(dataclasses.replace(ROW, finest=True))
    assert "for the map as a whole only." in str(dataclasses.replace(ROW, level=0))
    assert "12 km" in str(dataclasses.replace(ROW, side=12_345.0))


def test_what_half_the_epsilon_costs() -> None:
    rows = tuple(dataclasses.replace(ROW, epsilon=e, emd=emd) for e, emd in ((0.5, 0.016), (1.0, 0.012), (2.0, 0.004)))
    words = Plan(GRID, 1.0, 20_000, 5, rows).words
    assert words == ("From ε = 0.5 to 2, each doubling of ε divides the error (EMD) by about 2.0.")
    flat = tuple(dataclasses.replace(row, emd=0.01) for row in rows)
    assert Plan(GRID, 1.0, 20_000, 5, flat).words == "Around ε = 1 the error hardly depends on ε."


def test_a_plan_for_machines(small: Plan) -> None:
    fields = json.loads(json.dumps(small.to_dict()))
    assert fields["rows"][2] == fields["row"] == small.row.to_dict()
    assert fields["sentence"] == str(small.row)


def test_progress_names_every_city() -> None:
    seen: list[tuple[int, int]] = []
    plan(GRID.resized((8, 8)), 1, 10, cities=3, times=(), progress=lambda city, of: seen.append((city, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
@pytest.mark.parametrize(("epsilon", "expected"), [(1000, 3), (1e-6, 3), (100, 5)])
def test_epsilons_that_no_mechanism_takes_are_left_out(epsilon: float, expected: int) -> None:
    assert len(plan(GRID.resized((4, 4)), epsilon, 5, cities=1).rows) == expected


@pytest.mark.parametrize(("shape", "people"), [((1, 1), 1), ((1, 7), 3), ((5, 2), 10**9)])
def test_the_ends_of_what_is_allowed(shape: tuple[int, int], people: int) -> None:
    row = plan(GRID.resized(shape), 1, people, cities=5, times=()).row
    assert 0 <= row.emd <= 1
    assert 0 <= row.sim <= 1.000001


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"people": 0}, "people is 0; give a whole number from 1 to 1,000,000,000"),
        ({"people": 10**9 + 1}, "people is 1000000001"),
        ({"people": 2.5}, "people is 2.5"),
        ({"people": True}, "people is True"),
        ({"people": None}, "people is None"),
        ({"cities": 0}, "cities is 0; give a whole number from 1 to 100"),
        ({"cities": 101}, "cities is 101"),
        ({"epsilon": 0}, "epsilon is 0"),
        ({"epsilon": float("nan")}, "not a number"),
        ({"grid": "New York"}, "plan takes a Grid first, not a str"),
        ({"times": (0,)}, "times"),
        ({"times": ("much",)}, "times"),
    ],
)
def test_bad_input_gets_a_sentence(words: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        plan(**({"grid": GRID, "epsilon": 1, "people": 100} | words))  # type: ignore[arg-type]


def test_cities_differ_and_people_follow_them() -> None:
    made = [synthetic_city((32, 48), number) for number in range(10)]
    for k, one in enumerate(made):
        assert one.sum() == pytest.approx(1)
        assert one.min() > 0
        assert max((hz.metrics.similarity(one, other) for other in made[:k]), default=0) < 0.9
    drawn = draw_people(made[1], people=10**6, visits=4, number=1)
    assert drawn.sum() == 4 * 10**6
    # 1536 cells: the TV of 4 million draws is about ½ √(2 · 1536 / (π · 4·10^6)) ≈ 0.008.
    assert hz.metrics.total_variation(made[1], drawn) < 0.02
    with pytest.raises(InvalidInput, match="no city"):
        synthetic_city((0, 3), 0)
