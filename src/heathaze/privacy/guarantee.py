"""The promise a release carries: how much, to whom, against which change, trusting whom."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.loss import PrivacyLoss, decimal, decimal_up

# TODO-merged from privacy.unit: Whom a guarantee protects: the rows that count as one.


class Unit(enum.Enum):
    """The protected unit: everything of one unit may change, and the release hardly notices."""

    PERSON = "person"
    PERSON_DAY = "person-day"
    VISIT = "visit"
    SOURCE = "source"
    RECORD = "record"

    @classmethod
    def parse(cls, name: str | Unit) -> Unit:
        """A unit of visits by its name; sensors (sources) and marketplaces (records) name their unit themselves.

        >>> Unit.parse("person-day")
        <Unit.PERSON_DAY: 'person-day'>
        """
        unit = next((unit for unit in (cls.PERSON, cls.PERSON_DAY, cls.VISIT) if name in (unit, unit.value)), None)
        if unit is None:
            raise InvalidInput(f"There is no unit {name!r}; choose 'person', 'person-day' or 'visit'.")
        return unit

    @property
    def described(self) -> str:
        """What is protected, in words that end in 'in the data'."""
        return {
            Unit.PERSON: "one person, with all of their visits",
            Unit.PERSON_DAY: "one day of one person, with all visits of that day (a person's days add up)",
            Unit.VISIT: "one single visit (a person's visits add up)",
            Unit.SOURCE: "sources of heat",
            Unit.RECORD: "one record (a person's records add up)",
        }[self]


# TODO-merged from privacy.trust: Who is trusted, and which two datasets count as neighbours.


class Trust(enum.Enum):
    """Who has to be trusted for the guarantee to hold."""

    CENTRAL = "central"
    SECURE_SUM = "secure-sum"
    LOCAL = "local"
    SENSORS = "sensors"
    ESCROW = "escrow"
    CURATOR = "curator"

    @property
    def described(self) -> str:
        """The trust in words."""
        return {
            Trust.CENTRAL: "a trusted curator held the raw data and ran Heathaze",
            Trust.SECURE_SUM: "a secure sum; the server follows the protocol and sees only noisy sums of many devices",
            Trust.LOCAL: "nobody; each device randomised its own position before anything left it",
            Trust.SENSORS: "nobody but the sensors; each added its own noise before anything left it",
            Trust.CURATOR: "a curator, who saw the target and all points that were offered",
            Trust.ESCROW: "the sensors and whoever holds the escrow key, who can take the noise off again; nobody else",
        }[self]

    @property
    def computational(self) -> bool:
        """Does the promise hold only against those who cannot break its keys?"""
        return self in (Trust.SECURE_SUM, Trust.ESCROW)


class Adjacency(enum.Enum):
    """Which change of the data the guarantee speaks of (errata X1).

    ZERO_OUT: the person still takes part and still adds their share of the noise, and sends nothing else; literally
    removing a device would also remove its noise, which no proof covers.

    EARTH_MOVER: sources move by at most α in all, strength times distance, and their total strength stays the same
    (errata E4-4). How many there are and how strong they are is not protected.

    REPLACE: one record becomes any other, and how many there are is public; it costs twice what adding one does.

    The last two are distances, not changes: their ε is a price for each metre (or each unit of length of a plane)
    between two positions, so it never adds up with an ε of another kind.
    """

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"
    REPLACE = "replace-one"
    ANY_TWO = "any-two-positions"
    EARTH_MOVER = "earth-mover"
    PER_METRE = "per-metre"
    PER_LENGTH = "per-unit-of-length"

    @property
    def described(self) -> str:
        """The change in words."""
        return {
            Adjacency.ADD_REMOVE: "adding or removing",
            Adjacency.ZERO_OUT: "replacing by nothing what is sent about",
            Adjacency.REPLACE: "replacing",
            Adjacency.ANY_TWO: "exchanging any position for any other",
            Adjacency.EARTH_MOVER: "moving",
            Adjacency.PER_METRE: "moving a position by a metre",
            Adjacency.PER_LENGTH: "moving a position by a unit of length",
        }[self]

    @property
    def length(self) -> str | None:
        """The unit of length in which ε is counted, or None where ε is a plain number."""
        return {Adjacency.PER_METRE: "metre", Adjacency.PER_LENGTH: "unit of length"}.get(self)


_MORE = "each further report of the same person adds to it"


@dataclass(frozen=True)
class Guarantee:
    """One sentence a lawyer and an engineer both accept.

    ``reach`` is how far sources may have moved, and in which unit, such as "0.5 m"; it is for sensors alone.
    ``colluders`` is how many devices of a shard may tell the server their noise, and ``failure_probability`` bounds the probability
    that shards dealt at random hold more; they are for a secure sum alone.

    >>> print(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON))  # doctest: +ELLIPSIS
    Differential privacy with ε = 1 (pure, δ = 0): adding or removing one person, with all of their visits, changes ...
    """

    loss: PrivacyLoss
    unit: Unit
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    trust: Trust = Trust.CENTRAL
    colluders: int = 0
    reach: str | None = None
    failure_probability: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if type(self.colluders) is not int or self.colluders < 0 or not 0 <= self.failure_probability < 1:
            raise InvalidInput(
                f"A guarantee has {self.colluders!r} colluders, and more with probability {self.failure_probability}; expected a "
                "whole number, 0 or larger, and a probability below 1."
            )
        if self.trust is not Trust.SECURE_SUM and (self.colluders or self.failure_probability):
            raise PromiseBroken("Colluders belong to the trust 'secure-sum', and to no other.")
        if (self.adjacency is Adjacency.EARTH_MOVER) != (self.reach is not None):
            raise PromiseBroken("A reach belongs to the adjacency 'earth-mover', and that to a reach.")

    @property
    def epsilon(self) -> float:
        """ε as a float, for display and plots."""
        return float(self.loss.epsilon)

    def __str__(self) -> str:
        if self.trust is Trust.LOCAL:
            return f"{self._local_promise()}, whatever else is known; {self._terms()}; for one report alone: {_MORE}."
        delta = "pure, δ = 0" if self.loss.delta == 0 else f"δ = {decimal(self.loss.delta)}"
        if self.adjacency is Adjacency.EARTH_MOVER:
            return self._sensors_promise(delta)
        if self.trust is Trust.CURATOR:
            return self._market_promise(delta)
        # A secure sum hides the rest behind keys: nobody who could guess them is promised anything.
        return (
            f"{self._kind} with ε = {decimal(self.loss.epsilon)} ({delta}): {self.adjacency.described} "
            f"{self.unit.described}, changes the probability of any outcome of this release by a factor of at most "
            f"{_factor(self.loss)}, whatever else is known; {self._terms()}; for this release alone, other "
            "releases about the same people add up."
        )

    @property
    def _kind(self) -> str:
        return "Computational differential privacy" if self.trust.computational else "Differential privacy"

    def _sensors_promise(self, delta: str) -> str:
        """The promise of readings: where the sources are, and not what they are."""
        return (
            f"{self._kind} with ε = {decimal(self.loss.epsilon)} ({delta}): moving {self.unit.described} by at most "
            f"{self.reach} in all (strength times distance), with the same total strength, changes the probability of "
            f"any outcome of these readings by a factor of at most {_factor(self.loss)}, whatever else is known, if "
            "they follow the stated physics; not protected: how many sources there are and how strong; "
            f"{self._terms()}; for these readings alone, other readings of the same sources add up."
        )

    def _market_promise(self, delta: str) -> str:
        """The promise of a marketplace: what owners of data are told, and not what is bought."""
        whom = "owners" if self.adjacency is Adjacency.REPLACE else "the other owners"
        return (
            f"{self._kind} with ε = {decimal(self.loss.epsilon)} ({delta}): {self.adjacency.described} "
            f"{self.unit.described} changes the probability of anything that {whom} are told, even all of "
            f"them together, by a factor of at most {_factor(self.loss)}, whatever else is known; not protected: what "
            "the curator sees, the points that are bought, and a model trained on them; "
            f"{self._terms()}; for this purchase alone, other purchases from the same records add up."
        )

    def _local_promise(self) -> str:
        """The promise of a report, which its device made alone."""
        whose = {
            Unit.PERSON: "of one person",
            Unit.PERSON_DAY: "of one person on one day",
            Unit.VISIT: "of one visit",
        }[self.unit]
        if self.adjacency.length is None:
            return (
                f"Local differential privacy with ε = {decimal(self.loss.epsilon)} (pure, δ = 0): exchanging the "
                f"position {whose} for any other changes the probability of any report by a factor of at most "
                f"{_factor(self.loss)}"
            )
        unit = self.adjacency.length
        return (
            f"Geo-indistinguishability with ε = {decimal(self.loss.epsilon)} per {unit} (no differential privacy "
            f"across the map): moving the position {whose} by r {unit}s, from cell to cell, changes the probability of "
            f"any report by a factor of at most e^({decimal(self.loss.epsilon)} · r)"
        )

    def _terms(self) -> str:
        within = "" if self.reach is None else f" within {self.reach}"
        terms = f"unit: {self.unit.value}; adjacency: {self.adjacency.value}{within}; trust: {self.trust.described}"
        if self.trust is not Trust.SECURE_SUM:
            return terms
        chance = f", which random shards exceed with probability at most {decimal_up(self.failure_probability, 2)}"
        return f"{terms}, and at most {self.colluders} devices of a shard tell it their noise{chance * bool(self.failure_probability)}"

    @property
    def short(self) -> str:
        """The caption under a picture."""
        per = "" if self.adjacency.length is None else f" per {self.adjacency.length}"
        kind = "geo-indistinguishability" if per else "differential privacy"
        return (
            f"{self.loss}{per} {kind} · unit: {self.unit.value} · adjacency: {self.adjacency.value}"
            f"{'' if self.reach is None else f' within {self.reach}'} · trust: {self.trust.value}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain texts, for files; rationals as 'numerator/denominator'."""
        fields: dict[str, Any] = {
            "epsilon": str(self.loss.epsilon),
            "delta": str(self.loss.delta),
            "unit": self.unit.value,
            "adjacency": self.adjacency.value,
            "trust": self.trust.value,
            "sentence": str(self),
        }
        if self.trust is Trust.SECURE_SUM:
            fields["colluders"] = self.colluders
        if self.failure_probability:
            fields["failure_probability"] = str(self.failure_probability)
        if self.reach is not None:
            fields["reach"] = self.reach
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Guarantee:
        """Undo :meth:`to_dict`."""
        return cls(
            PrivacyLoss(Fraction(fields["epsilon"]), Fraction(fields["delta"])),
            Unit(fields["unit"]),
            Adjacency(fields["adjacency"]),
            Trust(fields["trust"]),
            fields.get("colluders", 0),
            fields.get("reach"),
            Fraction(fields.get("failure_probability", 0)),
        )


def _factor(loss: PrivacyLoss) -> str:
    value = float(loss.epsilon)
    # "At most" is rounded up, never to nearest.
    rounded = f" ≈ {decimal_up(math.exp(value), 3)}" if value < 20 else ""
    return f"e^{decimal(loss.epsilon)}{rounded}" + (" and δ on top" if loss.delta else "")
