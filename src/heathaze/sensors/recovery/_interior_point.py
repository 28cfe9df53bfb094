"""The solver of basis pursuit over few columns: an interior-point method, then a polish that makes the answer exact.

    least sum:       minimise  Σ f            subject to  ‖z − R f‖ ≤ ρ,  0 ≤ f ≤ b
    least residual:  minimise  t              subject to  ‖z − R f‖ ≤ t,  0 ≤ f ≤ b

Here f are strengths, R has a column for each chosen place, z are the readings, ρ is the radius and b the largest
strength. Both problems are conic programs in x = f, or x = (f, t):

    minimise cᵀx  subject to  G x + s = h,  s ∈ K;      maximise −hᵀy  subject to  Gᵀy + c = 0,  y ∈ K

The cone K consists of the non-negative numbers for each bound of f, and of one second-order cone
{(s₀, s₁): ‖s₁‖ ≤ s₀} for the ball ‖z − R f‖ ≤ ρ. Neighbouring columns of a heat kernel are nearly dependent, so
first-order methods need very many steps. Newton's method with the scaling of Y. Nesterov and M. Todd (1997) and the
correction of S. Mehrotra (1992) needs few steps, and no feasible point to start from.

An interior point spreads the strength of two neighbouring places over a dozen places and leaves tiny strengths
elsewhere. :func:`polish` solves the optimality conditions exactly on the places that hold strength. :func:`thin` moves
strength to fewer places. The decision docs/decisions/0020-basis-pursuit.md says why no solver package is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heathaze.types import Booleans, Floats

STEPS = 60
"""Largest number of Newton steps; 8 to 20 usually suffice."""

UNBOUNDED = 1e10
"""A bound this many times the unit of strengths counts as no bound, because floats cannot hold both accurately."""

LEAST_SUM = 1e-9
"""A sum of strengths below this, in the solver's units, counts as zero; the readings are then just outside the ball."""

BACK = 0.99
"""Longest step, as a fraction of the distance to the border of the cone."""

INSIDE = 1e-11
"""Margin of the exact answer inside the ball, as a fraction of the radius, so that rounding cannot move it outside."""

EMPTY = 1e-10
"""A strength below this fraction of the largest counts as zero, because an interior point is never exactly zero."""

UNCHANGED = 1e-12
"""Readings with a relative difference of at most this count as equal."""


@dataclass(frozen=True)
class Solved:
    """Solution of a basis pursuit problem: strengths f, multipliers u of the readings, and number of Newton steps.

    At the optimum u has the direction of z − R f. The price Rᵀu of a column with 0 < f < b is then 1 for the least sum,
    and 0 for the least residual.
    """

    strengths: Floats
    multipliers: Floats
    steps: int


def least_sum(columns: Floats, wanted: Floats, ball: float, at_most: float, tolerance: float) -> Solved:
    """Solve basis pursuit over few columns: the least Σ f within ball and bounds.

    Args:
        columns: Matrix R, with one column for each place.
        wanted: Readings z.
        ball: Largest residual ρ of ‖z − R f‖.
        at_most: Largest strength b; may be infinite.
        tolerance: Largest relative gap of the solution.
    """
    unit = _Units.of(columns, wanted, at_most)
    count = columns.shape[1]
    cone = np.vstack([np.zeros(count), columns * unit.column])
    offset = np.concatenate([[ball], wanted]) / unit.reading
    program = _Program(np.ones(count), cone, offset, count, at_most / unit.strength)
    # The ball may be far smaller than the readings, so errors are measured relative to the radius of the ball.
    return unit.back(program.solve(tolerance, least=LEAST_SUM, exactness=min(1.0, float(offset[0]))), sums=True)


def least_residual(columns: Floats, wanted: Floats, at_most: float, tolerance: float) -> Solved:
    """Solve for the least residual ‖z − R f‖ within the bounds.

    The arguments are the same as for :func:`least_sum`, but the tolerance is relative to ‖z‖.
    """
    unit = _Units.of(columns, wanted, at_most)
    count = columns.shape[1]
    cone = np.zeros((1 + len(wanted), count + 1))
    cone[0, -1] = -1.0
    cone[1:, :-1] = columns * unit.column
    cost = np.append(np.zeros(count), 1.0)
    offset = np.append(0.0, wanted / unit.reading)
    program = _Program(cost, cone, offset, count, at_most / unit.strength)
    return unit.back(program.solve(tolerance, least=1.0), sums=False)


