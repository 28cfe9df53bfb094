"""The public hash h₁: random Fourier features of the kernel exp(−γ‖x − y‖²) (Rahimi and Recht 2008; errata E2-9).

Every frequency ω gives a cosine and a sine, so each point becomes a vector of length exactly 1. The paper's single
cosines with a random phase reach length √2: the same promise would cost twice the noise power.

All of it is done on whole numbers, so a hash depends on its own point and on nothing else (``features.md``).
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, expect
from heathaze.types import Floats

FARTHEST = 1e4
"""Widths of the kernel, 1/√γ, from 0 to a point: so that angles fit into whole numbers."""

_POINT_BITS = 20
"""Points are rounded to 2^−20 widths of the kernel."""

_FREQUENCY_BITS = 16
"""Frequencies are rounded to 2^−16 turns a width, or coarser where points have very many columns."""

_TURN_BITS = 16
"""A turn has 2^16 angles; the cosine of each is looked up."""

_HASH_BITS = 24
"""Numbers of a hash are multiples of 2^−24."""

_TOLD_BITS = 24
"""And so are those of a mean hash that they are compared with."""

_BLOCK = 2**12
"""Points hashed at a time."""

_FLOAT_BITS = 53
"""Whole numbers below 2^53 are floats, and so are their sums and products below it, in whatever order."""

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
        """A row for each point, whole multiples of 2^−24, as good as 1 long and never longer.

        The row of a point is the same to the last bit whatever other points there are.
        """
        table = self.checked(points)
        out = np.empty((len(table), self.dimension))
        for start in range(0, len(table), _BLOCK):
            block = table[start : start + _BLOCK] * (math.sqrt(self.gamma) * 2**_POINT_BITS)
            self._hash(np.rint(block, out=block), out[start : start + _BLOCK])
        return out

    def _hash(self, block: Floats, out: Floats) -> None:
        """Hashes of points in whole numbers: how often each frequency turns, and where it comes to stand."""
        frequencies, surplus = self._frequencies
        # The products are whole numbers too, and exact; as floats, since matrix products are quick with those.
        angles = (block @ frequencies).astype(np.int64)
        angles += 1 << (surplus - 1)
        angles >>= surplus
        angles &= 2**_TURN_BITS - 1
        out[:, : self.frequencies] = self._cosines[angles]
        angles -= 2 ** (_TURN_BITS - 2)  # a sine is the cosine a quarter turn before; places below 0 count from the end
        out[:, self.frequencies :] = self._cosines[angles]

    def products(self, hashes: Floats, mean: Floats) -> Floats:
        """Each hash times a mean hash, exactly: equal hashes get equal products, and none depends on the others.

        The mean is rounded to multiples of 2^−24 first, and what is far beyond any mean hash with noise is cut off.
        """
        most = 2.0 ** (_FLOAT_BITS - 1 - _HASH_BITS - _TOLD_BITS) / math.sqrt(self.dimension)
        steps = np.rint(np.ldexp(np.clip(mean, -most, most), _TOLD_BITS))
        products: Floats = hashes @ np.ldexp(steps, -_TOLD_BITS)
        return products

    def checked(self, points: npt.ArrayLike) -> Floats:
        """Points as a table of finite floats with the study's columns; no message quotes a value."""
        try:
            # In one order, since the lengths below are added up in the order of the memory.
            table = np.ascontiguousarray(points, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                "The points are not a table of numbers; encode rows with study.encode(table).points first."
            ) from None
        if table.ndim != 2 or table.shape[1] != self.columns:
            found = " × ".join(map(str, table.shape[1:])) if table.ndim > 1 else "no"
            raise InvalidInput(f"The points have {found} columns; the study has {self.columns}.")
        if not np.isfinite(table).all():
            raise InvalidInput("Some of the points are not finite numbers; fill or drop them first.")
        longest = math.sqrt(np.einsum("ij,ij->i", table, table).max(initial=0.0))
        if longest * math.sqrt(self.gamma) > FARTHEST:
            raise InvalidInput(
                f"Some of the points lie more than {FARTHEST:g} widths of the kernel from 0, too far to "
                "be told apart; scale them, or encode them with a study."
            )
        return table

    @property
    def omega(self) -> Floats:
        """The frequencies ω as columns: a point x stands at the angles xᵀω, in radians. Public, like all of it."""
        frequencies, surplus = self._frequencies
        return np.ldexp(frequencies, _POINT_BITS - _TURN_BITS - surplus) * (math.tau * math.sqrt(self.gamma))

    @functools.cached_property
    def _frequencies(self) -> tuple[Floats, int]:
        """Columns are frequencies, N(0, 2 I) a width, in whole numbers; and how many bits an angle has too many."""
        from scipy.special import ndtri

        from heathaze.privacy.randomness import Simulation

        # Public numbers, not noise: the middle of each of 2^53 steps keeps the quantile finite.
        uniforms = Simulation(self.seed).uniforms(self.columns * self.frequencies) + 2.0**-54
        turns = ndtri(uniforms).reshape(self.columns, self.frequencies) * (math.sqrt(2) / math.tau)
        # No sum of products, over whichever columns, is longer than a point times a frequency.
        point = (FARTHEST + 1) * 2**_POINT_BITS + math.sqrt(self.columns)
        bits = _FREQUENCY_BITS
        while float(np.linalg.norm(np.rint(np.ldexp(turns, bits)), axis=0).max()) * point >= 2**_FLOAT_BITS:
            bits -= 1
        return np.rint(np.ldexp(turns, bits)), _POINT_BITS + bits - _TURN_BITS

    @functools.cached_property
    def _cosines(self) -> Floats:
        """Of each angle, rounded towards 0, so that no hash is longer than 1."""
        angles = np.arange(2**_TURN_BITS) * (math.tau / 2**_TURN_BITS)
        cosines: Floats = np.ldexp(
            np.trunc(np.ldexp(np.cos(angles) / math.sqrt(self.frequencies), _HASH_BITS)), -_HASH_BITS
        )
        return cosines

    @functools.cached_property
    def digest(self) -> str:
        """Equal where points are hashed alike, to the last bit."""
        frequencies, surplus = self._frequencies
        tables = b"".join(table.astype("<f8").tobytes() for table in (frequencies + 0.0, self._cosines + 0.0))
        return hashlib.sha256(tables + bytes([surplus])).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for reports."""
        return {
            "columns": self.columns,
            "gamma": self.gamma,
            "frequencies": self.frequencies,
            "seed": self.seed,
        }
