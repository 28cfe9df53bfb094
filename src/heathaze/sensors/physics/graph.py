"""A graph as field: heat, or a rumour, that spreads along edges from source nodes to sensor nodes."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, positive
from heathaze.errors import InvalidInput, TooLarge
from heathaze.sensors.physics._base import FieldBase, block, candidate_numbers, check_indices, units
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MOST_DENSE_NODES = 2000
"""Largest number of nodes for which the heat kernel is stored as a dense matrix."""

MOST_TERMS = 20_000
"""Largest number of terms of the Chebyshev series, which needs about √(70 τ · largest degree) terms."""

_LEFT_OUT = 1e-15
"""Largest sum of the Chebyshev coefficients that are left out; :attr:`Graph.rounding` is added to this error."""

_ROOM = 2**22
"""Largest number of floats in the Lanczos vectors that are held in memory at a time."""

_NOTHING = 1e-10
"""A Lanczos vector shorter than this times the largest degree counts as zero (rounding), which ends the recurrence."""


@dataclass(frozen=True, eq=False, init=False)
class Graph(FieldBase):
    """Field of heat on a graph: readings = S · exp(−τL) · strengths.

    Here L = D − W is the graph's Laplacian (degrees minus weights), and S selects the rows of the sensor nodes.

    Args:
        edges: Pairs of node indices, from 0, or a :class:`~heathaze.sensors.physics.network.Network`.
        tau: τ, diffusivity times time, positive.
        sensors: Indices of the nodes that have a sensor. By default all nodes.
        nodes: Number of nodes. By default the largest index in the edges plus 1.
        weights: Conductivity of each edge for heat. By default 1.
        lengths: Length of each edge, for distances between nodes. By default 1.

    Raises:
        InvalidInput: The edges are not a connected network, or tau or the sensors are out of range.
        TooLarge: tau times the largest degree exceeds 4 million.

    Products are computed by a Chebyshev series. Let Λ be the largest sum, over all nodes, of a node's degree and the
    weighted mean degree of its neighbours. No eigenvalue of L is larger than Λ (Gershgorin's theorem for D⁻¹(D + W)D).
    With x = (2/Λ)L − 1, whose eigenvalues lie in [−1, 1], and z = τΛ/2,

        exp(−τL) = e^(−z) Σ_k (2 − [k = 0]) (−1)^k I_k(z) T_k(x),

    where I_k are modified Bessel functions and T_k Chebyshev polynomials. The absolute values of the coefficients add
    up to 1, and |T_k| ≤ 1. So the error of the series is at most the sum of the absolute values of the coefficients
    left out, plus rounding.

    >>> pair = Graph([(0, 1)], 0.5)
    >>> pair.apply(np.array([1.0, 0.0])).round(4).tolist()  # (1 ± e^(−1)) / 2
    [0.6839, 0.3161]
    """

    network: Network
    tau: float
    sensors: Integers

    positions = None
    bounds = None
    unit = "unit of edge length"
    nonnegative = True

    def __init__(
        self,
        edges: npt.ArrayLike | Network,
        tau: float,
        sensors: npt.ArrayLike | None = None,
        *,
        nodes: int | None = None,
        weights: npt.ArrayLike | None = None,
        lengths: npt.ArrayLike | None = None,
    ) -> None:
        if isinstance(edges, Network) and any(given is not None for given in (nodes, weights, lengths)):
            raise InvalidInput(
                "A network has its own nodes, weights and lengths; give these arguments to Network only."
            )
        network = edges if isinstance(edges, Network) else Network(edges, nodes=nodes, weights=weights, lengths=lengths)
        read = np.arange(network.nodes) if sensors is None else _parse_sensors(sensors, network.nodes)
        read.flags.writeable = False
        assign(self, network=network, tau=positive(tau, "tau", "diffusivity times time"), sensors=read)
        if (product := self.tau * float(network.degrees().max())) > MOST_TERMS**2 / 100:
            raise TooLarge(
                f"tau times the largest degree is {product:.3g}, more than "
                f"{MOST_TERMS**2 / 100:.3g}; use a smaller tau or smaller weights, or leave out nodes of huge degree."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sensors, and number of nodes."""
        return len(self.sensors), self.network.nodes

    def apply(self, strengths: Floats) -> Floats:
        """Readings of the graph's sensors: S · exp(−τL) · strengths.

        Args:
            strengths: Strength of a source at each node.

        Returns:
            One number for each reading.
        """
        found = block(strengths, self.shape[1], "strengths")
        if (dense := self._dense) is not None:
            return dense @ found
        return self._spread(found)[self.sensors]

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint of the graph's heat kernel: exp(−τL) · Sᵀ · readings.

        Args:
            readings: One number for each reading.

        Returns:
            One number for each node.
        """
        found = block(readings, self.shape[0], "readings")
        if (dense := self._dense) is not None:
            return dense.T @ found
        at_nodes = np.zeros((self.shape[1], *found.shape[1:]))
        at_nodes[self.sensors] = found
        return self._spread(at_nodes)

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some nodes, shape (sensors, nodes given).

        Args:
            where: Indices of the nodes.

        Returns:
            One column of readings for each node.
        """
        numbers = candidate_numbers(where, self.shape[1])
        if (dense := self._dense) is not None:
            return dense[:, numbers]
        return self.apply(units(numbers, self.shape[1]))

    def _with(self, rows: Integers) -> Self:
        return type(self)(self.network, self.tau, self.sensors[rows])

    def bounds_of_moves(self, moves: Integers, steps: int) -> Floats:
        """Upper bounds of the change ‖M_i − M_j‖² of readings for moves between two nodes, or of ‖M_i‖² for one node.

        Here M_i are the readings of a unit source at node i.

        Args:
            moves: Indices of nodes, shape (k, 2) for pairs or (k, 1) for single nodes.
            steps: Number of Lanczos steps, which is the radius of the neighbourhood that is used around each node.

        Returns:
            One bound for each row of ``moves``.
        """
        return squared_norms(self._laplacian, moves, self.tau, steps)

    def neighbours(self, steps: int) -> Floats:
        """Size of each node's neighbourhood in the graph, within this number of Lanczos steps.

        Args:
            steps: Number of Lanczos steps.

        Returns:
            One size for each node.
        """
        return _neighbourhood_sizes(self._laplacian, steps)

    @property
    def work(self) -> int:
        """Number of multiplications for one product with the graph's heat kernel."""
        return len(self._series[0]) * int(self._laplacian.nnz)

    @functools.cached_property
    def rounding(self) -> float:
        """Estimate of the rounding error in the readings of a unit source, in ‖·‖₂; see ``diffusion.md``.

        The estimate is 4 √r · u · z, where u = 2^−53, z = τΛ/2, and r is 1 plus the largest number of neighbours.
        """
        most = int(np.diff(self._laplacian.indptr).max())
        return 4 * math.sqrt(most) * 2.0**-53 * self.tau * self._bound / 2

    @functools.cached_property
    def _bound(self) -> float:
        """Upper bound Λ of the eigenvalues of the graph's Laplacian L."""
        degrees = self.network.degrees()
        # Eigenvalues of L are at most those of |L| = 2D − L = D + W, and a matrix without negative entries has no
        # eigenvalue above its largest row sum.
        return float(((2 * degrees**2 - self._laplacian @ degrees) / degrees).max()) * (1 + 1e-12)

    @functools.cached_property
    def _laplacian(self) -> csr_array:
        return self.network.laplacian()

    def _spread(self, start: Floats) -> Floats:
        """Spread heat on the graph, exp(−τL) · start, by the Chebyshev recurrence: one product with L for each term."""
        if not start.any():
            return np.zeros_like(start)
        coefficients, doubled = self._series
        before, now = start, 0.5 * (doubled @ start)
        total = coefficients[0] * before + coefficients[1] * now
        for coefficient in coefficients[2:]:
            after = doubled @ now
            after -= before
            total += coefficient * after
            before, now = now, after
        return np.asarray(total)

    @functools.cached_property
    def _series(self) -> tuple[Floats, csr_array]:
        """The Chebyshev series of the heat kernel: its positive coefficients, and the matrix 2 · (1 − (2/Λ)L)."""
        from scipy.sparse import csr_array, eye_array
        from scipy.special import ive

        z = self.tau * self._bound / 2
        coefficients = 2 * ive(np.arange(int(np.ceil(12 * np.sqrt(z) + 40))), z)
        coefficients[0] /= 2
        left_out = np.cumsum(coefficients[::-1])[::-1]
        coefficients = coefficients[: max(2, int(np.searchsorted(-left_out, -_LEFT_OUT)))]
        return coefficients, csr_array(2 * eye_array(self.network.nodes) - (4 / self._bound) * self._laplacian)

    @functools.cached_property
    def _dense(self) -> Floats | None:
        if self.network.nodes > MOST_DENSE_NODES:
            return None
        return np.ascontiguousarray(self._spread(units(self.sensors, self.shape[1])).T)


def _parse_sensors(sensors: npt.ArrayLike, nodes: int) -> Integers:
    found = np.asarray(sensors)
    if found.size == 0:
        raise InvalidInput("There are no sensors; name at least one node that is read.")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InvalidInput(f"The sensors are {found.dtype} of shape {found.shape}; give a list of node indices.")
    check_indices(found, nodes, "A sensor reads node", "nodes")
    ordered = np.sort(found)
    if (twice := ordered[1:][np.diff(ordered) == 0]).size:
        raise InvalidInput(f"Node {twice[0]} is named twice as a sensor; name it once, and average its readings.")
    return found.astype(np.int64)


def squared_norms(laplacian: csr_array, moves: Integers, tau: float, steps: int) -> Floats:
    """Upper bounds of ‖exp(−τL)v‖² on a graph, computed from the neighbourhood of each vector v only.

    The squared norm equals ∫ exp(−2τλ) dμ(λ), where μ is the spectral measure of L at v. A few Lanczos steps from v
    give a Gauss-Radau quadrature of this integral with one quadrature point at 0, below which L has no eigenvalue. The
    error of the quadrature has the sign of an odd derivative of exp(−2τλ), which is negative, so the quadrature is
    never below the integral (Golub and Meurant, *Matrices, Moments and Quadrature with Applications*, section 6). The
    bound is sharp while τ times the degrees is small.

    Args:
        laplacian: The graph's Laplacian L.
        moves: One row for each v: two nodes i, j for v = e_i − e_j, or one node i for v = e_i.
        tau: τ, diffusivity times time.
        steps: Number of Lanczos steps.
    """
    # Moves with neighbourhoods of similar size are computed together.
    size = _neighbourhood_sizes(laplacian, steps)[moves].sum(axis=1)
    order = np.argsort(size, kind="stable")
    cuts = np.searchsorted(np.cumsum(size[order]), np.arange(_ROOM, size.sum(), _ROOM))
    bounds = np.empty(len(moves))
    for part in np.split(order, np.unique(cuts)):
        if len(part):
            bounds[part] = _quadrature(laplacian, moves[part], tau, steps)
    return bounds


def _neighbourhood_sizes(laplacian: csr_array, steps: int) -> Floats:
    """For each node of the graph, an upper bound of the non-zeros in a Lanczos vector after ``steps`` steps."""
    size = np.diff(laplacian.indptr).astype(np.float64)
    for _ in range(steps - 1):
        size = (laplacian != 0) @ size
    return np.asarray(size)


def _quadrature(laplacian: Any, moves: Integers, tau: float, steps: int) -> Floats:
    from scipy.sparse import csr_array

    count, ends = moves.shape
    signs = np.tile([1.0, -1.0][:ends], count) / math.sqrt(ends)
    now = csr_array((signs, (np.repeat(np.arange(count), ends), moves.ravel())), shape=(count, laplacian.shape[0]))
    before, beta = None, np.zeros(count)
    jacobi = np.zeros((count, steps + 1, steps + 1))
    small = _NOTHING * float(laplacian.diagonal().max())
    for step in range(steps):
        after = now @ laplacian
        alpha = _row_dots(after, now)
        after = after - _scaled(now, alpha)
        if before is not None:
            after = after - _scaled(before, beta)
        jacobi[:, step, step] = alpha
        beta = np.sqrt(_row_dots(after, after))
        beta[beta < small] = 0
        jacobi[:, step, step + 1] = jacobi[:, step + 1, step] = beta
        before, now = now, _scaled(after, np.divide(1, beta, out=np.zeros(count), where=beta > 0))
    jacobi[:, steps, steps] = _last_pivot(jacobi, steps)
    nodes, vectors = np.linalg.eigh(jacobi)
    # ‖v‖² is the number of ends.
    return ends * np.einsum("ek,ek->e", vectors[:, 0, :] ** 2, np.exp(-2 * tau * np.maximum(nodes, 0)))  # type: ignore[no-any-return]


def _last_pivot(jacobi: Floats, steps: int) -> Floats:
    """Last diagonal entry of the Lanczos matrix that makes 0 an eigenvalue (Gauss-Radau): β² over the last pivot.

    Here β is the last off-diagonal entry, and the pivots are those of the matrix without its last row and column.
    """
    pivot = jacobi[:, 0, 0].copy()
    last = np.zeros(len(jacobi))
    for step in range(1, steps + 1):
        beta = jacobi[:, step, step - 1]
        last = np.divide(beta**2, pivot, out=np.zeros(len(jacobi)), where=beta > 0)
        if step < steps:
            pivot = jacobi[:, step, step] - last
    return last


def _row_dots(one: Any, other: Any) -> Floats:
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


def _scaled(rows: Any, factors: Floats) -> Any:
    scaled = rows.copy()
    scaled.data = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return scaled
