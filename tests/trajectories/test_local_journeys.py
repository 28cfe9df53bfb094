"""LocalJourneys: the worst loss of a whole report by enumeration, its sampler, its sizes, and the inferred model."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.errors import BudgetExceeded, InvalidInput, SimulatedRelease
from heathaze.local.local_hashing import LocalHashing
from heathaze.privacy.accountant import compose
from heathaze.privacy.guarantee import Adjacency, Trust, Unit
from heathaze.testing.statistics import chi_square
from heathaze.trajectories import Device, LocalJourneys, estimate, randomize
from heathaze.trajectories.local_fit import fit_pairs
from heathaze.trajectories.local_journeys import FACTS, Question

ALPHA = 1e-6
PLANE = hz.Grid.plane(x=(0, 16), y=(0, 16), size=16)
PLACES = [(0.5, 0.5), (15.5, 0.5), (7.9, 8.1), (15.9, 15.9)]
SHORT = [list(points) for length in (1, 2, 3) for points in itertools.product(PLACES, repeat=length)]
"""All journeys of one to three of the places."""
JUMPS = [(0.1, 0.1), (15.9, 15.9)] * 8


def classes(mechanism: LocalJourneys, question: Question, journey: list) -> np.ndarray:
    """The probability of each class that a journey has, before it is randomised."""
    rows, cols = question.shape
    law = np.zeros(rows * cols)
    lines = Lines.from_points([journey])
    if question.fact != "visit":
        law[mechanism.answers(question, lines, hz.Simulation(0))] = 1
        return law
    squares = mechanism.frame.squares
    _, visited = lines.visits(squares)
    for square in visited.tolist():
        row, col = divmod(square, squares.cols)
        law[row * rows // squares.rows * cols + col * cols // squares.cols] += 1 / len(visited)
    return law


def law(mechanism: LocalJourneys, journey: list) -> np.ndarray:
    """Pr[report | journey] over all questions; hashed answers are listed for a few seeds, which no journey chooses."""
    tickets = sum(question.tickets for question in mechanism.questions)
    parts = []
    for question, randomizer in zip(mechanism.questions, mechanism.randomizers, strict=True):
        few = {"seeds": range(3)} if isinstance(randomizer, LocalHashing) else {}
        told = classes(mechanism, question, journey) @ randomizer.transition_matrix(**few)
        parts.append(question.tickets / tickets * told)
    return np.concatenate(parts)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3", "5"])
def test_the_worst_loss_of_a_whole_report_is_epsilon(epsilon: str) -> None:
    mechanism = LocalJourneys(PLANE, epsilon, squares=16)
    laws = np.array([law(mechanism, journey) for journey in [*SHORT, JUMPS]])
    np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-12)
    worst = np.log(laws.max(axis=0) / laws.min(axis=0)).max()
    assert worst <= float(mechanism.epsilon) + 1e-9
    assert worst > 0.999 * float(mechanism.epsilon)
    assert compose([mechanism.event]).epsilon == mechanism.epsilon


@pytest.mark.parametrize("journey", [[(15.5, 0.5)], [(0.5, 0.5), (15.5, 3.5)], JUMPS], ids=["point", "line", "jumps"])
def test_reports_follow_the_enumerated_law(journey: list) -> None:
    """At this epsilon all answers are given by randomised response, so every report can be enumerated."""
    mechanism = LocalJourneys(PLANE, 5, squares=16)
    expected = law(mechanism, journey)
    assert mechanism.limit == len(expected)
    number = 10_000
    lines = Lines.from_points([journey]).take(np.zeros(number, np.int64))
    drawn = np.bincount(mechanism.draw(lines, hz.Simulation(3))[:, 0], minlength=len(expected))
    order = np.argsort(-expected)
    assert chi_square(drawn[order], expected[order] * number) >= ALPHA
    other = law(mechanism, [(3.5, 12.5)])
    assert chi_square(drawn[np.argsort(-other)], np.sort(other)[::-1] * number) < ALPHA


def test_hashed_answers_support_the_truth_as_often_as_they_should() -> None:
    mechanism = LocalJourneys(PLANE, 1, squares=16)
    number = 20_000
    lines = Lines.from_points([[(0.5, 0.5), (15.5, 3.5)]]).take(np.zeros(number, np.int64))
    parts = mechanism.split(mechanism.draw(lines, hz.Simulation(5)))
    assert sum(map(len, parts)) == number
    checked = 0
    for question, randomizer, reports in zip(mechanism.questions, mechanism.randomizers, parts, strict=True):
        if isinstance(randomizer, LocalHashing) and question.fact in ("start", "end"):
            (true,) = np.flatnonzero(classes(mechanism, question, [(0.5, 0.5), (15.5, 3.5)]))
            own = randomizer.support[0]
            hits = sum(int(randomizer.tally(reports[k : k + 1])[true]) for k in range(500))
            assert chi_square(np.array([hits, 500 - hits]), np.array([own, 1 - own]) * 500) >= ALPHA
            checked += 1
    assert checked == 6


def test_the_coin_has_the_stated_shares() -> None:
    mechanism = LocalJourneys(PLANE, 1)
    assert sum(question.tickets for question in mechanism.questions) == 60
    for fact, twentieths in FACTS.items():
        assert sum(q.tickets for q in mechanism.questions if q.fact == fact) == 3 * twentieths


def test_the_randomizer_with_less_variance_is_used() -> None:
    for epsilon in ("0.5", "1", "2", "3", "5"):
        mechanism = LocalJourneys(PLANE, epsilon)
        power = math.exp(mechanism.epsilon)
        for randomizer in mechanism.randomizers:
            hashed = (power + randomizer.grid.cells - 2) > 4 * power
            assert isinstance(randomizer, LocalHashing) is hashed


def test_number_and_size_of_reports_do_not_depend_on_the_journeys() -> None:
    mechanism = LocalJourneys(PLANE, 1, squares=16)
    sizes = set()
    for journeys in ([[(0.5, 0.5)]], [JUMPS], [JUMPS] * 100, [[(k % 16, 3) for k in range(100_000)]]):
        reports = Device(mechanism).randomize(Lines.from_points(journeys))
        assert reports.values.shape == (1, 1)
        sizes.add(len(hz.trajectories.JourneyReports(mechanism, reports.values, chunks=(1,)).to_bytes()))
    assert len(sizes) == 1


def test_one_journey_of_each_person_is_drawn() -> None:
    """At a large epsilon the report is the truth: each of a person's journeys is drawn equally often."""
    mechanism = LocalJourneys(PLANE, 30, squares=16)
    journeys = Lines.from_points([[(0.5, 0.5)], [(15.5, 15.5)], [(15.5, 0.5)], [(0.5, 15.5)]] * 3000)
    with pytest.warns(hz.errors.WeakPrivacy):
        reports = randomize(mechanism, journeys, np.repeat(np.arange(3000), 4), randomness=hz.Simulation(2))
    assert len(reports) == 3000
    assert reports.unit is Unit.PERSON
    starts = mechanism.split(reports.values)[[q.fact for q in mechanism.questions].index("start")]
    found = np.bincount(starts[:, 0], minlength=16)[[0, 3, 12, 15]]
    assert found.sum() == len(starts)
    assert chi_square(found, np.full(4, len(starts) / 4)) >= ALPHA
    with pytest.warns(hz.errors.WeakPrivacy):
        assert len(randomize(mechanism, journeys, randomness=hz.Simulation(2))) == 12_000


