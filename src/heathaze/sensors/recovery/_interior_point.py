"""Basis pursuit over few columns: an interior-point method, then a polish that makes the answer exact.

    least sum:       minimise  Σ f            subject to  ‖z − R f‖ ≤ ρ,  0 ≤ f ≤ b
    least residual:  minimise  t              subject to  ‖z − R f‖ ≤ t,  0 ≤ f ≤ b

Both are conic programs in x = f, or x = (f, t):

    minimise cᵀx  subject to  G x + s = h,  s ∈ K;      maximise −hᵀy  subject to  Gᵀy + c = 0,  y ∈ K

where K is the non-negative numbers for every side of the box and one second-order cone {(s₀, s₁): ‖s₁‖ ≤ s₀} for the
ball. Neighbouring columns of a heat kernel are nearly dependent, so first-order methods need very many steps. Newton's
method in the scaling of Y. Nesterov and M. Todd (1997) with S. Mehrotra's (1992) correction needs few, and no point
inside to start from.

An interior point spreads the strength of two neighbouring places over a dozen and leaves tiny strengths elsewhere.
:func:`polish` solves the optimality conditions on the places that matter; :func:`thin` moves strength to fewer places.
Why this and not a solver package: docs/decisions/0020-basis-pursuit.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heathaze.types import Booleans, Floats

STEPS = 60
"""Bounds the time; 8 to 20 Newton steps suffice."""

UNBOUNDED = 1e10
"""A bound this far above the expected strengths counts as none: together they would exceed the range of a float."""

LEAST_SUM = 1e-9
"""A sum below this, in the solver's units, counts as zero: the readings just leave the ball."""

BACK = 0.99
"""A step goes at most this part of the way to the border of the cone."""

INSIDE = 1e-11
"""The exact answer lies inside the ball by this part of the radius, so that rounding does not carry it out."""

EMPTY = 1e-10
"""A strength below this part of the largest counts as zero: an interior point is never exactly zero."""

UNCHANGED = 1e-12
"""Readings that differ by this part count as the same."""


@dataclass(frozen=True)
class Solved:
    """Strengths f of the columns, multipliers u of the readings, and the number of Newton steps.

    At the optimum u points along z − R f, and the price Rᵀu of a column is 1 where 0 < f < b (least sum), or 0.
    """

    strengths: Floats
    multipliers: Floats
    steps: int


def least_sum(columns: Floats, wanted: Floats, ball: float, at_most: float, tolerance: float) -> Solved:
    """The least Σ f within ball and bounds.

    Args:
        columns: R, one column for each place.
        wanted: z, the readings.
        ball: ρ, the largest ‖z − R f‖.
        at_most: b, the largest strength; may be infinite.
        tolerance: Relative gap.
    """
    unit = _Units.of(columns, wanted, at_most)
    count = columns.shape[1]
    cone = np.vstack([np.zeros(count), columns * unit.column])
    offset = np.concatenate([[ball], wanted]) / unit.reading
    program = _Program(np.ones(count), cone, offset, count, at_most / unit.strength)
    # The ball may be far smaller than the readings, and it is the ball that must be kept.
    return unit.back(program.solve(tolerance, least=LEAST_SUM, exactness=min(1.0, float(offset[0]))), sums=True)


def least_residual(columns: Floats, wanted: Floats, at_most: float, tolerance: float) -> Solved:
    """The least ‖z − R f‖ within the bounds; arguments as for :func:`least_sum`, the tolerance in parts of ‖z‖."""
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
    """Units in which readings, strengths and columns are about 1 or less, where the solver works best."""

    reading: float
    strength: float

    @classmethod
    def of(cls, columns: Floats, wanted: Floats, at_most: float) -> _Units:
        reading = float(np.linalg.norm(wanted)) or 1.0
        longest = float(np.linalg.norm(columns, axis=0).max())
        return cls(reading, min(reading / longest if longest > 0 else 1.0, at_most))

    @property
    def column(self) -> float:
        """What a column is multiplied by."""
        return self.strength / self.reading

    def back(self, solved: Solved, sums: bool) -> Solved:
        """The solution in the units of the caller; ``sums`` says that the objective is a sum, not a residual."""
        worth = self.strength / self.reading if sums else 1.0
        return Solved(solved.strengths * self.strength, solved.multipliers * worth, solved.steps)


