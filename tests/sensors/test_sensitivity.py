"""Sensitivity: golden numbers, closed forms, brute force, and that no pair of neighbours ever exceeds it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import chi2

from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.randomness import Simulation
from heathaze.sensors.physics import Graph, Line, Linear, Plate, Snapshots
from heathaze.sensors.physics.graph import squared_norms
from heathaze.sensors.physics.network import Network
from heathaze.sensors.sensitivity import _discrete as _edges
from heathaze.sensors.sensitivity import sensitivity
from heathaze.sensors.sensitivity._continuous import (
    absolute,
    box_bounds,
    euclidean,
    largest_stretch,
    largest_sum,
    plate_bounds,
    steepest,
)
from heathaze.sensors.sensitivity._discrete import lowest_share, normals
from heathaze.testing.statistics import assert_distribution

SENSORS = Simulation(3).uniforms(24).reshape(12, 2) * [3, 2]


def complete(n: int, tau: float, **options: Any) -> Graph:
    return Graph([(i, j) for j in range(n) for i in range(j)], tau, **options)


def star(n: int, tau: float, **options: Any) -> Graph:
    return Graph([(0, j) for j in range(1, n)], tau, **options)


def random_edges(n: int, edges: int, seed: int) -> np.ndarray:
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    rest = Simulation(seed).below(n, 2 * edges).astype(np.int64).reshape(-1, 2)
    pairs = np.sort(np.concatenate([ring, rest]), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


# ── golden numbers (errata part 6) ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "on_grid", "anywhere"),
    [(Line(500, 500, 0.1), 20.340121086, 20.340161106), (Line(100, 50, 0.05), 13.589715279, 13.591716849)],
)
def test_lines_of_the_errata(line: Line, on_grid: float, anywhere: float) -> None:
    assert sensitivity(line, 1, between=False).per_length == pytest.approx(on_grid, rel=5e-9)
    assert sensitivity(line, 1).per_length == pytest.approx(anywhere, rel=5e-9)
    assert sensitivity(line, 1).kind == sensitivity(line, 1, between=False).kind == "exact"
    assert sensitivity(line, 0.02).l2 == pytest.approx(0.02 * anywhere, rel=5e-9)


def test_snapshots_are_priced_together() -> None:
    """Errata E4-3: 48.41 for four snapshots; sensors one by one, or snapshots one by one, would price less."""
    lines = [Line(500, 500, T) for T in (0.05, 0.1, 0.2, 0.4)]
    together = sensitivity(Snapshots(lines), 1, between=False).per_length
    assert together == pytest.approx(48.41, abs=5e-3)
    alone = [sensitivity(line, 1, between=False).per_length for line in lines]
    assert math.sqrt(sum(rate**2 for rate in alone)) == pytest.approx(49.01, abs=5e-3)
    assert sum(alone) == pytest.approx(79.1, abs=5e-2)
    assert max(alone) < together
    assert sensitivity(Snapshots(lines), 1).per_length == pytest.approx(48.41, abs=5e-3)


def test_the_factor_n_is_there() -> None:
    """Errata E4-2: without the distance of neighbours the rate of n = 500 would be 500 times too small."""
    line = Line(500, 500, 0.1)
    printed = np.linalg.norm(np.diff(line.matrix, axis=1), axis=0).max()
    assert sensitivity(line, 1, between=False).per_length == pytest.approx(500 * printed, rel=1e-8)


@pytest.mark.parametrize("tau", [0.01, 0.2, 1.0])
@pytest.mark.parametrize("n", [3, 10, 40])
def test_closed_forms_of_complete_graphs_and_stars(n: int, tau: float) -> None:
    """Errata E4-8, both corrected."""
    closed = math.sqrt(2 * math.exp(-2 * tau * n))
    found = sensitivity(complete(n, tau), 1).l2
    assert closed <= found <= closed * (1 + 2e-9) + 2e-12
    closed = math.sqrt(n / (n - 1) * math.exp(-2 * tau * n) + (n - 2) / (n - 1) * math.exp(-2 * tau))
    found = sensitivity(star(n, tau), 1).l2
    assert closed * (1 - 1e-14) <= found <= closed * (1 + 2e-9) + 2e-12


def test_the_printed_formulas_of_table_2_are_not_ours() -> None:
    """Errata E4-8: the star as printed lacks n − 2 and would give too little noise, the complete graph too much."""
    n, tau = 10, 1.0
    step = (math.exp(-tau * n) - math.exp(-tau)) / (n - 1)
    printed = math.exp(-2 * tau * n) + step**2 + (step + math.exp(-tau)) ** 2
    assert printed == pytest.approx(0.1086, abs=5e-5)
    assert sensitivity(star(n, tau), 1).l2 ** 2 == pytest.approx(0.1203, abs=5e-5)
    assert sensitivity(complete(n, 0.2), 1).l2 ** 2 < 2 * math.exp(-0.2 * n) / 7


def test_golden_graphs() -> None:
    assert sensitivity(star(10, 0.2), 1).l2 ** 2 == pytest.approx(0.61619075, abs=6e-9)
    assert sensitivity(complete(10, 0.2), 1).l2 ** 2 == pytest.approx(3.663128e-2, abs=6e-9)


def test_floats_do_not_promise_more_than_they_know() -> None:
    """Errata E4-8: the truth is 2.7e-22, which no float knows; the floor stands."""
    assert 1e-14 < sensitivity(complete(50, 1.0), 1).l2 < 1e-11


HEAVY = [0.5059294394174021, 0.4262648940106697, 74092.25163827078, 0.4864979309060384, 0.5969510947656707]
HEAVY.append(0.9348500085947953)


def test_one_heavy_edge_and_a_long_time() -> None:
    """8,028 terms, whose rounding is more than 1e-12 of a response. The truth is from 50 digits (mpmath)."""
    edges, tau = [(i, j) for j in range(4) for i in range(j)], 14.36188553032218
    once = Graph(edges, tau, [3, 2], weights=HEAVY)
    for field in (once, Snapshots([once, once])):
        found = sensitivity(field, 1)
        count = field.shape[0] / 2
        assert math.sqrt(count) * 7.5e-13 <= found.l2 < 1e-8
        assert found.l1 >= found.l2
    assert 7.49e-13 < once.rounding < 1e-8


def test_one_heavy_edge_where_edges_are_screened(screened: pytest.MonkeyPatch) -> None:
    graph = Graph([(i, j) for j in range(4) for i in range(j)], 14.36188553032218, [3, 2], weights=HEAVY)
    found = sensitivity(Snapshots([graph, graph]), 1, randomness=Simulation(1))
    assert found.l2 >= math.sqrt(2) * graph.rounding
    assert found.l1 >= found.l2


# ── never below the truth ───────────────────────────────────────────────────────────────────────────────────────────


FIELDS: dict[str, Any] = {
    "line": Line(20, 6, 0.003),
    "open plate": Plate((3, 2), SENSORS, 0.05, candidates=12),
    "insulated plate": Plate((3, 2), SENSORS, 0.05, "insulated", candidates=12),
    "hot insulated plate": Plate((3, 2), SENSORS, 2.0, "insulated", candidates=12),
    "plates": Snapshots([Plate((3, 2), SENSORS, T, candidates=12) for T in (0.05, 0.2)]),
    "graph": Graph(random_edges(30, 40, 1), 0.3),
    "graph with lengths": Graph([(0, 1), (1, 2), (2, 0), (2, 3)], 0.5, lengths=[1, 2, 9, 0.1], weights=[1, 2, 3, 0.2]),
    "matrix in the plane": Linear(Simulation(5).uniforms(80).reshape(4, 20), Simulation(6).uniforms(40).reshape(20, 2)),
    "matrix on a line": Linear(Simulation(5).uniforms(80).reshape(4, 20), Simulation(6).uniforms(20)),
}


def distances(field: Any) -> np.ndarray:
    """Between all candidates."""
    if field.network is None:
        return np.linalg.norm(field.positions[:, None] - field.positions, axis=-1)
    from scipy.sparse.csgraph import shortest_path

    return np.asarray(shortest_path(field.network.adjacency()))


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())
def test_every_pair_of_candidates(field: Any) -> None:
    """All pairs, not neighbours or edges alone; and exactly their largest, where sources lie at candidates."""
    matrix, far = field.apply(np.eye(field.shape[1])), distances(field)
    np.fill_diagonal(far, np.inf)
    moved = matrix[:, :, None] - matrix[:, None, :]
    for power, name in ((2, "l2"), (1, "l1")):
        worst = (np.linalg.norm(moved, ord=power, axis=0) / far).max()
        assert getattr(sensitivity(field, 1), name) >= worst
        found = getattr(sensitivity(field, 1, between=False), name)
        assert worst <= found <= worst * (1 + 1e-8) + 1e-9


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())
def test_neighbours_with_many_sources(field: Any) -> None:
    """Equal masses, moved along random plans: readings never move further than strength times distance allows."""
    coins, far = Simulation(9), distances(field)
    found = sensitivity(field, 1)
    places = field.shape[1]
    for _ in range(50):
        plan = coins.uniforms(places**2).reshape(places, places) ** 8
        reach = (plan * far).sum()
        moved = field.apply(plan.sum(axis=0) - plan.sum(axis=1))
        assert np.linalg.norm(moved) <= reach * found.l2
        assert np.abs(moved).sum() <= reach * found.l1


@pytest.mark.parametrize("name", ["line", "open plate", "insulated plate", "hot insulated plate", "plates"])
def test_the_steepest_place_against_a_fine_search(name: str) -> None:
    field = FIELDS[name]
    low, high = field.bounds
    axes = [np.linspace(a, b, 4001 if len(low) == 1 else 161) for a, b in zip(low, high, strict=True)]
    where = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(low))
    slopes = field.jacobian(where)
    found = sensitivity(field, 1)
    searched = largest_stretch(slopes).max()
    assert searched <= found.per_length <= searched * (1 + 1e-3)
    assert found.kind == "exact"
    # What was found is there: the rate at the place that is named, within the tolerance.
    assert found.per_length == pytest.approx(largest_stretch(field.jacobian([found.where]))[0], rel=1.1e-6)
    searched = largest_sum(slopes).max()
    assert searched <= found.l1 <= searched * (1 + 2e-3)


def test_the_search_ends_with_a_bound_when_it_is_cut_short() -> None:
    field = FIELDS["open plate"]
    truth = sensitivity(field, 1).per_length
    short = steepest(field, largest_stretch, euclidean, 1e-6, most_work=2000)
    assert short.kind == "bound"
    assert truth < short.value < 10 * truth


def test_compiled_boxes_are_the_plain_ones() -> None:
    for name in ("open plate", "insulated plate", "hot insulated plate"):
        field, half = FIELDS[name], np.array([0.1, 0.07])
        middles = half + Simulation(2).uniforms(60).reshape(30, 2) * ([3, 2] - 2 * half)
        for one, other in zip(
            plate_bounds([field.axes], middles, half),
            box_bounds(field, largest_stretch, euclidean, middles, half),
            strict=True,
        ):
            assert np.allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("name", ["line", "open plate", "insulated plate", "hot insulated plate", "plates"])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_no_place_in_a_box_exceeds_its_bound(name: str, norm: str) -> None:
    """Large boxes, in which the corners alone bound little; with the remainder no place exceeds the bound."""
    field = FIELDS[name]
    low, high = field.bounds
    half = (high - low) / 12
    steps = [a + (2 * np.arange(6) + 1) * h for a, h in zip(low, half, strict=True)]
    middles = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, len(low))
    measure, plain = (largest_stretch, euclidean) if norm == "l2" else (largest_sum, absolute)
    _, bounds = box_bounds(field, measure, plain, middles, half)
    inside = 2 * Simulation(3).uniforms(200 * len(low)).reshape(200, -1) - 1
    for middle, bound in zip(middles, bounds, strict=True):
        assert measure(field.jacobian(middle + inside * half)).max() <= bound * (1 + 1e-12)


def test_norms_of_jacobians() -> None:
    slopes = Simulation(4).uniforms(2 * 9 * 5).reshape(9, 5, 2) - 0.5
    angles = np.linspace(0, math.pi, 20001)
    moved = slopes @ np.stack([np.cos(angles), np.sin(angles)])  # (readings, k, angles)
    assert np.allclose(largest_stretch(slopes), np.linalg.norm(moved, axis=0).max(axis=1), rtol=1e-7)
    assert np.allclose(largest_sum(slopes), np.abs(moved).sum(axis=0).max(axis=1), rtol=1e-6)


# ── large graphs ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("tau", [0.02, 0.2, 1.0])
def test_the_quadrature_is_never_below(tau: float, steps: int) -> None:
    edges = random_edges(60, 150, 2)
    for graph in (Graph(edges, tau), star(30, tau), complete(12, tau), Graph([(0, 1)], tau)):
        laplacian, pairs = graph.network.laplacian(), graph.network.edges
        kernel = expm(-tau * laplacian.toarray())
        truth = (kernel[:, pairs[:, 0]] - kernel[:, pairs[:, 1]]) ** 2
        bounds = squared_norms(laplacian, pairs, tau, steps)
        assert (bounds >= truth.sum(axis=0) * (1 - 1e-12) - 1e-15).all()
        if tau == 0.02:
            assert (bounds <= truth.sum(axis=0) * 1.1).all()
        alone = squared_norms(laplacian, np.arange(graph.shape[1])[:, None], tau, steps)
        assert (alone >= (kernel**2).sum(axis=0) * (1 - 1e-12)).all()


@pytest.fixture
def screened(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Small graphs are treated as large ones are."""
    monkeypatch.setattr(_edges, "FEW_READINGS", 0)
    monkeypatch.setattr(_edges, "MOST_EXACT", 0)
    return monkeypatch


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_screening_finds_the_steepest_edge(tau: float, screened: pytest.MonkeyPatch) -> None:
    graph = Graph(random_edges(300, 1200, 4), tau, lengths=None)
    kernel = expm(-tau * graph.network.laplacian().toarray())
    pairs = graph.network.edges
    truth = np.linalg.norm(kernel[:, pairs[:, 0]] - kernel[:, pairs[:, 1]], axis=0)
    found = sensitivity(graph, 1, randomness=Simulation(1))
    assert found.kind == "exact"
    assert truth.max() <= found.l2 <= truth.max() * (1 + 1e-8)
    assert found.where == tuple(pairs[truth.argmax()].tolist())
    assert found.l1 >= np.abs(kernel[:, pairs[:, 0]] - kernel[:, pairs[:, 1]]).sum(axis=0).max()
    assert found.rate_l1.kind == "bound"
    assert found.failure_probability == (0.0 if tau == 0.1 else 2.0**-64)


