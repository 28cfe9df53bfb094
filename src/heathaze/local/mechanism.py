"""Common parts of all local mechanisms: protocols for device and server, the guarantee of a report, base classes."""

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

FORMAT_VERSION = 3
"""Version of fingerprints and of the files of reports and tallies; raised when field names or the layout change."""


# ── the two halves of a mechanism ───────────────────────────────────────────────────────────────────────────────────


class Described(Protocol):
    """The facts about a mechanism that a device and a server share."""

    @property
    def grid(self) -> Grid:
        """The public grid."""

    @property
    def event(self) -> Event:
        """The privacy event of what one person sends, from which the accountant computes the loss."""

    def parameters(self) -> dict[str, Any]:
        """The public parameters, which device and server share."""


class Sender(Described, Protocol):
    """A mechanism that states the size of its reports, so that files of reports can be written and read."""

    @property
    def numbers(self) -> int:
        """The number of integers in one report. It does not depend on the data."""

    @property
    def limit(self) -> int:
        """An upper bound: every integer of a report is below this limit."""


class Randomizer(Sender, Protocol):
    """The device's half of a local mechanism: everything that a device needs to turn a true cell into a report."""

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one report, or its privacy loss per unit of length."""

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency: any two positions, with a privacy loss of ε, or of ε per unit of length between them."""

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw one report for each true cell.

        Args:
            cells: Indices of the true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            One row for each cell, with :attr:`numbers` columns.
        """


class Estimator(Randomizer, Protocol):
    """The server's half of a local mechanism: how to tally reports and estimate a map, without any position."""

    @property
    def outcomes(self) -> int:
        """The number of outcomes; a tally has one count for each."""

    def tally(self, reports: Integers) -> Integers:
        """Count how often each outcome occurs in reports.

        Args:
            reports: One row for each report.

        Returns:
            One count for each outcome.

        Raises:
            InvalidInput: A report cannot come from this mechanism.
        """

    def channel(self) -> Channel:
        """The probability of each outcome for each true cell, for the estimate."""

    def transition_matrix(self) -> Floats:
        """Pr[report | true cell] as a full matrix, to check the promise on a small grid.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """


# ── what a mechanism says about itself ──────────────────────────────────────────────────────────────────────────────


def promise(mechanism: Estimator, unit: Unit = Unit.PERSON, reports: int = 1) -> Guarantee:
    """The guarantee of all local reports of one unit (a person or a visit): the losses of the reports add up.

    Args:
        mechanism: The mechanism that makes the reports.
        unit: What one report stands for: a person or a visit.
        reports: The number of reports of the same unit.

    Returns:
        The guarantee. No other party has to be trusted.
    """
    return Guarantee(PrivacyLoss(mechanism.epsilon * reports), unit, mechanism.adjacency, Trust.LOCAL)


def warn_if_weak_report(mechanism: Estimator) -> None:
    """Warn if one report has an ε above 10. An ε per unit of length depends on the unit, so it gets no warning."""
    if mechanism.adjacency.length is None:
        warn_if_weak(mechanism.epsilon)


def mechanism_to_dict(mechanism: Described) -> dict[str, Any]:
    """Describe a mechanism by its name, parameters and grid, all public.

    :func:`heathaze.local.catalogue.mechanism_from_dict` rebuilds a local mechanism from this description.
    """
    return {
        "mechanism": type(mechanism).__name__,
        "parameters": mechanism.parameters(),
        "grid": mechanism.grid.to_dict(),
    }


def fingerprint(mechanism: Described) -> str:
    """The fingerprint of a local mechanism: 16 hexadecimal digits that are equal only if all parameters are equal."""
    return fingerprint_of_text(json.dumps(mechanism_to_dict(mechanism), sort_keys=True, allow_nan=False))


def fingerprint_of_text(description: str) -> str:
    """The fingerprint of a local mechanism's description, which is JSON with sorted keys."""
    return hashlib.sha256(f"{FORMAT_VERSION} {description}".encode()).hexdigest()[:16]


