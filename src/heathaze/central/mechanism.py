"""The interface that ``publish`` expects of a central mechanism, and argument checks that several mechanisms share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

from heathaze.checks import whole
from heathaze.domain.density import MAX_DENSE_CELLS
from heathaze.domain.grid import Grid
from heathaze.errors import TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Event
from heathaze.privacy.randomness import Randomness


class Mechanism(Protocol):
    """A central mechanism. The object holds parameters only, no data.

    ``event`` describes completely what ``run`` will do to the data. The accountant computes the privacy loss from this
    description, and the loss is at most ``epsilon``. ``run`` uses no ledger, clock or file.
    """

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def epsilon(self) -> Fraction:
        """The declared privacy loss."""

    def event(self, bound: int) -> Event:
        """Describe what ``run`` does to the data.

        Args:
            bound: The most mass of one unit.
        """

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Draw the noise and estimate the density.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, which are written into the release's provenance."""


def check_every_cell(grid: Grid) -> None:
    """Refuse a grid with too many cells for a central mechanism that draws noise for every cell.

    Raises:
        TooLarge: The grid has more than 2^24 cells.
    """
    if grid.cells > MAX_DENSE_CELLS:
        raise TooLarge(
            f"{grid.rows} × {grid.cols} cells are too many to draw noise for each; use Pyramid, whose cost does not "
            "grow with the resolution, or a coarser grid."
        )


def check_people(people: int | None) -> int | None:
    """Check the argument ``people`` of a central mechanism: a public guess of the number of units, or None.

    Raises:
        InvalidInput: The guess is not a whole number from 1 to 2^53.
    """
    meaning = "about how many people you expect (or leave it out)"
    return None if people is None else whole(people, "people", meaning, most=2**53)
