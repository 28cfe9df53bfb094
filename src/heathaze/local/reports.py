"""Reports: the only data that leaves a device in the local model, and the file format of reports and tallies.

A file is a sequence of chunks, so files can be joined: ``cat a.reports b.reports``. One chunk is a line of JSON, a body
of bytes, and a checksum:

    {"heathaze": "reports", "version": 2, "bytes": 4000, …}\\n
    4000 bytes
    CRC-32 of the line and the body, 4 bytes, little-endian

| field of the line | meaning |
|---|---|
| ``heathaze``, ``version``, ``bytes`` | ``reports`` or ``tally``, version of the format, length of the body |
| ``mechanism``, ``parameters``, ``grid``, ``fingerprint`` | all public parameters, and 16 digits of their SHA-256 |
| ``unit``, ``reports`` | what one report stands for (person or visit), number of reports |
| ``devices`` | whether the body has device names; in a tally, the number of device names |
| ``chunk`` | a random number that names the chunk; a tally has ``chunks``, the number of chunks it counted |

The body of a chunk of reports holds the numbers of each report in 1, 2, 4 or 8 bytes per number, then 16 bytes for the
name of each device. The body of a tally holds its counts, the device names and the names of the chunks, compressed by
zlib.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, SimulatedRelease, UnreadableData
from heathaze.files import replacing
from heathaze.local.catalogue import damaged, mechanism_from_dict
from heathaze.local.mechanism import FORMAT_VERSION, Estimator, check_below, fingerprint, mechanism_to_dict
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import fresh_bytes
from heathaze.types import Integers

DEVICE = np.dtype([("first", "<u8"), ("second", "<u8")])
"""The name of a device towards one server: 16 bytes that look random."""

Devices = npt.NDArray[Any]

_LONGEST_LINE = 2**16
_LONGEST_BODY = 2**32


@dataclass(frozen=True, eq=False, repr=False)
class Reports:
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
    chunk: int = dataclasses.field(default_factory=lambda: int.from_bytes(fresh_bytes(8), "little"))

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.int64)
        if values.ndim != 2 or values.shape[1] != self.mechanism.numbers:
            raise InvalidInput(
                f"A report of {type(self.mechanism).__name__} is a row of {self.mechanism.numbers} number(s); got an "
                f"array of shape {values.shape}; give one row per report."
            )
        # A number above the limit would be truncated when it is written in as few bytes as the limit needs.
        check_below(values, self.mechanism.limit)
        if self.unit is Unit.PERSON_DAY:
            raise InvalidInput(
                "unit is person-day; give person or visit, because a report stands for a person or for a visit."
            )
        whole(self.chunk, "chunk", "a name of these reports", least=0, most=2**64 - 1)
        if self.devices is not None and self.devices.shape != (len(values),):
            raise InvalidInput(
                f"devices has shape {self.devices.shape}; give one device name for each report, or None."
            )
        values.flags.writeable = False
        assign(self, values=values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"<Reports: {len(self)} of {type(self.mechanism).__name__}, {fingerprint(self.mechanism)}>"

    def to_bytes(self) -> bytes:
        """Encode the reports as one chunk of bytes, as a device sends them.

        Raises:
            SimulatedRelease: The reports were made with simulated randomness.
        """
        if self.simulated:
            raise SimulatedRelease(
                "These reports were made with simulated randomness, which anyone can repeat; randomize again without "
                "randomness=Simulation(…) to send them."
            )
        body = self.values.astype(_kind(self.mechanism.limit)).tobytes()
        if self.devices is not None:
            body += self.devices.astype(DEVICE).tobytes()
        fields = {"reports": len(self), "devices": self.devices is not None, "chunk": self.chunk}
        return pack_chunk("reports", self.mechanism, self.unit, fields, body)

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

    @classmethod
    def from_bytes(cls, block: bytes) -> Reports:
        """Decode one chunk of reports that a server received; the inverse of :meth:`to_bytes`.

        Raises:
            UnreadableData: The block is damaged, or not one chunk of reports.
        """
        name = "The block of reports"
        found = list(_unpack_stream(name, io.BytesIO(block), len(block)))
        if len(found) != 1 or found[0][0]["heathaze"] != "reports":
            raise UnreadableData("The block is not one chunk of reports; give the bytes that Reports.to_bytes made.")
        return reports_from_chunk(name, *found[0])

    @classmethod
    def load(cls, path: str | Path) -> list[Reports]:
        """Read a file of reports: one element for each chunk.

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
        fields: The fields of the chunk's line of JSON.
        body: The bytes of the chunk's body.

    Raises:
        UnreadableData: Fields and body contradict each other.
    """
    mechanism = mechanism_from_dict(fields, source)
    count, kind = fields.get("reports"), _kind(mechanism.limit)
    with_devices, chunk = fields.get("devices"), fields.get("chunk")
    if type(count) is not int or count < 0 or type(with_devices) is not bool or type(chunk) is not int:
        raise damaged(source)
    length = count * mechanism.numbers * kind.itemsize
    if len(body) != length + (count * DEVICE.itemsize if with_devices else 0):
        raise damaged(source)
    values = np.frombuffer(body[:length], kind).astype(np.int64).reshape(count, mechanism.numbers)
    devices = np.frombuffer(body[length:], DEVICE) if with_devices else None
    try:
        return Reports(mechanism, values, Unit(fields["unit"]), devices, chunk=chunk)
    except (ValueError, KeyError):
        raise damaged(source) from None


def _kind(limit: int) -> np.dtype[Any]:
    """The smallest unsigned type, of 1, 2, 4 or 8 bytes, that holds every number of a report below the limit."""
    return np.dtype(next(kind for kind in ("|u1", "<u2", "<u4", "<u8") if limit <= 2 ** (8 * np.dtype(kind).itemsize)))


# ── chunks of a file ────────────────────────────────────────────────────────────────────────────────────────────────


def pack_chunk(kind: str, mechanism: Estimator, unit: Unit, fields: Mapping[str, Any], body: bytes) -> bytes:
    """Encode one chunk of a file of reports or tallies: the line of JSON, the body and the checksum.

    Args:
        kind: ``reports`` or ``tally``.
        mechanism: The mechanism that made the reports.
        unit: What one report stands for.
        fields: Further fields of the line of JSON.
        body: The bytes of the body.
    """
    head = {"heathaze": kind, "version": FORMAT_VERSION, "bytes": len(body), **mechanism_to_dict(mechanism)}
    line = head | {"fingerprint": fingerprint(mechanism), "unit": unit.value, **fields}
    text = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n" + body
    return text + zlib.crc32(text).to_bytes(4, "little")


def unpack_chunks(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Read the chunks of a file of reports or tallies: for each chunk the fields of its line, and its body.

    Raises:
        UnreadableData: The file does not exist, or a chunk is damaged, cut short or of another version.
    """
    if not path.is_file():
        raise UnreadableData(f"{path} is {'a directory' if path.is_dir() else 'no file'}; give a file of reports.")
    try:
        with path.open("rb") as file:
            yield from _unpack_stream(path, file, os.fstat(file.fileno()).st_size)
    except OSError as problem:
        raise UnreadableData(f"{path} cannot be read: {(problem.strerror or 'the disk refused').lower()}.") from None


