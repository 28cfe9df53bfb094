"""Raw readings of sensors, without noise: secret until :class:`heathaze.sensors.Readings` has added noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from heathaze.files import read_readings
from heathaze.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class RawReadings:
    """Raw readings of sensors: one number for each time and sensor, without noise. It prints no values.

    Noise does not hide which readings are missing. So whether a reading is missing must not depend on the places of the
    sources.

    Args:
        sensors: Names of the sensors, in the order of the file.
        times: Times since the sources released their heat, in rising order.
        values: ``len(times) · len(sensors)`` numbers, ordered by time and then by sensor, with NaN for a reading that
            was not taken.
    """

    sensors: tuple[str, ...]
    times: tuple[float, ...]
    values: Floats

    def __repr__(self) -> str:
        return f"<RawReadings: {len(self.sensors)} sensors, {len(self.times)} times>"

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read raw readings from a CSV file with the columns sensor, time and value, one row for each reading.

        Fields are separated by commas, and numbers have decimal points. Times are numbers in any unit, not dates. An
        empty value or a missing row means that the reading was not taken.

        Args:
            path: The file.

        Raises:
            UnreadableData: The file cannot be read. The sentence names the line and quotes no value.
        """
        sensors, times, values = read_readings(path)
        return cls(sensors, times, np.array(values))
