"""Check that the guarantee of a release follows from its event.

Anyone may write a release file, so every file is checked when it is loaded. The privacy loss is computed again from the
event, with the accountant that also computes it for a new release. A file may state a larger loss, because mechanisms
round their noise up, but never a smaller one.
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
"""The units and adjacencies that the guarantee of a map may have, for each kind of trust."""


def check_promise(guarantee: Guarantee, event: Event) -> None:
    """Refuse a guarantee that does not follow from its event.

    Args:
        guarantee: The stated guarantee.
        event: The description of what was done to the data.

    Raises:
        PromiseBroken: The guarantee states a smaller loss than the event costs, or a trust, unit or adjacency that the
            event does not allow.
    """
    _check_terms(guarantee, flatten(event))
    if needs_delta(event) and guarantee.loss.delta == 0:
        raise PromiseBroken("The guarantee states δ = 0, and its event has noise that costs a δ; do not rely on it.")
    cost = compose([event], guarantee.loss.delta)
    if guarantee.loss.epsilon < cost.epsilon:
        raise PromiseBroken(
            f"The guarantee states {guarantee.loss}, and its event costs ε = {decimal(cost.epsilon)}; "
            "do not rely on it."
        )


def check_sentence(guarantee: Guarantee, sentence: object) -> None:
    """Refuse a guarantee whose fields name another unit or adjacency than the sentence in the same file.

    The event does not say whether a unit is a person, a day or a visit. So an edited unit can be detected only if the
    sentence still names the original unit.

    Args:
        guarantee: The guarantee, read from the fields of the file.
        sentence: The sentence of the file; a file may hold any value in this place.

    Raises:
        PromiseBroken: The fields and the sentence differ.
    """
    named = re.search(r"unit: ([a-z-]+); adjacency: ([a-z-]+)", sentence) if isinstance(sentence, str) else None
    if named is None:
        raise PromiseBroken("Its guarantee has no sentence that names unit and adjacency; do not rely on it.")
    stated = (guarantee.unit.value, guarantee.adjacency.value)
    if named.groups() != stated:
        raise PromiseBroken(
            f"It states unit {stated[0]} and adjacency {stated[1]}, and its sentence says {named[1]} and {named[2]}; "
            "do not rely on it."
        )


def _check_terms(guarantee: Guarantee, parts: list[Elementary]) -> None:
    trusted = {_trust(part) for part in parts}
    if len(trusted) != 1:
        raise PromiseBroken(
            "The event is empty or mixes noise of different trust, which no map does; do not rely on the guarantee."
        )
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
                f"The guarantee states {name} {stated.value}, and from its event follows {expected}; do not rely on it."
            )


def _trust(part: Elementary) -> Trust:
    """Find the trust that a release needs from the kind of its event."""
    if isinstance(part, RandomizedReport):
        return Trust.LOCAL
    return Trust.SECURE_SUM if isinstance(part, NoiseShares) else Trust.CENTRAL