class _Program:
    """G x + s = h: first the rows −f + s = 0, then f + s = b if there is a bound, last the rows of the cone."""

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
        """Gᵀ W⁻² G."""
        half = scaling.cone_inverse(self.cone)
        matrix = half.T @ half
        diagonal = 1 / scaling.sides**2
        place = np.arange(self.boxed)
        matrix[place, place] += diagonal[: self.boxed]
        if self.bounded:
            matrix[place, place] += diagonal[self.boxed :]
        return np.asarray(matrix)

    def solve(self, tolerance: float, least: float = 0.0, exactness: float = 1.0) -> Solved:
        """The solution to a gap of tolerance · max(value, least), with equally small residuals of both equations.

        ``exactness`` is the unit of the residual of G x + s = h.
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
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # _step then gives none: the end.
                moved = self._step(scaling, primal, dual, gap)
            if moved is None:
                break
            dx, ds, dy, length = moved
            x, s, y = x + length * dx, s + length * ds, y + length * dy
        assert best is not None
        return Solved(best[1][: self.boxed], -best[2][self.sides + 1 :], steps)

    def _start(self) -> tuple[Floats, Floats, Floats]:
        """The nearest solutions of both equations, moved into the cone."""
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
        """The direction after a look ahead (predictor and corrector), and how far to go along it."""
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
    """The W of Nesterov and Todd with W y = W⁻¹ s, the ``middle``: a number for each side, a matrix for the cone."""

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
        """W v."""
        head, tail = v[self.count], v[self.count + 1 :]
        a, b = self.axis[0], self.axis[1:]
        along = float(b @ tail)
        cone = np.concatenate([[a * head + along], tail + (head + along / (1 + a)) * b])
        return np.concatenate([self.sides * v[: self.count], self.beta * cone])

    def back(self, v: Floats) -> Floats:
        """W⁻¹ v."""
        head, tail = v[self.count], v[self.count + 1 :]
        a, b = self.axis[0], self.axis[1:]
        along = float(b @ tail)
        cone = np.concatenate([[a * head - along], tail + (along / (1 + a) - head) * b])
        return np.concatenate([v[: self.count] / self.sides, cone / self.beta])

    def cone_inverse(self, columns: Floats) -> Floats:
        """The part of W⁻¹ on the cone, times columns."""
        a, b = self.axis[0], self.axis[1:]
        head, tail = columns[0], columns[1:]
        along = b @ tail
        result = np.empty_like(columns)
        result[0] = a * head - along
        result[1:] = tail + np.outer(b, along / (1 + a) - head)
        return result / self.beta

    def product(self, v: Floats, w: Floats) -> Floats:
        """v ∘ w: numbers times numbers; on the cone (vᵀw, v₀ w₁ + w₀ v₁)."""
        n = self.count
        head = float(v[n:] @ w[n:])
        return np.concatenate([v[:n] * w[:n], [head], v[n] * w[n + 1 :] + w[n] * v[n + 1 :]])

    def divided(self, v: Floats) -> Floats:
        """The w with middle ∘ w = v."""
        n, m = self.count, self.middle
        size = _size(m[n:]) ** 2
        head = (m[n] * v[n] - float(m[n + 1 :] @ v[n + 1 :])) / size
        return np.concatenate([v[:n] / m[:n], [head], (v[n + 1 :] - head * m[n + 1 :]) / m[n]])

    def longest_step(self, d: Floats) -> float:
        """The largest t for which middle + t d is in the cone."""
        n, m = self.count, self.middle
        falling = d[:n] < 0
        times = float((m[:n][falling] / -d[:n][falling]).min()) if falling.any() else math.inf
        return min(times, _leaves(m[n:], d[n:]))


def _size(v: Floats) -> float:
    """√(v₀² − ‖v₁‖²), or −1 outside the cone."""
    length = float(np.linalg.norm(v[1:]))
    inside = (float(v[0]) - length) * (float(v[0]) + length)
    return math.sqrt(inside) if v[0] > 0 and inside > 0 else -1.0


def _leaves(v: Floats, d: Floats) -> float:
    """The t at which v + t d leaves the second-order cone: the first positive root of a t² + 2 b t + c, c > 0."""
    a, b = float(d[0] ** 2 - d[1:] @ d[1:]), float(v[0] * d[0] - v[1:] @ d[1:])
    c = _size(v) ** 2
    inside = b * b - a * c
    if inside < 0 or (b >= 0 and a >= 0):
        return math.inf
    # Both in the form that does not cancel.
    root = math.sqrt(inside)
    return c / (root - b) if b < 0 else (b + root) / -a


def _factored(matrix: Floats) -> Callable[[Floats], Floats]:
    """A solver for a positive definite system; its diagonal is raised a little where rounding made it indefinite."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    # Scaled to a unit diagonal: its entries span twenty orders of magnitude near the solution.
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
    return lambda right: np.full_like(right, np.nan)  # The caller stops at NaN.


