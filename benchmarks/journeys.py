"""Time of 100,000 made-up journeys from 100,000 true ones of 50 points, with and without a curator (processor time).

``python -m benchmarks.journeys 20000`` measures so many journeys instead, which tells how memory grows.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence

import numpy as np

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.ingest.journeys import Journeys
from heathaze.privacy.guarantee import Unit

JOURNEYS, POINTS = 100_000, 50
WANTED = 30.0
WANTED_LOCALLY = 60.0


def main(words: Sequence[str] = ()) -> int:
    """Print times and memory of measuring and making up journeys; return how many of the two goals were missed."""
    number = int(words[0]) if words else JOURNEYS
    begun_with = _megabytes()
    grid = hz.Grid.plane(x=(0, 20_000), y=(0, 20_000), size=64)
    rng = np.random.default_rng(1)
    ends = np.clip(rng.normal([[7000, 9000], [12_000, 11_000]], 3000, (number, 2, 2)), 0, 19_999)
    part = np.linspace(0, 1, POINTS)[None, :, None]
    points = (ends[:, :1] * (1 - part) + ends[:, 1:] * part).reshape(-1, 2)
    lines = Lines(points[:, 0], points[:, 1], np.arange(number + 1) * POINTS)
    mechanism = hz.trajectories.default(grid, epsilon=1)
    few = Journeys(grid, lines.take(np.arange(100)), np.arange(100), Unit.PERSON)
    hz.trajectories.publish(mechanism, few, number=100)  # compiles
    ready = _megabytes()
    begun = time.process_time()
    made = hz.trajectories.publish(mechanism, Journeys(grid, lines, np.arange(number), Unit.PERSON), number=number)
    seconds = time.process_time() - begun
    verdict = "met" if seconds < WANTED else "MISSED"
    print(f"before: {begun_with:.0f} MB; with the journeys, and everything compiled: {ready:.0f} MB")
    print(
        f"{len(made.lines):,} journeys of a curator: {seconds:.1f} s; {verdict}; at most {_megabytes():.0f} MB in all"
    )
    return (seconds >= WANTED) + locally(grid, lines)


def _megabytes() -> float:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def locally(grid: hz.Grid, lines: Lines) -> bool:
    """Print the time in which a server makes up journeys, and that of all devices; return whether it is too long."""
    mechanism = hz.trajectories.LocalJourneys(grid, epsilon=1)
    few = hz.trajectories.randomize(mechanism, lines.take(np.arange(100)))
    hz.trajectories.estimate(few, number=100)  # compiles
    begun = time.process_time()
    reports = hz.trajectories.randomize(mechanism, lines)
    randomized = time.process_time()
    made = hz.trajectories.estimate(reports, number=len(lines))
    seconds = time.process_time() - randomized
    verdict = "met" if seconds < WANTED_LOCALLY else "MISSED"
    print(f"{len(reports):,} reports of devices: {randomized - begun:.1f} s")
    print(
        f"{len(made.lines):,} journeys from reports: {seconds:.1f} s; {verdict}; at most {_megabytes():.0f} MB in all"
    )
    return seconds >= WANTED_LOCALLY


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