@dataclass(frozen=True)
class _Units:
    """Units in which readings, strengths and columns are about 1 or less, for the accuracy of the solver."""

    reading: float
    strength: float

    @classmethod
    def of(cls, columns: Floats, wanted: Floats, at_most: float) -> _Units:
        reading = float(np.linalg.norm(wanted)) or 1.0
        longest = float(np.linalg.norm(columns, axis=0).max())
        return cls(reading, min(reading / longest if longest > 0 else 1.0, at_most))

    @property
    def column(self) -> float:
        """Factor by which columns are multiplied."""
        return self.strength / self.reading

    def back(self, solved: Solved, sums: bool) -> Solved:
        """Convert a solution of the scaled problem to the units of the readings and strengths.

        Args:
            solved: The solution of the scaled problem.
            sums: Whether the sum of strengths was minimised; if not, the distance from the readings was.
        """
        worth = self.strength / self.reading if sums else 1.0
        return Solved(solved.strengths * self.strength, solved.multipliers * worth, solved.steps)


class _Program:
    """The conic program G x + s = h of basis pursuit.

    The rows of G are in this order: −f + s = 0, then f + s = b if there is a bound, then the rows of the second-order
    cone.
    """

    def __init__(self, cost: Floats, cone: Floats, offset: Floats, boxed: int, at_most: float) -> None:
        self.cost, self.cone, self.boxed = cost, cone, boxed
        self.bounded = at_most < UNBOUNDED
        self.sides = boxed * (2 if self.bounded else 1)
        above = [np.full(boxed, at_most)] if self.bounded else []
        self.offset = np.concatenate([np.zeros(boxed), *above, offset])

    def times(self, x: Floats) -> Floats:
        f = x[: self.boxed]
        return np.concatenate([-f, *([f] if self.bounded else []), self.cone @ x])

    def transposed(self, y: Floats) -> Floats:
        result = self.cone.T @ y[self.sides :]
        result[: self.boxed] -= y[: self.boxed]
        if self.bounded:
            result[: self.boxed] += y[self.boxed : self.sides]
        return np.asarray(result)

    def normal(self, scaling: _Scaling) -> Floats:
        """Matrix Gᵀ W⁻² G of the Newton equations."""
        half = scaling.cone_inverse(self.cone)
        matrix = half.T @ half
        diagonal = 1 / scaling.sides**2
        place = np.arange(self.boxed)
        matrix[place, place] += diagonal[: self.boxed]
        if self.bounded:
            matrix[place, place] += diagonal[self.boxed :]
        return np.asarray(matrix)

    def solve(self, tolerance: float, least: float = 0.0, exactness: float = 1.0) -> Solved:
        """Solve the program to a gap of tolerance · max(value, least), and both equations to residuals of tolerance.

        ``exactness`` is the unit in which the residual of G x + s = h is measured.
        """
        x, s, y = self._start()
        steps = 0
        best: tuple[float, Floats, Floats] | None = None
        for steps in range(STEPS + 1):
            primal, dual = self.times(x) + s - self.offset, self.transposed(y) + self.cost
            gap, value = float(s @ y), abs(float(self.cost @ x))
            missed = max(float(np.abs(primal).max()) / exactness, float(np.abs(dual).max()))
            off = max(gap / max(value, least, np.finfo(float).tiny), missed)
            if best is None or off < best[0]:
                best = (off, x, y)
            if off <= tolerance or steps == STEPS or not math.isfinite(off):
                break
            scaling = _Scaling(s, y, self.sides)
            if not scaling.sound:
                break
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # _step returns None on overflow
                moved = self._step(scaling, primal, dual, gap)
            if moved is None:
                break
            dx, ds, dy, length = moved
            x, s, y = x + length * dx, s + length * ds, y + length * dy
        assert best is not None
        return Solved(best[1][: self.boxed], -best[2][self.sides + 1 :], steps)

    def _start(self) -> tuple[Floats, Floats, Floats]:
        """Starting point of the solver: least-squares solutions of both equations, moved into the cone."""
        solve = _factored(self.normal(_Scaling(self._unit(), self._unit(), self.sides)))
        x = solve(self.transposed(self.offset))
        return x, self._pushed(self.offset - self.times(x)), self._pushed(-self.times(solve(self.cost)))

    def _unit(self) -> Floats:
        unit = np.zeros(len(self.offset))
        unit[: self.sides + 1] = 1.0
        return unit

    def _pushed(self, v: Floats) -> Floats:
        outside = max(float(-v[: self.sides].min()), float(np.linalg.norm(v[self.sides + 1 :]) - v[self.sides]))
        return v + (1 + outside) * self._unit() if outside >= -1e-8 * max(1.0, float(np.linalg.norm(v))) else v

    def _step(
        self, scaling: _Scaling, primal: Floats, dual: Floats, gap: float
    ) -> tuple[Floats, Floats, Floats, float] | None:
        """Newton direction by predictor and corrector, and the length of the step along it; None on failure."""
        solve = _factored(self.normal(scaling))
        share = gap / (self.sides + 1)
        middle = scaling.middle

        def towards(target: Floats, keep: float) -> tuple[Floats, Floats, Floats]:
            aim = scaling.divided(target)
            right = keep * primal + scaling.forth(aim)
            dx = solve(-keep * dual - self.transposed(scaling.back(scaling.back(right))))
            scaled = scaling.back(self.times(dx) + right)
            return dx, scaling.forth(aim - scaled), scaling.back(scaled)

        square = scaling.product(middle, middle)
        _, ds, dy = towards(-square, 1.0)
        ahead = min(1.0, scaling.longest_step(scaling.back(ds)), scaling.longest_step(scaling.forth(dy)))
        centre = (1 - ahead) ** 3
        correction = scaling.product(scaling.back(ds), scaling.forth(dy))
        dx, ds, dy = towards(centre * share * self._unit() - square - correction, 1 - centre)
        length = min(1.0, BACK * min(scaling.longest_step(scaling.back(ds)), scaling.longest_step(scaling.forth(dy))))
        if not (np.isfinite(dx).all() and length > 1e-10):
            return None
        return dx, ds, dy, length


