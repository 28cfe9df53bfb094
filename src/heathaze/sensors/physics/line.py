"""A line as field: heat on an interval with open ends, read by sensors along the interval."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, TooLarge
from heathaze.sensors.physics._checks import block, coordinates, kept_rows, sensor_places, spread
from heathaze.sensors.physics._checks import length as parse_length
from heathaze.sensors.physics._kernel import Axis
from heathaze.sensors.physics.field import Taylor
from heathaze.types import Floats

MOST_ENTRIES = 2**26
"""Largest number of entries in the dense matrix of a line: half a gigabyte of floats."""


@dataclass(frozen=True, eq=False, init=False)
class Line:
    """Field of heat on an interval with sensors along it. The ends are open: heat that passes an end is lost.

        A[j, i] = g(i·length/n − s_j),   g(z) = exp(−z²/4T) / √(4πT)

    The matrix A has a row for each sensor j, at s_j, and a column for each candidate place i. The paper prints the
    transposed matrix (errata E4-5).

    Args:
        n: Number of candidate places, at i·length/n for i = 1 … n.
        m: Number of sensors, at j·length/m for j = 1 … m; None if ``sensors`` is given.
        T: Diffusivity times time, in square metres.
        length: Length of the interval in metres.
        sensors: Positions of the sensors in metres, instead of ``m``.

    Raises:
        InvalidInput: A number is out of range, or sensors lie outside or at one place.
        TooLarge: The matrix has more than 2^26 numbers.

    >>> line = Line(4, 2, 0.1)
    >>> line.shape, line.positions[:, 0].tolist(), line.sensors[:, 0].tolist()
    ((2, 4), [0.25, 0.5, 0.75, 1.0], [0.5, 1.0])
    """

    n: int
    T: float
    length: float
    sensors: Floats

    network = None
    unit = "metre"
    nonnegative = True

    def __init__(
        self, n: int, m: int | None, T: float, *, length: float = 1.0, sensors: npt.ArrayLike | None = None
    ) -> None:
        size = parse_length(length, "length", "the length of the line in metres")
        places = whole(n, "n", "how many candidate places there are", most=2**31)
        if sensors is None:
            if m is None:
                raise InvalidInput("Neither m nor sensors is given; say how many sensors there are, or where they are.")
            count = whole(m, "m", "how many sensors there are", most=2**31)
            _check_fits(places, count)
            where = size * np.arange(1, count + 1)[:, None] / count
        else:
            where = sensor_places(sensors, np.array([size]))
            if m is not None and m != len(where):
                raise InvalidInput(f"m is {m!r}, but sensors has {len(where)} positions; give only one of them.")
            _check_fits(places, len(where))
        where.flags.writeable = False
        assign(self, n=places, T=spread(T, size), length=size, sensors=where)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sensors, and number of candidate places on the line."""
        return len(self.sensors), self.n

    @functools.cached_property
    def positions(self) -> Floats:
        """Coordinates of the candidate places on the line, shape (n, 1)."""
        return self.length * np.arange(1, self.n + 1)[:, None] / self.n

    @property
    def bounds(self) -> Floats:
        """Ends of the line: 0 and its length."""
        return np.array([[0.0], [self.length]])

    @functools.cached_property
    def matrix(self) -> Floats:
        """Dense matrix A of the line, with a row for each sensor and a column for each candidate place."""
        return self.responses(self.positions)

    def apply(self, strengths: Floats) -> Floats:
        """Readings A · strengths of the line's sensors."""
        return self.matrix @ block(strengths, self.shape[1], "strengths")

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint Aᵀ · readings of the line's matrix."""
        return self.matrix.T @ block(readings, self.shape[0], "readings")

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some coordinates on the line, which have shape (k, 1)."""
        return np.asarray(self._axis.derivatives(coordinates(where, 1, "sources")[:, 0], 0)[0])

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of the readings by the coordinate of a unit source on the line, shape (sensors, k, 1)."""
        return np.asarray(self._axis.derivatives(coordinates(where, 1, "sources")[:, 0], 1)[1][:, :, None])

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives of the readings at the middles of intervals of the line, and bounds over the intervals."""
        _, slopes, bends = self._axis.derivatives(middles[:, 0], 2)
        most = self._axis.envelopes(middles[:, 0], float(half[0]))
        return Taylor(slopes[:, :, None], bends[:, :, None, None], most[1], most[3])

    def only(self, rows: npt.ArrayLike) -> Self:
        """The same line with only these sensors, given as a mask or as indices of readings."""
        kept = kept_rows(rows, self.shape[0], keep=True)
        return type(self)(self.n, None, self.T, length=self.length, sensors=self.sensors[kept])

    def without(self, rows: npt.ArrayLike) -> Self:
        """The same line without these readings, given as a mask or as indices."""
        return self.only(kept_rows(rows, self.shape[0], keep=False))

    @functools.cached_property
    def _axis(self) -> Axis:
        return Axis(self.length, self.sensors[:, 0], self.T)


def _check_fits(places: int, sensors: int) -> None:
    """Refuse a line whose matrix would be too large, before memory is allocated."""
    if places * sensors > MOST_ENTRIES:
        raise TooLarge(
            f"The matrix of a line with {places} places and {sensors} sensors has {places * sensors} numbers, more "
            f"than {MOST_ENTRIES}; use fewer candidate places, because sources are also found between candidates."
        )
