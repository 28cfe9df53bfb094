"""Made-up journeys that may be published: the journeys, their guarantee, and how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heathaze.checks import positive
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, SimulatedRelease
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.provenance import Provenance
from heathaze.trajectories import journey_files
from heathaze.trajectories.mechanism import Model
from heathaze.types import Floats

SPEED = 4.0
"""The speed of made-up journeys in metres per second, that of a bicycle, unless the caller gives another one."""

SLOWEST, FASTEST = 1e-6, 1e6
"""The range of speeds; beyond it, the times of journeys would not be numbers that files and pages can hold."""


def check_speed(speed: float) -> float:
    """Check the speed of made-up journeys, before anything is paid.

    Raises:
        InvalidInput: The speed is not a number from SLOWEST to FASTEST.
    """
    speed = positive(speed, "speed", "metres per second")
    if not SLOWEST <= speed <= FASTEST:
        raise InvalidInput(f"speed is {speed:g}; give metres per second, a number from {SLOWEST:g} to {FASTEST:g}.")
    return speed


@dataclass(frozen=True, eq=False, repr=False)
class MadeUp:
    """Made-up journeys, which may be published. No point of them is a point of a true journey.

    Args:
        grid: The public frame.
        lines: The made-up journeys.
        model: The noisy numbers from which they were drawn.
        guarantee: The privacy guarantee of model and journeys together.
        provenance: The public facts about how they were made.
        begins: The made-up time at which each journey begins, in seconds since midnight; None if hours were not
            measured.
        speed: The public speed of all made-up journeys, in metres (or units of a plane) per second.
        caution: What a reader must know about places, ways and lengths; empty if there is nothing to say. Pictures,
            pages and files show it.
        caution_about_hours: What a reader must know about the hours at which journeys begin; empty if there is nothing
            to say. Pages and files show it.

    >>> from heathaze.trajectories import LocalJourneys, estimate, randomize
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=2, squares=16)
    >>> estimate(randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)]] * 50)), number=5)
    <MadeUp: 5 journeys, ε = 2>
    """

    grid: Grid
    lines: Lines
    model: Model
    guarantee: Guarantee
    provenance: Provenance
    begins: Floats | None = None
    speed: float = SPEED
    caution: str = ""
    caution_about_hours: str = ""

    def seconds(self) -> Floats:
        """Compute the time of each point: since midnight if hours were measured, otherwise since its journey began.

        All journeys have the same public speed, from start to end. A journey may end after midnight, at more than
        86,400 seconds.

        Returns:
            One time in seconds for each point.
        """
        along = self.lines.travelled(self.grid) / self.speed
        return along if self.begins is None else along + self.begins[self.lines.owner]

    @property
    def promise(self) -> str:
        """The guarantee as one sentence for everybody, about journeys instead of a map."""
        return self.guarantee.plain.replace("this map: it would", "these journeys: they would")

    def __repr__(self) -> str:
        return f"<MadeUp: {len(self.lines)} journeys, {self.guarantee.loss}>"

    def refuse_if_simulated(self) -> None:
        """Refuse to write journeys that were made with simulated randomness.

        Raises:
            SimulatedRelease: The journeys were made with simulated randomness.
        """
        if self.provenance.simulated:
            raise SimulatedRelease(
                "These journeys were made with simulated randomness, so they are not private and cannot be saved; "
                "publish without randomness=Simulation(…)."
            )

    def save(self, path: str | Path) -> Path:
        """Write the journeys to a file.

        Args:
            path: The file: .parquet (GeoParquet, one row for each point), .geojsonl (one line for each journey) or .gpx
                (one track for each journey). An existing file is replaced.

        Returns:
            The path.

        Raises:
            UnknownFormat: The ending is none of these.
            CannotWrite: The file cannot be written; nothing is left behind.
            SimulatedRelease: The journeys were made with simulated randomness.
        """
        self.refuse_if_simulated()
        about: dict[str, Any] = {"guarantee": self.guarantee.to_dict(), "provenance": self.provenance.to_dict()}
        cautions = " ".join(text for text in (self.caution, self.caution_about_hours) if text)
        about |= {"caution": cautions} if cautions else {}
        seconds = None if self.begins is None else self.seconds()
        sentence = f"{self.guarantee} {cautions}".strip()
        return journey_files.write(self.lines, self.grid, about, sentence, Path(path), seconds)
