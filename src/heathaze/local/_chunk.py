"""How reports and tallies lie in a file: a line that says what they are, the numbers, and a checksum.

    {"heathaze": "reports", "version": 1, "bytes": 4000, …}\n
    4000 bytes
    CRC-32 of all before, 4 bytes, little-endian

A chunk knows its own length, so files may be joined (``cat a.reports b.reports``), and one cut short is found out.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from heathaze.errors import UnreadableData

VERSION = 1

_LONGEST_LINE = 2**16
_LONGEST_BODY = 2**32


def pack(kind: str, fields: Mapping[str, Any], body: bytes) -> bytes:
    """One chunk."""
    head = {"heathaze": kind, "version": VERSION, "bytes": len(body), **fields}
    text = json.dumps(head, allow_nan=False, separators=(",", ":")).encode() + b"\n" + body
    return text + zlib.crc32(text).to_bytes(4, "little")


def unpack(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The chunks of a file, one after the other: fields and body; a damaged one ends the file with a sentence."""
    if not path.is_file():
        raise UnreadableData(f"{path} is {'a directory' if path.is_dir() else 'no file'}; give a file of reports.")
    try:
        with path.open("rb") as file:
            yield from unpack_stream(path, file, os.fstat(file.fileno()).st_size)
    except OSError as problem:
        raise UnreadableData(f"{path} cannot be read: {(problem.strerror or 'the disk refused').lower()}.") from None


def unpack_stream(name: object, file: BinaryIO, size: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The same for an open stream of known size; ``name`` is what errors call it."""
    found = False
    while line := file.readline(_LONGEST_LINE):
        yield _chunk(name, file, line, size)
        found = True
    if not found:
        raise UnreadableData(f"{name} is empty; there are no reports in it.")


def _chunk(path: object, file: BinaryIO, line: bytes, size: int) -> tuple[dict[str, Any], bytes]:
    try:
        head = json.loads(line)
        kind, version, length = head["heathaze"], head["version"], head["bytes"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _something_else(path) from None
    if kind not in ("reports", "tally") or type(version) is not int or type(length) is not int:
        raise _something_else(path)
    if version != VERSION:
        raise UnreadableData(
            f"{path} is written in version {version} of the form of reports, and this Heathaze reads version "
            f"{VERSION}; use the same Heathaze on devices and server."
        )
    if not 0 <= length <= _LONGEST_BODY:
        raise UnreadableData(f"{path} announces a body of absurd length; it is damaged.")
    # Asked first: reading what is announced would make room for all of it.
    if size - file.tell() < length + 4:
        raise UnreadableData(f"{path} is cut short: a part of its reports is missing; fetch it again.")
    body, check = file.read(length), file.read(4)
    if zlib.crc32(line + body).to_bytes(4, "little") != check:
        raise UnreadableData(f"{path} is damaged: its checksum does not fit; fetch it again.")
    return head, body


def _something_else(path: object) -> UnreadableData:
    return UnreadableData(
        f"{path} holds something else than reports: it is damaged, or not made by `heathaze randomize` (positions "
        "must be randomised first)."
    )
