"""JourneyTrees: facts by neighbours and by hand, the cost of the measurements, and no use of the truth's support."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.domain.quadtree import deinterleave, interleave
from heathaze.errors import BudgetExceeded, InvalidInput, PromiseBroken, SimulatedRelease
from heathaze.ingest.journeys import Journeys
from heathaze.privacy.accountant import compose
from heathaze.privacy.guarantee import Unit
from heathaze.trajectories.facts import MASS, count_facts
from heathaze.trajectories.frame import Frame, pair_codes, split_pairs
from heathaze.trajectories.journey_trees import SHARES, JourneyTrees

PLANE = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
FRAME = Frame(PLANE, 3, 2)


def people(*each: list, unit: Unit = Unit.PERSON) -> Journeys:
    """Journeys of some people, each a list of journeys, each a list of points."""
    owner = np.repeat(np.arange(len(each)), [len(journeys) for journeys in each])
    lines = Lines.from_points([journey for journeys in each for journey in journeys])
    return Journeys(PLANE, lines, owner if unit is Unit.PERSON else np.arange(len(lines)), unit)


THERE = [(0.5, 0.5), (7.5, 0.5)]
ROUND = [(1.5, 1.5), (6.5, 6.5), (1.5, 1.4)]
CROWD = [[THERE], [THERE, ROUND], [[(4.2, 4.2)]]]
NEWCOMERS = {
    "one journey": [THERE],
    "a commute of 100 journeys": [THERE] * 100,
    "one point": [[(7.9, 7.9)]],
    "a journey longer than any other": [[(0.1, 0.1), (7.9, 7.9)] * 50],
    "journeys of all kinds": [THERE, ROUND, [(3.3, 3.3)], [(0.1, 7.9), (7.9, 0.1)] * 9],
    "seven journeys, which do not divide 2^20": [ROUND] * 7,
}


@pytest.mark.parametrize("name", NEWCOMERS)
@pytest.mark.parametrize("crowd", [[], CROWD], ids=["alone", "in a crowd"])
def test_one_person_adds_at_most_the_mass_to_each_table(name: str, crowd: list) -> None:
    after = count_facts(people(*crowd, NEWCOMERS[name]), FRAME)
    assert after.units == len(crowd) + 1
    before = count_facts(people(*crowd), FRAME) if crowd else None
    for table in ("visits", "pairs", "shapes"):
        now = getattr(after, table).dense()
        then = getattr(before, table).dense() if before is not None else np.zeros_like(now)
        changed = np.abs(now - then).sum()
        assert MASS * 0.99 < changed <= MASS, table


def test_a_trip_is_a_unit_only_by_choice() -> None:
    """A hundred journeys of one person weigh as much as one; as trips, each of them weighs as much."""
    heavy = [[THERE] * 100, [ROUND]]
    assert count_facts(people(*heavy), FRAME).pairs.mass.max() <= MASS
    as_trips = count_facts(people(*heavy, unit=Unit.TRIP), FRAME)
    assert as_trips.units == 101
    assert as_trips.pairs.mass.max() == 100 * MASS


def test_facts_by_hand() -> None:
    facts = count_facts(people([THERE, ROUND]), FRAME)
    assert facts.visits.dense()[0].tolist()[2:] == [MASS // 2 // 8] * 6  # eight squares, half of the mass
    row, col = deinterleave(split_pairs(np.full(2, 4), facts.pairs.codes)[3])
    assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == [(0, 0), (0, 3)]
    assert facts.shapes.mass.tolist() == [MASS // 2] * 2
    # The round trip of 14.2 units ends 0.1 from its start, in the last class of straightness; the other is straight.
    assert deinterleave(facts.shapes.codes)[1].tolist() == [0, 6]
    assert repr(facts) == "<Facts: secret>"


def test_borders_of_lengths_are_public() -> None:
    borders = FRAME.length_borders
    assert len(borders) == 22
    assert borders[-1] == pytest.approx(3 * math.hypot(8, 8))
    assert np.allclose(borders[1:] / borders[:-1], 1.35)


def test_codes_of_pairs_divide_start_and_end_in_turn() -> None:
    start, end = interleave([5, 0], [2, 7]), interleave([7, 1], [0, 3])
    codes = pair_codes(start, end)
    level, first, last_level, last = split_pairs(np.full(2, 6), codes)
    assert (level == 3).all()
    assert (last_level == 3).all()
    assert (first == start).all()
    assert (last == end).all()
    # The parent of a pair has the same start on the next coarser level, or the same end.
    level, first, last_level, last = split_pairs(np.full(2, 5), codes >> 2)
    assert (level == 3).all()
    assert (last_level == 2).all()
    assert (first == start).all()
    assert (last == end >> 2).all()


@pytest.mark.parametrize("hours", [False, True])
def test_the_measurements_cost_epsilon_together(hours: bool) -> None:
    assert sum(SHARES[hours]) == 1
    for epsilon in ("1", "0.1", "7/3"):
        mechanism = JourneyTrees(PLANE, epsilon, squares=8, hours=hours)
        event = mechanism.event()
        assert len(event.events) == 4 + hours
        cost = compose([event]).epsilon
        assert Fraction(999, 1000) * mechanism.epsilon < cost <= mechanism.epsilon


def without_noise() -> JourneyTrees:
    """The mechanism with an infinite epsilon, which no caller can make."""
    mechanism = JourneyTrees(PLANE, 1, squares=8)
    object.__setattr__(mechanism, "epsilon", math.inf)
    return mechanism


def test_the_model_promises_nothing_without_noise() -> None:
    with pytest.raises(PromiseBroken, match="promises nothing"):
        hz.trajectories.publish(without_noise(), people(*CROWD))


@pytest.fixture(scope="module")
def crowd() -> Journeys:
    rng = np.random.default_rng(5)
    ends = rng.normal([[1.5, 1.5], [6.5, 5.5]], 0.3, (300, 2, 2))
    return people(*([np.clip(journey, 0, 7.99)] for journey in ends))


def test_a_model_never_knows_where_nobody_was(crowd: Journeys) -> None:
    """Leaves cover all pairs, and every square, pair and shape has some mass: the support of the truth is not used."""
    model = JourneyTrees(PLANE, 1, squares=8).run(crowd, hz.Simulation(1))
    sizes = Fraction(0)
    for level in model.pair_levels.tolist():
        sizes += Fraction(1, 4**level)
    assert sizes == 1
    assert (model.pair_mass > 0).all()
    assert (model.visits > 0).all()
    assert (model.shapes > 0).all()
    assert abs(model.count - 300) < 50 * 40


def test_made_up_journeys_resemble_the_true_ones(crowd: Journeys) -> None:
    made = hz.trajectories.publish(JourneyTrees(PLANE, 8, squares=8), crowd, number=1000, randomness=hz.Simulation(3))
    assert len(made.lines) == 1000
    assert hz.metrics.density_divergence(crowd.lines, made.lines, PLANE) < 0.08
    assert hz.metrics.trip_divergence(crowd.lines, made.lines, PLANE.resized((2, 2))) < 0.03
    assert hz.metrics.length_divergence(crowd.lines, made.lines, PLANE) < 0.1
    assert (made.lines.x >= 0).all()
    assert (made.lines.x <= 8).all()
    assert not set(made.lines.x.tolist()) & set(crowd.lines.x.tolist())
    with pytest.raises(SimulatedRelease):
        made.save("nowhere.parquet")
    again = hz.trajectories.publish(JourneyTrees(PLANE, 8, squares=8), crowd, number=1000, randomness=hz.Simulation(3))
    assert (again.lines.x == made.lines.x).all()


def test_everything_is_paid_once_before_it_is_measured(crowd: Journeys, tmp_path) -> None:
    ledger = hz.Ledger.open(tmp_path / "rides.ledger", total=1)
    mechanism = JourneyTrees(PLANE, "0.6", squares=8)
    made = hz.trajectories.publish(mechanism, crowd, ledger=ledger, label="rides")
    assert ledger.spent == Fraction(6, 10)
    assert "one person, with all of their" in str(made.guarantee)
    with pytest.raises(BudgetExceeded):
        hz.trajectories.publish(mechanism, crowd, ledger=ledger)
    assert ledger.spent == Fraction(6, 10)


def test_the_unit_is_said_in_the_guarantee() -> None:
    made = hz.trajectories.publish(JourneyTrees(PLANE, 1, squares=8), people(*CROWD, unit=Unit.TRIP), number=3)
    assert "unit: trip" in str(made.guarantee)
    assert "a person's journeys add up" in str(made.guarantee)


@pytest.mark.parametrize("options", [{"squares": 12}, {"squares": 128}, {"epsilon": 0}, {"epsilon": math.inf}])
def test_what_cannot_be_used_is_refused(options: dict) -> None:
    with pytest.raises(InvalidInput):
        JourneyTrees(PLANE, **{"epsilon": 1, **options})


def test_other_grids_and_other_things_are_refused_before_a_charge(crowd: Journeys) -> None:
    other = JourneyTrees(PLANE.resized((4, 4)), 1)
    with pytest.raises(InvalidInput, match="different grids"):
        hz.trajectories.publish(other, crowd)
    with pytest.raises(InvalidInput, match="takes a mechanism"):
        hz.trajectories.publish(crowd, other)
    with pytest.raises(InvalidInput, match="number"):
        hz.trajectories.publish(JourneyTrees(PLANE, 1, squares=8), crowd, number=0)


def test_few_and_strange_journeys_can_be_made_up() -> None:
    """Also from one point of one person, at a small epsilon, where all numbers are noise."""
    alone = people([[(7.9, 7.9)]])
    for seed in range(3):
        made = hz.trajectories.publish(
            JourneyTrees(PLANE, "0.05", squares=8), alone, number=20, randomness=hz.Simulation(seed)
        )
        assert len(made.lines) == 20
        assert all(first < last for first, last in pairwise(made.lines.offsets.tolist()))


def test_paths_begin_in_the_squares_in_use_only_and_are_cheapest() -> None:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import dijkstra

    from heathaze.trajectories._paths import follow
    from heathaze.trajectories.synthesis import _Paths

    squares = hz.Grid.plane(x=(0, 6), y=(0, 10), shape=(5, 6))
    height, width = squares.cell_size
    rng = np.random.default_rng(1)
    price, tilt = rng.uniform(0.5, 2, 30), np.exp(rng.uniform(-0.4, 0.4, (3, 30)))
    paths = _Paths(squares, price, tilt)
    roots = np.array([4, 17, 4])
    paths.begin_at(roots)
    paths.begin_at(np.array([17]))
    assert np.flatnonzero(paths._known).tolist() == [4, 17]
    row, col = np.divmod(np.arange(30), 6)
    near = (np.abs(row[:, None] - row) <= 1) & (np.abs(col[:, None] - col) <= 1) & ~np.eye(30, dtype=bool)
    one, other = np.nonzero(near)
    metres = np.hypot((row[one] - row[other]) * height, (col[one] - col[other]) * width)
    for root in (4, 17):
        here = price * tilt[root % 3]
        cost = dijkstra(coo_matrix((metres * (here[one] + here[other]) / 2, (one, other))).tocsr(), indices=root)
        for last in range(30):
            path, _ = follow(np.array([root]), np.array([last]), np.full((1, 1), -1), paths.step, 6)
            steps = np.hypot(np.diff(row[path]) * height, np.diff(col[path]) * width)
            assert (path[0], path[-1]) == (root, last)
            assert (steps * (here[path[1:]] + here[path[:-1]]) / 2).sum() == pytest.approx(cost[last])
            assert paths.metres[root, last] == pytest.approx(steps.sum())