# ── base classes ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, init=False)
class LocalMechanism:
    """Base class of local mechanisms: a grid, and the ε of one report between any two positions.

    Every mechanism is a frozen dataclass derived from this class. Its fields are its public parameters.
    """

    grid: Grid
    epsilon: Fraction

    def __init__(self, grid: Grid, epsilon: Number) -> None:
        """Check the grid and ε.

        Raises:
            InvalidInput: ε is not a positive number.
            TooLarge: The grid has more cells than a tally may have counts.
        """
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon))
        if grid.cells > MAX_DENSE_CELLS:
            raise TooLarge(
                f"{grid.rows} × {grid.cols} cells are too many for a tally with one count per cell; use a coarser grid."
            )

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions are neighbours."""
        return Adjacency.ANY_TWO

    @property
    def event(self) -> RandomizedReport:
        """The privacy event of one report: its ε, and the unit of length if ε is per unit of length."""
        return RandomizedReport(self.epsilon, self.adjacency.length)

    def parameters(self) -> dict[str, Any]:
        """The public parameters besides the grid; fractions are written as text."""
        values = {name: getattr(self, name) for name in parameter_names(type(self))}
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in values.items()}


def parameter_names(kind: type[Any]) -> list[str]:
    """The names of a local mechanism's parameters besides the grid. The mechanism is a dataclass."""
    return [field.name for field in dataclasses.fields(kind) if field.name != "grid"]


class WindowMechanism(LocalMechanism, abc.ABC):
    """A local mechanism whose report is the index of one cell, drawn from a window of weights around the true cell."""

    numbers = 1

    @property
    @abc.abstractmethod
    def window(self) -> Window:
        """The weights of the outputs around the true cell."""

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def limit(self) -> int:
        """The number of cells of the frame."""
        return self.outcomes

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw the index of one output in the frame for each true cell.

        Args:
            cells: Index of each true cell in the grid.
            randomness: The source of the draws.

        Returns:
            One index for each cell.
        """
        return self.window.draw(cells, randomness)[:, None]

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """One count for each cell of the frame."""
        return self.window.frame[0] * self.window.frame[1]

    def tally(self, reports: Integers) -> Integers:
        """Count how often each cell of the frame was reported.

        Args:
            reports: Indices of reported cells of the frame.

        Returns:
            One count for each cell of the frame.

        Raises:
            InvalidInput: A report names a cell that the mechanism never reports.
        """
        ids = reports[:, 0]
        check_below(ids, self.outcomes)
        counts = np.bincount(ids, minlength=self.outcomes)
        if counts.sum() != counts[self.window.outputs].sum():
            raise InvalidInput(
                "A report names a cell that this mechanism never reports; the report is damaged or forged."
            )
        return counts

    def channel(self) -> Channel:
        """The probability of each cell of the frame for each true cell, as a convolution with the window."""
        window = self.window
        occurs = np.zeros(window.frame, dtype=np.bool_)
        occurs.flat[window.outputs] = True
        kernel = window.excess / window.total
        return Convolution(window.shape, kernel, window.low / window.total, occurs, window.half_width)

    def transition_matrix(self) -> Floats:
        """Pr[report | true cell] as a matrix: a row for each cell of the grid, a column for each cell of the frame."""
        return self.window.transition_matrix()


def check_below(numbers: Integers, limit: int) -> None:
    """Refuse local reports with a number that their mechanism never reports.

    Raises:
        InvalidInput: A number is negative, or not below the limit.
    """
    if numbers.size and (numbers.min() < 0 or numbers.max() >= limit):
        raise InvalidInput(
            f"A report holds a number outside 0 … {limit - 1}; it is damaged, or made with other parameters."
        )


def report_blocks(reports: int, cells: int) -> range:
    """Divide reports into blocks whose matrix, reports × cells, takes about 32 MB of memory.

    Args:
        reports: The number of reports.
        cells: The number of 8-byte entries for each report.

    Returns:
        The index of the first report of each block. The range's step is the number of reports in a block.
    """
    return range(0, reports, max(1, 2**22 // cells))
