"""The public hash h₁: random Fourier features of the kernel exp(−γ‖x − y‖²) (Rahimi and Recht 2008; errata E2-9).

Every frequency ω gives a cosine and a sine, so each point becomes a vector of length exactly 1. The paper's single
cosines with a random phase reach length √2: the same promise would cost twice the noise power.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, expect

Floats = npt.NDArray[np.float64]

FARTHEST = 1e4
"""Widths of the kernel, 1/√γ, from 0 to a point: angles are then exact to about 1e-10, on whatever machine."""

_MOST = 2**20
"""Numbers a point and a hash may have; beyond, something else was meant."""


@dataclass(frozen=True)
class Features:
    """How points are hashed, known to all parties. ``of(x) · of(y)`` is near exp(−gamma ‖x − y‖²).

    It hides nothing: who knows the seed, as all parties do, finds x from its hash (errata E2-8).

    Args:
        columns: Numbers a point has.
        gamma: The kernel's γ, chosen without looking at the data.
        frequencies: How many; a hash has twice as many numbers.
        seed: Of the study; the same seed gives the same hash on every machine.

    >>> Features(columns=3, gamma=0.5).of([[0.0, 1.0, 2.0]]).shape
    (1, 140)
    """

    columns: int
    gamma: float
    frequencies: int = 70
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("columns", 1), ("frequencies", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidInput(f"{name} is {value!r}; give a whole number, {least} or larger.")
            object.__setattr__(self, name, int(value))
        if max(self.columns, self.frequencies) > _MOST:
            raise InvalidInput(f"There are {self.columns} columns and {self.frequencies} frequencies; at most {_MOST}.")
        expect((int, float), self.gamma, "gamma")
        if not (math.isfinite(self.gamma) and self.gamma > 0):
            raise InvalidInput(f"gamma is {self.gamma}; give a positive number.")
        object.__setattr__(self, "gamma", float(self.gamma))

    @property
    def dimension(self) -> int:
        """Numbers a hash has."""
        return 2 * self.frequencies

    def of(self, points: npt.ArrayLike) -> Floats:
        """A row of length 1 for each point."""
        angles = self.checked(points) @ self._omega
        out = np.empty((len(angles), self.dimension))
        np.cos(angles, out=out[:, : self.frequencies])
        np.sin(angles, out=out[:, self.frequencies :])
        out /= math.sqrt(self.frequencies)
        return out

    def checked(self, points: npt.ArrayLike) -> Floats:
        """Points as a table of finite floats with the study's columns; no message quotes a value."""
        try:
            table = np.asarray(points, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                "The points are not a table of numbers; encode rows with study.encode(table).points first."
            ) from None
        if table.ndim != 2 or table.shape[1] != self.columns:
            found = " × ".join(map(str, table.shape[1:])) if table.ndim > 1 else "no"
            raise InvalidInput(f"The points have {found} columns; the study has {self.columns}.")
        if not np.isfinite(table).all():
            raise InvalidInput("Some of the points are not finite numbers; fill or drop them first.")
        if len(table) and np.abs(table).max() * math.sqrt(self.gamma) > FARTHEST:
            raise InvalidInput(
                f"Some of the points lie more than {FARTHEST:g} widths of the kernel from 0, where hashes are "
                "nothing but rounding; scale them, or encode them with a study."
            )
        return table

    @functools.cached_property
    def _omega(self) -> Floats:
        """Columns are frequencies, N(0, 2γ I)."""
        from scipy.special import ndtri

        from heathaze.privacy.randomness import Simulation

        # Public numbers, not noise: the middle of each of 2^53 steps keeps the quantile finite.
        uniforms = Simulation(self.seed).uniforms(self.columns * self.frequencies) + 2.0**-54
        omega: Floats = ndtri(uniforms).reshape(self.columns, self.frequencies) * math.sqrt(2 * self.gamma)
        return omega

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for reports."""
        return {
            "columns": self.columns,
            "gamma": self.gamma,
            "frequencies": self.frequencies,
            "seed": self.seed,
        }
