"""Reports: all that ever leaves a device, and all the server ever sees."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.errors import CannotWrite, HeathazeError, InvalidInput, SimulatedRelease, UnreadableData
from heathaze.local import _chunk
from heathaze.local.mechanism import Estimator
from heathaze.privacy.guarantee import Unit
from heathaze.types import Integers

DEVICE = np.dtype([("first", "<u8"), ("second", "<u8")])
"""The name a device goes by towards one server: 16 random bytes."""

Devices = npt.NDArray[Any]

MECHANISMS = {
    "DiskArea": {"epsilon", "radius", "shrink"},
    "HybridUniformExponential": {"epsilon", "radius"},
    "LocalHashing": {"epsilon"},
    "PlanarLaplace": {"epsilon", "reach"},
    "RandomizedResponse": {"epsilon"},
    "SquareWave2D": {"epsilon", "split"},
    "SubsetExponential": {"epsilon", "size", "reach"},
    "UnaryEncoding": {"epsilon"},
}
"""All that may report, each with its parameters; a file that leaves one out would make the server search for it."""

_RATIONAL = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?")


@dataclass(frozen=True, eq=False, repr=False)
class Reports:
    """Some reports of one mechanism. Each is a row of numbers, most often one: the id of a cell.

    Args:
        mechanism: What made them; its parameters are public and travel with the reports.
        values: A row for each report.
        unit: Whom a report stands for: a person, who sends one, or a visit, of which a person may send several.
        devices: Names under which devices report, or None; a server refuses a name it has counted before.
        simulated: Made with simulated randomness, so never to be sent.
        chunk: A random number that names these reports together, so that nobody counts them twice.
    """

    mechanism: Estimator
    values: Integers
    unit: Unit = Unit.PERSON
    devices: Devices | None = None
    simulated: bool = False
    chunk: int = dataclasses.field(default_factory=lambda: int.from_bytes(os.urandom(8), "little"))

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.int64)
        if values.ndim != 2 or values.shape[1] != self.mechanism.numbers:
            raise InvalidInput(f"A report of {type(self.mechanism).__name__} is {self.mechanism.numbers} number(s).")
        # Written in as few bytes as the limit allows, a larger number would turn into another one.
        if values.size and (values.min() < 0 or values.max() >= self.mechanism.limit):
            raise InvalidInput(
                f"A report holds a number outside 0 … {self.mechanism.limit - 1}; it is damaged or of other parameters."
            )
        if self.unit is Unit.PERSON_DAY:
            raise InvalidInput("A report stands for a person or for a visit, not for a person-day.")
        if not 0 <= self.chunk < 2**64:
            raise InvalidInput(f"The chunk is named {self.chunk}; give a whole number from 0 to 2^64 − 1.")
        if self.devices is not None and self.devices.shape != (len(values),):
            raise InvalidInput("There is one device name for each report, or none at all.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"<Reports: {len(self)} of {type(self.mechanism).__name__}, {fingerprint(self.mechanism)}>"

    def to_bytes(self) -> bytes:
        """As they are sent: a line of public parameters, then 1, 2, 4 or 8 bytes for every number."""
        if self.simulated:
            raise SimulatedRelease(
                "These reports were made with simulated randomness, which anyone can repeat; randomize again without "
                "randomness=Simulation(…) to send them."
            )
        body = self.values.astype(_kind(self.mechanism.limit)).tobytes()
        if self.devices is not None:
            body += self.devices.astype(DEVICE).tobytes()
        fields = describe(self.mechanism) | {
            "fingerprint": fingerprint(self.mechanism),
            "unit": self.unit.value,
            "reports": len(self),
            "devices": self.devices is not None,
            "chunk": self.chunk,
        }
        return _chunk.pack("reports", fields, body)

    def save(self, path: str | Path) -> Path:
        """Write them to a file; files may be joined end to end."""
        target = Path(path)
        try:
            target.write_bytes(self.to_bytes())
        except OSError as problem:
            reason = (problem.strerror or "the disk refused").lower()
            raise CannotWrite(f"Cannot write {target}: {reason}; choose another place.") from None
        return target

    @classmethod
    def from_bytes(cls, block: bytes) -> Reports:
        """Undo :meth:`to_bytes`: the reports of one chunk, as a server receives them."""
        name = Path("The block of reports")
        found = list(_chunk.unpack_stream(name, io.BytesIO(block), len(block)))
        if len(found) != 1 or found[0][0]["heathaze"] != "reports":
            raise UnreadableData("The block holds something else than the reports of one chunk.")
        return from_chunk(name, *found[0])

    @classmethod
    def load(cls, path: str | Path) -> list[Reports]:
        """The reports of a file, one for each chunk in it."""
        return list(chunks(Path(path)))


def chunks(path: Path) -> Iterator[Reports]:
    """The reports of a file, chunk by chunk; refuses what is damaged with the file's name."""
    for fields, body in _chunk.unpack(path):
        if fields["heathaze"] != "reports":
            raise UnreadableData(f"{path} holds a tally, not reports; load it with Tally.load.")
        yield from_chunk(path, fields, body)


