"""Basis pursuit denoising: recover sources as the smallest total strength that explains noisy readings, with a proof.

    minimise  Σ f   subject to   ‖M f − ỹ‖₂ ≤ r = σ √χ²_{m, confidence},   0 ≤ f ≤ b

Here f are the strengths at the places, M is the field's matrix, ỹ are the m noisy readings, and b is the largest
strength. This is Algorithm 1 of A. Gilbert and A. McMillan, "Local Differential Privacy for Physical Sensor Data and
Sparse Recovery", with another radius r. The noise is shorter than the printed radius σ√m with a probability of little
more than a half. The noise is shorter than the radius r used here, from the quantile of χ², with the given confidence
(errata E4-7). Basis pursuit is post-processing of published readings and costs no privacy.

The method is column generation: the problem is solved over a few chosen places
(:mod:`heathaze.sensors.recovery._interior_point`). The multipliers u of this solution give every place i a price,
(Mᵀu)_i, by one product with the adjoint. A place adds 1 to Σ f for each unit of strength, so places whose price exceeds
1 are added to the chosen places. If no price exceeds 1, the answer is optimal. The multipliers also prove how good the
answer is: for every u and every f that satisfies the constraints,

    Σ f  ≥  ỹᵀu − r‖u‖ − Σ b·max(0, (Mᵀu)_i − 1).

At the end this bound is computed with the field itself, so the proof does not depend on how the answer was found. If no
f within the bounds explains the readings, the f with the least residual is returned and marked as not feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.sensors.physics._base import floats
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._interior_point import Solved, least_residual, least_sum, polish, thin
from heathaze.sensors.recovery.peaks import neighbours
from heathaze.types import Booleans, Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROUNDS = 60
"""Largest number of rounds of column generation; 5 to 15 rounds usually suffice."""

BATCH = 24
"""Largest number of places added in a round: local maxima of the price, highest first."""

MOST_NUMBERS = 2**26
"""Largest number of entries in the basis, and in the columns: half a gigabyte each."""

MOST_PLACES = 3000
"""Largest number of chosen places; their problem is solved with a dense matrix of this many rows."""

DEPENDENT = 1e-11
"""A column whose part outside the span is shorter than this fraction of its length adds no direction to the span."""

MARGIN = 1e-10
"""Answers keep this fraction of the radius as a margin, so that rounding cannot make the residual exceed the radius."""

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Pursuit:
    """The answer of basis pursuit, and a bound on how much better any other answer can be.

    Attributes:
        strengths: One strength for each place, from 0 to the bound; zero at most places.
        feasible: Whether these sources explain the readings. If False, these sources have the least residual. If
            ``residual − gap`` also exceeds ``radius``, it is proved that no sources explain the readings; this proof
            fails only if the search ran out of steps.
        objective: The total strength Σ f.
        residual: The residual ‖M f − y‖, computed with the field.
        radius: Largest residual of a feasible answer, up to rounding.
        gap: Objective minus a proved lower bound, so no answer is better by more than this. If not ``feasible``, the
            gap is that of the residual.
        steps: Total number of Newton steps.
        rounds: Number of times that prices of all places were computed, by one product with the adjoint each.
    """

    strengths: Floats
    feasible: bool
    objective: float
    residual: float
    radius: float
    gap: float
    steps: int
    rounds: int

    @property
    def violation(self) -> float:
        """Amount by which the residual exceeds the radius."""
        return max(self.residual - self.radius, 0.0)


def radius(sigma: float, readings: int, confidence: float = 0.95) -> float:
    """Radius of basis pursuit: the length σ √χ²_{m, confidence} that the noise of m readings does not exceed.

    The noise exceeds the printed radius σ√m with a probability of almost a half (errata E4-7).

    Args:
        sigma: Standard deviation of the noise of a reading.
        readings: Number m of readings.
        confidence: Probability that the noise is not longer than the radius, between 0 and 1.

    >>> round(radius(1, 50) / 50**0.5, 6), round(radius(1, 500) / 500**0.5, 6)
    (1.161936, 1.051786)
    """
    from scipy.special import gammaincinv

    # The quantile of χ² with m degrees of freedom is twice the quantile of a gamma distribution of shape m/2.
    return float(sigma * math.sqrt(2 * gammaincinv(readings / 2, confidence)))


def basis_pursuit(
    field: Field,
    readings: npt.ArrayLike,
    sigma: float,
    *,
    confidence: float = 0.95,
    at_most: float = 1.0,
    tolerance: float = 1e-5,
) -> Pursuit:
    """Recover sources by basis pursuit: the smallest total strength that explains the readings up to their noise.

    A field of 1,000 places and 500 readings takes about 0.1 s: 5 to 15 products with the adjoint, and the responses of
    a few dozen places.

    Args:
        field: The field. Only ``apply``, ``adjoint`` and the ``responses`` of some places are used.
        readings: One reading for each row of the field; NaN marks a missing reading, whose row is left out.
        sigma: Standard deviation of the noise of a reading, positive.
        confidence: Probability that the true sources satisfy the constraint, between 0 and 1.
        at_most: Largest strength of a place; may be infinite.
        tolerance: Largest accepted gap, as a fraction of the objective, or of the residual if no answer is feasible.

    Returns:
        The answer with its gap. The gap is correct even if it exceeds the tolerance.

    Raises:
        InvalidInput: The readings do not fit the field, or a number is out of range.

    >>> class OneToOne:
    ...     shape, positions, bounds, network = (3, 3), None, None, None
    ...     def apply(self, strengths): return strengths
    ...     def adjoint(self, readings): return readings
    ...     def responses(self, where): return np.eye(3)[:, where]
    >>> found = basis_pursuit(OneToOne(), [0.9, 0, 0], sigma=0.1)
    >>> [round(float(strength), 3) for strength in found.strengths], round(0.9 - found.radius, 3)
    ([0.62, 0.0, 0.0], 0.62)
    """
    values = _parse_readings(field, readings)
    _check(sigma, confidence, at_most, tolerance)
    seen = np.isfinite(values)
    if not seen.any():
        raise InvalidInput("All readings are missing; give at least one reading that is a number.")
    limit = radius(sigma, int(seen.sum()), confidence)
    return _Search(field, values, seen, limit, float(at_most), float(tolerance)).run()


class _Search:
    """Basis pursuit by column generation, for one vector y of readings.

    In the rows of missing readings, both the readings and M f are set to zero. Every vector u proves a lower bound, and
    the best bound is kept. During the search, u comes from the multipliers of the problem over the chosen places. At
    the optimum the vector y − M f has the same direction as u, but near the optimum it is less exact: its error is the
    square root of the multipliers' error.
    """

    def __init__(
        self, field: Field, readings: Floats, seen: Booleans, radius: float, at_most: float, tolerance: float
    ) -> None:
        self.field, self.seen, self.radius, self.at_most, self.tolerance = field, seen, radius, at_most, tolerance
        self.readings = np.where(seen, readings, 0.0)
        self.near = neighbours(field)
        self.span = Span(self.readings)
        self.steps = self.rounds = 0
        # Proved lower bounds: of the sum of any f within radius and bounds, and of the residual of any f within bounds.
        self.least_sum = self.least_residual = 0.0
        self._sums: Floats | None = None  # Mᵀ1, computed when first needed

    def run(self) -> Pursuit:
        """Find the least total strength within the radius, or the least residual if nothing is within the radius."""
        if float(np.linalg.norm(self.readings)) <= self.radius:
            return self._answer(np.empty(0))
        strengths = self._find_feasible()
        if self.span.residual(strengths) >= self.radius * (1 - 1e-9):
            return self._answer(thin(self.span.columns, strengths, self.at_most) if strengths.size else strengths)
        return self._minimise_sum(strengths)

    # ── is any f within the radius? ─────────────────────────────────────────────────────────────────────────────────

    def _find_feasible(self) -> Floats:
        """Find strengths of the chosen places with a residual within the radius, or with the least residual."""
        strengths = np.empty(0)
        finest, wanted = 0.01 * self.tolerance, 1e-3
        direction, left = self.readings, float(np.linalg.norm(self.readings))
        while self.rounds < ROUNDS:
            prices = self._adjoint(direction)
            self.least_residual = max(self.least_residual, self._residual_bound(direction, prices))
            over = left - self.least_residual
            if left <= self.radius * (1 - 1e-6) or over <= 0.1 * self.tolerance * left:
                break
            # Solve with low accuracy while places are still added, and with full accuracy afterwards.
            if self._add_places(prices, 0.0):
                wanted = max(finest, min(wanted, 0.1 * over / left))
            elif wanted <= finest or self.span.places.size == 0:
                break
            else:
                wanted = finest
            solved = least_residual(self.span.columns, self.span.wanted, self.at_most, wanted)
            strengths = self._clipped(solved)
            left = self.span.residual(strengths)
            # The multipliers have length 1. The part of the residual outside the basis is added in proportion.
            inside = math.sqrt(max(left**2 - self.span.beyond, 0.0))
            length = max(float(np.linalg.norm(solved.multipliers)), TINY)
            direction = self.span.lifted(inside * (solved.multipliers / length), 1.0)
        return strengths

    def _residual_bound(self, direction: Floats, prices: Floats) -> float:
        """Lower bound of the residual of any f within the bounds: yᵀû − Σ b·max(0, (Mᵀû)_i) for a unit vector û."""
        if math.isfinite(self.at_most):
            worth = float(self.readings @ direction) - self.at_most * float(np.maximum(prices, 0).sum())
            return worth / max(float(np.linalg.norm(direction)), TINY)
        # Without an upper bound of strengths, no price may be positive. So a multiple of the all-ones vector, whose
        # prices are positive, is subtracted until no price is positive.
        everywhere = self.seen.astype(np.float64)
        if self._sums is None:
            self._sums = self._adjoint(everywhere)
        if (self._sums <= 0).any():
            return 0.0
        lowered = direction - max(float((prices / self._sums).max()), 0.0) * everywhere
        return float(self.readings @ lowered) / max(float(np.linalg.norm(lowered)), TINY)

    # ── the least sum within the radius ─────────────────────────────────────────────────────────────────────────────

    def _minimise_sum(self, inside: Floats) -> Pursuit:
        """Minimise the total strength over the chosen places, and add places until no price exceeds 1.

        Args:
            inside: Strengths of the first chosen places, with a residual within the radius.
        """
        finest, wanted = 0.01 * self.tolerance, 1e-3
        while True:
            ball = self.span.ball(self.radius)
            solved = least_sum(self.span.columns, self.span.wanted, ball, self.at_most, wanted)
            strengths = self.span.pulled_in(self._clipped(solved), inside, self.radius * (1 - MARGIN))
            share = float(np.linalg.norm(solved.multipliers)) / ball
            prices = self._prove(self.span.lifted(solved.multipliers, share))
            gap = 1 - self.least_sum / max(float(strengths.sum()), TINY)
            done = gap <= self.tolerance or self.rounds >= ROUNDS
            if not done and self._add_places(prices, 1.0):
                wanted = max(finest, min(0.1 * gap, wanted))
                continue
            # Try to polish the answer to the exact optimum. If that fails, solve more accurately and try again.
            polished = self._polished(strengths, prices[self.span.places])
            if polished is not None and (done or wanted <= finest):
                return polished
            if wanted <= finest:
                thinned = self._answer(thin(self.span.columns, strengths, self.at_most))
                return thinned if self._is_good(thinned) else self._answer(strengths)
            wanted = finest

    def _polished(self, found: Floats, prices: Floats) -> Pursuit | None:
        """Polish strengths to the exact optimum of basis pursuit; None if that fails."""
        ball = self.span.ball(self.radius)
        values = polish(self.span.columns, self.span.wanted, ball, self.at_most, found, 1 - prices)
        if values is None:
            return None
        # At the exact optimum, y − M f is as exact as the strengths, and gives the best lower bound.
        self._prove(self.readings - self._apply(self._at_all_places(values)))
        polished = self._answer(values)
        return polished if self._is_good(polished) else None

    def _is_good(self, answer: Pursuit) -> bool:
        return answer.feasible and answer.gap <= self.tolerance * answer.objective

    def _prove(self, u: Floats) -> Floats:
        """Update the proved lower bound of the total strength by a multiple c·u of u; return the prices Mᵀu.

        The bound c·(yᵀu − r‖u‖) − Σ b·max(0, c·(Mᵀu)_i − 1) is concave and piecewise linear in c, with kinks at
        1/(Mᵀu)_i, so the best c is at a kink.
        """
        prices = self._adjoint(u)
        worth = float(self.readings @ u) - self.radius * float(np.linalg.norm(u))
        dear = np.sort(prices[prices > 0])[::-1]
        if worth <= 0 or dear.size == 0:
            return prices
        if math.isfinite(self.at_most):
            # After the kinks of the k highest prices the slope is worth − b·(sum of these prices). The best c is where
            # the slope becomes negative.
            kinks = np.flatnonzero(worth <= self.at_most * np.cumsum(dear))
            scale = 1 / float(dear[kinks[0] if kinks.size else -1])
            bound = scale * worth - self.at_most * float(np.maximum(scale * dear - 1, 0).sum())
        else:
            bound = worth / float(dear[0])
        self.least_sum = max(self.least_sum, bound)
        return prices

    def _answer(self, values: Floats) -> Pursuit:
        """Make the answer from strengths of the chosen places: residual computed by the field, and gap to the bound."""
        strengths = self._at_all_places(values)
        residual = float(np.linalg.norm(self.readings - self._apply(strengths)))
        feasible = residual <= self.radius * (1 + 1e-9)
        objective = float(strengths.sum())
        gap = objective - self.least_sum if feasible else residual - self.least_residual
        return Pursuit(strengths, feasible, objective, residual, self.radius, gap, self.steps, self.rounds)

    # ── the field and the chosen places ─────────────────────────────────────────────────────────────────────────────

    def _apply(self, strengths: Floats) -> Floats:
        return np.where(self.seen, self.field.apply(strengths), 0.0)

    def _adjoint(self, readings: Floats) -> Floats:
        self.rounds += 1
        return np.asarray(self.field.adjoint(readings), dtype=np.float64)

    def _clipped(self, solved: Solved) -> Floats:
        """Clip the solver's strengths to the bounds, which the solver satisfies only up to its tolerance."""
        self.steps += solved.steps
        return np.clip(solved.strengths, 0.0, self.at_most)

    def _at_all_places(self, strengths: Floats) -> Floats:
        everywhere = np.zeros(self.field.shape[1])
        everywhere[self.span.places] = strengths
        return everywhere

    def _add_places(self, prices: Floats, cost: float) -> bool:
        """Add places whose price exceeds a cost and is a local maximum; return whether any was added."""
        outside = prices.copy()
        outside[self.span.places] = -np.inf
        worthy = np.flatnonzero(outside > cost)
        peaks = worthy[outside[worthy] >= _highest_around(self.near, outside, worthy)]
        peaks = peaks[np.argsort(-outside[peaks], kind="stable")][:BATCH]
        if self.field.network is None:
            # A source between two candidates needs both, so neighbours are also added. On a graph neighbours are not
            # added, because each column needs a product with the heat kernel.
            around = np.unique(self.near[peaks].indices)
            peaks = np.union1d(peaks, around[outside[around] > cost])
        total = len(self.span.places) + len(peaks)
        if peaks.size == 0 or total > MOST_PLACES or total * len(self.readings) > MOST_NUMBERS:
            return False
        self.span.add(peaks, np.where(self.seen[:, None], self._columns(peaks), 0.0))
        return True

    def _columns(self, places: Indices) -> Floats:
        """Columns of M for some places; the field is asked by coordinates in a continuous space, otherwise by index."""
        if self.field.bounds is not None and self.field.positions is not None:
            return np.asarray(self.field.responses(self.field.positions[places]), dtype=np.float64)
        return np.asarray(self.field.responses(places), dtype=np.float64)


