"""The public hash h₁: random Fourier features of the kernel exp(−γ‖x − y‖²) (Rahimi and Recht 2008; errata E2-9).

Every frequency ω gives a cosine and a sine, so each point becomes a vector of length 1. The paper's single cosines with
a random phase reach length √2: the same promise would cost twice the noise power.

All of it is computed in whole numbers, so a hash depends on its own point and on nothing else (``herding.md``).
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, positive, whole
from heathaze.errors import InvalidInput
from heathaze.types import Floats

FARTHEST = 1e4
"""The longest distance of a point from 0, in widths of the kernel 1/√γ, so that angles fit into whole numbers."""

_POINT_BITS = 20
"""Points are rounded to 2^−20 widths of the kernel."""

_FREQUENCY_BITS = 16
"""Frequencies are rounded to 2^−16 turns a width, or coarser where points have very many columns."""

_TURN_BITS = 16
"""A turn has 2^16 angles; the cosine of each is looked up."""

_HASH_BITS = 24
"""Numbers of a hash are multiples of 2^−24."""

_MEAN_BITS = 24
"""So are those of a mean hash that they are multiplied with."""

_BLOCK = 2**12
"""Points hashed at a time."""

_FLOAT_BITS = 53
"""Whole numbers below 2^53 are floats, and so are their sums and products below it, in whatever order."""

_MOST = 2**20
"""The most columns of a point, and the most frequencies; larger numbers are taken for mistakes."""


@dataclass(frozen=True, init=False)
class Features:
    """How points are hashed, known to all parties. ``of(x) · of(y)`` is near exp(−gamma ‖x − y‖²).

    The hash hides nothing: all parties know the seed, and with it x can be computed from its hash (errata E2-8).

    Args:
        columns: Numbers of a point, from 1 to 1,048,576.
        gamma: γ of the kernel, positive; choose it without looking at the data.
        frequencies: How many frequencies, from 1 to 1,048,576; a hash has twice as many numbers.
        seed: Seed of the study, at least 0; the same seed gives the same hash on every machine.

    Raises:
        InvalidInput: A number is out of range.

    >>> Features(columns=3, gamma=0.5).of([[0.0, 1.0, 2.0]]).shape
    (1, 140)
    """

    columns: int
    gamma: float
    frequencies: int
    seed: int

    def __init__(self, columns: int, gamma: float, frequencies: int = 70, seed: int = 0) -> None:
        assign(
            self,
            columns=whole(columns, "columns", most=_MOST),
            gamma=positive(gamma, "gamma", "the kernel's γ"),
            frequencies=whole(frequencies, "frequencies", most=_MOST),
            seed=whole(seed, "seed", least=0),
        )

    @property
    def dimension(self) -> int:
        """Numbers of a hash."""
        return 2 * self.frequencies

    def of(self, points: npt.ArrayLike) -> Floats:
        """The hash of each point: multiples of 2^−24, almost 1 long and never longer.

        The hash of a point is the same to the last bit whatever other points there are.

        Args:
            points: A row for each point.

        Returns:
            A row for each hash.

        Raises:
            InvalidInput: The points are not a table of finite numbers with the study's columns, or too far from 0.
        """
        table = self.checked(points)
        out = np.empty((len(table), self.dimension))
        for start in range(0, len(table), _BLOCK):
            block = table[start : start + _BLOCK] * (math.sqrt(self.gamma) * 2**_POINT_BITS)
            self._hash(np.rint(block, out=block), out[start : start + _BLOCK])
        return out

    def _hash(self, block: Floats, out: Floats) -> None:
        """Hashes of points in whole numbers: each frequency turns by an angle, whose cosine and sine are looked up."""
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

        The mean is rounded to multiples of 2^−24 first. Its numbers are cut off far beyond any mean hash with noise.

        Args:
            hashes: A row for each hash.
            mean: The mean hash.

        Returns:
            A number for each hash.
        """
        most = 2.0 ** (_FLOAT_BITS - 1 - _HASH_BITS - _MEAN_BITS) / math.sqrt(self.dimension)
        steps = np.rint(np.ldexp(np.clip(mean, -most, most), _MEAN_BITS))
        products: Floats = hashes @ np.ldexp(steps, -_MEAN_BITS)
        return products

    def checked(self, points: npt.ArrayLike) -> Floats:
        """Points as a table of finite floats with the study's columns.

        Args:
            points: A row for each point.

        Raises:
            InvalidInput: They are not such a table, or too far from 0; the sentence quotes no value.
        """
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
                "be distinguished; scale them, or encode them with a study."
            )
        return table

    @property
    def omega(self) -> Floats:
        """The frequencies ω as columns: a point x has the angles xᵀω, in radians. Public."""
        frequencies, surplus = self._frequencies
        return np.ldexp(frequencies, _POINT_BITS - _TURN_BITS - surplus) * (math.tau * math.sqrt(self.gamma))

    @functools.cached_property
    def _frequencies(self) -> tuple[Floats, int]:
        """Frequencies as columns, N(0, 2 I) for each width, in whole numbers; and the surplus bits of an angle."""
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
        """The cosine of each angle, rounded towards 0, so that no hash is longer than 1."""
        angles = np.arange(2**_TURN_BITS) * (math.tau / 2**_TURN_BITS)
        cosines: Floats = np.ldexp(
            np.trunc(np.ldexp(np.cos(angles) / math.sqrt(self.frequencies), _HASH_BITS)), -_HASH_BITS
        )
        return cosines

    @functools.cached_property
    def digest(self) -> str:
        """A text that is equal on two machines if they hash points alike, to the last bit."""
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
