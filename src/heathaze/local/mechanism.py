"""What the mechanisms of the local model share: the protocols of their two halves, their promise, and base classes."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from heathaze.checks import assign
from heathaze.domain.density import MAX_DENSE_CELLS
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._window import Window
from heathaze.local.channels import Channel, Convolution
from heathaze.privacy.events import Event, RandomizedReport
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import Number, PrivacyLoss, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

FORMAT_VERSION = 2
"""Of fingerprints and of files of reports and tallies; raised when names or layout change."""


# ── the two halves of a mechanism ───────────────────────────────────────────────────────────────────────────────────


class Randomizer(Protocol):
    """The device's half of a local mechanism: what a device needs to turn a cell into a report."""

    @property
    def grid(self) -> Grid:
        """The public grid."""

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one report, or its price for each unit of length."""

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions, or a price for each unit of length between them."""

    @property
    def event(self) -> Event:
        """What happens to one position, for the accountant."""

    @property
    def numbers(self) -> int:
        """How many numbers one report has."""

    @property
    def limit(self) -> int:
        """Every number of a report is below this."""

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw one report for each cell.

        Args:
            cells: Numbers of the true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            One row for each cell, with :attr:`numbers` columns.
        """

    def parameters(self) -> dict[str, Any]:
        """The public parameters, which device and server share."""


class Estimator(Randomizer, Protocol):
    """The server's half: what a server needs to count reports and to estimate a map. It is never given a position."""

    @property
    def outcomes(self) -> int:
        """How many counts a tally has."""

    def tally(self, reports: Integers) -> Integers:
        """Count the outcomes in some reports.

        Args:
            reports: One row for each report.

        Returns:
            One count for each outcome.

        Raises:
            InvalidInput: There is a report that this mechanism never makes.
        """

    def channel(self) -> Channel:
        """The probability of each outcome for each cell."""

    def transition_matrix(self) -> Floats:
        """The probability of each report for each cell, written out, to check the promise on a small grid.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """


# ── what a mechanism says about itself ──────────────────────────────────────────────────────────────────────────────


def promise(mechanism: Estimator, unit: Unit = Unit.PERSON, reports: int = 1) -> Guarantee:
    """The guarantee of some reports of one unit together: their privacy losses add up.

    Args:
        mechanism: How the reports are made.
        unit: What one report stands for: a person or a visit.
        reports: How many reports of the same unit there are.

    Returns:
        The guarantee. No other party has to be trusted.
    """
    return Guarantee(PrivacyLoss(mechanism.epsilon * reports), unit, mechanism.adjacency, Trust.LOCAL)


def warn_if_weak_report(mechanism: Estimator) -> None:
    """Warn of an ε above 10 for one report. A price for each unit of length depends on the unit and gets no warning."""
    if mechanism.adjacency.length is None:
        warn_if_weak(mechanism.epsilon)


def mechanism_to_dict(mechanism: Estimator) -> dict[str, Any]:
    """Name, parameters and grid of a mechanism: all are public, and enough to build it again.

    See :func:`heathaze.local.catalogue.mechanism_from_dict` for the way back.
    """
    return {
        "mechanism": type(mechanism).__name__,
        "parameters": mechanism.parameters(),
        "grid": mechanism.grid.to_dict(),
    }


def fingerprint(mechanism: Estimator) -> str:
    """Sixteen hexadecimal digits that two mechanisms share only if all their parameters agree."""
    return fingerprint_of_text(json.dumps(mechanism_to_dict(mechanism), sort_keys=True, allow_nan=False))


def fingerprint_of_text(description: str) -> str:
    """The fingerprint of a description that is written as JSON with sorted keys."""
    return hashlib.sha256(f"{FORMAT_VERSION} {description}".encode()).hexdigest()[:16]


# ── base classes ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, init=False)
class LocalMechanism:
    """A grid and ε for one report, between any two positions.

    Mechanisms are frozen dataclasses that are built on this one. Their fields are their public parameters.
    """

    grid: Grid
    epsilon: Fraction

    def __init__(self, grid: Grid, epsilon: Number) -> None:
        """Check the grid and ε.

        Raises:
            InvalidInput: ε is not a positive number.
            TooLarge: The grid has more cells than a tally can have counts.
        """
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon))
        if grid.cells > MAX_DENSE_CELLS:
            raise TooLarge(
                f"{grid.rows} × {grid.cols} cells are too many to tally reports for each; use a coarser grid."
            )

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions."""
        return Adjacency.ANY_TWO

    @property
    def event(self) -> RandomizedReport:
        """One report; if ε is a price for each unit of length, the event says so."""
        return RandomizedReport(self.epsilon, self.adjacency.length)

    def parameters(self) -> dict[str, Any]:
        """The public parameters besides the grid; fractions are written as text."""
        values = {name: getattr(self, name) for name in parameter_names(type(self))}
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in values.items()}


def parameter_names(kind: type[LocalMechanism]) -> list[str]:
    """The names of a mechanism's parameters besides the grid."""
    return [field.name for field in dataclasses.fields(kind) if field.name != "grid"]


class WindowMechanism(LocalMechanism, abc.ABC):
    """A mechanism whose report is the number of one cell, drawn from a window of weights around the true cell."""

    numbers = 1

    @property
    @abc.abstractmethod
    def window(self) -> Window:
        """The weights."""

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def limit(self) -> int:
        """The number of cells of the frame."""
        return self.outcomes

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """The number of one output for each cell."""
        return self.window.draw(cells, randomness)[:, None]

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """One count for each cell of the frame."""
        return self.window.frame[0] * self.window.frame[1]

    def tally(self, reports: Integers) -> Integers:
        """Count how often each cell of the frame was reported."""
        ids = reports[:, 0]
        check_below(ids, self.outcomes)
        counts = np.bincount(ids, minlength=self.outcomes)
        if counts.sum() != counts[self.window.outputs].sum():
            raise InvalidInput("A report names a cell that this mechanism never reports; it is damaged or made up.")
        return counts

    def channel(self) -> Channel:
        """The window, as probabilities."""
        window = self.window
        occurs = np.zeros(window.frame, dtype=np.bool_)
        occurs.flat[window.outputs] = True
        kernel = window.excess / window.total
        return Convolution(window.shape, kernel, window.low / window.total, occurs, window.half_width)

    def transition_matrix(self) -> Floats:
        """Pr[report | cell]: one row for each cell, one column for each cell of the frame."""
        return self.window.transition_matrix()


def check_below(numbers: Integers, limit: int) -> None:
    """Refuse numbers that no report can hold.

    Raises:
        InvalidInput: A number is negative, or not below the limit.
    """
    if numbers.size and (numbers.min() < 0 or numbers.max() >= limit):
        raise InvalidInput(f"A report holds a number outside 0 … {limit - 1}; it is damaged or of other parameters.")


def report_blocks(reports: int, cells: int) -> range:
    """The start of each block of reports; the range's step is the size of a block, whose matrix takes about 32 MB.

    Args:
        reports: How many reports there are.
        cells: How many numbers of 8 bytes are needed for each report.
    """
    return range(0, reports, max(1, 2**22 // cells))
