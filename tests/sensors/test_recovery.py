"""Finding sources: every move keeps the posterior, exact posteriors on small cases, error bars, and its sentences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Simulation
from heathaze.sensors.physics import Graph, Line, Linear, Plate
from heathaze.sensors.physics.network import Network
from heathaze.sensors.recovery._answer import median_shares, nearest_shares, transport
from heathaze.sensors.recovery._moves import Moves
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._problem import prepare
from heathaze.sensors.recovery._space import Cuboid, Particles, Space, normals
from heathaze.sensors.recovery.posterior import Sources, find_sources
from heathaze.testing.statistics import chi_square, two_sample

ALPHA = 1e-6
FIGURE_1 = Line(100, 50, 0.05)
SENSORS = [(0.3, 0.4), (1.1, 1.7), (2.6, 0.5), (2.2, 1.2), (0.8, 1.0)]
NUMBER = np.log([1e-300, 0.5, 0.3, 0.2])
NUMBER[0] = -np.inf
PRIORS = {
    "alike": Prior(NUMBER, 0.0, math.inf, 2.0),
    "range": Prior(NUMBER, 0.5, 1.5),
    "known": Prior(NUMBER, 1.0, 1.0),
    "two": Prior(np.array([-np.inf, -np.inf, 0.0]), 0.0, math.inf, 2.0),
}
LENGTHS = {"walk": 0.1, "apart": 0.1, "trade": 0.2, "split": 0.1, "scale": 0.1}


def small_graph() -> Graph:
    ring = [(i, (i + 1) % 12) for i in range(12)]
    return Graph([*ring, (0, 5), (0, 6), (3, 9)], 0.3, sensors=[0, 2, 5, 7, 10])


def space_of(name: str, noise: float = 0.4) -> Space:
    field = {"line": Line(20, 12, 0.01), "plate": Plate((3, 2), SENSORS, 0.1), "graph": small_graph()}[name]
    rows = field.shape[0]
    return prepare(field, np.zeros(rows), np.full(rows, noise), Simulation(0)).space


def emd(one: np.ndarray, other: np.ndarray) -> float:
    """On the hundred candidates of figure 1."""
    return float(np.abs(np.cumsum(one - other))[:-1].sum() / 100)


# ── moves ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def joint(space: Space, prior: Prior, count: int, bits: Simulation) -> Particles:
    """Sources drawn from the prior, each particle with readings of its own drawn from them."""
    directions = space.table.shape[0]
    particles = Particles.drawn(space, prior, np.zeros(directions), count, bits)
    particles.readings = normals(bits, count, directions) - particles.residual
    particles.settle()
    return particles


def kept(space: Space, prior: Prior, moves: list[str] | None = None, count: int = 3000) -> float:
    """Smallest p-value of: sources and readings drawn together, then sources moved, still are as if drawn together.

    Particles are independent, since each has its readings; a move that does not keep the posterior shows.
    """
    particles, other = (joint(space, prior, count, Simulation(seed)) for seed in (3, 4))
    moving = Moves(space, prior, Simulation(5), tuned=False, lengths=dict(LENGTHS))
    for _ in range(4):
        for move in [getattr(moving, name) for name in moves] if moves else moving.kinds():
            move(particles)
    before = particles.residual.copy()
    particles.settle()
    assert np.abs(before - particles.residual).max() < 1e-8
    found = []
    if not prior.counted:
        expected = count * np.exp(prior.number[1:])
        found.append(chi_square(np.bincount(particles.number, minlength=prior.most + 1)[1:], expected))
    # What sources leave unexplained is the noise: its squares are chi-square, all together too.
    squares = float(particles.misfit().sum())
    freedom = particles.residual.size
    found.append(2 * min(float(chi2.sf(squares, freedom)), float(chi2.cdf(squares, freedom))))
    for statistic in STATISTICS:
        one, two = (np.round(1000 * statistic(each)).astype(np.int64) for each in (particles, other))
        if len(np.unique(one)) > 1 or len(np.unique(two)) > 1:
            found.append(two_sample(one, two))
    return min(found)


def present(particles: Particles) -> np.ndarray:
    return np.arange(particles.strengths.shape[1]) < particles.number[:, None]


def places(particles: Particles) -> np.ndarray:
    """One number for each place."""
    flat = particles.places if particles.places.ndim == 2 else particles.places[..., 0] + 2 * particles.places[..., -1]
    return np.asarray(flat, dtype=np.float64)


STATISTICS = [
    lambda g: np.where(present(g), places(g), -np.inf).max(axis=1),
    lambda g: (places(g) * present(g)).sum(axis=1),
    lambda g: (places(g) * g.strengths).sum(axis=1).clip(0, 100),
    lambda g: g.strengths.sum(axis=1).clip(0, 100),
    lambda g: g.strengths.max(axis=1).clip(0, 100),
    lambda g: np.log(g.centre),
    lambda g: g.spread,
]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("space", ["line", "plate", "graph"])
def test_a_sweep_keeps_the_posterior(space: str, prior: str) -> None:
    assert kept(space_of(space), PRIORS[prior]) >= ALPHA


@pytest.mark.parametrize(
    "move", ["walk", "jump", "birth_or_death", "apart", "trade", "split_or_merge", "rescale_strengths"]
)
def test_each_move_keeps_the_posterior(move: str) -> None:
    assert kept(space_of("line"), PRIORS["alike"], [move]) >= ALPHA
    # Strengths far from 1 and faint readings: moves succeed often, and a determinant that is forgotten shows.
    assert kept(space_of("line", noise=10.0), Prior(NUMBER, 0.0, math.inf, 30.0), [move]) >= ALPHA


def test_a_jump_that_forgets_how_it_was_proposed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moves, "_offered", lambda _self, aim, _places: np.ones(len(aim)))
    assert kept(space_of("line"), PRIORS["alike"], ["jump"]) < ALPHA
    assert kept(space_of("line"), PRIORS["alike"], ["birth_or_death"]) < ALPHA


@pytest.mark.parametrize("prior", ["alike", "range"])
def test_evidence_and_strength_agree_with_quadrature(prior: str) -> None:
    law = PRIORS[prior]
    fine = np.linspace(1e-6, 80.0, 400_001) if prior == "alike" else np.linspace(0.5, 1.5, 200_001)
    step = fine[1] - fine[0]
    for centre, spread, pull, weight in itertools.product((0.5, 2.0), (0.1, 1.0), (-30.0, 0.0, 8.0), (1e-9, 3.0)):
        about = np.array([centre]), np.array([spread])
        log = law.log_strengths(*(np.full(len(fine), part[0]) for part in about), fine[:, None])
        curve = np.exp(log + pull * fine - weight * fine**2 / 2)
        exact = float((curve[1:] + curve[:-1]).sum() * step / 2)
        assert float(law.log_integral(*about, np.array([pull]), np.array([weight]))[0]) == pytest.approx(
            math.log(exact), abs=2e-3
        )
        half = fine[np.searchsorted(np.cumsum(curve) * step, exact / 2)]
        drawn = law.conditional(*about, np.array([pull]), np.array([weight]), np.array([0.5]))[0]
        assert drawn == pytest.approx(half, rel=2e-2, abs=1e-3)


# ── whole posteriors ────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_or_two_known_strengths_against_every_case() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.random((5, 9))
    field = Linear(matrix, np.arange(9.0)[:, None])
    readings = matrix[:, [2, 6]].sum(axis=1) + 0.5 * rng.normal(size=5)
    found = find_sources(field, readings, 0.5, at_most=2, strengths=1.0, draws=4000)
    # Probabilities of one and two sources are as 0.3 to 1; places are uniform, and two may be the same.
    weights = np.zeros((2, 9))
    for k, prior in ((1, 0.3), (2, 1.0)):
        for chosen in itertools.product(range(9), repeat=k):
            misfit = ((readings - matrix[:, list(chosen)].sum(axis=1)) ** 2).sum() / 0.25
            for place in chosen:
                weights[k - 1, place] += prior / 9**k * math.exp(-misfit / 2) / k
    weights /= weights.sum()
    assert found.number[1:] == pytest.approx(weights.sum(axis=1), abs=0.03)
    number, where, _ = found.draws
    for k in (1, 2):
        share = np.bincount(where[number == k, :k].ravel(), minlength=9) / k / len(number)
        assert share == pytest.approx(weights[k - 1], abs=0.03)


def test_one_source_on_a_line_against_a_fine_grid() -> None:
    rng = np.random.default_rng(2)
    readings = FIGURE_1.responses([[0.37]])[:, 0] + 0.5 * rng.normal(size=50)
    found = find_sources(FIGURE_1, readings, 0.5, number=1, strengths=1.0)
    fine = np.linspace(0, 1, 4001)
    log = -((readings[:, None] - FIGURE_1.responses(fine[:, None])) ** 2).sum(axis=0) / 0.5
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ fine
    sd = math.sqrt(weight @ (fine - mean) ** 2)
    drawn = found.draws[1][:, 0, 0]
    assert drawn.mean() == pytest.approx(mean, abs=0.15 * sd)
    assert drawn.std() == pytest.approx(sd, rel=0.15)
    assert found.found[0].position_error == pytest.approx(1.645 * sd, rel=0.2)


def test_readings_that_say_nothing_leave_the_prior() -> None:
    readings = 1e6 * np.random.default_rng(3).normal(size=50)
    found = find_sources(FIGURE_1, readings, 1e6, strengths=1.0)
    odds = np.array([1, 1, 1 / 4, 1 / 16, 1 / 64])
    assert found.number == pytest.approx(np.concatenate([[0.5], odds / odds.sum() / 2]), abs=0.05)
    _, where, _ = found.draws
    first = np.sort(where[:, 0, 0])
    # Kolmogorov: beyond 2.7/√n with probability 1e-6.
    assert np.abs(first - (np.arange(len(first)) + 0.5) / len(first)).max() < 2.7 / math.sqrt(len(first))
    assert emd(found.shares, np.full(100, 0.01)) < 0.12


def test_the_same_readings_give_the_same_answer() -> None:
    readings = FIGURE_1.responses([[0.3], [0.8]]).sum(axis=1)
    once, again = (find_sources(FIGURE_1, readings, 0.5, draws=200) for _ in range(2))
    other = find_sources(FIGURE_1, readings, 0.5, draws=200, randomness=Simulation(9))
    assert np.array_equal(once.shares, again.shares)
    assert not np.array_equal(once.shares, other.shares)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_figure_1_with_what_is_not_protected_known() -> None:
    truth = np.zeros(100)
    truth[[23, 75]] = 0.5
    readings = 2 * FIGURE_1.apply(truth) + 0.1 * np.random.default_rng(4).normal(size=50)
    found = find_sources(FIGURE_1, readings, 0.1, number=2, strengths=1.0)
    assert emd(found.shares, truth) < 0.025
    assert sorted(source.position[0] for source in found.found) == pytest.approx([0.24, 0.76], abs=0.05)
    assert found.total == 2.0
    assert found.strengths.sum() == pytest.approx(2.0)


def test_hardly_any_noise_finds_sources_nearly_exactly() -> None:
    readings = FIGURE_1.responses([[0.2], [0.7]]) @ [1.0, 2.0]
    found = find_sources(FIGURE_1, readings, 1e-6, number=2)
    strong, weak = found.found
    assert abs(strong.position[0] - 0.7) < 1e-3
    assert abs(weak.position[0] - 0.2) < 1e-3
    assert (strong.strength, weak.strength) == (pytest.approx(2, abs=0.01), pytest.approx(1, abs=0.01))


def test_readings_that_no_source_explains_widen_the_noise() -> None:
    readings = np.where(np.arange(50) % 2 == 0, 5.0, -5.0)
    found = find_sources(FIGURE_1, readings, 1e-3)
    assert found.widened > 1000
    assert find_sources(FIGURE_1, FIGURE_1.responses([[0.5]])[:, 0], 0.3).widened == 1.0


def test_a_plate() -> None:
    rng = np.random.default_rng(5)
    plate = Plate((10, 6), rng.random((30, 2)) * [10, 6], 0.5, walls="insulated")
    readings = plate.responses([[2.0, 1.5], [7.5, 4.0]]).sum(axis=1) + 0.01 * rng.normal(size=30)
    found = find_sources(plate, readings, 0.01, number=2)
    where = sorted(source.position for source in found.found)
    assert where[0] == pytest.approx((2.0, 1.5), abs=0.5)
    assert where[1] == pytest.approx((7.5, 4.0), abs=0.5)
    assert found.shares.shape == (plate.shape[1],)
    near = np.min([np.hypot(*(plate.positions - place).T) for place in ((2.0, 1.5), (7.5, 4.0))], axis=0)
    assert found.shares @ near < 0.5


def communities(seed: int, nodes: int = 120, inside: float = 0.12, across: float = 0.002) -> Graph:
    """A connected graph of two communities, the first and the second half of the nodes."""
    rng = np.random.default_rng(seed)
    one, two = np.triu_indices(nodes, 1)
    same = (one < nodes // 2) == (two < nodes // 2)
    while True:
        edge = rng.random(len(one)) < np.where(same, inside, across)
        try:
            return Graph(Network(np.stack([one[edge], two[edge]], axis=1), nodes=nodes), 2.0)
        except InvalidInput:
            continue


def test_a_graph_tells_the_community() -> None:
    graph = communities(1)
    right = 0
    for run in range(4):
        rng = np.random.default_rng(run)
        node = int(rng.integers(120))
        readings = graph.responses([node])[:, 0] + 0.01 * rng.normal(size=120)
        found = find_sources(graph, readings, 0.01, number=1, strengths=1.0, draws=300)
        right += (found.shares[:60].sum() > 0.5) == (node < 60)
        assert found.found[0].position is None
        assert 0 <= found.found[0].node < 120
    assert right == 4


def test_candidates_with_positions_alone() -> None:
    rng = np.random.default_rng(6)
    spots = rng.random((40, 2))
    matrix = np.exp(-((spots[None, :12] - spots[:, None]) ** 2).sum(axis=2) / 0.05).T
    found = find_sources(Linear(matrix, spots), matrix[:, 25], 0.01, number=1)
    assert found.found[0].node == 25
    assert found.found[0].position == pytest.approx(tuple(spots[25]))
    assert found.shares[25] > 0.9


def test_too_many_nodes_and_sensors_leave_promising_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heathaze.sensors.recovery._problem._FEW", 100)
    monkeypatch.setattr("heathaze.sensors.recovery._problem._PROMISING", 40)
    graph = communities(2)
    readings = graph.responses([7])[:, 0]
    posed = prepare(graph, readings, np.full(120, 1e-4), Simulation(0))
    assert posed.space.table.shape[1] == 40
    # A source at the best 40 of 120 places is no surer for that: each costs a third.
    assert np.exp(posed.number(np.zeros(3))) == pytest.approx([1, 1 / 3, 1 / 9])
    found = find_sources(graph, readings, 1e-4, number=1, draws=300)
    assert found.found[0].node == 7


def test_the_median_answer_is_nearest_to_all_draws() -> None:
    rng = np.random.default_rng(7)
    places, shares = rng.random((30, 2)), rng.dirichlet([1, 1], 30)
    candidates = (np.arange(50) + 0.5) / 50
    grid = np.stack([np.histogram(p, 50, (0, 1), weights=w)[0] for p, w in zip(places, shares, strict=True)])

    def mean_distance(answer: np.ndarray) -> float:
        return float(np.abs(np.cumsum(answer - grid, axis=1)).sum(axis=1).mean() / 50)

    answer = median_shares(candidates, places, shares)
    best = mean_distance(answer)
    assert answer.sum() == pytest.approx(1)
    assert best < mean_distance(grid.mean(axis=0)) - 0.005
    for _ in range(200):
        shaken = np.maximum(answer + 0.05 * rng.normal(size=50) * (rng.random(50) < 0.2), 0)
        assert mean_distance(shaken / shaken.sum()) >= best - 1e-9


def test_the_answer_in_the_plane_is_no_further_than_the_mean_of_draws() -> None:
    rng = np.random.default_rng(8)
    number = np.full(400, 2)
    places = rng.normal((0.3, 0.6), 0.1, (400, 2, 2))
    places[:, 1] += 0.5
    shares = np.full((400, 2), 0.5)

    def apart(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.sqrt(((ones[:, None] - others[None]) ** 2).sum(axis=2))

    answer = nearest_shares(number, places, shares, apart, 240)
    assert answer.shares.sum() == pytest.approx(1)
    judges = range(1, 400, 7)
    ours = np.mean([transport(apart(answer.places, places[i]), answer.shares, shares[i]) for i in judges])
    points, even = places[::10].reshape(-1, 2), np.full(80, 1 / 80)
    mean = np.mean([transport(apart(points, places[i]), even, shares[i]) for i in judges])
    assert ours < mean - 0.01


def test_transport_by_hand() -> None:
    assert transport(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([0.5, 0.5]), np.array([0.25, 0.75])) == 0.5
    assert transport(np.array([[3.0], [1.0]]), np.array([0.5, 0.5]), np.ones(1)) == 2.0


# ── error bars ──────────────────────────────────────────────────────────────────────────────────────────────────────


def covered(runs: int, draws: int) -> tuple[float, float]:
    """Part of true places and strengths inside their nine-in-ten intervals; two sources well apart."""
    inside = np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng(run)
        places = np.array([0.05 + 0.35 * rng.random(), 0.6 + 0.35 * rng.random()])
        strengths = rng.uniform(0.5, 1.5, 2)
        readings = FIGURE_1.responses(places[:, None]) @ strengths + 0.2 * rng.normal(size=50)
        found: Sources = find_sources(
            FIGURE_1, readings, 0.2, number=2, strengths=(0.5, 1.5), draws=draws, randomness=Simulation(run)
        )
        for place, strength, source in zip(
            places, strengths, sorted(found.found, key=lambda source: source.position), strict=True
        ):
            low, high = source.strength_interval
            inside += abs(place - source.position[0]) <= source.position_error, low <= strength <= high
    return tuple(inside / (2 * runs))


def test_error_bars_cover() -> None:
    # Twelve of each, at nine in ten: fewer than 5 has a probability below 1e-5 if they are independent.
    place, strength = covered(6, 200)
    assert place >= 5 / 12
    assert strength >= 5 / 12


@pytest.mark.slow
def test_error_bars_cover_nine_in_ten() -> None:
    for part in covered(150, 600):
        assert 0.85 <= part <= 0.95


# ── sentences ───────────────────────────────────────────────────────────────────────────────────────────────────────

FINE = np.zeros(50)


@pytest.mark.parametrize(
    ("readings", "sigma", "more", "sentence"),
    [
        (FINE, 0, {}, "sigma is 0.0; give the standard deviation of the noise, above zero"),
        (FINE, np.nan, {}, "sigma is nan"),
        (FINE, np.full(50, -1.0), {}, "sigma holds a number that is not positive"),
        (FINE, np.ones(3), {}, r"sigma has shape \(3,\); give one number, or one for each of 50"),
        (FINE[:9], 1, {}, r"The readings have shape \(9,\); give one for each of the field's 50 rows"),
        (np.full(50, np.nan), 1, {}, "50 of 50 readings are missing or infinite; drop those rows from the field first"),
        (FINE, 1, {"at_most": 0}, "at_most is 0; give the largest number of sources, a whole number from 1 to 20"),
        (FINE, 1, {"at_most": 2.5}, "at_most is 2.5"),
        (FINE, 1, {"at_most": True}, "at_most is True"),
        (FINE, 1, {"number": 6}, "number is 6, more than at_most, which is 5; raise at_most"),
        (FINE, 1, {"number": 0}, "number is 0"),
        (FINE, 1, {"strengths": -1.0}, "strengths are -1.0; sources add heat, so give positive numbers"),
        (FINE, 1, {"strengths": 0.0}, "strengths are 0.0"),
        (FINE, 1, {"strengths": (2.0, 1.0)}, "strengths range from 2 to 1; give the lower end first"),
        (FINE, 1, {"strengths": (1.0, 2.0, 3.0)}, r"strengths have shape \(3,\)"),
        (FINE, 1, {"draws": 10}, "draws is 10; give a whole number of at least 100"),
    ],
)
def test_refusals(readings: np.ndarray, sigma: object, more: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        find_sources(FIGURE_1, readings, sigma, **more)


def test_a_cuboid_has_nearly_square_cells() -> None:
    cuboid = space_of("plate")
    assert isinstance(cuboid, Cuboid)
    assert cuboid.cells == (15, 10)
    assert cuboid.target_of(cuboid.at(np.arange(150), Simulation(1))).tolist() == list(range(150))


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_readings_of_nothing_have_no_source(sigma: float) -> None:
    """None is found in noise, at most one time in six; one of ten standard deviations is never overlooked."""
    source = Simulation(21)
    none, some = [], []
    for _ in range(6):
        noise = sigma * normals(source, 50)
        none.append(find_sources(FIGURE_1, noise, sigma, draws=300))
        loud = 10 * sigma / np.linalg.norm(FIGURE_1.responses([[0.3]]))
        some.append(find_sources(FIGURE_1, noise + loud * FIGURE_1.responses([[0.3]])[:, 0], sigma, draws=300))
    assert sum(not found.found for found in none) >= 5
    assert all(found.number.sum() == pytest.approx(1) for found in none)
    assert all(found.found and found.number[0] < 0.01 for found in some)
    assert find_sources(FIGURE_1, noise, sigma, number=1, draws=300).number[0] == 0


def test_one_source_is_found_as_one() -> None:
    clear = FIGURE_1.responses([[0.4]])[:, 0]
    found = [find_sources(FIGURE_1, clear + 0.1 * normals(Simulation(seed), 50), 0.1, draws=300) for seed in range(6)]
    assert sum(len(one.found) == 1 for one in found) >= 5
    assert "found; how many there are: 1:" in repr(found[0])
