"""The public hash h₁: random Fourier features of the kernel exp(−γ‖x − y‖²) (Rahimi and Recht 2008; errata E2-9).

Every frequency ω gives a cosine and a sine, so each point becomes a vector of length 1. The paper uses one cosine with
a random phase per frequency, which reaches length √2; the same promise would then need twice the noise variance.

Hashes are computed in whole numbers, so the hash of a point does not depend on the other points (``herding.md``).
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, positive, whole
from heathaze.errors import InvalidInput
from heathaze.types import Floats

FARTHEST = 1e4
"""Largest distance of a point from 0, in kernel widths 1/√γ. The limit keeps products with frequencies exact."""

_POINT_BITS = 20
"""Coordinates of points are rounded to multiples of 2^−20 kernel widths."""

_FREQUENCY_BITS = 16
"""Frequencies are rounded to multiples of 2^−16 turns per kernel width, or coarser if points have very many columns."""

_TURN_BITS = 16
"""A full turn is divided into 2^16 angles, whose cosines are stored in a table."""

_HASH_BITS = 24
"""Coordinates of a hash are multiples of 2^−24."""

_MEAN_BITS = 24
"""Coordinates of a mean hash are rounded to multiples of 2^−24 before hashes are multiplied with it."""

_BLOCK = 2**12
"""Number of points that are hashed at a time."""

_FLOAT_BITS = 53
"""Floats hold whole numbers below 2^53 exactly, so sums and products below 2^53 are exact in any order."""

_MOST = 2**20
"""Largest number of columns of a point, and of frequencies; larger numbers are refused as mistakes."""


@dataclass(frozen=True, init=False)
class Features:
    """The public hash of points, by random Fourier features: ``of(x) · of(y)`` is near exp(−gamma ‖x − y‖²).

    The hash hides nothing: all parties know the seed, and the seed lets them compute x from its hash (errata E2-8).

    Args:
        columns: Number of coordinates of a point, from 1 to 1,048,576.
        gamma: The kernel's parameter γ, positive; choose it without looking at the data.
        frequencies: Number of frequencies, from 1 to 1,048,576; a hash has two coordinates for each frequency.
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
        """Number of coordinates of a hash."""
        return 2 * self.frequencies

    def of(self, points: npt.ArrayLike) -> Floats:
        """Hash each point to a vector of length 1, or less by rounding, whose coordinates are multiples of 2^−24.

        The hash of a point does not depend on the other points, to the last bit.

        Args:
            points: One point per row.

        Returns:
            One hash per row.

        Raises:
            InvalidInput: The points are not a table of finite numbers with the study's columns, or are too far from 0.
        """
        table = self.checked(points)
        out = np.empty((len(table), self.dimension))
        for start in range(0, len(table), _BLOCK):
            block = table[start : start + _BLOCK] * (math.sqrt(self.gamma) * 2**_POINT_BITS)
            self._hash(np.rint(block, out=block), out[start : start + _BLOCK])
        return out

    def _hash(self, block: Floats, out: Floats) -> None:
        """Hash a block of points, given in whole numbers: look up the cosine and sine of point times frequency."""
        frequencies, surplus = self._frequencies
        # Points and frequencies are whole numbers stored as floats, because float matrix products are fast. The
        # products are exact.
        angles = (block @ frequencies).astype(np.int64)
        angles += 1 << (surplus - 1)
        angles >>= surplus
        angles &= 2**_TURN_BITS - 1
        out[:, : self.frequencies] = self._cosines[angles]
        angles -= 2 ** (_TURN_BITS - 2)  # sin(t) = cos(t − quarter turn); a negative index counts from the table's end
        out[:, self.frequencies :] = self._cosines[angles]

    def products(self, hashes: Floats, mean: Floats) -> Floats:
        """Multiply each hash with a mean hash, exactly: the product of a hash does not depend on the other hashes.

        The coordinates of the mean hash are first rounded to multiples of 2^−24 and clipped to ±16/√d, where d is the
        number of coordinates. A noisy mean hash practically never reaches this limit.

        Args:
            hashes: One hash per row.
            mean: The mean hash.

        Returns:
            One product for each hash.
        """
        most = 2.0 ** (_FLOAT_BITS - 1 - _HASH_BITS - _MEAN_BITS) / math.sqrt(self.dimension)
        steps = np.rint(np.ldexp(np.clip(mean, -most, most), _MEAN_BITS))
        products: Floats = hashes @ np.ldexp(steps, -_MEAN_BITS)
        return products

    def checked(self, points: npt.ArrayLike) -> Floats:
        """Check points before they are hashed, and return them as a table of floats.

        Args:
            points: One point per row.

        Returns:
            The points, one per row.

        Raises:
            InvalidInput: The points are not a table of finite numbers with the study's columns, or a point is too far
                from 0. The sentence quotes no value.
        """
        try:
            # A fixed memory order, because the sums of squares below are added up in that order.
            table = np.ascontiguousarray(points, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                "The points are not a table of numbers; encode rows with study.encode(table).points first."
            ) from None
        if table.ndim != 2 or table.shape[1] != self.columns:
            found = " × ".join(map(str, table.shape[1:])) if table.ndim > 1 else "no"
            raise InvalidInput(f"The points have {found} columns; the study has {self.columns}.")
        if not np.isfinite(table).all():
            raise InvalidInput("Some of the points are not finite numbers; replace or drop these points first.")
        longest = math.sqrt(np.einsum("ij,ij->i", table, table).max(initial=0.0))
        if longest * math.sqrt(self.gamma) > FARTHEST:
            raise InvalidInput(
                f"Some of the points lie more than {FARTHEST:g} kernel widths (1/√gamma) from 0, too far to "
                "be hashed exactly; scale the points, or encode them with a study."
            )
        return table

    @property
    def omega(self) -> Floats:
        """The public frequencies ω of the hash, one per column; a point x has the angles xᵀω in radians."""
        frequencies, surplus = self._frequencies
        return np.ldexp(frequencies, _POINT_BITS - _TURN_BITS - surplus) * (math.tau * math.sqrt(self.gamma))

    @functools.cached_property
    def _frequencies(self) -> tuple[Floats, int]:
        """Draw the frequencies, one per column, as whole numbers; also return the number of bits to drop from an angle.

        Before rounding, a frequency is drawn from N(0, 2 I), in radians per kernel width.
        """
        from scipy.special import ndtri

        from heathaze.privacy.randomness import Simulation

        # Frequencies are public numbers, not noise. Adding half a step of 2^−53 keeps the normal quantile finite.
        uniforms = Simulation(self.seed).uniforms(self.columns * self.frequencies) + 2.0**-54
        turns = ndtri(uniforms).reshape(self.columns, self.frequencies) * (math.sqrt(2) / math.tau)
        # By Cauchy-Schwarz, no partial sum of products exceeds the length of a point times the length of a frequency.
        point = (FARTHEST + 1) * 2**_POINT_BITS + math.sqrt(self.columns)
        bits = _FREQUENCY_BITS
        while float(np.linalg.norm(np.rint(np.ldexp(turns, bits)), axis=0).max()) * point >= 2**_FLOAT_BITS:
            bits -= 1
        return np.rint(np.ldexp(turns, bits)), _POINT_BITS + bits - _TURN_BITS

    @functools.cached_property
    def _cosines(self) -> Floats:
        """Table of the cosines of all angles, rounded towards 0 so that the ℓ2 norm of a hash is at most 1."""
        angles = np.arange(2**_TURN_BITS) * (math.tau / 2**_TURN_BITS)
        cosines: Floats = np.ldexp(
            np.trunc(np.ldexp(np.cos(angles) / math.sqrt(self.frequencies), _HASH_BITS)), -_HASH_BITS
        )
        return cosines

    @functools.cached_property
    def digest(self) -> str:
        """Fingerprint of the hash: two machines have the same digest if they hash points alike, to the last bit."""
        frequencies, surplus = self._frequencies
        tables = b"".join(table.astype("<f8").tobytes() for table in (frequencies + 0.0, self._cosines + 0.0))
        return hashlib.sha256(tables + bytes([surplus])).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The parameters of the hash as plain numbers, for reports."""
        return asdict(self)