def test_a_bound_where_too_many_edges_are_alike(screened: pytest.MonkeyPatch) -> None:
    """On a ring all edges are equal, so none is ruled out by another."""
    ring = Graph([(k, (k + 1) % 400) for k in range(400)], 3.0)
    screened.setattr(_edges, "MOST_LEFT", 20)
    found = sensitivity(ring, 1, randomness=Simulation(1))
    screened.undo()
    truth = sensitivity(ring, 1)
    assert (truth.kind, truth.failure_probability) == ("exact", 0.0)
    assert found.kind == "bound"
    # The largest of 400 estimates of 256 draws, over the share that none of them falls below.
    share = lowest_share(256, 2.0**-64 / 3 / 800)
    assert truth.l2 < found.l2 < 1.3 * truth.l2 / math.sqrt(share)


def test_screening_of_a_matrix_on_a_network(screened: pytest.MonkeyPatch) -> None:
    """No graph behind it, so sketches alone."""
    edges = random_edges(40, 60, 5)
    matrix = Simulation(6).uniforms(40 * 700).reshape(700, 40)
    matrix[:, 7] *= 20
    field = Linear(matrix, network=Network(edges))
    found = sensitivity(field, 1, randomness=Simulation(2))
    screened.undo()
    truth = sensitivity(field, 1)
    assert (found.kind, found.failure_probability) == ("exact", 2.0**-64)
    assert found.l2 == pytest.approx(truth.l2, rel=1e-9)
    assert found.where == truth.where
    assert 7 in found.where


