"""Reports: the only data that leaves a device in the local model. Files are sequences of chunks (``chunks.py``)."""

from __future__ import annotations

import abc
import dataclasses
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, SimulatedRelease, UnreadableData
from heathaze.files import replacing
from heathaze.local.catalogue import damaged, mechanism_from_dict
from heathaze.local.chunks import (
    bytes_per_number,
    pack_chunk,
    pack_numbers,
    unpack_chunks,
    unpack_numbers,
    unpack_stream,
)
from heathaze.local.mechanism import Described, Estimator, Sender, check_below, fingerprint
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import fresh_bytes
from heathaze.types import Integers

DEVICE = np.dtype([("first", "<u8"), ("second", "<u8")])
"""The name of a device towards one server: 16 bytes that look random."""

Devices = npt.NDArray[Any]


class ReportSet(abc.ABC):
    """What sets of reports about positions and about journeys have in common. Each is a frozen dataclass."""

    mechanism: Sender
    values: Integers
    unit: Unit
    simulated: bool

    def _keep_rows(self, chunks: Sequence[int]) -> None:
        """Check and keep the numbers of the reports, and check the names of their chunks."""
        values = np.array(self.values, dtype=np.int64)
        if values.ndim != 2 or values.shape[1] != self.mechanism.numbers:
            raise InvalidInput(
                f"A report of {type(self.mechanism).__name__} is a row of {self.mechanism.numbers} number(s); got an "
                f"array of shape {values.shape}; give one row per report."
            )
        for chunk in chunks:
            whole(chunk, "chunk", "a name of these reports", least=0, most=2**64 - 1)
        values.flags.writeable = False
        assign(self, values=values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        kind, mechanism = type(self).__name__, type(self.mechanism).__name__
        return f"<{kind}: {len(self)} of {mechanism}, {fingerprint(self.mechanism)}>"

    @abc.abstractmethod
    def _encoded(self) -> bytes:
        """Encode the reports, whether they are simulated or not."""

    def to_bytes(self) -> bytes:
        """Encode the reports as bytes, as a device sends them.

        Returns:
            One chunk of a file of reports.

        Raises:
            SimulatedRelease: The reports were made with simulated randomness.
        """
        if self.simulated:
            raise SimulatedRelease(
                "These reports were made with simulated randomness, which anyone can repeat; randomize again without "
                "randomness=Simulation(…) to send them."
            )
        return self._encoded()

    def save(self, path: str | Path) -> Path:
        """Write the reports to a file. Files of reports can be joined end to end.

        Args:
            path: The file to write. A file that exists is replaced.

        Returns:
            The path.

        Raises:
            SimulatedRelease: The reports were made with simulated randomness.
            CannotWrite: The file cannot be written.
        """
        target, text = Path(path), self.to_bytes()
        with replacing(target) as [draft]:
            draft.write_bytes(text)
        return target


def fresh_chunk() -> int:
    """A random number that names a chunk."""
    return int.from_bytes(fresh_bytes(8), "little")


class Counted(Protocol):
    """Reports, or a tally of them."""

    @property
    def mechanism(self) -> Described:
        """The mechanism that made the reports."""

    @property
    def unit(self) -> Unit:
        """What one report stands for."""


def check_alike(first: Counted, more: Counted) -> None:
    """Refuse to count reports together if their promises differ.

    Raises:
        InvalidInput: The two differ in parameters or unit.
    """
    mine, theirs = first.mechanism, more.mechanism
    if mine is not theirs and fingerprint(mine) != fingerprint(theirs):
        raise InvalidInput(
            f"These reports have parameters {fingerprint(theirs)} ({_named(theirs)}), the others have "
            f"{fingerprint(mine)} ({_named(mine)}); reports of two parameter sets cannot be mixed; estimate each by "
            "itself."
        )
    if first.unit is not more.unit:
        raise InvalidInput(
            f"These reports stand for a {more.unit.value} each, and the others for a {first.unit.value}; their "
            "promises differ, so estimate each unit by itself."
        )


def _named(mechanism: Described) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in mechanism.parameters().items())
    return f"{type(mechanism).__name__}, {parameters}, {mechanism.grid.rows} × {mechanism.grid.cols} cells"


