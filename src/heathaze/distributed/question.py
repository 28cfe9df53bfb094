"""What a server asks of devices in one round: public, complete, and small enough to be looked at before answering."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.distributed.cohort import Cohort, rational
from heathaze.distributed.encodings import Encoding, encoding_from_dict
from heathaze.domain.grid import Grid
from heathaze.errors import HeathazeError, InvalidInput
from heathaze.privacy.events import Composition, Event, NoiseShares
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import PrivacyLoss, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.noise_shares import wrap_bits

VERSION = 1
"""Of questions as they travel; raised when an older device could no longer read them."""

LONGEST = 2**21
"""Numbers a device is willing to send in one round."""

MOST_PARTS = 64
"""Each costs time to look at; no mechanism has more levels than this."""

LARGEST_MASS = 2**30
"""Of one person: finer rounding is of no use to anybody."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some entries of the vector and what they cost: a person's mass goes into the encoding, with noise for ε."""

    encoding: Encoding
    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        if self.epsilon.denominator >= 10**20:
            raise InvalidInput("epsilon has more than 20 digits below the line; give a shorter one, as 0.5.")


@dataclass(frozen=True, eq=False)
class Question:
    """One round of a survey.

    Args:
        survey: Name of the survey: 32 hexadecimal digits. A device answers each round of a survey once.
        number: Of the round, from 1.
        parts: What is asked; the vector is one part after the other.
        cohort: Who is asked, and with how many of them a sum is opened at least.
        mass: Integer mass of one person, split over their places; 1 if each has one place.
        flagged: Every entry is there twice, for people with and without the flag (a share is asked for as well).
        final: No round comes after this one.
        disjoint: Nobody is asked in more than one round of the survey; a device answers one and no other.
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
        if type(self.number) is not int or not 1 <= self.number < 10**18:
            raise InvalidInput(f"The number of a round is {self.number!r}; expected 1, 2, 3 and so on.")
        if type(self.mass) is not int or not 1 <= self.mass <= LARGEST_MASS:
            raise InvalidInput(f"The mass of a person is {self.mass!r}; expected a whole number from 1 to 2^30.")
        if len(self.parts) > MOST_PARTS:
            raise InvalidInput(f"A question has {len(self.parts)} parts; expected at most {MOST_PARTS}.")
        if not self.parts or any(part.encoding.grid != self.parts[0].encoding.grid for part in self.parts):
            raise InvalidInput("A question has at least one part, and all its parts lie on the same grid.")
        if self.length > LONGEST:
            raise InvalidInput(f"A question asks for {self.length} numbers; expected at most {LONGEST}.")
        _ = self.bits  # refuses noise that cannot be drawn or leaves no room: before anybody pays for an answer

    @property
    def grid(self) -> Grid:
        """The public frame."""
        return self.parts[0].encoding.grid

    @property
    def lengths(self) -> list[int]:
        """Entries of every part; with a flag, twice those of its encoding."""
        return [part.encoding.length * (2 if self.flagged else 1) for part in self.parts]

    @property
    def length(self) -> int:
        """How many integers a device sends."""
        return sum(self.lengths)

    @property
    def epsilon(self) -> Fraction:
        """What it costs to answer: the parts add up."""
        return sum((part.epsilon for part in self.parts), Fraction(0))

    @property
    def scales(self) -> list[Fraction]:
        """Scale of the noise of every part."""
        return [laplace_scale(self.sensitivity(part), part.epsilon) for part in self.parts]

    def sensitivity(self, part: Part) -> int:
        """What one person can change: their mass in each of the entries that a place touches."""
        return self.mass * part.encoding.touched

    @functools.cached_property
    def bits(self) -> int:
        """Sums are modulo 2^bits: wide enough that a shard's noisy sum wraps with probability below 2^−40."""
        shape = self.cohort.shard * self.cohort.shape
        return max(
            wrap_bits(self.cohort.shard, self.mass, scale, shape, length, 2.0**-40 / len(self.parts))
            for scale, length in zip(self.scales, self.lengths, strict=True)
        )

    def event(self, delivered: int | None = None) -> Event:
        """What happens to one person's data if so many of a shard deliver; the fewest allowed unless given."""
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
        """What answering promises."""
        cohort = self.cohort
        trust = (Adjacency.ZERO_OUT, Trust.SECURE_SUM, cohort.colluders)
        return Guarantee(PrivacyLoss(self.epsilon), Unit.PERSON, *trust, failure_probability=cohort.excess)

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """32 bytes that no other question shares."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).digest()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, to be sent to devices."""
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
        """Undo :meth:`to_dict`; the fields come from a server, so everything is looked at."""
        found = fields.get("heathaze question") if isinstance(fields, Mapping) else None
        if type(found) is not int or found != VERSION:
            raise InvalidInput(f"This is a question of version {str(found)[:20]!r}; expected {VERSION}.")
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
            raise InvalidInput("This is not a question that a device can read; it is damaged or was edited.") from None
