"""Distances between sources: against scipy on a line, linear programs in the plane and on graphs, axioms, refusals."""

from __future__ import annotations

import importlib
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse.csgraph import shortest_path
from scipy.stats import wasserstein_distance

from heathaze.errors import InvalidInput, TooLarge
from heathaze.sensors.emd import graph_emd, line_emd, plane_emd, source_emd
from heathaze.sensors.physics import Graph, Line, Plate
from heathaze.sensors.physics.network import Network

module = importlib.import_module("heathaze.sensors.emd")  # the package has a function of that name

SOLVER = 1e-7
seeds = st.integers(0, 10**6)


def all_pairs(p: np.ndarray, q: np.ndarray, distance: np.ndarray) -> float:
    """By definition: one variable for each pair."""
    p, q = p / p.sum(), q / q.sum()
    marginals = np.vstack([np.kron(np.eye(len(p)), np.ones(len(q))), np.kron(np.ones(len(p)), np.eye(len(q)))])
    return float(linprog(distance.ravel(), A_eq=marginals[:-1], b_eq=np.concatenate([p, q])[:-1]).fun)


def masses(rng: np.random.Generator, count: int) -> np.ndarray:
    mass = rng.random(count) * (rng.random(count) < 0.6)
    mass[rng.integers(count)] += 1
    return mass


def network(rng: np.random.Generator, nodes: int) -> Network:
    """A random tree and some more edges, of lengths between 0.1 and 1.1."""
    tree = [(int(rng.integers(i)), i) for i in range(1, nodes)]
    more = {tuple(sorted(map(int, rng.choice(nodes, 2, replace=False)))) for _ in range(nodes)}
    edges = sorted({*tree, *more})
    return Network(edges, nodes=nodes, lengths=rng.random(len(edges)) + 0.1)


# ── oracles ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(seeds, st.integers(1, 30), st.integers(1, 30))
def test_a_line_equals_scipy(seed: int, many: int, more: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 9, many) / 4 - 1, rng.random(more) * 3
    p, q = masses(rng, many), masses(rng, more)
    assert line_emd(x, p, y, q) == pytest.approx(wasserstein_distance(x, y, p, q), abs=1e-12)
    assert line_emd(x, p, x, p) == pytest.approx(0, abs=1e-14)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 8), st.integers(1, 8), st.sampled_from([2, 3]))
def test_the_plane_equals_the_linear_program(seed: int, many: int, more: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    points, others = rng.integers(0, 4, (many, dimensions)) * 1.0, rng.integers(0, 4, (more, dimensions)) * 1.0
    p, q = masses(rng, many), masses(rng, more)
    distance = np.linalg.norm(points[:, None] - others[None], axis=2)
    assert plane_emd(points, p, others, q) == pytest.approx(all_pairs(p, q, distance), abs=SOLVER)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(2, 9))
