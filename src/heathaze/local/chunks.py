"""Chunks: the file format of reports and tallies, and how files that anyone may have written are read.

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
| ``heathaze`` | ``reports``, ``tally`` or ``journeys`` (see :mod:`heathaze.trajectories.reports`) |
| ``mechanism``, ``parameters``, ``grid``, ``fingerprint`` | all public parameters, and 16 digits of their SHA-256 |
| ``unit``, ``reports`` | what one report stands for (person or visit), number of reports |
| ``devices`` | whether the body has device names; in a tally, the number of device names |
| ``chunk`` | a random number that names the chunk; a tally has ``chunks``, the number of chunks it counted |

The body of a chunk of reports holds the numbers of each report, then 16 bytes for the name of each device, if devices
have names. All numbers take the same number of bytes: the fewest that fit every number of the mechanism. The body of a
tally holds its counts, the device names and the names of the chunks, compressed by zlib.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from heathaze.errors import UnreadableData
from heathaze.local.catalogue import damaged
from heathaze.local.mechanism import FORMAT_VERSION, Described, fingerprint, mechanism_to_dict
from heathaze.privacy.guarantee import Unit
from heathaze.types import Integers

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


def bytes_per_number(limit: int) -> int:
    """The smallest number of bytes that can hold every number below the limit."""
    return max(1, -(-(limit - 1).bit_length() // 8))


def pack_numbers(values: Integers, limit: int) -> bytes:
    """Encode the numbers of reports, little-endian, with :func:`bytes_per_number` bytes for each number."""
    return values.astype("<u8").reshape(-1, 1).view(np.uint8)[:, : bytes_per_number(limit)].tobytes()


def unpack_numbers(body: bytes, width: int) -> Integers:
    """The inverse of :func:`pack_numbers`. A number above 63 bits becomes negative, and is refused later."""
    whole = np.zeros((len(body) // width, 8), dtype=np.uint8)
    whole[:, :width] = np.frombuffer(body, np.uint8).reshape(-1, width)
    return whole.view("<i8").ravel().astype(np.int64)


# ── chunks of a file ────────────────────────────────────────────────────────────────────────────────────────────────


def pack_chunk(kind: str, mechanism: Described, unit: Unit, fields: Mapping[str, Any], body: bytes) -> bytes:
    """Encode one chunk of a file of reports or tallies: frame, header, body and checksum.

    Args:
        kind: ``reports``, ``tally`` or ``journeys``.
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


def unpack_chunks(path: Path, *, journeys: bool = False) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Read the chunks of a file of reports or tallies: for each chunk the fields of its header, and its body.

    Args:
        path: The file.
        journeys: Whether reports of journeys are wanted. If so, reports and tallies of positions are refused;
            otherwise, reports of journeys are refused.

    Raises:
        UnreadableData: The file does not exist, or a chunk is damaged, cut short or of another version.
    """
    if not path.is_file():
        raise UnreadableData(f"{path} is {'a directory' if path.is_dir() else 'no file'}; give a file of reports.")
    try:
        with path.open("rb") as file:
            for fields, body in unpack_stream(path, file, os.fstat(file.fileno()).st_size):
                if (fields["heathaze"] == "journeys") is not journeys:
                    held = "positions; they make a map" if journeys else "journeys; they make journeys, not a map"
                    raise UnreadableData(f"{path} holds reports of {held}. Give one kind of reports at a time.")
                yield fields, body
    except OSError as problem:
        raise UnreadableData(f"{path} cannot be read: {(problem.strerror or 'the disk refused').lower()}.") from None


def unpack_stream(source: object, file: BinaryIO, size: int) -> Iterator[tuple[dict[str, Any], bytes]]:
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
        if not unpacker.eof or unpacker.unused_data or fields["heathaze"] not in ("reports", "tally", "journeys"):
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
