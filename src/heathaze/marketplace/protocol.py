"""What both ways of buying, herding and rounds, have in common: a plan, an owner's part and a curator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import FromOwner, Purchase, ToOwner, Wanted
from heathaze.privacy.events import Event
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats


def fingerprint(plan: Way) -> str:
    """Equal for equal plans alone: an owner that is asked under another plan than its own says nothing.

    So do parties whose machines do not hash alike: cosines and quantiles come from the system's libraries.
    """
    agreed = [plan.parameters(), plan.features.digest]
    return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()


class Parcel(NamedTuple):
    """A message and which owner to carry it to."""

    owner: str
    message: ToOwner


class Curator(Protocol):
    """Buys points. No network, no clock, no disk: messages go in, parcels come out."""

    @property
    def waiting(self) -> frozenset[str]:
        """Owners who have not answered in this step."""

    @property
    def purchase(self) -> Purchase | None:
        """What was bought, once it is."""

    def begin(self) -> tuple[Parcel, ...]:
        """The first messages."""

    def receive(self, owner: str, message: FromOwner) -> tuple[Parcel, ...]:
        """Take one message; the last one of a step closes it."""

    def close_step(self) -> tuple[Parcel, ...]:
        """Time is up: go on with those who answered."""


class Seller(Protocol):
    """What an owner does in one way of buying."""

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer a message of the curator."""


class Way(Protocol):
    """A plan: what everyone agrees on before a purchase. Public."""

    @property
    def features(self) -> Features:
        """How points are hashed."""

    @property
    def points(self) -> int:
        """How many to buy."""

    @property
    def target_points(self) -> int:
        """How many the target has."""

    @property
    def target_deviation(self) -> float:
        """Of the noise in each number of the target's mean hash."""

    @property
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise of each mean hash, that of the target first; a hash is no longer than 1."""

    @property
    def noise_to_signal(self) -> float:
        """The greatest of them."""

    def check_signal(self) -> None:
        """Refuse a budget that carries no signal."""

    def target_hash(self, hashes: Floats, randomness: Randomness) -> Floats:
        """The mean hash of the target, with noise."""

    @property
    def event_for_target(self) -> Event:
        """What happens to the target."""

    @property
    def event_for_owners(self) -> Event:
        """What happens to the records of each owner."""

    @property
    def guarantee_for_target(self) -> Guarantee:
        """What is promised to each record of the target."""

    @property
    def guarantee_for_owners(self) -> Guarantee:
        """What is promised to each record of an owner."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse owners with whom no purchase can be made: none, two of one name, more than are paid for."""

    def seller(self, points: Floats, randomness: Randomness) -> Seller:
        """An owner's part."""

    def curator(self, owners: Sequence[str], wanted: Wanted, randomness: Randomness | None = None) -> Curator:
        """The curator's part."""
