"""Reports: the only data that leaves a device in the local model, and the file format of reports and tallies.

A file is a sequence of chunks, so files can be joined: ``cat a.reports b.reports``. One chunk is:

| bytes | contents |
|---|---|
| 3 | the letters ``HZR`` |
| 1 | version of the format |
| 2, 4 | length of the header, length of the body |
| … | the header: JSON, compressed by raw deflate with the preset dictionary :data:`WORDS` |
| … | the body |
| 4 | CRC-32 of everything before |

Numbers are little-endian. The header of a single report takes about 70 bytes instead of 300, because the dictionary
contains the names of all fields and mechanisms.

| field of the header | meaning |
|---|---|
| ``heathaze`` | ``reports`` or ``tally`` |
| ``mechanism``, ``parameters``, ``grid``, ``fingerprint`` | all public parameters, and 16 digits of their SHA-256 |
| ``unit``, ``reports`` | what one report stands for (person or visit), number of reports |
| ``devices`` | whether the body has device names; in a tally, the number of device names |
| ``chunk`` | a random number that names the chunk; a tally has ``chunks``, the number of chunks it counted |

The body of a chunk of reports holds the numbers of each report in as few bytes as every number of the mechanism fits
into, then 16 bytes for the name of each device. The body of a tally holds its counts, the device names and the names of
the chunks, compressed by zlib.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import struct
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

WORDS = (
    b'"mechanism":"PlanarLaplace","cutoff":"SubsetExponential","size":"SquareWave2D","split":"budget""users"'
    b'"UnaryEncoding""HybridUniformExponential""RandomizedResponse""LocalHashing""projection":"plane""web-mercator"'
    b'{"heathaze":"tally","chunks":1,"mechanism":"DiskArea","parameters":{"epsilon":"7/2","radius":1,"shrink":false}'
    b'{"heathaze":"reports","mechanism":"Mixture","parameters":{"epsilon":"5","radius":1,"hashing":"1/2","shrink":true}'
    b',"grid":{"x":[0.0,1.0],"y":[0.0,1.0],"rows":64,"cols":64,"projection":"equirectangular"},"fingerprint":"'
    b'","unit":"visit","unit":"person","reports":1,"devices":true,"devices":false,"chunk":1'
)
"""The preset dictionary of compressed headers. It is a part of the format: a change needs a new version."""

_FRAME = struct.Struct("<3sBHI")
_MAGIC = b"HZR"
_LONGEST_HEADER = 2**16 - 1


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
        body = _packed(self.values, self.mechanism.limit)
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
        fields: The fields of the chunk's header.
        body: The bytes of the chunk's body.

    Raises:
        UnreadableData: Fields and body contradict each other.
    """
    mechanism = mechanism_from_dict(fields, source)
    count, width = fields.get("reports"), _width(mechanism.limit)
    with_devices, chunk = fields.get("devices"), fields.get("chunk")
    if type(count) is not int or count < 0 or type(with_devices) is not bool or type(chunk) is not int:
        raise damaged(source)
    length = count * mechanism.numbers * width
    if len(body) != length + (count * DEVICE.itemsize if with_devices else 0):
        raise damaged(source)
    values = _unpacked(body[:length], width).reshape(count, mechanism.numbers)
    devices = np.frombuffer(body[length:], DEVICE) if with_devices else None
    try:
        return Reports(mechanism, values, Unit(fields["unit"]), devices, chunk=chunk)
    except (ValueError, KeyError):
        raise damaged(source) from None