def _unpack_stream(source: object, file: BinaryIO, size: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Read the chunks of reports or tallies from an open stream of ``size`` bytes."""
    found = False
    while line := file.readline(_LONGEST_LINE):
        yield _chunk(source, file, line, size)
        found = True
    if not found:
        raise UnreadableData(f"{source} is empty; give a file with reports in it.")


def _chunk(source: object, file: BinaryIO, line: bytes, size: int) -> tuple[dict[str, Any], bytes]:
    try:
        head = json.loads(line)
        kind, version, length = head["heathaze"], head["version"], head["bytes"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _no_reports(source) from None
    if kind not in ("reports", "tally") or type(version) is not int or type(length) is not int:
        raise _no_reports(source)
    if version != FORMAT_VERSION:
        raise UnreadableData(
            f"{source} is written in version {version} of the format of reports, and this Heathaze reads version "
            f"{FORMAT_VERSION}; use the same Heathaze on devices and server."
        )
    if not 0 <= length <= _LONGEST_BODY:
        raise UnreadableData(f"{source} says that its body has {length} bytes, which cannot be; it is damaged.")
    # The size is checked first, because reading would reserve memory for all bytes that the line announces.
    if size - file.tell() < length + 4:
        raise UnreadableData(f"{source} is cut short: a part of its reports is missing; fetch it again.")
    body, check = file.read(length), file.read(4)
    if zlib.crc32(line + body).to_bytes(4, "little") != check:
        raise UnreadableData(f"{source} is damaged: its checksum is wrong; fetch it again.")
    return head, body


def _no_reports(source: object) -> UnreadableData:
    return UnreadableData(
        f"{source} holds no reports: it is damaged, or not made by `heathaze randomize` (positions must be randomised "
        "first)."
    )