def polish(columns: Floats, wanted: Floats, ball: float, at_most: float, found: Floats, slack: Floats) -> Floats | None:
    """Strengths that satisfy the optimality conditions of the least sum exactly, or None if there is no success.

    Args:
        columns: R, one column for each place.
        wanted: z, the readings.
        ball: ρ.
        at_most: b.
        found: An interior point close to the optimum.
        slack: 1 − price of each place there.
    """
    top = float(found.max())
    # On the central path the product of strength and slack is the same for all places: the smaller factor vanishes.
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
    """Strengths with the same readings and the same sum at few places, which exist by Carathéodory's theorem.

    Strengths move along a combination of columns that changes neither readings nor sum, until one is zero or at the
    bound. In the end at most one more strength is strictly between than R has rows.
    """
    few = np.where(found < EMPTY * found.max(initial=0.0), 0.0, found)
    length = float(np.linalg.norm(columns @ found)) or 1.0
    weight = length / max(float(found.sum()), np.finfo(float).tiny)  # The sum counts like a reading.
    stacked = np.vstack([columns, np.full(len(found), weight)])
    between = np.flatnonzero((few > 0) & (few < at_most))
    while between.size > 1:
        block = between[: len(stacked) + 1]
        _, sizes, right = np.linalg.svd(stacked[:, block])
        moves = [_to_the_bound(few[block], sign * right[-1], at_most) for sign in (1.0, -1.0)]
        step, moved = min(moves, key=lambda move: move[0])
        changed = step * (float(sizes[-1]) if len(sizes) == len(block) else 0.0)
        if changed > UNCHANGED * length:
            break
        few[block] = moved
        between = np.flatnonzero((few > 0) & (few < at_most))
    return few


def _to_the_bound(here: Floats, direction: Floats, at_most: float) -> tuple[float, Floats]:
    """The step along a direction at which the first strength is zero or at the bound, and the strengths there."""
    room = np.where(direction < 0, here, at_most - here)
    steps = np.divide(room, np.abs(direction), out=np.full(len(here), np.inf), where=direction != 0)
    first = int(np.argmin(steps))
    moved = np.clip(here + steps[first] * direction, 0.0, at_most)
    moved[first] = 0.0 if direction[first] < 0 else at_most
    return float(steps[first]), moved


def _drop_negative(columns: Floats, wanted: Floats, ball: float, free: Booleans) -> Floats | None:
    """The optimum on the free places, after removing those that would be negative there, one by one."""
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
    """The least sum with ‖R f − z‖ = ρ and no bounds on f, or None if no f satisfies that.

    f = f₀ − λ (RᵀR)⁻¹ 1,   f₀ the least squares, λ ≥ 0 with λ² · 1ᵀ(RᵀR)⁻¹1 = ρ² − ‖R f₀ − z‖²
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
