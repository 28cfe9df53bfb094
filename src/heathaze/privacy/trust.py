"""Who is trusted, and which two datasets count as neighbours."""

from __future__ import annotations

import enum


class Trust(enum.Enum):
    """Who has to be trusted for the guarantee to hold."""

    CENTRAL = "central"
    LOCAL = "local"

    @property
    def described(self) -> str:
        """The trust in words."""
        return {
            Trust.CENTRAL: "a trusted curator held the raw data and ran Heathaze",
            Trust.LOCAL: "nobody; each device randomised its own position before anything left it",
        }[self]


class Adjacency(enum.Enum):
    """Which change of the data the guarantee speaks of (errata X1).

    The last two are distances, not changes: their ε is a price for each metre (or each unit of length of a plane)
    between two positions, so it never adds up with an ε of another kind.
    """

    ADD_REMOVE = "add-remove"
    ANY_TWO = "any-two-positions"
    PER_METRE = "per-metre"
    PER_LENGTH = "per-unit-of-length"

    @property
    def described(self) -> str:
        """The change in words."""
        return {
            Adjacency.ADD_REMOVE: "adding or removing",
            Adjacency.ANY_TWO: "exchanging any position for any other",
            Adjacency.PER_METRE: "moving a position by a metre",
            Adjacency.PER_LENGTH: "moving a position by a unit of length",
        }[self]

    @property
    def length(self) -> str | None:
        """The unit of length in which ε is counted, or None where ε is a plain number."""
        return {Adjacency.PER_METRE: "metre", Adjacency.PER_LENGTH: "unit of length"}.get(self)
