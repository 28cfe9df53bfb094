"""The columns that basis pursuit has asked for so far, in an orthonormal basis of what they span.

Columns of a heat kernel are nearly dependent: a hundred of them span some twenty dimensions as far as floats can tell.
So M_A = Q R with a short R, and ‖M_A f − y‖² = ‖R f − z‖² + ‖y − Q z‖² with z = Qᵀy: the small problem never sees the
length of the readings.
"""

from __future__ import annotations

import math

import numpy as np

from heathaze.types import Floats, Indices

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
