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

    ``event`` says completely what ``run`` will do to the data, so that the privacy loss can be computed from it. That
    loss is at most ``epsilon``. ``run`` is pure: it knows no ledger, no clock and no file.
    """

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def epsilon(self) -> Fraction:
        """The declared privacy loss."""

    def event(self, bound: int) -> Event:
        """What happens to the data.

        Args:
            bound: The most mass of one unit.
        """

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Draw the noise and estimate the density.

        Args:
            counts: The secret counts.
            randomness: Where the noise comes from.
        """

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
