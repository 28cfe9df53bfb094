"""Readings that may be seen by anyone, and what they tell of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.errors import InvalidInput, SimulatedRelease
from heathaze.privacy.guarantee import Guarantee
from heathaze.sensors.physics.field import Field
from heathaze.sensors.readings_file import ReadingsFile
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.sensors.recovery.posterior import Sources


@dataclass(frozen=True, eq=False, repr=False)
class NoisyReadings:
    """Public: a number for each row of the field, NaN where no reading was taken.

    ``deviation`` is the standard deviation of the noise, in the unit of a reading.
    """

    field: Field
    values: Floats
    deviation: float
    guarantee: Guarantee
    simulated: bool = False

    def __repr__(self) -> str:
        taken = int(np.isfinite(self.values).sum())
        return f"<NoisyReadings: {taken} of {len(self.values)}, noise ± {self.deviation:.3g}, {self.guarantee.short}>"

    def sources(self, **known: Any) -> Sources:
        """Where the sources are likely to be: :func:`heathaze.sensors.find_sources` on what is there."""
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
        """Write a CSV of sensor, time and value whose first line says what it promises; rows come time by time.

        Args:
            path: The file.
            sensors: Their names, as many as the field reads at each time.
            times: In rising order.
            physics: What ``heathaze sensors locate`` has to know: diffusivity, size, walls.
        """
        if self.simulated:
            raise SimulatedRelease(
                "These readings were made with simulated randomness; they hide nothing, so are not saved."
            )
        if len(sensors) * len(times) != len(self.values):
            raise InvalidInput(
                f"There are {len(sensors)} sensors and {len(times)} times, and {len(self.values)} readings; "
                "give the name of each sensor and each time once."
            )
        about = {"deviation": self.deviation, "guarantee": self.guarantee.to_dict()}
        more = {} if physics is None else {"physics": dict(physics)}
        ReadingsFile(tuple(sensors), tuple(float(time) for time in times), self.values, about | more).write(path)