class Span:
    """The columns M_A of the chosen places, in an orthonormal basis Q of their span.

    Columns of a heat kernel are nearly dependent: in floats, a hundred columns span about twenty dimensions. So
    M_A = Q R, where R has few rows, and ‖M_A f − y‖² = ‖R f − z‖² + ‖y − Q z‖² with z = Qᵀy. The problem over the
    chosen places then has one row for each row of R instead of one for each reading.

    Attributes:
        places: Indices of the chosen places, in the order in which they were added.
        columns: The matrix R.
        wanted: The vector z.
    """

    def __init__(self, readings: Floats) -> None:
        self.places: Indices = np.empty(0, dtype=np.intp)
        self.columns: Floats = np.empty((0, 0))
        self.wanted: Floats = np.empty(0)
        self._rest = readings.copy()
        self._basis: Floats = np.empty((len(readings), 0))

    @property
    def beyond(self) -> float:
        """Squared length ‖y − Q z‖² of the part of the readings that the chosen places cannot explain."""
        return float(self._rest @ self._rest)

    def ball(self, radius: float) -> float:
        """Radius that is left for the chosen places: ρ = √(r² − ‖y − Q z‖²), or 0 if the difference is negative."""
        return math.sqrt(max(radius**2 - self.beyond, 0.0))

    def residual(self, strengths: Floats) -> float:
        """Residual ‖M_A f − y‖ of strengths of the chosen places."""
        return math.sqrt(float(np.sum((self.columns @ strengths - self.wanted) ** 2)) + self.beyond)

    def pulled_in(self, strengths: Floats, inside: Floats, radius: float) -> Floats:
        """Move strengths towards the strengths ``inside`` until their residual is within the radius, but no further."""
        here, there = self.columns @ strengths - self.wanted, self.columns[:, : len(inside)] @ inside - self.wanted
        ball = self.ball(radius)
        c = float(here @ here) - ball**2
        if c <= 0:
            return strengths
        # Solve ‖here + t (there − here)‖² = ρ² for t between 0 and 1.
        way = there - here
        a, b = float(way @ way), float(here @ way)
        t = min(c / max(math.sqrt(max(b * b - a * c, 0.0)) - b, TINY), 1.0)
        pulled = (1 - t) * strengths
        pulled[: len(inside)] += t * inside
        return pulled

    def lifted(self, coefficients: Floats, share: float) -> Floats:
        """Vector of readings from coefficients in the basis: Q · coefficients + share · (y − Q z)."""
        return np.asarray(self._basis @ coefficients + share * self._rest)

    def add(self, places: Indices, columns: Floats) -> None:
        """Add the columns of further places to the span."""
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
        """Orthonormal basis of the parts of new columns that lie outside the span."""
        outside = self._without_basis(columns)
        left, sizes, _ = np.linalg.svd(outside, full_matrices=False)
        longest = float(np.linalg.norm(columns, axis=0).max(initial=0.0))
        fresh = left[:, sizes > DEPENDENT * longest]
        # Scaling small parts to length 1 also enlarged their rounding errors, so directions are orthogonalised again.
        return np.asarray(np.linalg.qr(self._without_basis(fresh))[0])

    def _without_basis(self, columns: Floats) -> Floats:
        """Remove the part of columns inside the span, in two passes, because a single pass leaves rounding errors."""
        for _ in range(2):
            columns = columns - self._basis @ (self._basis.T @ columns)
        return columns


