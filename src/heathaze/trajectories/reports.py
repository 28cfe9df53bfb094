"""Reports about journeys: the only data that leaves a device. Files have the form of :mod:`heathaze.local.chunks`.

A file is a sequence of chunks, so files can be joined: ``cat a.reports b.reports``. The header of a chunk says
``journeys``, and has the public parameters and their fingerprint. The body holds the numbers of each report. All
numbers take the same number of bytes: the fewest that fit every number of the mechanism. So the size of a report
follows from the public parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from heathaze.checks import assign
from heathaze.errors import InvalidInput
from heathaze.local.chunks import pack_chunk, pack_numbers
from heathaze.local.reports import ReportSet, check_alike, fresh_chunk
from heathaze.privacy.guarantee import Unit
from heathaze.trajectories.mechanism import JourneyMechanism
from heathaze.types import Integers


@dataclass(frozen=True, eq=False, repr=False)
class JourneyReports(ReportSet):
    """Reports of one local mechanism for journeys.

    Args:
        mechanism: The mechanism that made the reports. Its parameters are public and are sent with the reports.
        values: One row for each report.
        unit: What one report stands for: a person, who sends one report, or a trip; a person may have several trips.
        simulated: Whether the reports were made with simulated randomness; such reports cannot be saved.
        chunks: Random numbers from 0 to 2^64 − 1 that name the sets that were joined; a server counts each once.
        sizes: The number of reports in each of these sets; if left out, all reports are one set.

    Raises:
        InvalidInput: The numbers do not fit the mechanism, or the unit is neither a person nor a trip.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.domain.lines import Lines
    >>> from heathaze.trajectories import LocalJourneys, randomize
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=2)
    >>> reports = randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)]]))
    >>> len(reports), reports.unit.value
    (1, 'trip')
    """

    mechanism: JourneyMechanism
    values: Integers
    unit: Unit = Unit.PERSON
    simulated: bool = False
    chunks: tuple[int, ...] = dataclasses.field(default_factory=lambda: (fresh_chunk(),))
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._keep_rows(self.chunks)
        self.mechanism.check(self.values)
        if self.unit not in (Unit.PERSON, Unit.TRIP):
            raise InvalidInput(f"unit is {self.unit.value}; a report about a journey stands for a person or a trip.")
        sizes = self.sizes or (len(self),)
        if len(sizes) != len(self.chunks) or min(sizes) < 0 or sum(sizes) != len(self):
            raise InvalidInput("The sizes of the chunks do not fit the reports; give one number of reports for each.")
        assign(self, sizes=sizes)

    def _encoded(self) -> bytes:
        """Encode the reports as the chunks from which they were joined, so that each chunk keeps its name."""
        rows = np.split(self.values, np.cumsum(self.sizes)[:-1])
        return b"".join(
            pack_chunk(
                "journeys",
                self.mechanism,
                self.unit,
                {"reports": len(part), "chunk": chunk},
                pack_numbers(part, self.mechanism.limit),
            )
            for chunk, part in zip(self.chunks, rows, strict=True)
        )


class Joining:
    """Reports that are joined one set after another. A set that is refused leaves no trace."""

    def __init__(self) -> None:
        self._parts: list[JourneyReports] = []
        self._chunks: set[int] = set()

    def add(self, more: JourneyReports) -> None:
        """Add a set of reports.

        Raises:
            InvalidInput: The set differs from the others in parameters or unit, or some of its reports were added
                before.
        """
        if self._parts:
            check_alike(self._parts[0], more)
        chunks = set(more.chunks)
        if len(chunks) < len(more.chunks) or chunks & self._chunks:
            raise InvalidInput("Some of these reports were given twice; give each set of reports once.")
        self._chunks |= chunks
        self._parts.append(more)

    def joined(self) -> JourneyReports:
        """All reports as one set.

        Raises:
            InvalidInput: No set was added.
        """
        if not self._parts:
            raise InvalidInput("There are no reports to join; give at least one set of reports.")
        first = self._parts[0]
        return JourneyReports(
            first.mechanism,
            np.concatenate([part.values for part in self._parts]),
            first.unit,
            any(part.simulated for part in self._parts),
            tuple(chunk for part in self._parts for chunk in part.chunks),
            tuple(size for part in self._parts for size in part.sizes),
        )


def joined(parts: Iterable[JourneyReports]) -> JourneyReports:
    """Join sets of reports of the same parameters and unit.

    Args:
        parts: The sets, at least one.

    Raises:
        InvalidInput: Two sets differ in parameters or unit, or a set is given twice.
    """
    joining = Joining()
    for part in parts:
        joining.add(part)
    return joining.joined()
