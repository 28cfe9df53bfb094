"""Who is trusted, and which two datasets count as neighbours."""

from __future__ import annotations

import enum


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
