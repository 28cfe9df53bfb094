"""How basis pursuit finds the places it needs: solve over a few, price all, let the worthiest join, repeat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._basis_pursuit_neighbours import neighbours
from heathaze.sensors.recovery._basis_pursuit_polish import exact, thin
from heathaze.sensors.recovery._basis_pursuit_span import Span
from heathaze.sensors.recovery._interior_point import Solved, least_residual, least_sum
from heathaze.types import Booleans, Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
