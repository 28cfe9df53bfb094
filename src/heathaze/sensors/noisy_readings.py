"""Protected readings, which anyone may see: in memory, and as a CSV file that says what it promises."""

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
    """Readings with noise. They are public: whatever is computed from them costs no further privacy.

    Args:
        field: What the sensors read of the sources.
        values: A number for each row of the field; NaN where no reading was taken.
        deviation: Standard deviation of the noise of each reading, in the unit of a reading.
        guarantee: What the noise guarantees; None for readings of unknown origin.
        simulated: Whether the noise can be repeated. Such readings hide nothing and cannot be saved.
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
        """The likely places of the sources.

        Rows of the field without a reading are left out.

        Args:
            known: Arguments of :func:`heathaze.sensors.find_sources`, such as ``number`` and ``strengths``.

        Returns:
            What the readings say about the sources.
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
        """Write a CSV file of sensor, time and value. Its first line holds the guarantee and the size of the noise.

        Args:
            path: The file.
            sensors: Names of the sensors, as many as the field reads at each time, in the field's order.
            times: In rising order.
            physics: The arguments of :meth:`Layout.field` that :meth:`load` needs: diffusivity, size and walls.

        Raises:
            SimulatedRelease: The noise can be repeated.
            InvalidInput: There is no guarantee, or the sensors and times are not as many as the readings.
            CannotWrite: The disk refuses.
        """
        if self.simulated:
            raise SimulatedRelease(
                "These readings were made with simulated randomness; they hide nothing, so are not saved."
            )
        if self.guarantee is None:
            raise InvalidInput("These readings carry no guarantee; save the output of Readings.protect.")
        if len(sensors) * len(times) != len(self.values):
            raise InvalidInput(
                f"There are {len(sensors)} sensors and {len(times)} times, and {len(self.values)} readings; "
                "give the name of each sensor and each time once."
            )
        header: dict[str, Any] = {"deviation": self.deviation, "guarantee": self.guarantee.to_dict()}
        if physics is not None:
            header["physics"] = dict(physics)
        NoisyTable(tuple(sensors), tuple(float(time) for time in times), self.values, header).write(path)

    @classmethod
    def load(cls, path: str | Path, layout: Layout, *, deviation: float | None = None, **physics: Any) -> Self:
        """Protected readings from a file that :meth:`save` wrote, or from any CSV file of sensor, time and value.

        Args:
            path: The file.
            layout: Where the sensors are.
            deviation: Standard deviation of the noise; what the file says unless given.
            physics: Arguments of :meth:`Layout.field`: diffusivity, size and walls; what the file says unless given.

        Raises:
            UnreadableData: The file cannot be read.
            InvalidInput: The file does not say how large its noise is or how quickly heat spreads, or it names a
                sensor that the layout does not have.
        """
        table = NoisyTable.read(path)
        noise = table.header.get("deviation") if deviation is None else deviation
        if noise is None:
            raise InvalidInput(
                f"{path} does not say how large its noise is; give its standard deviation, or protect it first."
            )
        given = {name: value for name, value in physics.items() if value is not None}
        known = {**table.header.get("physics", {}), **given}
        if "diffusivity" not in known:
            raise InvalidInput(f"{path} does not say how quickly heat spreads; give the diffusivity.")
        return cls(layout.field(table.times, sensors=table.sensors, **known), table.values, noise, table.guarantee)


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """A file of protected readings, before a layout says where the sensors are.

    The first line is ``# heathaze readings`` and a JSON object with the fields ``version``, ``deviation``,
    ``guarantee`` and perhaps ``physics``. The table follows: sensor, time, value, one row for each reading. Files of
    other origin have no such line.

    Args:
        sensors: Names of the sensors, in the order of the file.
        times: In rising order.
        values: ``len(times) · len(sensors)`` numbers, time by time; NaN where no reading was taken.
        header: The JSON object without its version; empty for files of other origin.
    """

    sensors: tuple[str, ...]
    times: tuple[float, ...]
    values: Floats
    header: Mapping[str, Any]

    @property
    def guarantee(self) -> Guarantee | None:
        """What the file promises."""
        return Guarantee.from_dict(self.header["guarantee"]) if "guarantee" in self.header else None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The file's table and header, checked.

        Raises:
            UnreadableData: The file cannot be read, or its first line is not as :meth:`write` writes it.
            InvalidInput: The file is of another version.
        """
        sensors, times, values = read_readings(path)
        return cls(sensors, times, np.array(values), read_header(path) or {})

    def write(self, path: str | Path) -> None:
        """Write the file; rows without a reading are left out.

        Raises:
            CannotWrite: The disk refuses; no half-written file is left.
        """
        first = _MARK + json.dumps({"version": VERSION, **self.header}, ensure_ascii=False)
        pairs = ((time, sensor) for time in self.times for sensor in self.sensors)
        read = zip(pairs, self.values.tolist(), strict=True)
        rows = [[sensor, time, value] for (time, sensor), value in read if math.isfinite(value)]
        with replacing(Path(path)) as (part,):
            part.write_text(f"{first}\n{csv_text(['sensor', 'time', 'value'], rows)}", encoding="utf-8")


def read_header(path: str | Path) -> dict[str, Any] | None:
    """What the first line of a file of protected readings says; None for other files.

    Raises:
        UnreadableData: The line is damaged or was edited.
        InvalidInput: The file is of another version.
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
            f"The first line of {path} cannot be read; take the file as `heathaze sensors` wrote it."
        ) from None
    if version != VERSION:
        raise InvalidInput(f"{path} is of version {shown(version)}; this program knows {VERSION}: use a newer one.")
    if not _is_sound(header):
        raise UnreadableData(f"The first line of {path} was changed; take the file as `heathaze sensors` wrote it.")
    return dict(header)


def _is_sound(header: Mapping[str, Any]) -> bool:
    """Whether the fields are such as :meth:`NoisyReadings.save` writes; the file may come from a stranger."""
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
