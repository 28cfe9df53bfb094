"""The guarantee of a release: its privacy loss, the protected unit, the adjacency, and who must be trusted."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.loss import PrivacyLoss, decimal, decimal_up, read_rational

PLAINLY = 1
"""The largest ε at which the plain sentence says that a map would look almost the same without one person."""


class Unit(enum.Enum):
    """The protected unit: which rows of the data the guarantee protects together, such as all rows of a person."""

    PERSON = "person"
    PERSON_DAY = "person-day"
    VISIT = "visit"
    TRIP = "trip"
    SOURCE = "source"
    RECORD = "record"

    @classmethod
    def parse(cls, name: str | Unit) -> Unit:
        """Return the protected unit of visits with a given name.

        The names "trip", "source" and "record" are refused, because journeys, sensors and the marketplace set their
        unit themselves.

        Args:
            name: ``"person"``, ``"person-day"`` or ``"visit"``, or the unit itself.

        Returns:
            The unit.

        Raises:
            InvalidInput: The name is not one of the three.

        >>> Unit.parse("person-day")
        <Unit.PERSON_DAY: 'person-day'>
        """
        unit = next((unit for unit in (cls.PERSON, cls.PERSON_DAY, cls.VISIT) if name in (unit, unit.value)), None)
        if unit is None:
            raise InvalidInput(f"There is no unit {name!r}; choose 'person', 'person-day' or 'visit'.")
        return unit

    @property
    def described(self) -> str:
        """The protected unit in words, for the sentence of a guarantee."""
        return {
            Unit.PERSON: "one person, with all of their data",
            Unit.PERSON_DAY: "one day of one person, with all visits of that day (a person's days add up)",
            Unit.VISIT: "one single visit (a person's visits add up)",
            Unit.TRIP: "one single journey (a person's journeys add up)",
            Unit.SOURCE: "where sources of heat are",
            Unit.RECORD: "one record (a person's records add up)",
        }[self]

    def _with(self, thing: str) -> str:
        """Name a thing (a vector or a position) that belongs to one unit, such as "one person's position"."""
        of_person = {Unit.PERSON: f"one person's {thing}", Unit.PERSON_DAY: f"one person's {thing} on one day"}
        return of_person.get(self, f"the {thing} of one {self.value}")


class Trust(enum.Enum):
    """Who has to be trusted for the guarantee to hold."""

    CENTRAL = "central"
    SHUFFLER = "shuffler"
    SECURE_SUM = "secure-sum"
    LOCAL = "local"
    SENSORS = "sensors"
    ESCROW = "escrow"
    CURATOR = "curator"

    @property
    def described(self) -> str:
        """Who must be trusted and what they know, in words, for the sentence of a guarantee."""
        return {
            Trust.CENTRAL: "a curator, who held the raw data and ran Heathaze",
            Trust.SHUFFLER: "a shuffler, which mixes encrypted messages, does not reveal who sent which, and does not "
            "collude with the server, and the way from devices to the shuffler, which is hidden from the server",
            Trust.SECURE_SUM: "a secure sum, whose server follows the protocol and sees only noisy sums of many "
            "devices",
            Trust.LOCAL: "nobody, because each device randomised its own position before anything left it",
            Trust.SENSORS: "the sensors alone, because each added its own noise before anything left it",
            Trust.CURATOR: "a curator, who saw the target and all points that were offered",
            Trust.ESCROW: "the sensors and the holder of the escrow key, who can remove the noise",
        }[self]

    @property
    def computational(self) -> bool:
        """Whether the guarantee holds only against observers who cannot break cryptographic keys."""
        return self in (Trust.SHUFFLER, Trust.SECURE_SUM, Trust.ESCROW)


class Adjacency(enum.Enum):
    """The change of the data between two neighbouring datasets (errata X1).

    ADD_REMOVE: one unit is added to the data or removed from it.

    ZERO_OUT: the vector of one unit is replaced by zeros. The device still takes part and still adds its share of the
    noise. The removal of a device would also remove its noise, and the proof does not cover this change.

    REPLACE: one record is replaced by any other, and the number of records is public. This costs twice as much as
    ADD_REMOVE.

    ANY_TWO: the position in a report is replaced by any other position.

    ANY_TWO_JOURNEYS: the journeys behind a report are replaced by any other journeys, of any number and length.

    EARTH_MOVER: sources move by at most α in all, measured as strength times distance, and their total strength stays
    the same (errata E4-4). The number of sources and their strengths are not protected.

    PER_METRE, PER_LENGTH: the position in a report moves, and ε counts for each metre (or each unit of length of a
    plane) that it moves. Such an ε cannot be added to an ε of another adjacency.
    """

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"
    REPLACE = "replace-one"
    ANY_TWO = "any-two-positions"
    ANY_TWO_JOURNEYS = "any-two-journeys"
    EARTH_MOVER = "earth-mover"
    PER_METRE = "per-metre"
    PER_LENGTH = "per-unit-of-length"

    @property
    def length(self) -> str | None:
        """The unit of length in which ε is counted, or None where ε is a plain number."""
        return {Adjacency.PER_METRE: "metre", Adjacency.PER_LENGTH: "unit of length"}.get(self)


@dataclass(frozen=True)
class Guarantee:
    """The privacy guarantee of a release. ``str(guarantee)`` is a sentence for laypeople, followed by exact terms.

    Args:
        loss: The privacy loss (ε, δ).
        unit: The protected unit.
        adjacency: The change of the data between neighbouring datasets.
        trust: Who has to be trusted.
        colluders: The largest number of devices of a shard that may reveal their noise to the server. It is at least 0,
            and only a secure sum has colluders.
        reach: α, the protected movement of sources, with its unit, such as "0.5 metres". Only sensors have a reach.
        failure_probability: A bound on the probability that any of the shards, which are drawn at random, has more than
            ``colluders`` colluders. It is at least 0 and below 1, and only a secure sum has it.
        people: The least number of people in a batch who follow the protocol and do not reveal their messages to the
            server. Only a shuffler has it.
        alone: The ε of one person's messages if shuffler and server collude, or None if nothing is protected then. Only
            a shuffler has it.

    Raises:
        InvalidInput: ``colluders`` or ``failure_probability`` is out of range.
        PromiseBroken: A field is set that does not apply to the trust or the adjacency.

    >>> print(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON))  # doctest: +ELLIPSIS
    Whether any one person is in the data changes the chance of any result by at most a factor of 2.72. Protected: ...
    """

    loss: PrivacyLoss
    unit: Unit
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    trust: Trust = Trust.CENTRAL
    colluders: int = 0
    reach: str | None = None
    failure_probability: Fraction = Fraction(0)
    people: int = 0
    alone: Fraction | None = None

    def __post_init__(self) -> None:
        if type(self.people) is not int or self.people < 0 or (self.alone is not None and self.alone <= 0):
            raise InvalidInput(
                f"A guarantee has {self.people!r} people and ε = {self.alone!r} alone; give numbers ≥ 0."
            )
        if self.trust is not Trust.SHUFFLER and (self.people or self.alone is not None):
            raise PromiseBroken(f"Only the trust 'shuffler' has a least number of people, not {self.trust.value!r}.")
        if type(self.colluders) is not int or self.colluders < 0 or not 0 <= self.failure_probability < 1:
            raise InvalidInput(
                f"A guarantee has {self.colluders!r} colluders and failure probability {self.failure_probability}; "
                "give a whole number of at least 0, and a probability below 1."
            )
        if self.trust is not Trust.SECURE_SUM and (self.colluders or self.failure_probability):
            raise PromiseBroken(f"Only the trust 'secure-sum' has colluders, and this one is {self.trust.value!r}.")
        if (self.adjacency is Adjacency.EARTH_MOVER) != (self.reach is not None):
            raise PromiseBroken(
                f"A reach of {self.reach!r} does not fit the adjacency {self.adjacency.value!r}; 'earth-mover' needs a "
                "reach, and no other adjacency has one."
            )

    @property
    def epsilon(self) -> float:
        """ε as a float, for display and plots."""
        return float(self.loss.epsilon)

    # ── in words ────────────────────────────────────────────────────────────────────────────────────────────────────

    def __str__(self) -> str:
        # A local report holds one position, so it protects this position only, not a whole unit.
        protected = "" if self.trust is Trust.LOCAL else f"Protected: {self._protected()}. {self._unprotected()}"
        physics = ", if the readings follow the stated physics" if self.adjacency is Adjacency.EARTH_MOVER else ""
        return (
            f"{self._change()} by at most a factor of {self._factor()}. {protected}This holds whatever else is known"
            f"{physics}. Exact terms: {self._terms()}. {self._composition()} to this privacy loss."
        )

    @property
    def exact(self) -> str:
        """The guarantee in its exact terms, without the sentence of :attr:`plain` if it starts with this sentence."""
        return str(self).removeprefix(self.plain).strip()

    @property
    def plain(self) -> str:
        """The guarantee as one sentence for everybody, without terms of the field.

        It is said only if ε is at most :data:`PLAINLY`. For a larger ε, the sentence states the factor.

        >>> Guarantee(PrivacyLoss(Fraction(1)), Unit.VISIT).plain
        'No single visit can be recognised in this map: it would look almost the same without any one of them.'
        >>> Guarantee(PrivacyLoss(Fraction(8)), Unit.PERSON).plain
        'Whether any one person is in the data changes the chance of any result by at most a factor of 2,990.'
        """
        any_two = (Adjacency.ANY_TWO, Adjacency.ANY_TWO_JOURNEYS)
        usual = self.adjacency in (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, *any_two)
        if not usual or self.loss.epsilon > PLAINLY:
            return f"{self._change()} by at most a factor of {self._factor()}."
        if self.adjacency is Adjacency.ANY_TWO_JOURNEYS:
            return (
                "No single journey can be recognised in these journeys: only randomised facts about journeys were sent."
            )
        if self.trust is Trust.LOCAL:
            return (
                "No single position can be recognised in this map: every position was randomised on the device before "
                "it was sent."
            )
        one = "day of a person" if self.unit is Unit.PERSON_DAY else self.unit.value
        return f"No single {one} can be recognised in this map: it would look almost the same without any one of them."

    def _change(self) -> str:
        """Write the beginning of the sentence: the change of the data, and the result whose probability changes."""
        whose = ("owners" if self.adjacency is Adjacency.REPLACE else "other owners") + ", even taken together,"
        result = {Trust.LOCAL: "any report", Trust.CURATOR: f"any messages to the {whose}"}.get(
            self.trust, "any result"
        )
        one = f"any one {'day of a person' if self.unit is Unit.PERSON_DAY else self.unit.value}"
        if self.adjacency is Adjacency.ADD_REMOVE:
            return f"Whether {one} is in the data changes the chance of {result}"
        change = {
            Adjacency.ZERO_OUT: f"{self.unit._with('vector')} is replaced by zeros",
            Adjacency.REPLACE: f"{one} is replaced by another",
            Adjacency.ANY_TWO: f"{self.unit._with('position')} is replaced by any other",
            Adjacency.ANY_TWO_JOURNEYS: "one journey is replaced by any other"
            if self.unit is Unit.TRIP
            else "all journeys of one person are replaced by any others",
            Adjacency.EARTH_MOVER: f"sources of heat move by at most {self.reach} in all (strength times distance) and "
            "keep their total strength",
            Adjacency.PER_METRE: f"{self.unit._with('position')} moves by r metres, from cell to cell",
            Adjacency.PER_LENGTH: f"{self.unit._with('position')} moves by r units of length, from cell to cell",
        }[self.adjacency]
        readings = self.adjacency is Adjacency.EARTH_MOVER
        return f"If {change}, the chance of {'any readings' if readings else result} changes"

    def _factor(self) -> str:
        """Write the factor e^ε as a number, rounded up, and δ."""
        epsilon = self.loss.epsilon
        if self.adjacency.length is not None:
            return f"e^({decimal(epsilon)} · r)"
        number = decimal_up(math.exp(epsilon), 3) if epsilon < 20 else f"e^{decimal(epsilon)}"
        factor = f"{float(number):,.0f}" if "e+" in number else number
        return factor if self.loss.delta == 0 else f"{factor}, plus at most {decimal(self.loss.delta)}"

    def _unprotected(self) -> str:
        if self.adjacency is Adjacency.EARTH_MOVER:
            return "Not protected: how many sources there are and how strong they are. "
        if self.trust is Trust.CURATOR:
            return "Not protected: what the curator sees, the points that are bought, and a model trained on them. "
        return ""

    def _terms(self) -> str:
        """Write the exact terms: kind, ε, δ, unit, adjacency and trust.

        ``release.formats.metadata`` reads unit and adjacency back from this text.
        """
        kind, loss = "differential privacy", f"ε = {decimal(self.loss.epsilon)}"
        delta = "pure, δ = 0" if self.loss.delta == 0 else f"δ = {decimal(self.loss.delta)}"
        if self.adjacency.length is not None:
            kind, loss = "geo-indistinguishability", f"{loss} per {self.adjacency.length}"
            delta = "no differential privacy across the map"
        elif self.trust is Trust.LOCAL:
            kind = f"local {kind}"
        elif self.trust.computational:
            kind = f"computational {kind} (for observers who cannot break keys)"
        trust = self.trust.described
        if self.adjacency is Adjacency.ANY_TWO_JOURNEYS:
            trust = trust.replace("position", "journeys")
        terms = (
            f"{kind} with {loss} ({delta}); unit: {self.unit.value}; adjacency: {self.adjacency.value}{self._within}; "
            f"trust: {trust}"
        )
        if self.trust is Trust.SECURE_SUM:
            terms += f"; at most {self.colluders} devices of a shard reveal their noise to the server"
        if self.trust is Trust.SHUFFLER:
            kept = "nothing is protected" if self.alone is None else f"each report keeps ε = {decimal(self.alone)}"
            terms += (
                f"; at least {self.people} people of a batch follow the protocol and keep their messages from the "
                f"server; if shuffler and server collude, {kept}"
            )
        if self.failure_probability:
            terms += f" (random shards hold more with probability at most {decimal_up(self.failure_probability, 2)})"
        return terms

    @property
    def _within(self) -> str:
        return "" if self.reach is None else f" within {self.reach}"

    def _protected(self) -> str:
        # A person who submits to two studies, or under two names, has a guarantee for each submission only.
        return "what one person submits" if self.trust is Trust.SHUFFLER else self.unit.described

    def _composition(self) -> str:
        if self.trust is Trust.LOCAL:
            return "Each further report of the same person adds"
        if self.adjacency is Adjacency.EARTH_MOVER:
            return "Other readings of the same sources add"
        if self.trust is Trust.CURATOR:
            return "Other purchases from the same records add"
        return "Other releases about the same people add"

    @property
    def short(self) -> str:
        """The guarantee in one line, as a caption of a picture."""
        per = "" if self.adjacency.length is None else f" per {self.adjacency.length}"
        kind = "geo-indistinguishability" if per else "differential privacy"
        return (
            f"{self.loss}{per} {kind} · unit: {self.unit.value} · adjacency: {self.adjacency.value}{self._within}"
            f" · trust: {self.trust.value}"
        )

    # ── in files ────────────────────────────────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> dict[str, Any]:
        """Convert the guarantee to plain texts and numbers, for files; a rational becomes 'numerator/denominator'.

        Returns:
            The fields, and the guarantee as a sentence; :meth:`from_dict` reads them.
        """
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
        if self.trust is Trust.SHUFFLER:
            fields["people"] = self.people
        if self.alone is not None:
            fields["alone"] = str(self.alone)
        if self.failure_probability:
            fields["failure_probability"] = str(self.failure_probability)
        if self.reach is not None:
            fields["reach"] = self.reach
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Guarantee:
        """Build a guarantee from the dictionary that :meth:`to_dict` returned.

        Args:
            fields: The dictionary. Its field "sentence" is ignored.

        Returns:
            The guarantee.

        Raises:
            KeyError: A field is missing.
            ValueError: A field has a value that no guarantee has.

        >>> promised = Guarantee(PrivacyLoss(Fraction(1)), Unit.VISIT)
        >>> Guarantee.from_dict(promised.to_dict()) == promised
        True
        """
        return cls(
            PrivacyLoss(_rational(fields["epsilon"]), _rational(fields["delta"])),
            Unit(fields["unit"]),
            Adjacency(fields["adjacency"]),
            Trust(fields["trust"]),
            fields.get("colluders", 0),
            fields.get("reach"),
            _rational(fields.get("failure_probability", "0")),
            fields.get("people", 0),
            None if fields.get("alone") is None else _rational(fields["alone"]),
        )


def _rational(text: object) -> Fraction:
    found = read_rational(text)
    if not isinstance(found, Fraction):
        raise ValueError("A number of a guarantee is not a fraction of whole numbers.")
    return found


def cost_together(guarantees: Sequence[Guarantee]) -> str:
    """Say what several releases cost together, if the same people are in the data of all of them.

    A file does not say whose data were counted, so the losses of all releases are added. Losses with different units or
    adjacencies cannot be added, and each sum is stated by itself.

    Args:
        guarantees: The guarantees of the releases, at least one.

    >>> print(cost_together([Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON)] * 2))
    Together these 2 releases cost at most ε = 2 (unit: person; adjacency: add-remove), if the same people are in both.
    """
    sums: dict[str, PrivacyLoss] = {}
    for one in guarantees:
        per = "" if one.adjacency.length is None else f" per {one.adjacency.length}"
        kind = f"{per} (unit: {one.unit.value}; adjacency: {one.adjacency.value}{one._within})"
        sums[kind] = sums[kind] + one.loss if kind in sums else one.loss
    stated = " and ".join(f"at most {loss}{kind}" for kind, loss in sums.items())
    if len(guarantees) == 1:
        return f"This release costs {stated}."
    every = "both" if len(guarantees) == 2 else "all"
    return f"Together these {len(guarantees)} releases cost {stated}, if the same people are in {every}."
