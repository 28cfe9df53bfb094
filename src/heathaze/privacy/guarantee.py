"""The promise a release carries: how much, to whom, against which change, trusting whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.privacy.loss import Loss, decimal, decimal_up
from heathaze.privacy.trust import Adjacency, Trust
from heathaze.privacy.unit import Unit

_MORE = "each further report of the same person adds to it"


@dataclass(frozen=True)
class Guarantee:
    """One sentence a lawyer and an engineer both accept.

    ``colluders`` is how many devices of a shard may tell the server their noise; it is for a secure sum alone.

    >>> print(Guarantee(Loss(Fraction(1)), Unit.PERSON))  # doctest: +ELLIPSIS
    Differential privacy with ε = 1 (pure, δ = 0): adding or removing one person, with all of their visits, changes ...
    """

    loss: Loss
    unit: Unit
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    trust: Trust = Trust.CENTRAL
    colluders: int = 0

    @property
    def epsilon(self) -> float:
        """ε as a float, for display and plots."""
        return float(self.loss.epsilon)

    def __str__(self) -> str:
        if self.trust is Trust.LOCAL:
            return f"{self._local_promise()}, whatever else is known; {self._terms()}; for one report alone: {_MORE}."
        delta = "pure, δ = 0" if self.loss.delta == 0 else f"δ = {decimal(self.loss.delta)}"
        # A secure sum hides the rest behind keys: nobody who could guess them is promised anything.
        kind = "Computational differential" if self.trust is Trust.SECURE_SUM else "Differential"
        return (
            f"{kind} privacy with ε = {decimal(self.loss.epsilon)} ({delta}): {self.adjacency.described} "
            f"{self.unit.described}, changes the probability of any outcome of this release by a factor of at most "
            f"{_factor(self.loss.epsilon)}, whatever else is known; {self._terms()}; for this release alone, other "
            "releases about the same people add up."
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
                f"{_factor(self.loss.epsilon)}"
            )
        unit = self.adjacency.length
        return (
            f"Geo-indistinguishability with ε = {decimal(self.loss.epsilon)} per {unit} (no differential privacy "
            f"across the map): moving the position {whose} by r {unit}s, from cell to cell, changes the probability of "
            f"any report by a factor of at most e^({decimal(self.loss.epsilon)} · r)"
        )

    def _terms(self) -> str:
        terms = f"unit: {self.unit.value}; adjacency: {self.adjacency.value}; trust: {self.trust.described}"
        if self.trust is not Trust.SECURE_SUM:
            return terms
        return f"{terms}, and at most {self.colluders} devices of a shard tell it their noise"

    @property
    def short(self) -> str:
        """The caption under a picture."""
        per = "" if self.adjacency.length is None else f" per {self.adjacency.length}"
        kind = "geo-indistinguishability" if per else "differential privacy"
        return (
            f"{self.loss}{per} {kind} · unit: {self.unit.value} · adjacency: {self.adjacency.value} · "
            f"trust: {self.trust.value}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain texts, for files; rationals as 'numerator/denominator'."""
        fields = {
            "epsilon": str(self.loss.epsilon),
            "delta": str(self.loss.delta),
            "unit": self.unit.value,
            "adjacency": self.adjacency.value,
            "trust": self.trust.value,
            "sentence": str(self),
        }
        return fields | ({"colluders": self.colluders} if self.trust is Trust.SECURE_SUM else {})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Guarantee:
        """Undo :meth:`to_dict`."""
        return cls(
            Loss(Fraction(fields["epsilon"]), Fraction(fields["delta"])),
            Unit(fields["unit"]),
            Adjacency(fields["adjacency"]),
            Trust(fields["trust"]),
            int(fields.get("colluders", 0)),
        )


def _factor(epsilon: Fraction) -> str:
    value = float(epsilon)
    # "At most" is rounded up, never to nearest.
    return f"e^{decimal(epsilon)}" + (f" ≈ {decimal_up(math.exp(value), 3)}" if value < 20 else "")