class _Scaling:
    """The scaling W of Nesterov and Todd, for which W y = W⁻¹ s; this vector is called ``middle``.

    W is a number for each bound of f, and a matrix for the second-order cone.
    """

    def __init__(self, s: Floats, y: Floats, sides: int) -> None:
        self.count = sides
        s_size, y_size = _size(s[sides:]), _size(y[sides:])
        self.sound = bool(s_size > 0 and y_size > 0 and (s[:sides] > 0).all() and (y[:sides] > 0).all())
        if not self.sound:
            return
        self.sides = np.sqrt(s[:sides] / y[:sides])
        one, other = s[sides:] / s_size, y[sides:] / y_size
        middle = np.concatenate([[one[0] + other[0]], one[1:] - other[1:]])
        self.axis = middle / _size(middle)
        self.beta = math.sqrt(s_size / y_size)
        self.middle = self.forth(y)
        self.sound = bool(_size(self.middle[sides:]) > 0 and (self.middle[:sides] > 0).all())

    def forth(self, v: Floats) -> Floats:
        """Apply the scaling: W v."""
        cone = self.beta * self._turned(v[self.count :], self.axis[1:])
        return np.concatenate([self.sides * v[: self.count], cone])

    def back(self, v: Floats) -> Floats:
        """Apply the inverse scaling: W⁻¹ v."""
        return np.concatenate([v[: self.count] / self.sides, self.cone_inverse(v[self.count :])])

    def cone_inverse(self, columns: Floats) -> Floats:
        """Apply the second-order cone's part of W⁻¹ to one vector or to columns."""
        return self._turned(columns, -self.axis[1:]) / self.beta

    def _turned(self, columns: Floats, b: Floats) -> Floats:
        """Apply the second-order cone's part of W/β to one vector or to columns; with −b instead of b, its inverse."""
        a, head, tail = self.axis[0], columns[0], columns[1:]
        along = b @ tail
        result = np.empty_like(columns)
        result[0] = a * head + along
        result[1:] = tail + np.multiply.outer(b, head + along / (1 + a))
        return result

    def product(self, v: Floats, w: Floats) -> Floats:
        """Product v ∘ w of the cone: entry by entry for bounds, (vᵀw, v₀ w₁ + w₀ v₁) on the second-order cone."""
        n = self.count
        head = float(v[n:] @ w[n:])
        return np.concatenate([v[:n] * w[:n], [head], v[n] * w[n + 1 :] + w[n] * v[n + 1 :]])

    def divided(self, v: Floats) -> Floats:
        """Solve middle ∘ w = v for w."""
        n, m = self.count, self.middle
        size = _size(m[n:]) ** 2
        head = (m[n] * v[n] - float(m[n + 1 :] @ v[n + 1 :])) / size
        return np.concatenate([v[:n] / m[:n], [head], (v[n + 1 :] - head * m[n + 1 :]) / m[n]])

    def longest_step(self, d: Floats) -> float:
        """Largest step t for which middle + t d stays in the cone."""
        n, m = self.count, self.middle
        falling = d[:n] < 0
        times = float((m[:n][falling] / -d[:n][falling]).min()) if falling.any() else math.inf
        return min(times, _leaves(m[n:], d[n:]))


