"""Checks that the guarantee of a map follows from its event. Every file that is loaded is checked: anyone may write
one.

The privacy loss is computed again from the event, by the function that the guarantee came from. A file may state a
larger loss than that, because mechanisms round their noise up, but never a smaller one.
"""

from __future__ import annotations

import re

from heathaze.errors import PromiseBroken
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Elementary, Event, NoiseShares, RandomizedReport, flatten, needs_delta
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import decimal

_TERMS: dict[Trust, tuple[tuple[Unit, ...], tuple[Adjacency, ...]]] = {
    Trust.CENTRAL: ((Unit.PERSON, Unit.PERSON_DAY, Unit.VISIT), (Adjacency.ADD_REMOVE,)),
    Trust.SECURE_SUM: ((Unit.PERSON,), (Adjacency.ZERO_OUT,)),
    Trust.LOCAL: ((Unit.PERSON, Unit.VISIT), (Adjacency.ANY_TWO, Adjacency.PER_METRE, Adjacency.PER_LENGTH)),
}
"""Units and adjacencies that a map can promise, by who is trusted."""


def check_promise(guarantee: Guarantee, event: Event) -> None:
    """Refuse a guarantee that does not follow from its event.

    Args:
        guarantee: What is stated.
        event: What was done to the data.

    Raises:
        PromiseBroken: The guarantee states a smaller loss, or another trust, unit or adjacency, than follows.
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

    An event does not say which rows made up one unit, so only this check can show that a unit was edited.

    Args:
        guarantee: The fields.
        sentence: The sentence, or anything else that a file has in its place.

    Raises:
        PromiseBroken: The two differ.
    """
    named = re.search(r"unit: ([a-z-]+); adjacency: ([a-z-]+)", sentence) if isinstance(sentence, str) else None
    stated = (guarantee.unit.value, guarantee.adjacency.value)
    if named is not None and named.groups() != stated:
        raise PromiseBroken(
            f"It states unit {stated[0]} and adjacency {stated[1]}, and its sentence says {named[1]} and {named[2]}; "
            "do not rely on it."
        )


def _check_terms(guarantee: Guarantee, parts: list[Elementary]) -> None:
    trusted = {_trust(part) for part in parts}
    if len(trusted) != 1:
        raise PromiseBroken("Its event is empty or mixes noise of different trust; no map is made like that.")
    (trust,) = trusted
    units, adjacencies = _TERMS[trust]
    if trust is Trust.LOCAL:
        lengths = {part.per for part in parts if isinstance(part, RandomizedReport)}
        adjacencies = tuple(adjacency for adjacency in adjacencies if lengths == {adjacency.length})
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
    """Who has to be trusted with a map that such an event made."""
    if isinstance(part, RandomizedReport):
        return Trust.LOCAL
    return Trust.SECURE_SUM if isinstance(part, NoiseShares) else Trust.CENTRAL
