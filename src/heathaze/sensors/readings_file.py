"""Readings on disk: a CSV file of sensor, time and value; a protected one says on its first line what it promises."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from heathaze.errors import CannotWrite, InvalidInput, UnreadableData
from heathaze.sensors.layout import Row, has_decimal_comma, read_table
from heathaze.sensors.physics._checks import shown
from heathaze.types import Floats

_MARK = "# heathaze readings "
VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class ReadingsFile:
    """A number for each time and sensor, time by time; NaN where none was taken. Prints no values: they may be raw.

    Args:
        sensors: Their names, in the order of the file.
        times: In rising order.
        values: ``len(times) · len(sensors)`` numbers.
        about: What a protected file says of itself; nothing for a raw one.
    """

    sensors: tuple[str, ...]
    times: tuple[float, ...]
    values: Floats
    about: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        kind = "raw" if self.about is None else "protected"
        return f"<ReadingsFile: {len(self.sensors)} sensors, {len(self.times)} times, {kind}>"

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """From a CSV file with the columns sensor, time and value; an empty value is a reading that was not taken.

        No message quotes a value: the file may be raw.
        """
        rows = read_table(path)
        missing = {"sensor", "time", "value"} - set(rows[0])
        if missing:
            raise UnreadableData(
                f"{path} lacks the column {sorted(missing)[0]!r}; readings have sensor, time and value."
            )
        found: dict[tuple[float, str], float] = {}
        for row in rows:
            key = (_parsed(path, row, "time"), row["sensor"])
            if key in found:
                raise UnreadableData(
                    f"Line {row.line} of {path} is a second reading of the same sensor and time; "
                    "keep one, or average them."
                )
            found[key] = _parsed(path, row, "value") if row["value"] else math.nan
        sensors = tuple(dict.fromkeys(sensor for _, sensor in found))
        times = tuple(sorted({time for time, _ in found}))
        values = np.array([found.get((time, sensor), math.nan) for time in times for sensor in sensors])
        return cls(sensors, times, values, _about(path))

    def write(self, path: str | Path) -> None:
        """The file as :meth:`read` takes it; rows without a reading are left out."""
        text = io.StringIO()
        if self.about is not None:
            text.write(_MARK + json.dumps({"version": VERSION, **self.about}, ensure_ascii=False) + "\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["sensor", "time", "value"])
        pairs = ((time, sensor) for time in self.times for sensor in self.sensors)
        for (time, sensor), value in zip(pairs, self.values.tolist(), strict=True):
            if math.isfinite(value):
                writer.writerow([sensor, repr(time), repr(value)])
        try:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        except OSError as problem:
            raise CannotWrite(f"Cannot write {path}: {(problem.strerror or 'refused').lower()}.") from None


def _parsed(path: str | Path, row: Row, column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        todo = (
            "times are numbers, counted since heat was set free" if column == "time" else "leave an unknown value empty"
        )
        if has_decimal_comma(row[column]):
            todo = "write a point, not a comma"
        raise UnreadableData(f"The {column} in line {row.line} of {path} is not a finite number; {todo}.")
    return value


def _about(path: str | Path) -> dict[str, Any] | None:
    with Path(path).open(encoding="utf-8-sig") as file:
        first = file.readline()
    if not first.startswith(_MARK):
        return None
    try:
        about = json.loads(first[len(_MARK) :])
        version = about.pop("version")
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        raise UnreadableData(
            f"The first line of {path} cannot be read; take the file as `heathaze sensors` wrote it."
        ) from None
    if version != VERSION:
        raise InvalidInput(f"{path} is of version {shown(version)}; this program knows {VERSION}: use a newer one.")
    return dict(about)