def _size(v: Floats) -> float:
    """Size √(v₀² − ‖v₁‖²) of a vector in the second-order cone, or −1 for a vector outside."""
    length = float(np.linalg.norm(v[1:]))
    inside = (float(v[0]) - length) * (float(v[0]) + length)
    return math.sqrt(inside) if v[0] > 0 and inside > 0 else -1.0


def _leaves(v: Floats, d: Floats) -> float:
    """Step t at which v + t d leaves the second-order cone: the first positive root of a t² + 2 b t + c, c > 0."""
    a, b = float(d[0] ** 2 - d[1:] @ d[1:]), float(v[0] * d[0] - v[1:] @ d[1:])
    c = _size(v) ** 2
    inside = b * b - a * c
    if inside < 0 or (b >= 0 and a >= 0):
        return math.inf
    # Both roots are written in the form without cancellation.
    root = math.sqrt(inside)
    return c / (root - b) if b < 0 else (b + root) / -a


def _factored(matrix: Floats) -> Callable[[Floats], Floats]:
    """Factorise the positive definite Newton equations and return a function that solves them.

    If rounding made the matrix indefinite, a small multiple of the identity is added.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    # The matrix is scaled to a unit diagonal, because its entries span twenty orders of magnitude near the solution.
    scale = 1 / np.sqrt(np.diag(matrix))
    scaled = matrix * scale[:, None] * scale[None, :]
    extra = 0.0
    while extra < 1.0:
        try:
            factor = cho_factor(scaled + extra * np.eye(len(scaled)), check_finite=False)
        except LinAlgError:
            extra = max(10 * extra, 1e-15)
        else:
            return lambda right: np.asarray(scale * cho_solve(factor, scale * right, check_finite=False))
    return lambda right: np.full_like(right, np.nan)  # the caller stops at NaN


def polish(columns: Floats, wanted: Floats, ball: float, at_most: float, found: Floats, slack: Floats) -> Floats | None:
    """Polish an interior point to the exact optimum of the least sum; None if that fails.

    Args:
        columns: Matrix R, with one column for each place.
        wanted: Readings z.
        ball: Largest residual ρ.
        at_most: Largest strength b.
        found: Strengths of an interior point close to the optimum.
        slack: 1 minus the price of each place at this point.
    """
    top = float(found.max())
    # On the central path the product of strength and slack is the same for all places. At the optimum this product is
    # zero, so the smaller of both factors is taken to be zero.
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
    """Move strength to fewer places without a change of readings or sum, possible by Carathéodory's theorem.

    Strengths move along a combination of columns that changes neither readings nor sum, until one strength is zero or
    at the bound. In the end, the number of strengths strictly between 0 and the bound is at most the number of rows of
    R plus 1.
    """
    few = np.where(found < EMPTY * found.max(initial=0.0), 0.0, found)
    length = float(np.linalg.norm(columns @ found)) or 1.0
    weight = length / max(float(found.sum()), np.finfo(float).tiny)  # the sum is treated like one more reading
    stacked = np.vstack([columns, np.full(len(found), weight)])
    while (between := np.flatnonzero((few > 0) & (few < at_most))).size > 1:
        block = between[: len(stacked) + 1]
        _, sizes, right = np.linalg.svd(stacked[:, block])
        moves = [_to_the_bound(few[block], sign * right[-1], at_most) for sign in (1.0, -1.0)]
        step, moved = min(moves, key=lambda move: move[0])
        changed = step * (float(sizes[-1]) if len(sizes) == len(block) else 0.0)
        if changed > UNCHANGED * length:
            break
        few[block] = moved
    return few


def _to_the_bound(here: Floats, direction: Floats, at_most: float) -> tuple[float, Floats]:
    """Move strengths along a direction until the first is zero or at the bound; return the step and the strengths."""
    room = np.where(direction < 0, here, at_most - here)
    steps = np.divide(room, np.abs(direction), out=np.full(len(here), np.inf), where=direction != 0)
    first = int(np.argmin(steps))
    moved = np.clip(here + steps[first] * direction, 0.0, at_most)
    moved[first] = 0.0 if direction[first] < 0 else at_most
    return float(steps[first]), moved


def _drop_negative(columns: Floats, wanted: Floats, ball: float, free: Booleans) -> Floats | None:
    """Optimum of the least sum on the free places; places whose strength would be negative are removed in turn."""
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
    """Least sum with ‖R f − z‖ = ρ and no bounds on f; None if no f has this residual.

    The solution is f = f₀ − λ (RᵀR)⁻¹ 1, where f₀ is the least-squares solution, and λ ≥ 0 satisfies
    λ² · 1ᵀ(RᵀR)⁻¹1 = ρ² − ‖R f₀ − z‖².
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
