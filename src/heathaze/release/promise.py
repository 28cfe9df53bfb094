"""Does the guarantee of a map follow from its event? Asked of every file that is loaded, since anyone may write one.

The event is priced again, by the function that the guarantee came from. A file may state a larger loss than that, since
mechanisms round against themselves, and never a smaller one.
"""

from __future__ import annotations

import re

from heathaze.errors import PromiseBroken
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Elementary, Event, NoiseShares, RandomizedReport, flatten, needs_delta
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import decimal

_BY_LENGTH = (Adjacency.PER_METRE, Adjacency.PER_LENGTH)

_TERMS: dict[Trust, tuple[tuple[Unit, ...], tuple[Adjacency, ...]]] = {
    Trust.CENTRAL: ((Unit.PERSON, Unit.PERSON_DAY, Unit.VISIT), (Adjacency.ADD_REMOVE,)),
    Trust.SECURE_SUM: ((Unit.PERSON,), (Adjacency.ZERO_OUT,)),
    Trust.LOCAL: ((Unit.PERSON, Unit.VISIT), (Adjacency.ANY_TWO, *_BY_LENGTH)),
}
"""What a map can promise, by who is trusted."""


def check_promise(guarantee: Guarantee, event: Event) -> None:
    """Refuse a guarantee that promises more than its event gives, or another thing.

    Raises:
        PromiseBroken: with what is stated and what follows from the event.
    """
    _check_terms(guarantee, flatten(event))
    if needs_delta(event) and guarantee.loss.delta == 0:
        raise PromiseBroken("It states δ = 0, and its event has noise that costs a δ; do not rely on it.")
    cost = compose([event], guarantee.loss.delta)
    if guarantee.loss.epsilon < cost.epsilon:
        raise PromiseBroken(
            f"It states {guarantee.loss}, and its event costs ε = {decimal(cost.epsilon)}; do not rely on it."
        )


def check_sentence(guarantee: Guarantee, sentence: object) -> None:
    """Refuse a guarantee whose sentence in the file names another unit or adjacency than its fields.

    No event says whose rows made up one unit, so this is all that shows an edited unit.
    """
    told = re.search(r"unit: ([a-z-]+); adjacency: ([a-z-]+)", sentence) if isinstance(sentence, str) else None
    stated = (guarantee.unit.value, guarantee.adjacency.value)
    if told is not None and told.groups() != stated:
        raise PromiseBroken(
            f"It states unit {stated[0]} and adjacency {stated[1]}, and its sentence says {told[1]} and {told[2]}; do "
            "not rely on it."
        )


def _check_terms(guarantee: Guarantee, parts: list[Elementary]) -> None:
    trusted = {_trust(part) for part in parts}
    if len(trusted) != 1:
        raise PromiseBroken("Its event is empty or mixes noise of different trust; no map is made like that.")
    (trust,) = trusted
    units, adjacencies = _TERMS[trust]
    if lengths := {part.per for part in parts if isinstance(part, RandomizedReport) and part.per is not None}:
        # Files of version 0.1 have no length in their events; they are believed.
        adjacencies = tuple(adjacency for adjacency in _BY_LENGTH if lengths == {adjacency.length})
    for name, stated, possible in (
        ("trust", guarantee.trust, (trust,)),
        ("unit", guarantee.unit, units),
        ("adjacency", guarantee.adjacency, adjacencies),
    ):
        if stated not in possible:
            expected = " or ".join(one.value for one in possible) or "none"
            raise PromiseBroken(
                f"It states {name} {stated.value}, and from its event follows {expected}; do not rely on it."
            )


def _trust(part: Elementary) -> Trust:
    """Who has to be trusted where such an event makes a map."""
    if isinstance(part, RandomizedReport):
        return Trust.LOCAL
    return Trust.SECURE_SUM if isinstance(part, NoiseShares) else Trust.CENTRAL