def test_a_graph_equals_the_linear_program(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    net = network(rng, nodes)
    p, q = masses(rng, nodes), masses(rng, nodes)
    exact = all_pairs(p, q, shortest_path(net.adjacency(), directed=False))
    assert graph_emd(net, p, q) == pytest.approx(exact, abs=SOLVER)
    if exact > 1e-6:
        assert module._flow(net, p / p.sum() - q / q.sum()) == pytest.approx(exact, abs=SOLVER)


def test_many_points_equal_fewer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With POT, and without it by the linear program that grows."""
    rng = np.random.default_rng(1)
    points, others = rng.random((160, 2)), rng.random((150, 2))
    p, q = rng.random(160), rng.random(150)
    with_pot = plane_emd(points, p, others, q)
    monkeypatch.setitem(sys.modules, "ot.lp", None)
    assert plane_emd(points, p, others, q) == pytest.approx(with_pot, rel=1e-7)
    assert with_pot == pytest.approx(all_pairs(p, q, np.linalg.norm(points[:, None] - others[None], axis=2)), rel=1e-6)


def test_many_nodes_flow_along_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    net = network(rng, 300)
    p, q = masses(rng, 300), masses(rng, 300)
    by_pairs = graph_emd(net, p, q)
    monkeypatch.setattr(module, "MAX_SEARCHES", 5)
    assert graph_emd(net, p, q) == pytest.approx(by_pairs, rel=1e-7)


def test_a_path_is_a_line() -> None:
    rng = np.random.default_rng(3)
    lengths = rng.random(19) + 0.1
    net = Network([(i, i + 1) for i in range(19)] + [(0, 19)], lengths=[*lengths, 100.0])
    x = np.concatenate([[0.0], np.cumsum(lengths)])
    p, q = masses(rng, 20), masses(rng, 20)
    on_a_line = line_emd(x, p, x, q)
    assert graph_emd(net, p, q) == pytest.approx(on_a_line, abs=SOLVER)
    slanted = x[:, None] * np.array([0.6, 0.8])
    assert plane_emd(slanted, p, slanted, q) == pytest.approx(on_a_line, abs=SOLVER)


# ── axioms ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=40)
@given(seeds, st.sampled_from(["line", "plate", "graph"]))
def test_axioms(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    field: Line | Plate | Graph
    if kind == "line":
        field = Line(12, 3, 0.1, length=7.0)
    elif kind == "plate":
        field = Plate((4, 3), [(1, 1)], 0.1, candidates=4)
    else:
        field = Graph(network(rng, 12), 0.1)
    a, b, c = (masses(rng, 12) for _ in range(3))
    ab, bc, ac = source_emd(field, a, b), source_emd(field, b, c), source_emd(field, a, c)
    assert source_emd(field, a, a) == pytest.approx(0, abs=1e-14)
    assert source_emd(field, 3 * a, a) == pytest.approx(0, abs=1e-14)
    assert ab == pytest.approx(source_emd(field, b, a), abs=SOLVER)
    assert ac <= ab + bc + SOLVER
    assert ab >= 0
    same_mass = b * (a.sum() / b.sum())
    assert source_emd(field, a, same_mass, normalise=False) == pytest.approx(a.sum() * ab, abs=1e-6)


def test_one_source_moved() -> None:
    unit = np.eye(12)
    assert source_emd(Line(12, 3, 0.1, length=6.0), unit[1], unit[7]) == pytest.approx(3.0)
    assert source_emd(Plate((4, 3), [(1, 1)], 0.1, candidates=4), unit[0], unit[11]) == pytest.approx(math.hypot(3, 2))
    ring = Graph([(i, (i + 1) % 12) for i in range(12)], 0.1, lengths=np.full(12, 0.5))
    assert source_emd(ring, unit[1], unit[9]) == pytest.approx(2.0)


@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_very_small_and_very_large_masses(scale: float) -> None:
    assert line_emd([0, 1], [scale, 0], [0, 1], [scale, scale]) == pytest.approx(0.5)
    assert plane_emd([(0, 0), (0, 1)], [scale, 0], [(0, 0), (0, 1)], [scale, scale]) == pytest.approx(0.5)


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unequal_masses_are_refused() -> None:
    """A partial distance would make f and f + e_j neighbours (errata E4-4)."""
    field = Line(3, 2, 0.1)
    with pytest.raises(InvalidInput, match=r"The truth has a total mass of 1, the estimate of 2; .*\(normalise=True\)"):
        source_emd(field, [1, 0, 0], [1, 1, 0], normalise=False)
    assert source_emd(field, [1, 0, 0], [1, 1, 0]) == pytest.approx(1 / 6)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    field = Line(3, 2, 0.1)
    for wrong, sentence in (
        ([1, 1], r"The estimate has masses of shape \(2,\); give one mass for each of 3 places"),
        ([1, -1, 1], "A mass of the estimate is negative or not finite"),
        ([1, math.nan, 1], "A mass of the estimate is negative or not finite"),
        ([0, 0, 0], "The estimate holds no mass"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            source_emd(field, [1, 0, 0], wrong)
    with pytest.raises(InvalidInput, match=r"The points of the truth have shape \(1, 2\); give numbers on a line"):
        line_emd([(0, 1)], [1], [0], [1])
    with pytest.raises(InvalidInput, match=r"The points of the estimate have shape \(2,\); give rows of coordinates"):
        plane_emd([(0, 1)], [1], [0, 1], [1, 1])
    with pytest.raises(InvalidInput, match=r"have 2 coordinates, points of the estimate have 3; give equally many"):
        plane_emd([(0, 1)], [1], [(0, 1, 2)], [1])
    with pytest.raises(InvalidInput, match="A point of the truth is not finite"):
        line_emd([math.inf], [1], [0], [1])

    class Nowhere:
        positions = network = None

    with pytest.raises(InvalidInput, match="The field has neither positions nor a network; give coord"):
        source_emd(Nowhere(), [1], [1])
    monkeypatch.setattr(module, "MAX_PAIRS", 3)
    with pytest.raises(TooLarge, match="Mass moves from 2 places to 2 places, too many pairs"):
        plane_emd([(0, 0), (1, 0)], [1, 1], [(0, 1), (1, 1)], [1, 1])


def test_dust_on_every_place_does_not_stop_the_program() -> None:
    """Masses of many orders of magnitude: sums that agree but for rounding once contradicted each other."""
    rng = np.random.default_rng(8)
    places = rng.uniform((0, 0), (12, 8), (2700, 2))
    truth, true_places = np.ones(3), np.array([(8.58, 3.98), (5.15, 5.41), (10.27, 6.81)])
    estimate = np.zeros(2700)
    estimate[rng.choice(2700, 12, replace=False)] = rng.random(12)
    clean = plane_emd(true_places, truth, places, estimate)
    for dust in (1e-16, 1e-13, 1e-10, 1e-7):
        found = plane_emd(true_places, truth, places, estimate / estimate.sum() + dust)
        assert found == pytest.approx(clean, abs=2700 * dust * 15 + 1e-6)
