"""The interface of a central mechanism: what ``publish`` asks of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

from heathaze.domain.grid import Grid
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Event
from heathaze.privacy.randomness import Randomness


class Mechanism(Protocol):
    """A central mechanism: parameters only, no data.

    ``event`` says what ``run`` will do to data of which one unit weighs at most ``bound``, completely enough to be
    priced; its price is at most ``epsilon``. ``run`` is pure: it knows no ledger, no clock and no file.
    """

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def epsilon(self) -> Fraction:
        """The declared loss."""

    def event(self, bound: int) -> Event:
        """What happens to the data."""

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Draw the noise and estimate the density."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
