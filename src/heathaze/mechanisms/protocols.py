"""The only interfaces: what the door asks of a central mechanism, and the two halves of a local one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.inference.channels import Channel
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Event
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.trust import Adjacency

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Estimate:
    """What comes out of the noise: where the mass lies, and how much there is (in units, or presences). Public.

    How sure the map is, ``noisy`` tells, the noisy counts behind it, or ``drawn``, other maps that fit as well; neither
    where a mechanism keeps none.
    """

    density: Density | TreeDensity
    total: float
    noisy: NoisyCounts | None = None
    drawn: DrawnMaps | None = None


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


class Randomizer(Protocol):
    """The device's half of a local mechanism: what it needs to turn a cell into a report."""

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def epsilon(self) -> Fraction:
        """The declared loss of one report."""

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions, or a price for each metre between them."""

    @property
    def event(self) -> Event:
        """What happens to one position."""

    @property
    def numbers(self) -> int:
        """How many numbers a report is made of."""

    @property
    def limit(self) -> int:
        """Every number of a report lies below this."""

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """One report, a row of numbers, for each cell; cells are numbered row by row. Shape (cells, numbers)."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, which both halves share."""


class Estimator(Randomizer, Protocol):
    """The server's half: what it needs to tally reports and to go back from tallies to a map. It is given no point."""

    @property
    def outcomes(self) -> int:
        """How many tallies are kept."""

    def tally(self, reports: Integers) -> Integers:
        """How often each outcome is found in some reports; refuses reports that no device could have made."""

    def channel(self) -> Channel:
        """Which outcome a cell is tallied as, and how likely."""

    def transition_matrix(self) -> npt.NDArray[np.float64]:
        """Probability of every report for every cell, on small grids: what a sceptic can print and check."""
