"""Noisy readings, which may be published: in memory, and as a CSV file that states its privacy guarantee."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from heathaze.checks import shown
from heathaze.errors import InvalidInput, SimulatedRelease, UnreadableData
from heathaze.files import csv_text, read_readings, replacing
from heathaze.privacy.guarantee import Guarantee
from heathaze.sensors.layout import Layout
from heathaze.sensors.physics.field import Field
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.sensors.recovery.posterior import Sources

VERSION = 1
_MARK = "# heathaze readings "


@dataclass(frozen=True, eq=False, repr=False)
class NoisyReadings:
    """Readings with noise. They are public, so anything computed from them costs no further privacy.

    Args:
        field: The linear map from sources to readings.
        values: One noisy reading for each row of the field; NaN marks a missing reading.
        deviation: Standard deviation of the noise of each reading, in the unit of a reading.
        guarantee: The privacy guarantee of the noise; None for readings of unknown origin.
        simulated: Whether the noise came from a seed and can be repeated. Simulated readings hide nothing and cannot be
            saved.

    >>> from heathaze.sensors.physics import Line
    >>> NoisyReadings(Line(n=100, m=3, T=0.05), np.array([0.2, np.nan, 0.4]), deviation=0.1, guarantee=None)
    <NoisyReadings: 2 of 3, noise ± 0.1, no guarantee>
    """

    field: Field
    values: Floats
    deviation: float
    guarantee: Guarantee | None
    simulated: bool = False

    def __repr__(self) -> str:
        taken = int(np.isfinite(self.values).sum())
        promise = "no guarantee" if self.guarantee is None else self.guarantee.short
        return f"<NoisyReadings: {taken} of {len(self.values)}, noise ± {self.deviation:.3g}, {promise}>"

    def sources(self, **known: Any) -> Sources:
        """Find the likely places of the sources from the noisy readings.

        Missing readings are left out.

        Args:
            known: Arguments of :func:`heathaze.sensors.find_sources`, such as ``number`` and ``strengths``.

        Returns:
            The likely sources, with their uncertainty.
        """
        from heathaze.sensors.recovery.posterior import find_sources

        there = np.isfinite(self.values)
        field = self.field if there.all() else self.field.only(there)
        return find_sources(field, self.values[there], self.deviation, **known)

    def save(
        self,
        path: str | Path,
        sensors: Sequence[str],
        times: Sequence[float],
        *,
        physics: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the noisy readings as a CSV file of sensor, time and value.

        The first line of the file holds the guarantee and the standard deviation of the noise.

        Args:
            path: The file.
            sensors: Names of the sensors that are read at each time, in the field's order.
            times: The times, ascending.
            physics: The arguments of :meth:`Layout.field` that :meth:`load` needs: diffusivity, size and walls.

        Raises:
            SimulatedRelease: The noise came from a seed and can be repeated.
            InvalidInput: There is no guarantee, or sensors × times is not the number of readings.
            CannotWrite: The file cannot be written.
        """
        if self.simulated:
            raise SimulatedRelease(
                "These readings were made with simulated randomness, whose noise anyone can repeat; protect the raw "
                "readings again without randomness=Simulation(…) to save them."
            )
        if self.guarantee is None:
            raise InvalidInput("These readings carry no guarantee; save the output of Readings.protect.")
        if len(sensors) * len(times) != len(self.values):
            raise InvalidInput(
                f"There are {len(sensors)} sensors and {len(times)} times, but {len(self.values)} readings; "
                "give the name of each sensor and each time once."
            )
        header: dict[str, Any] = {"deviation": self.deviation, "guarantee": self.guarantee.to_dict()}
        if physics is not None:
            header["physics"] = dict(physics)
        NoisyTable(tuple(sensors), tuple(float(time) for time in times), self.values, header).write(path)

    @classmethod
    def load(cls, path: str | Path, layout: Layout, *, deviation: float | None = None, **physics: Any) -> Self:
        """Load noisy readings from a file written by :meth:`save`, or from any CSV file of sensor, time and value.

        Args:
            path: The file.
            layout: The layout of the sensors.
            deviation: Standard deviation of the noise. By default the value in the file.
            physics: Arguments of :meth:`Layout.field`: diffusivity, size and walls. By default the values in the file.

        Returns:
            The readings.

        Raises:
            UnreadableData: The file cannot be read.
            InvalidInput: The standard deviation or the diffusivity is neither given nor in the file, or the file names
                a sensor that the layout does not have.
        """
        table = NoisyTable.read(path)
        noise = table.header.get("deviation") if deviation is None else deviation
        if noise is None:
            raise InvalidInput(
                f"{path} does not state the standard deviation of its noise; give deviation, or protect the readings "
                "first."
            )
        given = {name: value for name, value in physics.items() if value is not None}
        known = {**table.header.get("physics", {}), **given}
        if "diffusivity" not in known:
            raise InvalidInput(f"{path} does not state how fast heat spreads; give the diffusivity.")
        return cls(layout.field(table.times, sensors=table.sensors, **known), table.values, noise, table.guarantee)


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """The content of a file of noisy readings, without the positions of the sensors, which a layout gives.

    The first line of the file is ``# heathaze readings`` and a JSON object with the fields ``version``, ``deviation``,
    ``guarantee`` and optionally ``physics``. The other lines are a table of sensor, time and value, with one row for
    each reading. Files that Heathaze did not write have no such first line.

    Args:
        sensors: Names of the sensors, in the order of the file.
        times: The times, ascending.
        values: ``len(times) · len(sensors)`` readings: all sensors at the first time, then all at the next. NaN marks a
            missing reading.
        header: The JSON object without its version; empty for files that Heathaze did not write.
    """

    sensors: tuple[str, ...]
    times: tuple[float, ...]
    values: Floats
    header: Mapping[str, Any]

    @property
    def guarantee(self) -> Guarantee | None:
        """The privacy guarantee stated in the file of readings, or None."""
        return Guarantee.from_dict(self.header["guarantee"]) if "guarantee" in self.header else None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read and check a file of noisy readings: its table and its header.

        Raises:
            UnreadableData: The file cannot be read, or its first line was not written by :meth:`write`.
            InvalidInput: The file has another version.
        """
        sensors, times, values = read_readings(path)
        return cls(sensors, times, np.array(values), read_header(path) or {})

    def write(self, path: str | Path) -> None:
        """Write the file of noisy readings; missing readings are left out.

        Raises:
            CannotWrite: The file cannot be written; no half-written file is left.
        """
        first = _MARK + json.dumps({"version": VERSION, **self.header}, ensure_ascii=False)
        pairs = ((time, sensor) for time in self.times for sensor in self.sensors)
        read = zip(pairs, self.values.tolist(), strict=True)
        rows = [[sensor, time, value] for (time, sensor), value in read if math.isfinite(value)]
        with replacing(Path(path)) as (part,):
            part.write_text(f"{first}\n{csv_text(['sensor', 'time', 'value'], rows)}", encoding="utf-8")


def read_header(path: str | Path) -> dict[str, Any] | None:
    """Read the first line of a file of noisy readings; return None for files that Heathaze did not write.

    Raises:
        UnreadableData: The line is damaged or was edited.
        InvalidInput: The file has another version.
    """
    with Path(path).open(encoding="utf-8-sig") as file:
        first = file.readline()
    if not first.startswith(_MARK):
        return None
    try:
        header = json.loads(first[len(_MARK) :])
        version = header.pop("version")
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        raise UnreadableData(
            f"The first line of {path} cannot be read; use the unchanged file that `heathaze sensors` wrote."
        ) from None
    if version != VERSION:
        raise InvalidInput(
            f"{path} has version {shown(version)}, but this program reads version {VERSION}; use a newer program."
        )
    if not _is_sound(header):
        raise UnreadableData(
            f"The first line of {path} was edited; use the unchanged file that `heathaze sensors` wrote."
        )
    return dict(header)


def _is_sound(header: Mapping[str, Any]) -> bool:
    """Whether a header has the types that :meth:`NoisyReadings.save` writes; the file may come from anyone."""
    physics = header.get("physics", {})
    try:
        if "guarantee" in header:
            str(Guarantee.from_dict(header["guarantee"]))
    except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError):
        return False
    return (
        isinstance(header.get("deviation", 1.0), int | float)
        and isinstance(physics, dict)
        and set(physics) <= {"diffusivity", "size", "walls"}
        and isinstance(physics.get("diffusivity", 1.0), int | float)
        and isinstance(physics.get("size") or [], list)
        and all(isinstance(side, int | float) for side in physics.get("size") or [])
    )