@dataclass(frozen=True, eq=False, repr=False)
class Reports(ReportSet):
    """Reports of one local mechanism. A report is a row of numbers; for most mechanisms, the index of one cell.

    Args:
        mechanism: The mechanism that made the reports. Its parameters are public and are sent with the reports.
        values: One row for each report.
        unit: What one report stands for: a person, who sends one report, or a visit; a person may have several visits.
        devices: The names of the devices, one for each report, or None. A server counts each name once.
        simulated: Whether the reports were made with simulated randomness; such reports cannot be saved.
        chunk: A random number from 0 to 2^64 − 1 that names this set of reports, so that a server counts the set once.

    Raises:
        InvalidInput: The numbers do not fit the mechanism, or the device names do not fit the reports.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.local import RandomizedResponse
    >>> Reports(RandomizedResponse(Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), 1), [[0], [1]]).values.tolist()
    [[0], [1]]
    """

    mechanism: Estimator
    values: Integers
    unit: Unit = Unit.PERSON
    devices: Devices | None = None
    simulated: bool = False
    chunk: int = dataclasses.field(default_factory=fresh_chunk)

    def __post_init__(self) -> None:
        self._keep_rows([self.chunk])
        # A number above the limit would be truncated when it is written in as few bytes as the limit needs.
        check_below(self.values, self.mechanism.limit)
        if self.unit is Unit.PERSON_DAY:
            raise InvalidInput(
                "unit is person-day; give person or visit, because a report stands for a person or for a visit."
            )
        if self.devices is not None and self.devices.shape != (len(self),):
            raise InvalidInput(
                f"devices has shape {self.devices.shape}; give one device name for each report, or None."
            )

    def _encoded(self) -> bytes:
        body = pack_numbers(self.values, self.mechanism.limit)
        if self.devices is not None:
            body += self.devices.astype(DEVICE).tobytes()
        fields = {"reports": len(self), "devices": self.devices is not None, "chunk": self.chunk}
        return pack_chunk("reports", self.mechanism, self.unit, fields, body)

    @classmethod
    def from_bytes(cls, block: bytes) -> Reports:
        """Decode one chunk of reports that a server received; the inverse of :meth:`to_bytes`.

        Args:
            block: The bytes that a device sent.

        Returns:
            The reports.

        Raises:
            UnreadableData: The block is damaged, or not one chunk of reports.
        """
        name = "The block of reports"
        found = list(unpack_stream(name, io.BytesIO(block), len(block)))
        if len(found) != 1 or found[0][0]["heathaze"] != "reports":
            raise UnreadableData("The block is not one chunk of reports; give the bytes that Reports.to_bytes made.")
        return reports_from_chunk(name, *found[0])

    @classmethod
    def load(cls, path: str | Path) -> list[Reports]:
        """Read a file of reports: one element for each chunk.

        Args:
            path: The file.

        Returns:
            The reports of each chunk.

        Raises:
            UnreadableData: The file is damaged, cut short, of another version, or holds a tally.
        """
        source, found = Path(path), []
        for fields, body in unpack_chunks(source):
            if fields["heathaze"] != "reports":
                raise UnreadableData(f"{source} holds a tally, not reports; load it with Tally.load.")
            found.append(reports_from_chunk(source, fields, body))
        return found


def reports_from_chunk(source: object, fields: Mapping[str, Any], body: bytes) -> Reports:
    """Decode the reports of a chunk whose checksum is correct. The fields may come from a hostile sender.

    Args:
        source: The origin of the chunk, such as the path of a file; errors name it.
        fields: The fields of the chunk's header.
        body: The bytes of the chunk's body.

    Raises:
        UnreadableData: Fields and body contradict each other.
    """
    mechanism, with_devices = mechanism_from_dict(fields, source), fields.get("devices")
    if type(with_devices) is not bool:
        raise damaged(source)
    values, rest = unpack_rows(source, fields, mechanism, body, DEVICE.itemsize if with_devices else 0)
    devices = np.frombuffer(rest, DEVICE) if with_devices else None
    try:
        return Reports(mechanism, values, Unit(fields["unit"]), devices, chunk=fields["chunk"])
    except (ValueError, KeyError):
        raise damaged(source) from None


def unpack_rows(
    source: object, fields: Mapping[str, Any], mechanism: Sender, body: bytes, more: int = 0
) -> tuple[Integers, bytes]:
    """Decode the numbers of the reports of a chunk; return them and the rest of the body.

    Args:
        source: The origin of the chunk.
        fields: The fields of the chunk's header, which may come from a hostile sender.
        mechanism: The mechanism that the fields describe.
        body: The bytes of the chunk's body.
        more: How many further bytes the body holds for each report.

    Raises:
        UnreadableData: Fields and body contradict each other.
    """
    count, width = fields.get("reports"), bytes_per_number(mechanism.limit)
    if type(count) is not int or count < 0 or type(fields.get("chunk")) is not int:
        raise damaged(source)
    length = count * mechanism.numbers * width
    if len(body) != length + count * more:
        raise damaged(source)
    return unpack_numbers(body[:length], width).reshape(count, mechanism.numbers), body[length:]
