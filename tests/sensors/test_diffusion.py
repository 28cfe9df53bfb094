"""Fields: the physics against formulas and other solvers, adjoints, missing readings, stacks, and bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator, expm_multiply

from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.randomness import Simulation
from heathaze.sensors.physics import Graph, Line, Linear, Plate, Snapshots
from heathaze.sensors.physics import graph as _graph
from heathaze.sensors.physics.line import Axis
from heathaze.sensors.physics.network import Network

EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (3, 4), (4, 5)]
WEIGHTS = [1, 0.5, 2, 1, 3, 0.25, 1]
MATRIX = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 2.0], [1.0, 1.0, -1.0], [0.0, 3.0, 0.0]])


def uniforms(*shape: int, seed: int = 1) -> np.ndarray:
    return Simulation(seed).uniforms(math.prod(shape)).reshape(shape)


SENSORS = uniforms(7, 2, seed=3) * [3, 2]

FIELDS: dict[str, Any] = {
    "line": Line(30, 7, 0.02, length=2.0),
    "line with sensors": Line(30, None, 0.02, sensors=[0.1, 0.7, 0.35]),
    "open plate": Plate((3, 2), SENSORS, 0.1, candidates=9),
    "insulated plate": Plate((3, 2), SENSORS, 0.1, "insulated", candidates=9),
    "hot insulated plate": Plate((3, 2), SENSORS, 3.0, "insulated", candidates=9),
    "graph": Graph(EDGES, 0.3, weights=WEIGHTS),
    "graph with sensors": Graph(EDGES, 0.3, [4, 0, 2], weights=WEIGHTS),
    "dense": Linear(MATRIX, [0, 1, 3]),
    "sparse": Linear(csr_array(MATRIX), [(0, 0), (1, 0), (3, 1)]),
    "operator": Linear(aslinearoperator(MATRIX), network=Network([(0, 1), (1, 2)])),
    "snapshots": Snapshots([Line(30, 7, 0.02), Line(30, 5, 0.1)]),
    "snapshots of graphs": Snapshots([Graph(EDGES, tau, weights=WEIGHTS) for tau in (0.1, 1.0)]),
}


@pytest.fixture(params=FIELDS.values(), ids=FIELDS.keys())
def field(request: pytest.FixtureRequest) -> Any:
    return request.param


# ── what all fields share ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_adjoint_is_the_adjoint(field: Any) -> None:
    readings, places = field.shape
    f, y = uniforms(places, seed=4), uniforms(readings, seed=5)
    assert field.apply(f).shape == (readings,)
    assert field.adjoint(y).shape == (places,)
    assert y @ field.apply(f) == pytest.approx(field.adjoint(y) @ f, rel=1e-13)


def test_columns_are_treated_as_vectors_are(field: Any) -> None:
    readings, places = field.shape
    f, y = uniforms(places, 3, seed=4), uniforms(readings, 3, seed=5)
    assert np.allclose(field.apply(f), np.stack([field.apply(column) for column in f.T], axis=1), rtol=1e-13, atol=0)
    assert np.allclose(field.adjoint(y), np.stack([field.adjoint(c) for c in y.T], axis=1), rtol=1e-13, atol=1e-15)


def test_responses_are_columns(field: Any) -> None:
    places = field.shape[1]
    some = [0, places - 1, 1]
    where = field.positions[some] if field.bounds is not None else some
    assert np.allclose(field.responses(where), field.apply(np.eye(places))[:, some], rtol=1e-12, atol=1e-16)


def test_missing_readings_drop_rows(field: Any) -> None:
    matrix = field.apply(np.eye(field.shape[1]))
    readings = len(matrix)
    lost = np.zeros(readings, dtype=bool)
    lost[[0, readings - 1]] = True
    for rest in (field.without(lost), field.without([readings - 1, 0]), field.only(~lost)):
        assert rest.shape == (readings - 2, field.shape[1])
        assert np.allclose(rest.apply(np.eye(field.shape[1])), matrix[1:-1], rtol=1e-12, atol=1e-15)
        assert np.allclose(rest.adjoint(np.eye(readings - 2)), matrix[1:-1].T, rtol=1e-12, atol=1e-15)
    assert field.without([]).shape == field.shape


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([99], "no reading 99"),
        ([-1], "no reading -1"),
        ([True], r"mask of readings has the shape \(1,\)"),
        ([0.5], "named by values of type float64"),
    ],
)
def test_rows_that_are_not_there(field: Any, rows: list[Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        field.without(rows)
    with pytest.raises(InvalidInput, match="None of the"):
        field.without(np.ones(field.shape[0], dtype=bool))


def test_wrong_lengths(field: Any) -> None:
    with pytest.raises(InvalidInput, match="strengths have the shape"):
        field.apply(np.ones(field.shape[1] + 1))
    with pytest.raises(InvalidInput, match="readings have the shape"):
        field.adjoint(np.ones(field.shape[0] + 1))


def test_the_jacobian_is_the_derivative(field: Any) -> None:
    if field.bounds is None:
        assert field.positions is None or not hasattr(field, "taylor")
        return
    low, high = field.bounds
    where = low + (high - low) * uniforms(5, len(low), seed=6)
    for axis, step in enumerate(np.eye(len(low)) * 1e-5):
        slope = (field.responses(where + step) - field.responses(where - step)) / 2e-5
        assert np.allclose(field.jacobian(where)[:, :, axis], slope, atol=1e-7 * np.abs(slope).max())


def test_taylor_bounds_hold_over_the_box(field: Any) -> None:
    if field.bounds is None:
        assert field.positions is None or not hasattr(field, "taylor")
        return
    low, high = field.bounds
    half = 0.05 * (high - low)
    middles = low + half + (high - low - 2 * half) * uniforms(4, len(low), seed=7)
    taylor = field.taylor(middles, half)
    for share in 2 * uniforms(20, len(low), seed=8) - 1:
        delta = share * half
        slopes = field.jacobian(middles + delta)
        assert (np.linalg.norm(slopes, axis=-1) <= taylor.most_slope * (1 + 1e-12) + 1e-15).all()
        rest = np.linalg.norm(slopes - taylor.slopes - taylor.bends @ delta, axis=-1)
        assert (rest <= 0.5 * delta @ delta * taylor.most_twist * (1 + 1e-9) + 1e-13).all()


# ── lines and plates ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_is_the_papers_matrix_the_right_way_round() -> None:
    """Errata E4-5: a row for each sensor."""
    n, m, T = 6, 4, 0.05
    expected = [
        [math.exp(-((i / n - j / m) ** 2) / (4 * T)) / math.sqrt(4 * math.pi * T) for i in range(1, n + 1)]
        for j in range(1, m + 1)
    ]
    assert np.allclose(Line(n, m, T).matrix, expected, rtol=1e-14)


def test_a_line_in_metres_is_the_unit_line_stretched() -> None:
    """A length L with T L² spreads the same heat over L times the length."""
    assert np.allclose(Line(6, 4, 0.05 * 49, length=7).matrix * 7, Line(6, 4, 0.05).matrix, rtol=1e-13)


@pytest.mark.parametrize("T", [0.003, 0.05, 0.4])
def test_images_and_cosines_agree(T: float) -> None:
    sensors, x = np.array([0.0, 0.3, 1.7, 2.0]), np.linspace(0, 2, 41)
    images = Axis(2.0, sensors, T, insulated=True, cosines=False).derivatives(x, 3)
    cosines = Axis(2.0, sensors, T, insulated=True, cosines=True).derivatives(x, 3)
    for one, other in zip(images, cosines, strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-12 * np.abs(one).max())


def test_insulated_walls_keep_the_heat_and_let_none_through() -> None:
    axis = Axis(1.5, np.array([0.2, 1.1]), 0.03, insulated=True)
    x = (np.arange(4000) + 0.5) * 1.5 / 4000
    assert np.allclose(axis.derivatives(x, 0)[0].mean(axis=1) * 1.5, 1, rtol=1e-6)
    assert np.allclose(axis.derivatives(np.array([0.0, 1.5]), 1)[1], 0, atol=1e-12)


def test_walls_far_away_change_nothing() -> None:
    sensors = [(4.5, 5.0), (5.5, 5.2)]
    where = [(5.0, 5.0), (4.7, 5.9)]
    far = Plate((10, 10), sensors, 0.05, "insulated").responses(where)
    assert np.allclose(far, Plate((10, 10), sensors, 0.05).responses(where), rtol=1e-12)


def test_a_plate_is_the_two_dimensional_heat_kernel() -> None:
    sensors, where, T = np.array([(1.0, 0.5)]), np.array([(1.4, 1.5)]), 0.2
    distance = 0.4**2 + 1.0**2
    expected = math.exp(-distance / (4 * T)) / (4 * math.pi * T)
    assert Plate((3, 2), sensors, T).responses(where)[0, 0] == pytest.approx(expected, rel=1e-13)


def test_an_insulated_plate_solves_the_heat_equation() -> None:
    """Finite differences on a fine grid, insulated, from a source in one cell."""
    size, T = 60, 0.02
    sensors = [(0.525, 0.475), (0.125, 0.875)]
    second = np.diag(np.full(size, -2.0)) + np.diag(np.ones(size - 1), 1) + np.diag(np.ones(size - 1), -1)
    second[0, 0] = second[-1, -1] = -1
    kernel = expm(T * second * size**2) * size  # along one axis
    plate = Plate((1, 1), sensors, T, "insulated", candidates=size)
    x, y = (np.array(sensors).T * size).astype(int)
    source = (13, 41)
    middle = (np.array(source) + 0.5) / size
    found = plate.responses([middle])[:, 0]
    assert np.allclose(found, kernel[x, source[0]] * kernel[y, source[1]], rtol=2e-2)


def test_candidates_of_a_plate_are_a_map() -> None:
    plate = Plate((4, 2), [(1, 1)], 0.1, candidates=8)
    assert plate.grid_shape == (4, 8)
    assert plate.positions.reshape(4, 8, 2)[3, 1].tolist() == [0.75, 1.75]


# ── graphs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tau", [1e-3, 0.3, 20.0])
def test_a_graph_is_the_exponential_of_its_laplacian(tau: float) -> None:
    graph = Graph(EDGES, tau, weights=WEIGHTS)
    laplacian = graph.network.laplacian().toarray()
    assert np.allclose(graph.apply(np.eye(6)), expm(-tau * laplacian), rtol=0, atol=5e-15)


def test_large_graphs_have_no_dense_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_graph, "MOST_DENSE_NODES", 5)
    graph = Graph(EDGES, 0.7, [5, 1], weights=WEIGHTS)
    assert graph._dense is None
    f = uniforms(6, 2)
    assert np.allclose(graph.apply(f), expm_multiply(-0.7 * graph.network.laplacian(), f)[[5, 1]], atol=1e-13)
    assert np.allclose(graph.responses([3]), graph.apply(np.eye(6))[:, [3]], atol=1e-15)
    y = uniforms(2)
    assert y @ graph.apply(f[:, 0]) == pytest.approx(graph.adjoint(y) @ f[:, 0], rel=1e-13)


def test_no_eigenvalue_exceeds_the_bound_of_the_series() -> None:
    """A star, a path, a clique with a tail: the series converges only within its bound."""
    star = [(0, j) for j in range(1, 40)]
    tail = [(i, j) for j in range(8) for i in range(j)] + [(7 + k, 8 + k) for k in range(9)]
    for edges in (star, [(k, k + 1) for k in range(30)], tail):
        graph = Graph(edges, 1.0)
        _, doubled = graph._series
        values = np.linalg.eigvalsh(doubled.toarray()) / 2
        assert values.min() >= -1
        assert values.max() <= 1 + 1e-12


def exact_kernel(edges: list[tuple[int, int]], weights: list[float], tau: float, nodes: int) -> Any:
    """exp(−τL) with 40 digits."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(40):
        laplacian = mp.zeros(nodes)
        for (one, other), weight in zip(edges, weights, strict=True):
            for row, column, sign in ((one, one, 1), (other, other, 1), (one, other, -1), (other, one, -1)):
                laplacian[row, column] += sign * mp.mpf(weight)
        values, vectors = mp.eigsy(laplacian)
        return vectors * mp.diag([mp.exp(-mp.mpf(tau) * value) for value in values]) * vectors.T