def _width(limit: int) -> int:
    """The number of bytes that every number below the limit fits into."""
    return max(1, -(-(limit - 1).bit_length() // 8))


def _packed(values: Integers, limit: int) -> bytes:
    """The numbers of reports in as few bytes each as the limit needs, little-endian."""
    return values.astype("<u8").reshape(-1, 1).view(np.uint8)[:, : _width(limit)].tobytes()


def _unpacked(body: bytes, width: int) -> Integers:
    """The inverse of :func:`_packed`. A number of 8 bytes may exceed 63 bits; it becomes negative and is refused."""
    whole = np.zeros((len(body) // width, 8), dtype=np.uint8)
    whole[:, :width] = np.frombuffer(body, np.uint8).reshape(-1, width)
    return whole.view("<i8").ravel().astype(np.int64)


# ── chunks of a file ────────────────────────────────────────────────────────────────────────────────────────────────


def pack_chunk(kind: str, mechanism: Estimator, unit: Unit, fields: Mapping[str, Any], body: bytes) -> bytes:
    """Encode one chunk of a file of reports or tallies: frame, header, body and checksum.

    Args:
        kind: ``reports`` or ``tally``.
        mechanism: The mechanism that made the reports.
        unit: What one report stands for.
        fields: Further fields of the header.
        body: The bytes of the body, fewer than 2^32.
    """
    described = {"heathaze": kind, **mechanism_to_dict(mechanism), "fingerprint": fingerprint(mechanism)}
    return frame_chunk(described | {"unit": unit.value, **fields}, body)


def frame_chunk(fields: Mapping[str, Any], body: bytes, version: int = FORMAT_VERSION) -> bytes:
    """Encode a chunk from the fields of its header and its body."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=WORDS)
    header = packer.compress(json.dumps(fields, separators=(",", ":")).encode()) + packer.flush()
    text = _FRAME.pack(_MAGIC, version, len(header), len(body)) + header + body
    return text + zlib.crc32(text).to_bytes(4, "little")


def unpack_chunks(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Read the chunks of a file of reports or tallies: for each chunk the fields of its header, and its body.

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
    if size == 0:
        raise UnreadableData(f"{source} is empty; give a file with reports in it.")
    while file.tell() < size:
        yield _chunk(source, file, size)


def _chunk(source: object, file: BinaryIO, size: int) -> tuple[dict[str, Any], bytes]:
    frame = file.read(_FRAME.size)
    version = _version(frame, file)
    if version is None:
        raise _no_reports(source)
    if version != FORMAT_VERSION:
        raise UnreadableData(
            f"{source} is written in version {version} of the format of reports, and this Heathaze reads version "
            f"{FORMAT_VERSION}; use the same Heathaze on devices and server."
        )
    # The size is checked first, because reading would reserve memory for all bytes that the frame announces.
    if len(frame) < _FRAME.size or size - file.tell() < sum(_FRAME.unpack(frame)[2:]) + 4:
        raise UnreadableData(f"{source} is cut short: a part of its reports is missing; fetch it again.")
    header, body = (file.read(length) for length in _FRAME.unpack(frame)[2:])
    if zlib.crc32(frame + header + body).to_bytes(4, "little") != file.read(4):
        raise UnreadableData(f"{source} is damaged: its checksum is wrong; fetch it again.")
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, zdict=WORDS)
    try:
        fields = json.loads(unpacker.decompress(header, _LONGEST_HEADER))
        if not unpacker.eof or unpacker.unused_data or fields["heathaze"] not in ("reports", "tally"):
            raise ValueError
        return dict(fields), body
    except (zlib.error, ValueError, LookupError, TypeError, RecursionError):
        raise damaged(source) from None


def _version(frame: bytes, file: BinaryIO) -> int | None:
    """The version of the format in which a chunk is written; None if it is no chunk.

    Versions 1 and 2 began with a line of JSON.
    """
    if frame.startswith(_MAGIC) and len(frame) > len(_MAGIC):
        return frame[len(_MAGIC)]
    if not frame.startswith(b"{"):
        return None
    try:
        head = json.loads(frame + file.readline(_LONGEST_HEADER))
        return head["version"] if head["heathaze"] in ("reports", "tally") and type(head["version"]) is int else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _no_reports(source: object) -> UnreadableData:
    return UnreadableData(
        f"{source} holds no reports: it is damaged, or not made by `heathaze randomize` (positions must be randomised "
        "first)."
    )
