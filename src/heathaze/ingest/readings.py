"""Readings of sensors as they were measured: secret until :class:`heathaze.sensors.Readings` has added noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from heathaze.files import read_readings
from heathaze.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class RawReadings:
    """One number for each time and sensor, without noise. It prints no values.

    That a reading is missing is not hidden: it must not depend on where the sources are.

    Args:
        sensors: Names of the sensors, in the order of the file.
        times: Since the heat was set free, in rising order.
        values: ``len(times) · len(sensors)`` numbers, time by time and at each time sensor by sensor; NaN where no
            reading was taken.
    """

    sensors: tuple[str, ...]
    times: tuple[float, ...]
    values: Floats

    def __repr__(self) -> str:
        return f"<RawReadings: {len(self.sensors)} sensors, {len(self.times)} times>"

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Readings from a CSV file with the columns sensor, time and value, one row for each reading.

        Fields are separated by commas, and numbers have points. Times are numbers in any unit, not dates. An empty
        value, or a row that is not there, is a reading that was not taken.

        Args:
            path: The file.

        Raises:
            UnreadableData: The file cannot be read. The sentence names the line and quotes no value.
        """
        sensors, times, values = read_readings(path)
        return cls(sensors, times, np.array(values))
