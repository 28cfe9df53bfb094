"""Readings of a file: adding, removing or changing one of them changes none of the others.

Lines are those of the net of hostile tables: one person's visits become the readings of one sensor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heathaze.errors import HeathazeError
from heathaze.ingest.readings import RawReadings
from heathaze.testing.neighbour_fuzz import Recipe, Table, Visit, hostile_table
from heathaze.testing.neighbour_fuzz.text_files import CSV_FAULTS, csv_lines

SEED = 17
KINDS = ("none", "none", "none", *CSV_FAULTS)

Readings = dict[tuple[str, float], float]


def readings_table(number: int) -> Table:
    """A CSV file of sensor, time, value and a note, with one of the faults of CSV."""
    fault = KINDS[number % len(KINDS)]
    table = hostile_table(SEED, number, Recipe("csv"))
    rng = np.random.default_rng([SEED, number])
    visits = []
    for place, visit in enumerate(table.visits):
        value = round(float(rng.normal(20, 5)), 3)
        written = "" if rng.random() < 0.1 else repr(value)
        row = dataclasses.replace(visit, id=f"s{visit.person}", x=f"{place / 2}", y=written, file=0)
        visits.append(dataclasses.replace(row, place=(place / 2, value if written else math.nan)))
    table = dataclasses.replace(
        table,
        recipe=Recipe("csv", fault),
        visits=tuple(visits),
        names={"person": "sensor", "x": "time", "y": "value", "note1": "note"},
        order=("person", "x", "y", "note1"),
        known=True,
    )
    return csv_lines(rng, table, separator=",")


def read(table: Table, visits: Sequence[Visit], folder: Path) -> Readings | None:
    """Readings by sensor and time, without those that were not taken; None where the file is refused."""
    path = folder / "readings.csv"
    path.write_bytes(table.style["header"] + b"".join(visit.line for visit in visits))
    try:
        found = RawReadings.read(path)
    except HeathazeError as refusal:
        return {} if "has no rows" in str(refusal) else None
    keys = [(sensor, time) for time in found.times for sensor in found.sensors]
    return {key: value for key, value in zip(keys, found.values.tolist(), strict=True) if math.isfinite(value)}


def problems(table: Table, folder: Path) -> list[str]:
    """What does not hold on a file."""
    everything = read(table, table.visits, folder)
    if everything is None:
        return []
    found = []
    if table.known:
        right = {(f"s{v.person}", v.place[0]): v.place[1] for v in table.visits if math.isfinite(v.place[1])}
        if right != everything:
            found.append(f"{sorted(right.items() ^ everything.items())} are not as written")
    for place in range(len(table.visits)):
        alone = read(table, [table.visits[place]], folder)
        rest = read(table, [*table.visits[:place], *table.visits[place + 1 :]], folder)
        if alone is None or rest is None or {**rest, **alone} != everything or len(alone) > 1:
            found.append(f"without row {place}: {rest}; row {place} alone: {alone}; all: {everything}")
            break
    return found


def report(folder: Path, numbers: range) -> list[str]:
    tables = [readings_table(number) for number in numbers]
    return [f"{problem}: {table}" for table in tables for problem in problems(table, folder)]


def test_the_net_on_readings(tmp_path: Path) -> None:
    assert report(tmp_path, range(10 * len(KINDS))) == []


@pytest.mark.slow
def test_the_net_on_readings_at_length(tmp_path: Path) -> None:
    assert report(tmp_path, range(1000, 1000 + 200 * len(KINDS))) == []


def test_most_files_without_faults_are_read(tmp_path: Path) -> None:
    sound = [number for number in range(60) if KINDS[number % len(KINDS)] == "none"]
    refused = [read(table, table.visits, tmp_path) is None for table in map(readings_table, sound)]
    assert sum(refused) == 0


@pytest.mark.parametrize(
    "lines",
    [
        's1,1,20.5,"hi\ns2,1,21.5,hi\ns3,1,22.5,x"\n',
        's1,1,20.5,"\ns2,1,21.5,hi\ns3,1,22.5,"\n',
    ],
)
def test_a_quotation_mark_swallows_no_reading(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "readings.csv"
    path.write_text(f"sensor,time,value,note\n{lines}")
    try:
        found = RawReadings.read(path)
    except HeathazeError:
        return
    assert found.sensors == ("s1", "s2", "s3")
