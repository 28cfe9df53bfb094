"""A line as field: heat on an interval with open ends; and the heat kernel along one axis, of lines and of plates."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, TooLarge
from heathaze.sensors.physics._base import FieldBase, block, coordinates, sensor_places, spread
from heathaze.sensors.physics._base import length as parse_length
from heathaze.sensors.physics.field import Taylor
from heathaze.types import Floats, Integers

MOST_ENTRIES = 2**26
"""Largest number of entries in the dense matrix of a line: half a gigabyte of floats."""

SWITCH = 0.05
"""If T over the squared length is above this, cosines are used. At this value both sums need only a few terms."""

_NEGLIGIBLE = 45.0
"""Terms smaller than exp(−45) = 3e-20 of the largest term are left out."""

_PEAKS = (0.0,), (1.0,), (0.0, math.sqrt(3)), (math.sqrt(3 - math.sqrt(6)), math.sqrt(3 + math.sqrt(6)))
"""For j = 0 … 3, the places w ≥ 0 of the peaks of |He_j(w) exp(−w²/2)|, where He_j is a Hermite polynomial.

The peaks of He_j(w) exp(−w²/2) are the zeros of He_{j+1}.
"""


@dataclass(frozen=True, eq=False, init=False)
class Line(FieldBase):
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
        if sensors is None and m is None:
            raise InvalidInput("Neither m nor sensors is given; say how many sensors there are, or where they are.")
        given = None if sensors is None else sensor_places(sensors, np.array([size]))
        count = whole(m, "m", "how many sensors there are", most=2**31) if given is None else len(given)
        if m is not None and m != count:
            raise InvalidInput(f"m is {m!r}, but sensors has {count} positions; give only one of them.")
        if places * count > MOST_ENTRIES:
            raise TooLarge(
                f"The matrix of a line with {places} places and {count} sensors has {places * count} numbers, more "
                f"than {MOST_ENTRIES}; use fewer candidate places, because sources are also found between candidates."
            )
        where = size * np.arange(1, count + 1)[:, None] / count if given is None else given
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
        """Readings A · strengths of the line's sensors.

        Args:
            strengths: Strength of each candidate source.

        Returns:
            One number for each reading.
        """
        return self.matrix @ block(strengths, self.shape[1], "strengths")

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint Aᵀ · readings of the line's matrix.

        Args:
            readings: One number for each reading.

        Returns:
            One number for each candidate source.
        """
        return self.matrix.T @ block(readings, self.shape[0], "readings")

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some coordinates on the line, which have shape (k, 1).

        Args:
            where: Coordinates in metres from the start of the line.

        Returns:
            One column of readings for each coordinate.
        """
        return np.asarray(self._axis.derivatives(coordinates(where, 1, "sources")[:, 0], 0)[0])

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of the readings by the coordinate of a unit source on the line, shape (sensors, k, 1).

        Args:
            where: Coordinates in metres from the start of the line, shape (k, 1).

        Returns:
            The derivatives per metre.
        """
        return np.asarray(self._axis.derivatives(coordinates(where, 1, "sources")[:, 0], 1)[1][:, :, None])

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives of the readings at the middles of intervals of the line, and bounds over the intervals.

        Args:
            middles: Middles of the intervals in metres, shape (k, 1).
            half: Half the length of the intervals in metres.

        Returns:
            The derivatives and their bounds.
        """
        _, slopes, bends = self._axis.derivatives(middles[:, 0], 2)
        most = self._axis.envelopes(middles[:, 0], float(half[0]))
        return Taylor(slopes[:, :, None], bends[:, :, None, None], most[1], most[3])

    def _with(self, rows: Integers) -> Self:
        return type(self)(self.n, None, self.T, length=self.length, sensors=self.sensors[rows])

    @functools.cached_property
    def _axis(self) -> Axis:
        return Axis(self.length, self.sensors[:, 0], self.T)


@dataclass(frozen=True, eq=False)
class Axis:
    """The heat kernel of sensors along one axis of a line or a plate, its derivatives, and bounds of them.

    Let a unit source be at x and a sensor at s. In an open space the reading is g(x − s), where g(z) = exp(−z²/4T) /
    √(4πT). Between insulated walls at 0 and W, the reading is the sum of g(x − s′) over the mirror images s′ = 2kW ± s
    of the sensor. The same sum can be written with cosines:

        1/W + (2/W) Σ_k exp(−κ²T) cos(κs) cos(κx),   κ = kπ/W,   k = 1, 2, …

    If √T is small compared with W, few images are needed, otherwise few cosines; :data:`SWITCH` decides between the
    sums.

    Args:
        length: Length of the axis, which begins at 0.
        sensors: Coordinates of the sensors, shape (m,).
        T: Diffusivity times time.
        insulated: Whether walls at both ends keep the heat in.
        cosines: Between walls, whether to use the sum of cosines or the sum of images. By default the shorter sum.
    """

    length: float
    sensors: Floats
    T: float
    insulated: bool = False
    cosines: bool | None = None

    def derivatives(self, x: Floats, order: int) -> Floats:
        """Derivatives 0 … order of each sensor's reading by the source's coordinate, shape (order + 1, m, len(x))."""
        if self._uses_cosines:
            kappa, decay, at_sensors = self._waves
            out = np.empty((order + 1, len(self.sensors), len(x)))
            for j in range(order + 1):
                # The j-th derivative of cos is cos(· + jπ/2).
                out[j] = (at_sensors * decay * kappa**j) @ np.cos(np.outer(kappa, x) + j * math.pi / 2)
            out[0] += 1 / self.length
            return out
        out = np.zeros((order + 1, len(self.sensors), len(x)))
        for image in self._images:
            w = (x - image[:, None]) / math.sqrt(2 * self.T)
            bell = np.exp(-0.5 * w * w) / math.sqrt(4 * math.pi * self.T)
            for j in range(order + 1):
                out[j] += (-1 / math.sqrt(2 * self.T)) ** j * _hermite(j, w) * bell
        return out

    def envelopes(self, x: Floats, half: float) -> Floats:
        """Upper bounds of |derivative j| of readings over the interval x ± half, j = 0 … 3; shape (4, m, len(x))."""
        if self._uses_cosines:
            kappa, decay, at_sensors = self._waves
            sums = np.stack([np.abs(at_sensors) @ (decay * kappa**j) for j in range(4)])
            sums[0] += 1 / self.length
            return np.broadcast_to(sums[:, :, None], (4, len(self.sensors), len(x)))
        out = np.zeros((4, len(self.sensors), len(x)))
        scale = math.sqrt(2 * self.T)
        for image in self._images:
            near = np.maximum(np.abs(x - image[:, None]) - half, 0) / scale
            bell = np.exp(-0.5 * near * near)
            for j in range(4):
                # From the nearest point on, the function is largest at this point or at a later peak.
                most = np.abs(_hermite(j, near)) * bell
                for peak in _PEAKS[j]:
                    height = abs(float(_hermite(j, np.array(peak)))) * math.exp(-0.5 * peak * peak)
                    np.maximum(most, np.where(near <= peak, height, 0.0), out=most)
                out[j] += most * scale**-j
        return out / math.sqrt(4 * math.pi * self.T)

    @property
    def _uses_cosines(self) -> bool:
        return self.insulated and (SWITCH * self.length**2 < self.T if self.cosines is None else self.cosines)

    @functools.cached_property
    def _waves(self) -> tuple[Floats, Floats, Floats]:
        """Terms of the cosine sum: κ, the weights 2/W · exp(−κ²T), and cos(κs) of each sensor, shape (m, terms)."""
        most = math.ceil(self.length / math.pi * math.sqrt(_NEGLIGIBLE / self.T)) + 1
        kappa: Floats = np.arange(1, most + 1, dtype=np.float64) * math.pi / self.length
        return kappa, 2 / self.length * np.exp(-(kappa**2) * self.T), np.cos(np.outer(self.sensors, kappa))

    @functools.cached_property
    def _images(self) -> list[Floats]:
        """Coordinates of the sensors and, between walls, of all mirror images that receive heat."""
        if not self.insulated:
            return [self.sensors]
        most = math.ceil((1 + math.sqrt(4 * self.T * _NEGLIGIBLE) / self.length) / 2)
        shifts = [2 * k * self.length for k in range(-most, most + 1)]
        return [shift + sign * self.sensors for shift in shifts for sign in (1, -1)]


def _hermite(j: int, w: Floats) -> Floats:
    """Hermite polynomial He_j(w), which occurs in the j-th derivative of the heat kernel exp(−w²/2)."""
    if j == 0:
        return np.ones_like(w)
    if j == 1:
        return w
    if j == 2:
        return w * w - 1
    return w * (w * w - 3)
