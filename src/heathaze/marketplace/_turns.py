"""Whose turn it is: what both curators check before they take a message."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from heathaze.errors import InvalidInput, UnexpectedMessage
from heathaze.marketplace.messages import FromOwner


def named_once(owners: Sequence[str]) -> tuple[str, ...]:
    """The names of the owners, if there is at least one and none twice."""
    names = tuple(owners)
    if not names or len(set(names)) < len(names):
        raise InvalidInput("A purchase needs at least one owner, each under a name of its own.")
    return names


def check_turn(
    owner: str, message: FromOwner, kind: type[FromOwner] | None, part: Collection[str], waiting: Collection[str]
) -> None:
    """Refuse a message of a stranger, of another kind than the step asks for, or of one who was not asked.

    Args:
        owner: Who sent it.
        message: What.
        kind: What the step asks for; None if no purchase is under way.
        part: Owners who still take part.
        waiting: Owners who were asked and have not answered.
    """
    if owner not in part:
        raise UnexpectedMessage("The sender of a message", f"{owner!r}", "an owner who takes part")
    if kind is None or type(message) is not kind:
        wanted = "none, no purchase is under way" if kind is None else kind.__name__
        raise UnexpectedMessage("The kind of a message", type(message).__name__, wanted)
    if owner not in waiting:
        raise UnexpectedMessage("The sender of a message", f"{owner!r}", "one who was asked and has not answered")
