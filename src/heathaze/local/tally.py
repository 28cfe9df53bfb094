"""Tally: the server's counts of reported outcomes. Tallies of different reports can be added in any order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, SimulatedRelease, UnreadableData, kind_of
from heathaze.files import replacing
from heathaze.local.catalogue import damaged, mechanism_from_dict
from heathaze.local.chunks import pack_chunk, unpack_chunks
from heathaze.local.mechanism import Estimator, WindowMechanism, fingerprint
from heathaze.local.mixture import Mixture
from heathaze.local.reports import DEVICE, Devices, Reports, check_alike, reports_from_chunk
from heathaze.privacy.guarantee import Unit
from heathaze.types import Integers, Words


@dataclass(frozen=True, eq=False, repr=False)
class Tally:
    """How often each outcome was reported, as whole numbers.

    A tally never changes; an addition makes a new tally, so refused reports leave no trace. An addition refuses reports
    with other parameters or another unit, reports of devices or chunks that were counted before, and reports that the
    mechanism cannot make.

    Args:
        mechanism: The mechanism that made the reports.
        counts: One count for each outcome.
        reports: The number of reports that were counted.
        unit: What one report stands for.
        devices: The names of the devices that were counted, sorted.
        chunks: The random numbers that name the chunks that were counted, sorted.
        simulated: Whether some report was made with simulated randomness; such a tally cannot be saved.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.local import RandomizedResponse, randomize
    >>> from heathaze.privacy.randomness import Simulation
    >>> coin = RandomizedResponse(Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), epsilon=10)
    >>> monday = randomize(coin, [(0.5, 0.5), (1.5, 0.5), (1.7, 0.2)], randomness=Simulation(1))
    >>> tuesday = randomize(coin, [(0.5, 0.5)], randomness=Simulation(2))
    >>> (Tally.of(monday) + tuesday).counts.tolist()
    [2, 2]
    """

    mechanism: Estimator
    counts: Integers
    reports: int
    unit: Unit
    devices: Devices
    chunks: Words
    simulated: bool = False

    @classmethod
    def of(cls, reports: Reports) -> Tally:
        """Count the outcomes of reports.

        Args:
            reports: The reports.

        Returns:
            The tally.

        Raises:
            InvalidInput: A device is named twice, or a report cannot come from the mechanism.
        """
        devices = np.zeros(0, DEVICE) if reports.devices is None else np.unique(reports.devices)
        if reports.devices is not None and len(devices) < len(reports):
            raise InvalidInput(
                "Two of these reports carry the same device id; a device may report once, so remove one of them."
            )
        counts = reports.mechanism.tally(reports.values)
        chunks = np.array([reports.chunk], dtype=np.uint64)
        return cls(reports.mechanism, counts, len(reports), reports.unit, devices, chunks, reports.simulated)

    def __add__(self, other: Tally | Reports) -> Tally:
        """Add a tally or reports to this tally; the same as :meth:`sum` of the two."""
        return Tally.sum([self, other])

    @classmethod
    def sum(cls, parts: Iterable[Tally | Reports]) -> Tally:
        """Add several tallies and reports to one tally. One call is much quicker than many additions.

        Args:
            parts: Tallies and reports, at least one.

        Returns:
            One tally of all parts.

        Raises:
            InvalidInput: Two parts differ in parameters or unit, or share a device or a chunk. Nothing was counted.
        """
        tallies = [cls.of(part) if isinstance(part, Reports) else part for part in parts]
        first = tallies[0]
        for more in tallies:
            if not isinstance(more, Tally):
                raise InvalidInput(f"A tally adds reports or another tally, not {kind_of(more)}.")
            if more is not first:
                check_alike(first, more)
        devices = _joined([tally.devices for tally in tallies])
        if devices is None:
            known = sum(len(tally.devices) for tally in tallies) - len(_union([tally.devices for tally in tallies]))
            raise InvalidInput(
                f"{known} of these reports carry a device id that was counted before; a device may report once to one "
                "question. None of them was counted."
            )
        chunks = _joined([tally.chunks for tally in tallies])
        if chunks is None:
            raise InvalidInput("Some of these reports were counted before; give each set of reports once.")
        counts = np.zeros_like(first.counts)
        for tally in tallies:
            counts += tally.counts
        reports = sum(tally.reports for tally in tallies)
        simulated = any(tally.simulated for tally in tallies)
        return cls(first.mechanism, counts, reports, first.unit, devices, chunks, simulated)

    def __repr__(self) -> str:
        return f"<Tally: {self.reports} reports of {type(self.mechanism).__name__}, {fingerprint(self.mechanism)}>"

    def save(self, path: str | Path) -> Path:
        """Write the tally to a file, to add more reports later or elsewhere.

        Args:
            path: The file to write. A file that exists is replaced.

        Returns:
            The path.

        Raises:
            SimulatedRelease: Some of the reports were made with simulated randomness.
            CannotWrite: The file cannot be written.
        """
        if self.simulated:
            raise SimulatedRelease(
                "This tally contains simulated reports, so it cannot be saved; collect real reports."
            )
        fields = {"reports": self.reports, "devices": len(self.devices), "chunks": len(self.chunks)}
        blocks = (self.counts.astype("<i8"), self.devices.astype(DEVICE), self.chunks.astype("<u8"))
        body = zlib.compress(b"".join(block.tobytes() for block in blocks))
        target = Path(path)
        with replacing(target) as [draft]:
            draft.write_bytes(pack_chunk("tally", self.mechanism, self.unit, fields, body))
        return target

    @classmethod
    def load(cls, path: str | Path) -> Tally:
        """Read all reports and tallies of a file, and add them to one tally.

        Args:
            path: The file.

        Returns:
            One tally of the whole file.

        Raises:
            UnreadableData: The file is damaged, cut short or of another version, or its parts cannot be added.
        """
        source = Path(path)
        try:
            return cls.sum(
                (_from_chunk if fields["heathaze"] == "tally" else reports_from_chunk)(source, fields, body)
                for fields, body in unpack_chunks(source)
            )
        except UnreadableData:
            raise
        except InvalidInput as problem:
            raise UnreadableData(f"{source}: {problem}") from None


def _from_chunk(source: Path, fields: Mapping[str, Any], body: bytes) -> Tally:
    """Decode the tally of a chunk whose checksum is correct. The fields may come from a hostile sender."""
    mechanism = mechanism_from_dict(fields, source)
    reports, devices, chunks = (fields.get(name) for name in ("reports", "devices", "chunks"))
    if type(reports) is not int or type(devices) is not int or type(chunks) is not int:
        raise damaged(source)
    # Names of devices and chunks are random, so compression cannot shorten them. A short body that announces many
    # names is therefore damaged, and reading it would fill the memory.
    if not (0 <= devices <= reports < 2**53 and chunks >= 1 and 16 * devices + 8 * chunks <= len(body) + 1024):
        raise damaged(source)
    ends = np.cumsum([8 * mechanism.outcomes, devices * DEVICE.itemsize, 8 * chunks]).tolist()
    unpacker = zlib.decompressobj()
    try:
        block = unpacker.decompress(body, ends[2] + 1)
        unit = Unit(fields["unit"])
    except (zlib.error, ValueError, KeyError):
        raise damaged(source) from None
    if len(block) != ends[2] or not unpacker.eof or unpacker.unused_data or unit is Unit.PERSON_DAY:
        raise damaged(source)
    counts = np.frombuffer(block[: ends[0]], "<i8").astype(np.int64)
    names = np.unique(np.frombuffer(block[ends[0] : ends[1]], DEVICE))
    counted = np.unique(np.frombuffer(block[ends[1] :], "<u8").astype(np.uint64))
    if (counts < 0).any() or (counts > reports).any() or len(names) < devices or len(counted) < chunks:
        raise damaged(source)
    if not _possible(mechanism, counts, reports):
        raise damaged(source)
    return Tally(mechanism, counts, reports, unit, names, counted)


def _possible(mechanism: Estimator, counts: Integers, reports: int) -> bool:
    """Whether these counts are possible for this number of reports of the mechanism."""
    if isinstance(mechanism, WindowMechanism):  # a report adds 1 to one outcome, and that outcome must be possible
        return int(counts[mechanism.window.outputs].sum()) == reports
    if isinstance(
        mechanism, Mixture
    ):  # a report of a disc adds 1 to one outcome, a hashed report at most 1 to each cell
        discs, hashes = np.split(counts, [mechanism.disc.outcomes])
        number = int(discs.sum())
        return _possible(mechanism.disc, discs, number) and bool((hashes <= reports - number).all())
    return True


def _union(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.unique(np.concatenate(parts))


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    """Join the device or chunk names of several tallies, sorted; None if two tallies share a name."""
    joined = _union(parts)
    return joined if len(joined) == sum(map(len, parts)) else None
