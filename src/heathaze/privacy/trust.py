"""Who is trusted, and which two datasets count as neighbours."""

from __future__ import annotations

import enum


class Trust(enum.Enum):
    """Who has to be trusted for the guarantee to hold."""

    CENTRAL = "central"

    @property
    def described(self) -> str:
        """The trust in words."""
        return {Trust.CENTRAL: "a trusted curator held the raw data and ran Heathaze"}[self]


class Adjacency(enum.Enum):
    """Which change of the data the guarantee speaks of (errata X1)."""

    ADD_REMOVE = "add-remove"

    @property
    def described(self) -> str:
        """The change in words."""
        return {Adjacency.ADD_REMOVE: "adding or removing"}[self]
