"""Question: the message that a server sends to all devices of a cohort in one round of a survey. It is public.

A device computes the scale of the noise, the shape of its noise share and the bits of the modulus from the question. A
server therefore cannot ask for less noise than the declared ε needs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.checks import assign, whole
from heathaze.distributed.cohort import Cohort, rational
from heathaze.distributed.encodings import Encoding, encoding_from_dict
from heathaze.domain.grid import Grid
from heathaze.errors import HeathazeError, InvalidInput, PromiseBroken, expect
from heathaze.privacy.events import Composition, Event, NoiseShares
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.loss import Number, PrivacyLoss, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.noise_shares import wrap_bits
from heathaze.privacy.randomness import Randomness
from heathaze.secagg import Parameters

VERSION = 1
"""Version of the format in which questions are sent; raised when an older device could not read them."""

LONGEST = 2**21
"""The largest number of integers that a device sends in one round."""

MOST_PARTS = 64
"""The largest number of parts of a question. Each part costs a device time, and no mechanism needs more parts."""

LARGEST_MASS = 2**30
"""The largest integer mass (weight) of one person."""


@dataclass(frozen=True, eq=False, init=False)
class Part:
    """A part of a question: consecutive entries of the vector, and the ε for which their noise is made.

    Args:
        encoding: Which entries a place belongs to.
        epsilon: Privacy loss of one person in this part.

    Raises:
        InvalidInput: ε is not a positive number, or its denominator has more than 20 digits.
    """

    encoding: Encoding
    epsilon: Fraction

    def __init__(self, encoding: Encoding, epsilon: Number) -> None:
        assign(self, encoding=encoding, epsilon=parse_epsilon(epsilon))
        if self.epsilon.denominator >= 10**20:
            raise InvalidInput("epsilon has a denominator of more than 20 digits; give a shorter number, such as 0.5.")


@dataclass(frozen=True, eq=False)
class Question:
    """The question of one round of a survey.

    Args:
        survey: Name of the survey: 32 hexadecimal digits. A device answers each round of a survey once.
        number: Index of the round, from 1.
        parts: The parts of the question. The vector of a device holds the parts one after the other.
        cohort: How many people are asked, and how many must deliver before a sum is opened.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place.
        flagged: Whether every entry exists twice, for people without and with the flag.
        final: Whether this is the last round.
        disjoint: Whether no person is asked in more than one round of the survey. If so, a device answers one round
            only.

    Raises:
        InvalidInput: A field is out of range, or the noise cannot be drawn.

    >>> from heathaze.distributed.encodings import Squares
    >>> grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
    >>> question = Question("0" * 32, 1, (Part(Squares(grid, 1), 1),), Cohort(people=10_000))
    >>> question.length, question.bits, question.epsilon
    (4, 14, Fraction(1, 1))
    """

    survey: str
    number: int
    parts: tuple[Part, ...]
    cohort: Cohort
    mass: int = 1
    flagged: bool = False
    final: bool = False
    disjoint: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.survey, str) or not re.fullmatch(r"[0-9a-f]{32}", self.survey):
            raise InvalidInput(f"A survey is named {str(self.survey)[:40]!r}; expected 32 hexadecimal digits.")
        number = whole(self.number, "number", "the number of the round", most=10**18 - 1)
        assign(self, number=number, mass=check_mass(self.mass))
        if len(self.parts) > MOST_PARTS:
            raise InvalidInput(f"A question has {len(self.parts)} parts; expected at most {MOST_PARTS}.")
        if not self.parts or any(part.encoding.grid != self.parts[0].encoding.grid for part in self.parts):
            raise InvalidInput("A question needs at least one part, and all its parts on the same grid.")
        if self.length > LONGEST:
            raise InvalidInput(f"A question asks for {self.length} numbers; expected at most {LONGEST}.")
        _ = self.bits  # refuses noise that cannot be drawn, before a device pays for an answer

    @property
    def grid(self) -> Grid:
        """The public grid."""
        return self.parts[0].encoding.grid

    @property
    def lengths(self) -> list[int]:
        """The number of entries of every part; with a flag, twice the length of its encoding."""
        return [part.encoding.length * (2 if self.flagged else 1) for part in self.parts]

    @property
    def length(self) -> int:
        """The number of integers that a device sends."""
        return sum(self.lengths)

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one person who answers: the sum over the parts."""
        return sum((part.epsilon for part in self.parts), Fraction(0))

    @property
    def scales(self) -> list[Fraction]:
        """Scale of the noise of every part: sensitivity / ε, rounded up."""
        return [laplace_scale(self.sensitivity(part), part.epsilon) for part in self.parts]

    def sensitivity(self, part: Part) -> int:
        """ℓ1 sensitivity of a part: the mass of one person times the number of entries that a place touches.

        Args:
            part: One of the parts.
        """
        return self.mass * part.encoding.touched

    @functools.cached_property
    def bits(self) -> int:
        """The number of bits of the modulus: secure sums are computed modulo 2^bits.

        ``bits`` is the smallest number for which the noisy sum of a shard wraps around in any entry with probability at
        most 2^−40. Wrapping around would cost accuracy, not privacy, because the reduction is post-processing.
        """
        shape = self.cohort.shard * self.cohort.shape
        return max(
            wrap_bits(self.cohort.shard, self.mass, scale, shape, length, 2.0**-40 / len(self.parts))
            for scale, length in zip(self.scales, self.lengths, strict=True)
        )

    def event(self, delivered: int | None = None) -> Event:
        """The privacy event of one person who answers this question.

        Args:
            delivered: How many people of the shard delivered their vector; the threshold if left out.

        Returns:
            Noise shares of total shape (delivered − colluders) / (threshold − colluders) for every part. The accountant
            refuses a shape below 1.
        """
        honest = (self.cohort.threshold if delivered is None else delivered) - self.cohort.colluders
        shape = max(honest, 0) * self.cohort.shape
        return Composition(
            tuple(
                NoiseShares(self.sensitivity(part), scale, shape)
                for part, scale in zip(self.parts, self.scales, strict=True)
            )
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for a person who answers this question."""
        return self.cohort.guarantee(PrivacyLoss(self.epsilon))

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of the question as it is sent."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).digest()

    # ── the secure sum of a shard ───────────────────────────────────────────────────────────────────────────────────

    def plan_parameters(self, randomness: Randomness | None = None) -> Parameters:
        """Plan a secure sum of one shard that is as safe as this question promises.

        Args:
            randomness: The source of the random name of the secure sum; the operating system's if left out.

        Returns:
            Parameters with a new name. Every shard needs its own parameters.

        Raises:
            InvalidInput: No secure sum of a shard of this size is safe.

        >>> from heathaze.distributed.encodings import Squares
        >>> grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
        >>> question = Question("0" * 32, 1, (Part(Squares(grid, 1), 1),), Cohort(people=1000))
        >>> parameters = question.plan_parameters()
        >>> parameters.survivors_at_least, parameters.corrupt_at_most, parameters.length
        (900, 50, 4)
        """
        cohort = self.cohort
        return Parameters.plan(
            cohort.shard,
            self.length,
            self.bits,
            # These shares stand for whole numbers of people, so that the secure sum computes the same numbers.
            dropout=(cohort.shard - cohort.threshold) / cohort.shard,
            corruption=cohort.colluders / cohort.shard,
            survivors_at_least=cohort.threshold,
            purpose=self.fingerprint,
            randomness=randomness,
        )

    def check_parameters(self, parameters: Parameters) -> None:
        """Check that the parameters of a secure sum are as safe as this question promises.

        Args:
            parameters: The parameters of the secure sum of one shard.

        Raises:
            InvalidInput: The parameters do not fit the vector or the shard.
            PromiseBroken: The parameters belong to another question, allow fewer survivors, or tolerate fewer
                colluders.
        """
        expect(Parameters, parameters, "The parameters")
        for name, found, expected in (
            ("length", parameters.length, self.length),
            ("bits", parameters.bits, self.bits),
            ("clients", parameters.clients, self.cohort.shard),
        ):
            if found != expected:
                raise InvalidInput(f"The parameters of the sum have {name} {found}; the question needs {expected}.")
        if parameters.purpose != self.fingerprint:
            raise PromiseBroken(
                "The parameters of the sum belong to another question. All devices of a shard must answer the same "
                "one, so this one is not answered."
            )
        for name, found, expected in (
            ("survivors_at_least", parameters.survivors_at_least, self.cohort.threshold),
            ("corrupt_at_most", parameters.corrupt_at_most, self.cohort.colluders),
        ):
            if found < expected:
                raise PromiseBroken(
                    f"The parameters of the sum have {name} {found}; the question promises at least {expected}, so it "
                    "is not answered."
                )

    # ── the format in which it is sent ──────────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> dict[str, Any]:
        """The question as plain numbers and texts, to be sent to devices as JSON."""
        return {
            "heathaze question": VERSION,
            "survey": self.survey,
            "number": self.number,
            "grid": self.grid.to_dict(),
            "parts": [{"epsilon": str(part.epsilon), "encoding": part.encoding.to_dict()} for part in self.parts],
            "cohort": self.cohort.to_dict(),
            "mass": self.mass,
            "flagged": self.flagged,
            "final": self.final,
            "disjoint": self.disjoint,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Question:
        """Rebuild a question from the fields that :meth:`to_dict` returned.

        Args:
            fields: The fields, from a server that may be hostile; every field is checked.

        Returns:
            The question.

        Raises:
            InvalidInput: The version is another one, or a field is missing or out of range.
        """
        found = fields.get("heathaze question") if isinstance(fields, Mapping) else None
        if type(found) is not int or found != VERSION:
            raise InvalidInput(
                f"This is a question of version {str(found)[:20]!r}, and this device reads version {VERSION}; update "
                "the older side."
            )
        try:
            grid = Grid.from_dict(fields["grid"])
            parts = tuple(
                Part(encoding_from_dict(grid, part["encoding"]), rational(part["epsilon"])) for part in fields["parts"]
            )
            if {type(fields[name]) for name in ("flagged", "final", "disjoint")} != {bool}:
                raise TypeError
            return cls(
                fields["survey"],
                fields["number"],
                parts,
                Cohort.from_dict(fields["cohort"]),
                fields["mass"],
                fields["flagged"],
                fields["final"],
                fields["disjoint"],
            )
        except HeathazeError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError):
            raise InvalidInput("The question cannot be read; it is damaged or was edited.") from None


def check_mass(mass: int) -> int:
    """Check the integer mass (weight) of one person in a survey, 1 to 2^30.

    Raises:
        InvalidInput: The mass is out of range.
    """
    return whole(mass, "mass", "the integer mass of one person", most=LARGEST_MASS)
