"""LdpTrace and PivotTrace: the loss of whole journeys by enumeration, padded messages, estimates, bad reports."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.accountant import compose
from heathaze.testing.statistics import chi_square
from heathaze.trajectories.cell_journeys import MOST_SQUARES, Visits, most_visits
from heathaze.trajectories.ldp_trace import LdpTrace, neighbour_moves
from heathaze.trajectories.pivot_trace import TOTAL, MovedCell, PivotTrace, sector

ALPHA = 1e-6
PLANE = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
SMALL = [
    LdpTrace(PLANE, "0.4", squares=2, longest=3),
    LdpTrace(PLANE, 2, squares=2, longest=3, moves=2),
    PivotTrace(PLANE, "0.4", squares=3, longest=5),
    PivotTrace(PLANE, 2, squares=3, longest=9, pivots=3, directions=4),
]
SMALL_IDS = ["LdpTrace", "LdpTrace, two moves", "PivotTrace", "PivotTrace, three pivots"]
MECHANISMS = [LdpTrace(PLANE, 1), PivotTrace(PLANE, 1)]
IDS = ["LdpTrace", "PivotTrace"]
STRANGE = {
    "one point": [(4.2, 4.2)],
    "a long way back and forth": [(0.1, 0.1), (7.9, 7.9)] * 100,
    "far outside": [(-1e9, 3.0), (1e9, 4.0)],
    "ten thousand equal points": [(1.0, 1.0)] * 10_000,
    "a short way": [(1.0, 1.0), (2.0, 1.0)],
}


STRAIGHT_ON_TWO = [(0,), (0, 1, 0, 2), (3, 1)]
STRAIGHT_ON_THREE = [(0,), (0, 1, 2, 5), (4, 1)]
"""Sequences of cells without diagonal moves, so that a line through their middles visits these cells alone."""


def every_journey(squares: int, longest: int) -> list[tuple[int, ...]]:
    """All journeys of one to ``longest`` visits over the cells of a square map, as sequences of cells."""
    beside = [{end for start, end in MOVES[squares] if start == cell} for cell in range(squares**2)]
    journeys = [(cell,) for cell in range(squares**2)]
    found = list(journeys)
    for _ in range(longest - 1):
        journeys = [(*journey, cell) for journey in journeys for cell in sorted(beside[journey[-1]])]
        found += journeys
    return found


MOVES = {n: neighbour_moves(PLANE.resized((n, n))).tolist() for n in (2, 3)}


def lines_of(journeys: list[tuple[int, ...]], squares: int) -> Lines:
    """Journeys through the middles of cells."""
    side = 8 / squares
    return Lines.from_points(
        [[((cell % squares + 0.5) * side, (cell // squares + 0.5) * side) for cell in each] for each in journeys]
    )


def laws(mechanism: LdpTrace | PivotTrace, journeys: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Pr[message | journey] of every message, a row for each journey: the rows are written here once more by hand.

    The messages of one journey are independent, so the probability of a report is the product of its messages'.
    """
    if isinstance(mechanism, LdpTrace):
        length, start, end, *moves = [part.transition_matrix() for part in mechanism.parts]
        numbered = {tuple(move): number for number, move in enumerate(MOVES[mechanism.squares])}
        sampled = []
        for journey in journeys:
            made = [numbered[move] for move in itertools.pairwise(journey)] or [len(numbered)]
            sampled.append([matrix[made].mean(axis=0) for matrix in moves])
        classes = [(min(len(journey), mechanism.longest) - 1).bit_length() for journey in journeys]
        return [
            length[classes],
            start[[journey[0] for journey in journeys]],
            end[[journey[-1] for journey in journeys]],
            *(np.array([each[place] for each in sampled]) for place in range(len(moves))),
        ]
    gaps, cols = mechanism.pivots - 1, mechanism.squares
    found = [
        mechanism.pivot.weights[[journey[(len(journey) - 1) * place // gaps] for journey in journeys]] / TOTAL
        for place in range(mechanism.pivots)
    ]
    turns = mechanism.direction.transition_matrix()
    for gap, side in itertools.product(range(gaps), range(2)):
        ends = np.array(
            [
                [journey[(len(journey) - 1) * at // (2 * gaps)] for at in (2 * (gap + side), 2 * gap + 1)]
                for journey in journeys
            ]
        )
        found.append(turns[sector(ends[:, 0], ends[:, 1], cols, mechanism.directions)])
    classes = [(min(len(journey), mechanism.longest) - 1).bit_length() for journey in journeys]
    return [*found, mechanism.length.transition_matrix()[classes]]


# ── the promise ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mechanism", SMALL, ids=SMALL_IDS)
def test_the_worst_loss_of_a_whole_journey_is_epsilon(mechanism: LdpTrace | PivotTrace) -> None:
    """Every pair of journeys of up to 3 or 4 visits and some longer ones, every report: at most ε, and close to it."""
    journeys = every_journey(mechanism.squares, 4 if mechanism.squares == 2 else 3)
    if mechanism.squares == 3:
        journeys += [(8, 5, 4, 1, 0), (0, 4, 8, 4, 0), (8, 5, 4, 1, 0, 1, 4, 5, 8)]  # between opposite corners
    worst = np.zeros((len(journeys), len(journeys)))
    for law in laws(mechanism, journeys):
        np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-9)
        logs = np.log(law)
        worst += np.array([(logs - row).max(axis=1) for row in logs])
    assert worst.max() <= float(mechanism.epsilon) * (1 + 1e-9)
    assert worst.max() >= float(mechanism.epsilon) * 0.9999


@pytest.mark.parametrize("mechanism", SMALL, ids=SMALL_IDS)
@pytest.mark.parametrize("which", range(3))
def test_messages_are_independent_and_follow_the_enumerated_laws(mechanism: LdpTrace | PivotTrace, which: int) -> None:
    """Every message follows its law, and every pair of neighbouring messages the product of their laws."""
    journey = (STRAIGHT_ON_TWO if mechanism.squares == 2 else STRAIGHT_ON_THREE)[which]
    count = 20_000
    reports = mechanism.draw(lines_of([journey] * count, mechanism.squares), hz.Simulation(len(journey)))
    outcomes, probabilities = [], [law[0] for law in laws(mechanism, [journey])]
    if isinstance(mechanism, LdpTrace):
        sizes = [(part.grid.cells, part.numbers) for part in mechanism.parts]
    else:
        plain = mechanism.pivots + 2 * (mechanism.pivots - 1)
        outcomes = [reports[:, place] for place in range(plain)]
        reports, sizes = reports[:, plain:], [(mechanism.length.grid.cells, mechanism.length.numbers)]
    for bits, width in sizes:
        unpacked = np.unpackbits(reports[:, :width].astype(np.uint8), axis=1)[:, :bits].astype(np.int64)
        reports = reports[:, width:]
        outcomes.append(unpacked @ (1 << np.arange(bits)[::-1]))
    for found, law in zip(outcomes, probabilities, strict=True):
        follows(np.bincount(found, minlength=len(law)), law)
    for (found, law), (other, second) in itertools.pairwise(zip(outcomes, probabilities, strict=True)):
        if len(law) * len(second) < 3000:
            joint = np.bincount(found * len(second) + other, minlength=len(law) * len(second))
            follows(joint, np.outer(law, second).ravel())


def follows(observed: np.ndarray, law: np.ndarray) -> None:
    order = np.argsort(-law)
    assert chi_square(observed[order], law[order] * observed.sum()) >= ALPHA
    wrong = np.roll(law[order], 1) if np.ptp(law) > 0.2 else None
    assert wrong is None or chi_square(observed[order], wrong * observed.sum()) < ALPHA  # the check can fail


@pytest.mark.parametrize(
    "mechanism", [*MECHANISMS, *SMALL, LdpTrace(PLANE, "1/3", moves=7), PivotTrace(PLANE, 5, pivots=9)]
)
def test_the_messages_cost_epsilon_together(mechanism: LdpTrace | PivotTrace) -> None:
    assert compose([mechanism.event]).epsilon == mechanism.epsilon
    assert sum((part.epsilon for part in mechanism.event.events), Fraction(0)) == mechanism.epsilon


@pytest.mark.parametrize("epsilon", ["0.0001", "0.1", "1", "7", "200"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 3), (10, 10)])
def test_a_moved_cell_costs_at_most_epsilon_in_whole_numbers(shape: tuple[int, int], epsilon: str) -> None:
    moved = MovedCell(shape, Fraction(epsilon))
    assert (moved.weights >= 1).all()
    assert (moved.weights.sum(axis=1) == TOTAL).all()
    loss = np.log(moved.weights.max(axis=0) / moved.weights.min(axis=0)).max()
    assert loss <= float(epsilon) * (1 + 1e-12)
    assert moved.weights.size == 1 or loss >= min(float(epsilon), 30) * 0.999
    middle = moved.weights[len(moved.weights) // 2]
    assert middle.argmax() == len(middle) // 2


def test_an_epsilon_that_whole_numbers_cannot_keep_is_refused() -> None:
    with pytest.raises(InvalidInput, match="larger epsilon"):
        MovedCell((32, 32), Fraction(1, 10**12))


# ── padding ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_the_size_of_a_report_does_not_depend_on_the_journey(mechanism: LdpTrace | PivotTrace) -> None:
    for points in STRANGE.values():
        report = mechanism.draw(Lines.from_points([points]), hz.Simulation(1))
        assert report.shape == (1, mechanism.numbers)
        assert 0 <= report.min() <= report.max() < mechanism.limit
        mechanism.estimate(report)


@pytest.mark.parametrize("squares", [3, 5, 6, 7, 10])
@pytest.mark.parametrize("kind", [LdpTrace, PivotTrace])
def test_journeys_along_and_beyond_the_borders_are_reported_like_others(kind: type, squares: int) -> None:
    """Outside, the nearest cell counts; a cell beyond the last one would be reported without noise, or not at all."""
    grid, side = hz.Grid.plane(x=(0, squares), y=(0, squares), size=squares), squares
    mechanism = kind(grid, 1, squares=squares, **({"pivots": 4} if kind is PivotTrace else {"moves": 4}))
    rows = [[(0, y), (side, y)] for y in (-0.5, 0, side, side + 0.5)]
    lines = Lines.from_points([*rows, *[[(y, x) for x, y in points] for points in rows]] * 20)
    reports = hz.trajectories.randomize(mechanism, lines, randomness=hz.Simulation(1))
    mechanism.check(mechanism.draw(lines, hz.Simulation(2)))
    assert len(reports) == len(lines)


def test_a_cell_that_does_not_exist_is_never_randomised() -> None:
    """No mechanism could hide it. The error does not name it, because it is secret."""
    moved, hashing = MovedCell((6, 6), Fraction(1)), hz.local.LocalHashing(PLANE, 1)
    encoding, disc = hz.local.UnaryEncoding(PLANE, 1), hz.local.DiskArea(PLANE, 1)
    for mechanism, cells in ((moved, 36), (hashing, 64), (encoding, 64), (disc, 64)):
        for wrong in (-1, cells, cells + 77):
            with pytest.raises(PromiseBroken, match="a cell that does not exist") as error:
                mechanism.draw(np.array([0, wrong]), hz.Simulation(1))
            assert not any(letter.isdigit() for letter in str(error.value))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_a_report_depends_on_its_own_journey_only(mechanism: LdpTrace | PivotTrace) -> None:
    """The facts of a journey are the same whoever else is there."""

    def facts(points: list) -> np.ndarray:
        lines = Lines.from_points(points)
        if isinstance(mechanism, PivotTrace):
            return np.array(mechanism.facts(lines))
        return mechanism.facts(lines, hz.Simulation(1)).T[:3]  # the moves are sampled

    together = facts(list(STRANGE.values()))
    for place, points in enumerate(STRANGE.values()):
        assert facts([points])[:, 0].tolist() == together[:, place].tolist()


def test_classes_of_length_are_public_and_cover_every_number_of_visits() -> None:
    for longest in range(1, 40):
        most = most_visits(longest)
        assert most[0] == 1
        assert most[-1] == longest
        assert (np.diff(most) > 0).all()
        assert (most[1:] <= 2 * most[:-1]).all()


def test_secrets_do_not_print() -> None:
    assert repr(Visits.of(Lines.from_points([[(1.0, 1.0)]]), PLANE)) == "<Visits: secret>"


# ── estimates ───────────────────────────────────────────────────────────────────────────────────────────────────────

CROWD = [(0, 1, 2)] * 3 + [(8, 5, 2, 1)] * 2 + [(4,)]


def assert_lengths(made: Lines, lengths: np.ndarray) -> None:
    """Classes are 1, 2, 3 to 4 and 5 visits, and both numbers of a class occur."""
    times = np.bincount(made.counts, minlength=6) / len(made)
    np.testing.assert_allclose([times[1], times[2], times[3] + times[4], times[5]], lengths, atol=0.05)
    assert min(times[3], times[4]) > 0.2


def test_ldp_trace_recovers_the_model_without_noise() -> None:
    mechanism = LdpTrace(PLANE, 400, squares=3, longest=5, moves=3)
    reports = mechanism.draw(lines_of(CROWD * 4000, 3), hz.Simulation(2))
    model = mechanism.estimate(reports)
    people = len(CROWD)
    np.testing.assert_allclose(model.lengths, np.array([1, 0, 5, 0]) / people, atol=0.03)
    np.testing.assert_allclose(model.starts, np.array([3, 0, 0, 0, 1, 0, 0, 0, 2]) / people, atol=0.03)
    np.testing.assert_allclose(model.ends, np.array([0, 2, 3, 0, 1, 0, 0, 0, 0]) / people, atol=0.03)
    shares = {tuple(move): share for move, share in zip(model.moves.tolist(), model.move_shares, strict=True)}
    wanted = {(0, 1): 3 / 2, (1, 2): 3 / 2, (8, 5): 2 / 3, (5, 2): 2 / 3, (2, 1): 2 / 3}
    for move, share in shares.items():
        assert share == pytest.approx(wanted.get(move, 0) / people, abs=0.03)
    made = model.sample(4000, hz.Simulation(3))
    first = mechanism.cells.nearest_cell(made.x[made.offsets[:-1]], made.y[made.offsets[:-1]])
    np.testing.assert_allclose(np.bincount(first[0] * 3 + first[1], minlength=9) / 4000, model.starts, atol=0.05)
    assert_lengths(made, model.lengths)
    last = mechanism.cells.nearest_cell(made.x[made.offsets[1:] - 1], made.y[made.offsets[1:] - 1])
    np.testing.assert_allclose(np.bincount(last[0] * 3 + last[1], minlength=9) / 4000, model.ends, atol=0.05)


def test_pivot_trace_rebuilds_journeys_without_noise() -> None:
    mechanism = PivotTrace(PLANE, 1000, squares=3, longest=5)
    model = mechanism.estimate(mechanism.draw(lines_of(CROWD * 1000, 3), hz.Simulation(2)))
    expected = {(0, 1, 2): 3, (8, 5, 1): 2, (4, 4, 4): 1}
    found, times = np.unique(model.paths, axis=0, return_counts=True)
    assert {tuple(path): int(count) for path, count in zip(found.tolist(), times, strict=True)} == {
        path: 1000 * count for path, count in expected.items()
    }
    np.testing.assert_allclose(model.lengths, np.array([1, 0, 5, 0]) / len(CROWD), atol=0.05)
    made = model.sample(2000, hz.Simulation(3))
    assert_lengths(made, model.lengths)
    cells = mechanism.cells.nearest_cell(made.x, made.y)
    assert set((cells[0] * 3 + cells[1]).tolist()) <= {0, 1, 2, 3, 4, 5, 8}


def test_more_budget_makes_better_estimates() -> None:
    """Mean squared error of the starts falls with ε, about as the page's formula says."""
    people = lines_of(CROWD * 2000, 3)
    truth = np.array([3, 0, 0, 0, 1, 0, 0, 0, 2]) / len(CROWD)
    errors = []
    for epsilon in (1, 4, 16):
        mechanism = LdpTrace(PLANE, epsilon, squares=3)
        starts = mechanism.estimate(mechanism.draw(people, hz.Simulation(4))).starts
        errors.append(float(((starts - truth) ** 2).mean()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_the_smallest_and_the_largest_maps_work(mechanism: LdpTrace | PivotTrace) -> None:
    for squares in (1, MOST_SQUARES):
        chosen = type(mechanism)(PLANE, 3, squares=squares)
        model = chosen.estimate(chosen.draw(Lines.from_points(STRANGE.values()), hz.Simulation(1)))
        made = model.sample(50, hz.Simulation(1))
        assert len(made) == 50
        assert ((made.x >= 0) & (made.x <= 8) & (made.y >= 0) & (made.y <= 8)).all()


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_bad_reports_are_refused(mechanism: LdpTrace | PivotTrace) -> None:
    good = mechanism.draw(Lines.from_points([STRANGE["a short way"]] * 3), hz.Simulation(1))
    for bad in (good[:0], good[:, :-1], good[0], np.column_stack([good, good[:, :1]])):
        with pytest.raises(InvalidInput, match="at least one row"):
            mechanism.estimate(bad)
    for place in range(mechanism.numbers):
        for value in (-1, 256 + mechanism.limit):
            damaged = good.copy()
            damaged[1, place] = value
            with pytest.raises(InvalidInput, match="outside 0 …"):
                mechanism.estimate(damaged)


def test_a_bit_for_a_class_that_does_not_exist_is_refused() -> None:
    mechanism = LdpTrace(PLANE, 1, squares=3, longest=5)
    reports = mechanism.draw(Lines.from_points([STRANGE["a short way"]]), hz.Simulation(1))
    reports[0, 0] |= 1  # the last four of eight bits stand for no length
    with pytest.raises(InvalidInput, match="does not exist"):
        mechanism.estimate(reports)


@pytest.mark.parametrize("kind", [LdpTrace, PivotTrace])
def test_journeys_that_would_fill_the_memory_are_refused(kind: type) -> None:
    mechanism = kind(PLANE, 1, longest=2**20)
    model = mechanism.estimate(mechanism.draw(Lines.from_points([STRANGE["a short way"]]), hz.Simulation(1)))
    with pytest.raises(InvalidInput, match="at most 256 at once"):
        model.sample(257, hz.Simulation(1))


@pytest.mark.parametrize(
    ("kind", "arguments", "match"),
    [
        (LdpTrace, {"epsilon": 0}, "epsilon"),
        (LdpTrace, {"epsilon": 1, "squares": 33}, "squares"),
        (LdpTrace, {"epsilon": 1, "moves": 0}, "moves"),
        (LdpTrace, {"epsilon": 1, "longest": 0}, "longest"),
        (PivotTrace, {"epsilon": -1}, "epsilon"),
        (PivotTrace, {"epsilon": 1, "pivots": 1}, "pivots"),
        (PivotTrace, {"epsilon": 1, "directions": 1}, "directions"),
        (PivotTrace, {"epsilon": 1, "squares": 2.5}, "squares"),
    ],
)
def test_parameters_out_of_range_are_refused(kind: type, arguments: dict, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        kind(PLANE, **arguments)
    with pytest.raises(InvalidInput, match="grid"):
        kind("map", 1)