def from_chunk(path: Path, fields: Mapping[str, Any], body: bytes) -> Reports:
    """Reports from a chunk that is whole; its fields may come from a stranger."""
    mechanism = undescribe(path, fields)
    count, kind = fields.get("reports"), _kind(mechanism.limit)
    with_devices, chunk = fields.get("devices"), fields.get("chunk")
    if type(count) is not int or count < 0 or type(with_devices) is not bool:
        raise _unsound(path)
    if type(chunk) is not int or not 0 <= chunk < 2**64:
        raise _unsound(path)
    length = count * mechanism.numbers * kind.itemsize
    if len(body) != length + (count * DEVICE.itemsize if with_devices else 0):
        raise _unsound(path)
    values = np.frombuffer(body[:length], kind).astype(np.int64).reshape(count, mechanism.numbers)
    devices = np.frombuffer(body[length:], DEVICE) if with_devices else None
    try:
        return Reports(mechanism, values, Unit(fields["unit"]), devices, chunk=chunk)
    except (ValueError, KeyError):
        raise _unsound(path) from None


def describe(mechanism: Estimator) -> dict[str, Any]:
    """Name, parameters and grid of a mechanism: all public, and enough to build it again."""
    return {
        "mechanism": type(mechanism).__name__,
        "parameters": mechanism.parameters(),
        "grid": mechanism.grid.to_dict(),
    }


def fingerprint(mechanism: Estimator) -> str:
    """Sixteen hexadecimal digits that two mechanisms share only if all their parameters do."""
    return _digits(json.dumps(describe(mechanism), sort_keys=True, allow_nan=False))


def _digits(text: str) -> str:
    return hashlib.sha256(f"{_chunk.VERSION} {text}".encode()).hexdigest()[:16]


def undescribe(path: Path, fields: Mapping[str, Any]) -> Estimator:
    """The mechanism that a file speaks of, built again; refuses one that does not fit its own fingerprint."""
    try:
        text = json.dumps({name: fields[name] for name in ("mechanism", "parameters", "grid")}, sort_keys=True)
        mechanism = _built(text)
    except HeathazeError as problem:
        raise UnreadableData(f"{path} speaks of a mechanism that cannot be: {problem}") from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise _unsound(path) from None
    # Both: what the file says of itself, and what it means.
    if not fields.get("fingerprint") == _digits(text) == fingerprint(mechanism):
        raise UnreadableData(
            f"{path} does not fit its own fingerprint: it was edited, or made by another version of Heathaze."
        )
    return mechanism


@functools.lru_cache(maxsize=64)
def _built(text: str) -> Estimator:
    """A mechanism from its description; once for the many files that share it."""
    from heathaze import local

    fields = json.loads(text)
    name, parameters = fields["mechanism"], dict(fields["parameters"])
    plain = all(type(value) in (int, bool) or _is_plain(value) for value in parameters.values())
    if set(parameters) != MECHANISMS[name] or not plain or not _RATIONAL.fullmatch(parameters["epsilon"]):
        raise ValueError
    mechanism: Estimator = getattr(local, name)(Grid.from_dict(fields["grid"]), **parameters)
    return mechanism


def _is_plain(value: object) -> bool:
    """A word or a rational: a short text such as 1e999999999 would otherwise fill the memory."""
    return isinstance(value, str) and bool(re.fullmatch(r"[a-z-]{1,62}", value) or _RATIONAL.fullmatch(value))


def _kind(limit: int) -> np.dtype[Any]:
    """The smallest unsigned number that holds everything below the limit."""
    return np.dtype(next(kind for kind in ("|u1", "<u2", "<u4", "<u8") if limit <= 2 ** (8 * np.dtype(kind).itemsize)))


def _unsound(path: Path) -> UnreadableData:
    return UnreadableData(f"{path} is damaged or was edited: its parts do not fit together; fetch it again.")