@pytest.mark.parametrize("seed", range(12))
def test_rounding_stays_within_what_a_graph_says_of_it(seed: int) -> None:
    """Weights from 1e-3 to 1e5 and thousands of terms, where errors are far more than the 1e-15 left out."""
    coins = Simulation(seed)
    nodes = 2 + seed % 6
    edges = [(k, k + 1) for k in range(nodes - 1)] + [(k, k + 2) for k in range(nodes - 2)]
    weights = (10 ** (8 * coins.uniforms(len(edges)) - 3)).tolist()
    tau = min(10 ** float(4 * coins.uniforms(1)[0]), 2e6 / sum(weights))
    graph = Graph(edges, tau, weights=weights)
    exact = exact_kernel(edges, weights, tau, nodes)
    found = graph.apply(np.eye(nodes))
    errors = np.array([[float(found[i, j] - exact[i, j]) for j in range(nodes)] for i in range(nodes)])
    assert np.linalg.norm(errors, ord=2) <= 1e-14 + graph.rounding / 2


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "much", None, True])
def test_times_that_are_none(value: Any) -> None:
    for make in (
        lambda: Line(5, 5, value),
        lambda: Plate((1, 1), [(0.5, 0.5)], value),
        lambda: Graph([(0, 1)], value),
    ):
        with pytest.raises(InvalidInput, match=rf"(T|tau) is {value!r}"):
            make()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Line(5, 5, 1e-13), "T is 1e-13 on a length of 1"),
        (lambda: Line(0, 5, 0.1), "n is 0"),
        (lambda: Line(5, 2.5, 0.1), r"m is 2\.5"),
        (lambda: Line(5, None, 0.1), "Neither m nor sensors"),
        (lambda: Line(5, 3, 0.1, sensors=[0.1, 0.2]), "m is 3, but sensors has 2 positions"),
        (lambda: Line(5, 5, 0.1, length=-2), "length is -2"),
        (lambda: Line(5, None, 0.1, sensors=[0.5, 1.2]), r"Sensor 1 lies at 1\.2, outside of 0 to 1"),
        (lambda: Line(5, None, 0.1, sensors=[0.5, 0.1, 0.5]), r"Sensors 0 and 2 both lie at 0\.5"),
        (lambda: Line(5, None, 0.1, sensors=[]), "There are no sensors"),
        (lambda: Line(5, None, 0.1, sensors=[float("nan")]), "position among sensors is nan"),
        (lambda: Plate((2, 1), [(1, 1.5)], 0.1), r"Sensor 0 lies at \(1, 1\.5\), outside of 0 to \(2, 1\)"),
        (lambda: Plate((2, 1), [(1, 0), (0, 1), (1, 0)], 0.1), r"Sensors 0 and 2 both lie at \(1, 0\)"),
        (lambda: Plate((2, 1), [], 0.1), "no sensors|shape"),
        (lambda: Plate((2, 1), [1, 2, 3], 0.1), r"positions of sensors have the shape \(3,\)"),
        (lambda: Plate((2, -1), [(1, 0)], 0.1), "height of the plate is -1"),
        (lambda: Plate(2, [(1, 0)], 0.1), "shape of the plate is 2"),  # type: ignore[arg-type]
        (lambda: Plate((2000, 1), [(1, 0)], 0.1), "use a Line"),
        (lambda: Plate((2, 1), [(1, 0)], 0.1, "closed"), "walls is 'closed'"),  # type: ignore[arg-type]
        (lambda: Plate((2, 1), [(1, 0)], 0.1, candidates=0), "candidates is 0"),
        (lambda: Graph([(0, 1), (2, 3)], 0.1), "has 2 parts"),
        (lambda: Graph([(0, 1)], 0.1, [2]), "reads node 2; the 2 nodes"),
        (lambda: Graph([(0, 1)], 0.1, [1, 0, 1]), "Node 1 is named twice as a sensor"),
        (lambda: Graph([(0, 1)], 0.1, []), "There are no sensors"),
        (lambda: Graph([(0, 1)], 0.1, [0.5]), "sensors are float64"),
        (lambda: Graph(Network([(0, 1)]), 0.1, nodes=2), "A network has its own nodes"),
        (lambda: Graph(Network([(0, 1)]), 0.1, weights=np.ones(1)), "A network has its own nodes"),
        (lambda: Graph(Network([(0, 1), (1, 2)]), 0.1, lengths=np.ones(2)), "A network has its own nodes"),
        (lambda: Graph([(0, 2**31 - 1)], 0.1), "2147483648 nodes and edges for at most 2 of them"),
        (lambda: Graph([(0, 1), (1,)], 0.1), "Not all edges are pairs"),
        (lambda: Graph([(0, 1)], 0.1, nodes=10**5000), "number of nodes is a number of thousands of digits"),
        (lambda: Graph([(0, 1), (1, 2)], 0.1, weights=[1, 10**400]), "weights of edges are not numbers"),
        (lambda: Graph([(0, 1), (1, 2)], 0.1, weights=[1, (2, 3)]), "weights of edges are not numbers"),
        (lambda: Graph([(0, 1)], 0.1).responses([2]), "There is no place 2"),
        (lambda: Graph([(0, 1)], 0.1).responses([0.5]), "Places are given as float64"),
        (lambda: Linear([[1, float("nan")]], [0, 1]), "matrix holds nan"),
        (lambda: Linear(csr_array([[1, float("inf")]]), [0, 1]), "matrix holds inf"),
        (
            lambda: Linear([[1, 0, 0], [1, 0, 0]], [0, 1, 2]),
            "2 of the matrix's 3 columns are zero, the first is column 1",
        ),
        (lambda: Linear(csr_array([[0.0, 0], [0, 0]]), [0, 1]), "2 of the matrix's 2 columns are zero"),
        (lambda: Linear([1, 2], [0, 1]), r"matrix has the shape \(2,\)"),
        (lambda: Linear([["a", "b"]], [0, 1]), "holds a value that is not a number"),
        (lambda: Linear([[1, 10**400]], [0, 1]), "holds a value that is not a number"),
        (lambda: Linear([[1, 2]], [(0, 1), (2,)]), "Places have different numbers of coordinates"),
        (lambda: Linear([[1, 2]], [0, 10**400]), "positions of places are not numbers"),
        (lambda: Linear([[1, 2]], [0, 1, 2]), "2 columns, but there are 3 places"),
        (lambda: Linear([[1, 2]], [0, 0]), "Places 0 and 1 have the same position"),
        (lambda: Linear([[1, 2]]), "either the positions"),
        (lambda: Linear([[1, 2]], [0, 1], network=Network([(0, 1)])), "either the positions"),
        (lambda: Snapshots([]), "no snapshots"),
        (lambda: Snapshots(3), "list of fields; found one int"),  # type: ignore[arg-type]
        (lambda: Snapshots(Line(5, 5, 0.1)), "list of fields; found one Line"),  # type: ignore[arg-type]
        (lambda: Snapshots([3]), "Snapshot 0 is of type int and not a field"),
        (lambda: Snapshots([Line(5, 5, 0.1), MATRIX]), "Snapshot 1 is of type ndarray and not a field"),
        (lambda: Snapshots([Line(5, 5, 0.1), Line(6, 5, 0.1)]), "Snapshot 1 has 6 places"),
        (lambda: Snapshots([Line(5, 5, 0.1), Line(5, 5, 0.1, length=2)]), "other positions of its places"),
        (lambda: Snapshots([Line(2, 5, 0.1), Graph([(0, 1)], 1)]), "another network"),
        (lambda: Snapshots([Graph([(0, 1)], 1), Graph([(0, 1)], 1, lengths=[2])]), "another network"),
        (lambda: Snapshots([Line(2, 5, 0.1), Linear([[1, 1]], [0.5, 1])]), "other bounds"),
    ],
)
def test_a_sentence_for_what_cannot_be(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make()


@pytest.mark.parametrize("value", [10**400, 10**5000, 1e300, 1e-300], ids=["400", "5000", "1e300", "1e-300"])
def test_numbers_beyond_all_physics(value: Any) -> None:
    for make in (
        lambda: Line(5, 5, value),
        lambda: Line(5, 5, 0.1, length=value),
        lambda: Line(5, 5, value, length=value),
        lambda: Plate((1, 1), [(0.5, 0.5)], value),
        lambda: Plate((value, 1), [(0.5, 0.5)], 0.1),
        lambda: Plate((value, value), [(0, 0)], value),
    ):
        with pytest.raises(InvalidInput, match=r"(T|length|width of the plate) is ") as error:
            make()
        assert len(str(error.value)) < 250
    if value > 1:
        with pytest.raises((InvalidInput, TooLarge), match=r"tau (is|times)"):
            Graph([(0, 1)], value)
        with pytest.raises(InvalidInput, match="n is "):
            Line(value, 5, 0.1)


def test_the_size_is_looked_at_before_anything_is_made() -> None:
    """Positions of 2^31 sensors would take 16 GiB."""
    with pytest.raises(TooLarge, match="The matrix of a line with 1 places and 2147483648 sensors"):
        Line(1, 2**31, 0.1)


def test_what_does_not_fit() -> None:
    with pytest.raises(TooLarge, match="use fewer candidate places"):
        Line(10**6, 1000, 0.1)
    with pytest.raises(TooLarge, match="tau times the largest degree"):
        Graph([(0, 1)], 1e9)


def test_an_empty_snapshot_is_left_out() -> None:
    field = Snapshots([Line(5, 2, 0.1), Line(5, 3, 0.2)])
    rest = field.without([0, 1, 3])
    assert len(rest.fields) == 1
    assert np.array_equal(rest.apply(np.eye(5)), field.apply(np.eye(5))[[2, 4]])