def test_screening_snapshots_of_graphs(screened: pytest.MonkeyPatch) -> None:
    edges = random_edges(120, 300, 7)
    field = Snapshots([Graph(edges, tau, np.arange(0, 120, 2)) for tau in (0.05, 0.2)])
    found = sensitivity(field, 1, randomness=Simulation(2))
    screened.undo()
    assert found.l2 == pytest.approx(sensitivity(field, 1).l2, rel=1e-8)
    assert found.kind == "exact"


def test_sketches_are_normal_and_their_quantile_is_that_of_chi_square() -> None:
    drawn = normals(200_001, Simulation(8))
    assert len(drawn) == 200_001

    def law(x: np.ndarray) -> np.ndarray:
        from scipy.stats import norm

        return np.asarray(norm.cdf((x + 0.5) / 10))

    assert_distribution(np.rint(drawn * 10).astype(np.int64), law)
    for draws in (64, 256):
        share = lowest_share(draws, 2.0**-64 / 10**6)
        assert chi2.cdf(share * draws, draws) <= 2.0**-64 / 10**6
        assert chi2.cdf(share * draws * 1.01, draws) > 2.0**-64 / 10**6


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reach", [0, -1, float("nan"), float("inf"), None])
def test_a_reach_that_is_none(reach: Any) -> None:
    with pytest.raises(InvalidInput, match=f"reach is {reach!r}"):
        sensitivity(Line(5, 5, 0.1), reach)


def test_nothing_lies_between_candidates_of_a_graph() -> None:
    for field in (Graph([(0, 1)], 1), Linear([[1, 2]], [0, 1])):
        with pytest.raises(InvalidInput, match="between is True"):
            sensitivity(field, 1, between=True)


def test_too_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_edges, "MOST_WORK", 100)
    with pytest.raises(TooLarge, match="20 places have 190 pairs, with 4 readings"):
        sensitivity(FIELDS["matrix in the plane"], 1)


def test_the_unit_is_named() -> None:
    assert sensitivity(Line(5, 5, 0.1), 1).unit == "metre"
    assert sensitivity(Graph([(0, 1)], 1), 1).unit == "unit of edge length"
    assert sensitivity(Linear([[1, 2]], [0, 1]), 1).unit == "unit of the positions"
