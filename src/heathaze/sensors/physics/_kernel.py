"""Heat along one axis: what a sensor reads of a unit source at x, its derivatives, and bounds of them.

In an open space it is g(x − s) with g(z) = exp(−z²/4T) / √(4πT). Between insulated walls at 0 and W it is the sum of g
over the mirror images of the sensor, 2kW ± s, or, which is the same,

    1/W + (2/W) Σ_k exp(−κ²T) cos(κs) cos(κx),   κ = kπ/W,   k = 1, 2, …

Few images suffice while √T is small compared with W, and few cosines otherwise; :data:`SWITCH` chooses.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from heathaze.types import Floats

SWITCH = 0.05
"""T/W² above which cosines are used. At this value five images a side and nine cosines are both exact."""

_NEGLIGIBLE = 45.0
"""exp(−45) = 3e-20 of the largest term is left out."""

_PEAKS = (
    (0.0,),
    (1.0,),
    (0.0, math.sqrt(3)),
    (math.sqrt(3 - math.sqrt(6)), math.sqrt(3 + math.sqrt(6))),
)
"""Where |He_j(w) exp(−w²/2)| has its peaks, w ≥ 0: the zeros of the next Hermite polynomial."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Sensors along one axis of a line or a plate.

    Args:
        length: The axis runs from 0 to here.
        sensors: Where the sensors are, shape (m,).
        T: Diffusivity times time.
        insulated: Whether walls at both ends keep the heat in.
        cosines: Which of the two sums is used between walls; left out, the shorter one.
    """

    length: float
    sensors: Floats
    T: float
    insulated: bool = False
    cosines: bool | None = None

    def derivatives(self, x: Floats, order: int) -> Floats:
        """Derivatives 0 … order of what each sensor reads, by the place of the source: shape (order + 1, m, len(x))."""
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
        """Upper bounds of |derivative j| over x ± half, j = 0 … 3: shape (4, m, len(x))."""
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
                # Beyond its last peak the function falls; up to a peak, that peak bounds it.
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
        """κ, the weights 2/W · exp(−κ²T), and cos(κs) of each sensor, shape (m, waves)."""
        most = math.ceil(self.length / math.pi * math.sqrt(_NEGLIGIBLE / self.T)) + 1
        kappa: Floats = np.arange(1, most + 1, dtype=np.float64) * math.pi / self.length
        return kappa, 2 / self.length * np.exp(-(kappa**2) * self.T), np.cos(np.outer(self.sensors, kappa))

    @functools.cached_property
    def _images(self) -> list[Floats]:
        """The sensors, and between walls their mirror images as far as any heat comes from."""
        if not self.insulated:
            return [self.sensors]
        most = math.ceil((1 + math.sqrt(4 * self.T * _NEGLIGIBLE) / self.length) / 2)
        shifts = [2 * k * self.length for k in range(-most, most + 1)]
        return [shift + sign * self.sensors for shift in shifts for sign in (1, -1)]


def _hermite(j: int, w: Floats) -> Floats:
    """He_j(w), the polynomials of the derivatives of exp(−w²/2)."""
    if j == 0:
        return np.ones_like(w)
    if j == 1:
        return w
    if j == 2:
        return w * w - 1
    return w * (w * w - 3)
