"""How basis pursuit finds the places it needs: solve over a few, price all, let the worthiest join, repeat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._interior_point import Solved, least_residual, least_sum
from heathaze.types import Booleans, Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# TODO-merged from sensors.recovery._basis_pursuit_neighbours: Which candidate places lie next to each other: on a graph by its edges, elsewhere by how far apart they are.

ON_A_LINE = 2.1
"""In steps from place to place: a peak may leave one candidate between two others empty."""

IN_THE_PLANE = 1.6
"""In steps: the eight places around one on a grid."""


def neighbours(field: Field) -> csr_array:
    """A symmetric matrix of true values between places next to each other.

    A network says it by its edges. Positions that form a lattice count in steps of the lattice, axis by axis; others in
    the median distance to the nearest. Where a field knows neither, no two places are neighbours.
    """
    from scipy.sparse import coo_array

    count = field.shape[1]
    pairs = np.empty((0, 2), dtype=np.int64)
    if field.network is not None:
        pairs = field.network.edges
    elif field.positions is not None and count > 1:
        from scipy.spatial import cKDTree

        steps = _in_steps(np.asarray(field.positions, dtype=np.float64).reshape(count, -1))
        reach = ON_A_LINE if steps.shape[1] == 1 else IN_THE_PLANE
        pairs = cKDTree(steps).query_pairs(reach, output_type="ndarray")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(both), dtype=bool), (both[:, 0], both[:, 1])), shape=(count, count)).tocsr()


def _in_steps(positions: Floats) -> Floats:
    """Positions in units of the distance from one place to the next."""
    axes = [np.unique(axis) for axis in positions.T]
    if np.prod([len(axis) for axis in axes]) == len(positions):
        # A step from a to b is at most the widest gap, so that slightly uneven lattices hold together.
        step = [float(np.diff(axis).max()) if len(axis) > 1 else 1.0 for axis in axes]
        return np.asarray(positions / np.array(step))
    from scipy.spatial import cKDTree

    nearest = cKDTree(positions).query(positions, k=2)[0][:, 1]
    step_length = float(np.median(nearest))
    return np.asarray(positions / (step_length if step_length > 0 else 1.0))


# TODO-merged from sensors.recovery._basis_pursuit_span: The columns that basis pursuit has asked for so far, in an orthonormal basis of what they span.
#
# Columns of a heat kernel are nearly dependent: a hundred of them span some twenty dimensions as far as floats can tell.
# So M_A = Q R with a short R, and ‖M_A f − y‖² = ‖R f − z‖² + ‖y − Q z‖² with z = Qᵀy: the small problem never sees the
# length of the readings.

DEPENDENT = 1e-11
"""A column whose part outside the span is this small, against its length, adds no direction to it."""


class Span:
    """Chosen places, their columns R in the basis, the readings z in the basis, and what the basis cannot explain."""

    def __init__(self, readings: Floats) -> None:
        self.places: Indices = np.empty(0, dtype=np.intp)
        self.columns: Floats = np.empty((0, 0))
        self.wanted: Floats = np.empty(0)
        self._rest = readings.copy()
        self._basis: Floats = np.empty((len(readings), 0))

    @property
    def beyond(self) -> float:
        """‖y − Q z‖²."""
        return float(self._rest @ self._rest)

    def ball(self, radius: float) -> float:
        """ρ = √(r² − ‖y − Q z‖²), zero if the basis leaves more than the radius unexplained."""
        return math.sqrt(max(radius**2 - self.beyond, 0.0))

    def residual(self, strengths: Floats) -> float:
        """‖M_A f − y‖."""
        return math.sqrt(float(np.sum((self.columns @ strengths - self.wanted) ** 2)) + self.beyond)

    def pulled_in(self, strengths: Floats, inside: Floats, radius: float) -> Floats:
        """Strengths moved towards others that are within the radius, no further than it takes to be within it."""
        here, there = self.columns @ strengths - self.wanted, self.columns[:, : len(inside)] @ inside - self.wanted
        ball = self.ball(radius)
        c = float(here @ here) - ball**2
        if c <= 0:
            return strengths
        # ‖here + t (there − here)‖² = ρ², the root between 0 and 1.
        way = there - here
        a, b = float(way @ way), float(here @ way)
        t = min(c / max(math.sqrt(max(b * b - a * c, 0.0)) - b, np.finfo(float).tiny), 1.0)
        pulled = (1 - t) * strengths
        pulled[: len(inside)] += t * inside
        return pulled

    def lifted(self, coefficients: Floats, share: float) -> Floats:
        """Q times coefficients, plus a share of what the basis cannot explain: a vector of readings."""
        return np.asarray(self._basis @ coefficients + share * self._rest)

    def add(self, places: Indices, columns: Floats) -> None:
        """Take in the columns of further places."""
        fresh = self._fresh_directions(columns)
        old = np.vstack([self.columns, np.zeros((fresh.shape[1], len(self.places)))])
        new = np.vstack([self._basis.T @ columns, fresh.T @ columns])
        self.columns = np.hstack([old, new])
        self.places = np.concatenate([self.places, places])
        self._basis = np.hstack([self._basis, fresh])
        part = fresh.T @ self._rest
        self.wanted = np.concatenate([self.wanted, part])
        self._rest = self._rest - fresh @ part

    def _fresh_directions(self, columns: Floats) -> Floats:
        """An orthonormal basis of what the columns have outside the span."""
        outside = self._without_basis(columns)
        left, sizes, _ = np.linalg.svd(outside, full_matrices=False)
        longest = float(np.linalg.norm(columns, axis=0).max(initial=0.0))
        fresh = left[:, sizes > DEPENDENT * longest]
        # What was small is now of length 1, and so is the rounding in it: once more, or the basis is none.
        return np.asarray(np.linalg.qr(self._without_basis(fresh))[0])

    def _without_basis(self, columns: Floats) -> Floats:
        """The part outside the span; taken away twice, since once leaves rounding behind."""
        for _ in range(2):
            columns = columns - self._basis @ (self._basis.T @ columns)
        return columns


# TODO-merged from sensors.recovery._basis_pursuit_polish: From an interior point to the optimum itself: few places, exact strengths, zeros that are zero.
#
# An interior point spreads what belongs to two neighbouring candidates over a dozen, and leaves dust everywhere else.

INSIDE = 1e-11
"""The exact answer is put this part of the radius inside the ball, so that rounding does not carry it out."""


EMPTY = 1e-10
"""A strength below this part of the largest is what the interior-point method leaves of zero."""

UNCHANGED = 1e-12
"""Readings that differ by this part count as the same."""


def exact(columns: Floats, wanted: Floats, ball: float, at_most: float, found: Floats, slack: Floats) -> Floats | None:
    """Strengths that satisfy the optimality conditions exactly, or nothing if that does not succeed.

    Args:
        columns: R, the columns of the chosen places.
        wanted: z.
        ball: ρ.
        at_most: b.
        found: An interior point close to the optimum.
        slack: 1 − price of each place there.
    """
    top = float(found.max())
    # On the path the product of a strength and its slack is the same for all: the larger says which one vanishes.
    full = (at_most - found < -slack * top) & (slack < 0)
    free = (found / top > np.abs(slack)) & ~full
    fixed = np.where(full, at_most, 0.0) if full.any() else np.zeros(len(found))
    rest = wanted - columns @ fixed
    few = thin(columns, np.where(free, found, 0.0), at_most)
    for start in (free, (few > 0) & (few < at_most)):
        values = _drop_negative(columns, rest, ball * (1 - INSIDE), start)
        if values is not None and values.max() <= at_most:
            return fixed + values
    return None


def thin(columns: Floats, found: Floats, at_most: float) -> Floats:
    """Strengths with the same readings and the same sum at few places: what Carathéodory's theorem promises.

    Along a combination of columns that changes neither, strengths move until one is zero or at the bound; then about
    one more is left between them than R has rows, or than floats can tell.
    """
    few = np.where(found < EMPTY * found.max(initial=0.0), 0.0, found)
    length = float(np.linalg.norm(columns @ found)) or 1.0
    weight = length / max(float(found.sum()), np.finfo(float).tiny)  # The sum counts like a reading.
    stacked = np.vstack([columns, np.full(len(found), weight)])
    between = np.flatnonzero((few > 0) & (few < at_most))
    while between.size > 1:
        block = between[: len(stacked) + 1]
        _, sizes, right = np.linalg.svd(stacked[:, block])
        ways = [_to_the_wall(few[block], way * right[-1], at_most) for way in (1.0, -1.0)]
        step, moved = min(ways, key=lambda way: way[0])
        changed = step * (float(sizes[-1]) if len(sizes) == len(block) else 0.0)
        if changed > UNCHANGED * length:
            break
        few[block] = moved
        between = np.flatnonzero((few > 0) & (few < at_most))
    return few


def _to_the_wall(here: Floats, way: Floats, at_most: float) -> tuple[float, Floats]:
    """How far strengths can go along a way until one is zero or at the bound, and where they are then."""
    room = np.where(way < 0, here, at_most - here)
    steps = np.divide(room, np.abs(way), out=np.full(len(here), np.inf), where=way != 0)
    first = int(np.argmin(steps))
    moved = np.clip(here + steps[first] * way, 0.0, at_most)
    moved[first] = 0.0 if way[first] < 0 else at_most
    return float(steps[first]), moved


def _drop_negative(columns: Floats, wanted: Floats, ball: float, free: Booleans) -> Floats | None:
    """The optimum on the free places, after giving up those that would be negative there, one by one."""
    free = free.copy()
    while free.any():
        values = _on_the_ball(columns[:, free], wanted, ball)
        if values is None:
            return None
        if values.min() >= 0:
            result = np.zeros(columns.shape[1])
            result[free] = values
            return result
        free[np.flatnonzero(free)[np.argmin(values)]] = False
    return None


def _on_the_ball(columns: Floats, wanted: Floats, ball: float) -> Floats | None:
    """The least sum with ‖R f − z‖ = ρ and no bound on f, or nothing if the ball is out of reach.

    f = the least squares − λ (RᵀR)⁻¹ 1,   λ ≥ 0 such that λ² · 1ᵀ(RᵀR)⁻¹1 fills up what they leave of ρ²
    """
    from scipy.linalg import solve_triangular

    left, triangle = np.linalg.qr(columns)
    diagonal = np.abs(np.diag(triangle))
    if columns.shape[0] < columns.shape[1] or diagonal.min() <= 1e-13 * diagonal.max():
        return None
    part = left.T @ wanted
    missed = wanted - left @ part
    unused = ball**2 - float(missed @ missed)
    if unused < 0:
        return None
    half = solve_triangular(triangle, np.ones(columns.shape[1]), trans="T")
    weight = math.sqrt(unused / float(half @ half))
    return np.asarray(solve_triangular(triangle, part - weight * half))


ROUNDS = 60
"""Some 5 to 15 suffice; this only bounds the time."""

BATCH = 24
"""At most this many places join in a round: the peaks of the price, the highest first."""

MOST_NUMBERS = 2**26
"""The basis and the columns asked for hold this many numbers at most, half a gigabyte each."""

MOST_PLACES = 3000
"""The small problem is solved with a dense matrix of this side at most."""


HAIR = 1e-10
"""Answers are this part of the radius inside it, so that rounding does not carry them out."""

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Answer:
    """Strengths of all places, whether they explain the readings, their residual, and a proven gap."""

    strengths: Floats
    feasible: bool
    residual: float
    gap: float
    steps: int
    rounds: int

    @property
    def objective(self) -> float:
        return float(self.strengths.sum())


class Search:
    """One run. Rows whose readings are missing count as zero on both sides.

    Every u proves a lower bound, so the best one met on the way is kept. On the way u comes from the multipliers of the
    small problem: y − M f has the same direction at the optimum, but near it is less exact by a root.
    """

    def __init__(
        self, field: Field, readings: Floats, seen: Booleans, radius: float, at_most: float, tolerance: float
    ) -> None:
        self.field, self.seen, self.radius, self.at_most, self.tolerance = field, seen, radius, at_most, tolerance
        self.readings = np.where(seen, readings, 0.0)
        self.near = neighbours(field)
        self.span = Span(self.readings)
        self.steps = self.rounds = 0
        self.least_sum = self.least_residual = 0.0  # What has been proved: no f in the set, or in the box, has less.
        self._sums: Floats | None = None  # Mᵀ1, once it is needed.

    def run(self) -> Answer:
        """Within the radius if anything is, otherwise the least residual."""
        if float(np.linalg.norm(self.readings)) <= self.radius:
            return self._answer(np.empty(0))
        strengths = self._reach_the_ball()
        if self.span.residual(strengths) >= self.radius * (1 - 1e-9):
            return self._answer(thin(self.span.columns, strengths, self.at_most) if strengths.size else strengths)
        return self._shrink(strengths)

    # ── is there anything within the radius? ────────────────────────────────────────────────────────────────────────

    def _reach_the_ball(self) -> Floats:
        """Strengths of the chosen places within the radius, or with the least residual if none gets there."""
        strengths = np.empty(0)
        finest, wanted = 0.01 * self.tolerance, 1e-3
        direction, left = self.readings, float(np.linalg.norm(self.readings))
        while self.rounds < ROUNDS:
            prices = self._adjoint(direction)
            self.least_residual = max(self.least_residual, self._least_possible(direction, prices))
            over = left - self.least_residual
            if left <= self.radius * (1 - 1e-6) or over <= 0.1 * self.tolerance * left:
                break
            # Coarsely while places are missing, finely when none is.
            if self._admit(prices, 0.0):
                wanted = max(finest, min(wanted, 0.1 * over / left))
            elif wanted <= finest or self.span.places.size == 0:
                break
            else:
                wanted = finest
            solved = least_residual(self.span.columns, self.span.wanted, self.at_most, wanted)
            strengths = self._within_the_box(solved)
            left = self.span.residual(strengths)
            # The multipliers have length 1; what the basis cannot explain stands beside them in proportion.
            inside = math.sqrt(max(left**2 - self.span.beyond, 0.0))
            direction = self.span.lifted(inside * _unit(solved.multipliers), 1.0)
        return strengths

    def _least_possible(self, direction: Floats, prices: Floats) -> float:
        """No f in the box has a smaller residual: yᵀû − Σ b·max(0, (Mᵀû)_i) for a unit vector û."""
        if math.isfinite(self.at_most):
            worth = float(self.readings @ direction) - self.at_most * float(np.maximum(prices, 0).sum())
            return worth / max(float(np.linalg.norm(direction)), TINY)
        # Without a bound û must have no positive price: take away as much of a vector with positive prices as it needs.
        everywhere = self.seen.astype(np.float64)
        if self._sums is None:
            self._sums = self._adjoint(everywhere)
        if (self._sums <= 0).any():
            return 0.0
        lowered = direction - max(float((prices / self._sums).max()), 0.0) * everywhere
        return float(self.readings @ lowered) / max(float(np.linalg.norm(lowered)), TINY)

    # ── the least sum within the radius ─────────────────────────────────────────────────────────────────────────────

    def _shrink(self, inside: Floats) -> Answer:
        """The least sum: over the chosen places, then over all that are worth more than they cost."""
        finest, wanted = 0.01 * self.tolerance, 1e-3
        while True:
            ball = self.span.ball(self.radius)
            solved = least_sum(self.span.columns, self.span.wanted, ball, self.at_most, wanted)
            strengths = self.span.pulled_in(self._within_the_box(solved), inside, self.radius * (1 - HAIR))
            share = float(np.linalg.norm(solved.multipliers)) / ball
            prices = self._prove(self.span.lifted(solved.multipliers, share))
            gap = 1 - self.least_sum / max(float(strengths.sum()), TINY)
            done = gap <= self.tolerance or self.rounds >= ROUNDS
            if not done and self._admit(prices, 1.0):
                wanted = max(finest, min(0.1 * gap, wanted))
                continue
            # The optimum itself is tried for at once, and if it is not to be had, once more from close by.
            polished = self._polished(strengths, prices[self.span.places])
            if polished is not None and (done or wanted <= finest):
                return polished
            if wanted <= finest:
                return self._thinned(strengths)
            wanted = finest

    def _polished(self, found: Floats, prices: Floats) -> Answer | None:
        """The optimum itself, if it can be had from this close to it."""
        ball = self.span.ball(self.radius)
        values = exact(self.span.columns, self.span.wanted, ball, self.at_most, found, 1 - prices)
        if values is None:
            return None
        # Here y − M f is as exact as the strengths are, and proves the most.
        self._prove(self.readings - self._apply(self._spread_out(values)))
        polished = self._answer(values)
        return polished if self._good(polished) else None

    def _thinned(self, strengths: Floats) -> Answer:
        """Where the optimum itself is not to be had: an answer as good at fewer places, or the one there is."""
        thinned = self._answer(thin(self.span.columns, strengths, self.at_most))
        return thinned if self._good(thinned) else self._answer(strengths)

    def _good(self, answer: Answer) -> bool:
        within = answer.residual <= self.radius * (1 + 1e-9)
        return within and answer.gap <= self.tolerance * answer.objective

    # ── what an answer is worth ─────────────────────────────────────────────────────────────────────────────────────

    def _prove(self, u: Floats) -> Floats:
        """Keep what u proves at the best scale, and return its prices Mᵀu.

        c·(yᵀu − r‖u‖) − Σ b·max(0, c·(Mᵀu)_i − 1) is concave and piecewise linear in c with kinks at 1/(Mᵀu)_i.
        """
        prices = self._adjoint(u)
        worth = float(self.readings @ u) - self.radius * float(np.linalg.norm(u))
        dear = np.sort(prices[prices > 0])[::-1]
        if worth <= 0 or dear.size == 0:
            return prices
        if math.isfinite(self.at_most):
            # Past the kinks of the k dearest places the slope is worth − b·(their sum): climb while it is positive.
            kinks = np.flatnonzero(worth <= self.at_most * np.cumsum(dear))
            scale = 1 / float(dear[kinks[0] if kinks.size else -1])
            bound = scale * worth - self.at_most * float(np.maximum(scale * dear - 1, 0).sum())
        else:
            bound = worth / float(dear[0])
        self.least_sum = max(self.least_sum, bound)
        return prices

    def _answer(self, values: Floats) -> Answer:
        """Strengths of the chosen places with their residual by the field itself and the gap to what is proved."""
        strengths = self._spread_out(values)
        residual = float(np.linalg.norm(self.readings - self._apply(strengths)))
        feasible = residual <= self.radius * (1 + 1e-9)
        gap = float(strengths.sum()) - self.least_sum if feasible else residual - self.least_residual
        return Answer(strengths, feasible, residual, gap, self.steps, self.rounds)

    # ── the field, without the rows that are missing ────────────────────────────────────────────────────────────────

    def _apply(self, strengths: Floats) -> Floats:
        return np.where(self.seen, self.field.apply(strengths), 0.0)

    def _adjoint(self, readings: Floats) -> Floats:
        self.rounds += 1
        return np.asarray(self.field.adjoint(readings), dtype=np.float64)

    def _within_the_box(self, solved: Solved) -> Floats:
        """What a small problem found; its solver keeps the box to its tolerance only."""
        self.steps += solved.steps
        return np.clip(solved.strengths, 0.0, self.at_most)

    def _spread_out(self, strengths: Floats) -> Floats:
        """Strengths of the chosen places as strengths of all."""
        everywhere = np.zeros(self.field.shape[1])
        everywhere[self.span.places] = strengths
        return everywhere

    def _admit(self, prices: Floats, cost: float) -> bool:
        """Let the peaks among the places worth more than they cost join; says whether there was one, and room."""
        outside = prices.copy()
        outside[self.span.places] = -np.inf
        worthy = np.flatnonzero(outside > cost)
        peaks = worthy[outside[worthy] >= _highest_around(self.near, outside, worthy)]
        peaks = peaks[np.argsort(-outside[peaks], kind="stable")][:BATCH]
        if self.field.network is None:
            # A source between two candidates needs both, and a column costs little; on a graph it costs a diffusion.
            around = np.unique(self.near[peaks].indices)
            peaks = np.union1d(peaks, around[outside[around] > cost])
        total = len(self.span.places) + len(peaks)
        if peaks.size == 0 or total > MOST_PLACES or total * len(self.readings) > MOST_NUMBERS:
            return False
        self.span.add(peaks, np.where(self.seen[:, None], self._columns(peaks), 0.0))
        return True

    def _columns(self, places: Indices) -> Floats:
        """M_i of some places; a continuous space is asked by coordinates, another by number."""
        if self.field.bounds is not None and self.field.positions is not None:
            return np.asarray(self.field.responses(self.field.positions[places]), dtype=np.float64)
        return np.asarray(self.field.responses(places), dtype=np.float64)


def _unit(v: Floats) -> Floats:
    return v / max(float(np.linalg.norm(v)), TINY)


def _highest_around(near: csr_array, values: Floats, places: Indices) -> Floats:
    """The highest value among the neighbours of each place."""
    rows = near[places]
    highest = np.full(len(places), -np.inf)
    some = np.diff(rows.indptr) > 0
    highest[some] = np.maximum.reduceat(values[rows.indices], rows.indptr[:-1][some])
    return highest