def test_a_device_pays_before_it_reports(tmp_path) -> None:
    ledger = hz.Ledger.open(tmp_path / "me.ledger", total=1)
    device = Device(LocalJourneys(PLANE, "0.6", squares=16), ledger=ledger)
    mine = Lines.from_points([[(1, 1), (9, 9)], [(9, 9), (1, 1)]])
    assert len(device.randomize(mine)) == 1
    assert float(ledger.spent) == 0.6
    (entry,) = ledger.entries()
    assert (entry.guarantee.trust, entry.guarantee.adjacency) == (Trust.LOCAL, Adjacency.ANY_TWO_JOURNEYS)
    with pytest.raises(BudgetExceeded, match="nothing was charged and nothing reported"):
        device.randomize(mine)
    with pytest.raises(InvalidInput, match="no journey"):
        Device(LocalJourneys(PLANE, 1)).randomize(Lines(np.zeros(0), np.zeros(0), np.zeros(1, np.int64)))
    with pytest.raises(InvalidInput, match="give a local mechanism"):
        Device(hz.trajectories.default(PLANE, 1))
    assert float(ledger.spent) == 0.6


@pytest.fixture(scope="module")
def crowd() -> Lines:
    rng = np.random.default_rng(5)
    ends = np.clip(rng.normal([[3.0, 3.0], [12.0, 10.0]], 1.0, (6000, 2, 2)), 0, 15.99)
    return Lines.from_points(list(ends))


def test_made_up_journeys_resemble_the_true_ones(crowd: Lines) -> None:
    mechanism = LocalJourneys(PLANE, 3, squares=16)
    made = estimate(randomize(mechanism, crowd, randomness=hz.Simulation(1)), number=2000, randomness=hz.Simulation(2))
    coarse = PLANE.resized((4, 4))
    assert hz.metrics.density_divergence(crowd, made.lines, coarse) < 0.05
    assert hz.metrics.trip_divergence(crowd, made.lines, coarse) < 0.15
    assert hz.metrics.length_divergence(crowd, made.lines, PLANE) < 0.08
    back = Lines(made.lines.x[::-1], made.lines.y[::-1], np.append(0, np.cumsum(made.lines.counts[::-1])))
    assert hz.metrics.trip_divergence(crowd, back, coarse) > 0.5  # starts and ends are not confused
    assert "unit: trip; adjacency: any-two-journeys" in str(made.guarantee)
    with pytest.raises(SimulatedRelease):
        made.save("nowhere.parquet")


def test_pairs_have_the_given_starts_and_ends(crowd: Lines) -> None:
    mechanism = LocalJourneys(PLANE, 3, squares=16)
    model = mechanism.estimate(mechanism.draw(crowd, hz.Simulation(1)))
    rng = np.random.default_rng(1)
    start, end = rng.dirichlet(np.ones(256)), rng.dirichlet(np.ones(256))
    pairs = fit_pairs(model, start, end)
    np.testing.assert_allclose(pairs.sum(axis=0), end, atol=1e-6)
    np.testing.assert_allclose(pairs.sum(axis=1), start, atol=1e-3)
    assert not np.allclose(pairs, start[:, None] * end, rtol=0.5)  # distances have a say


@pytest.mark.parametrize("journey", [[(7.9, 7.9)], JUMPS], ids=["point", "jumps"])
def test_journeys_can_be_made_up_from_one_report(journey: list) -> None:
    mechanism = LocalJourneys(PLANE, "0.1", squares=16)
    made = estimate(Device(mechanism).randomize(Lines.from_points([journey])), number=20)
    assert len(made.lines) == 20
    assert ((made.lines.x >= 0) & (made.lines.x <= 16)).all()


@pytest.mark.parametrize("options", [{"squares": 8}, {"squares": 48}, {"squares": 128}, {"epsilon": 0}])
def test_what_cannot_be_used_is_refused(options: dict) -> None:
    with pytest.raises(InvalidInput):
        LocalJourneys(PLANE, **{"epsilon": 1, **options})