def _highest_around(near: csr_array, values: Floats, places: Indices) -> Floats:
    """Largest value among the neighbours of each place, to find local maxima of the price."""
    rows = near[places]
    highest = np.full(len(places), -np.inf)
    some = np.diff(rows.indptr) > 0
    highest[some] = np.maximum.reduceat(values[rows.indices], rows.indptr[:-1][some])
    return highest


def _parse_readings(field: Field, readings: npt.ArrayLike) -> Floats:
    values = floats(readings, "The readings are not numbers; give one number for each row of the field.")
    if values.shape != (field.shape[0],):
        raise InvalidInput(f"The readings have shape {values.shape}; give one for each of {field.shape[0]} rows.")
    if np.isinf(values).any():
        raise InvalidInput("A reading is infinite; give numbers, or NaN for a missing reading.")
    return values


def _check(sigma: float, confidence: float, at_most: float, tolerance: float) -> None:
    if not (math.isfinite(sigma) and sigma > 0):
        raise InvalidInput(f"Sigma is {sigma!r}; give the standard deviation of a reading's noise, a positive number.")
    if not 0 < confidence < 1:
        raise InvalidInput(f"The confidence is {confidence!r}; give a probability between 0 and 1, such as 0.95.")
    if not at_most > 0:
        raise InvalidInput(f"at_most, the largest strength, is {at_most!r}; give a positive number, or infinity.")
    if not 0 < tolerance < 1:
        raise InvalidInput(f"The tolerance is {tolerance!r}; give a fraction of the objective, such as 1e-5.")
