"""The only interfaces: what publish asks of a mechanism, and what it gets back."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Event
from heathaze.privacy.randomness import Randomness


@dataclass(frozen=True)
class Estimate:
    """What comes out of the noise: where the mass lies, and how much there is (in units, or presences). Public.

    ``noisy`` are the noisy counts behind it, where a mechanism wants them to say how sure the map is.
    """

    density: Density | TreeDensity
    total: float
    noisy: NoisyCounts | None = None


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
