"""Compare the certain squares of simulated releases with the truth.

The data are check-ins in New York (6,600 and 200 people; gowalla_nyc.parquet in the folder HEATHAZE_DATA, or in
../shared/data beside the repository) and the synthetic city of the demo. Squares, areas and people of all releases are
pooled. The truth is known here, so the output would not be private for real people who are not public already.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

import heathaze as hz
from heathaze.datasets.city import CITY, city
from heathaze.maps.squares import UNKNOWN, WHITE, Squares
from heathaze.release.squares import areas

RELEASES = 20
RIGHT, WITHIN_ONE, EMPTY, MOST_UNKNOWN = 0.75, 0.95, 0.99, 0.15
"""At least these shares of coloured squares in the right class and within one class of it, and of white area truly
below the first class; at most this share of people in unknown squares (rich data only)."""


@dataclass(frozen=True)
class Judged:
    """Squares of one or more releases compared with the truth; all numbers but ``releases`` are sums over releases."""

    releases: int
    coloured: int
    right: int
    within_one: int
    white_area: float
    empty_area: float
    people: float
    unknown_people: float
    white_covered: int

    def __add__(self, other: Judged) -> Judged:
        return Judged(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def misses(self, *, rich: bool) -> list[str]:
        """List the goals that are missed."""
        reached = {
            "right": self.right >= RIGHT * self.coloured,
            "within one class": self.within_one >= WITHIN_ONE * self.coloured,
            "white truly empty": self.empty_area >= EMPTY * self.white_area,
            "unknown people": not rich or self.unknown_people <= MOST_UNKNOWN * self.people,
        }
        return [name for name, good in reached.items() if not good]

    def __str__(self) -> str:
        return (
            f"{self.coloured / self.releases:6.0f} coloured squares a release, "
            f"{self.right / self.coloured:.1%} in the right class, {self.within_one / self.coloured:.1%} within one; "
            f"white area {self.empty_area / self.white_area:.1%} truly below the first class; "
            f"{self.unknown_people / self.people:.1%} of people in unknown squares; "
            f"interval of white people right {self.white_covered} of {self.releases} times"
        )


def judge(squares: Squares, counts: hz.Counts) -> Judged:
    """Compare squares with the true counts."""
    before = np.concatenate([[0.0], np.cumsum(counts.mass / counts.one)])
    shift = 2 * (squares.grid.depth - squares.levels)
    start, end = squares.codes << shift, (squares.codes + 1) << shift
    true = before[np.searchsorted(counts.codes, end)] - before[np.searchsorted(counts.codes, start)]
    area = areas(squares.grid, squares.levels, squares.codes)
    held = squares.people > 0
    unit = np.median(squares.density[held] * area[held] / squares.people[held])
    off = np.abs(np.searchsorted(squares.classes, true / area * unit, "right") - 1 - squares.kinds)
    coloured, white, unknown = squares.kinds >= 0, squares.kinds == WHITE, squares.kinds == UNKNOWN
    _, low, high = squares.white_people
    return Judged(
        1,
        int(coloured.sum()),
        int((off[coloured] == 0).sum()),
        int((off[coloured] <= 1).sum()),
        float(area[white].sum()),
        float(area[white & (off == 0)].sum()),
        float(true.sum()),
        float(true[unknown].sum()),
        int(low <= true[white].sum() <= high),
    )


def demo_city(people: int = 20_000) -> hz.Counts:
    """Count the visits of the demo."""
    return hz.count(city(people, 10 * people), hz.Grid.over(lon=CITY.x, lat=CITY.y, size=256), person="person")


def new_york(people: int | None = None) -> hz.Counts | None:
    """Count the check-ins of all people in New York, or of some of them; None if the file is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    file = Path(os.environ.get("HEATHAZE_DATA", beside)) / "gowalla_nyc.parquet"
    if not file.exists():
        print(f"{file.name} was not found, so New York is left out. Set HEATHAZE_DATA to its folder.")
        return None
    table: dict[str, npt.NDArray[np.generic]] = duckdb.read_parquet(str(file)).fetchnumpy()
    table = {name: np.asarray(table[name]) for name in ("user_id", "lon", "lat")}
    if people is not None:
        everybody = np.unique(table["user_id"])
        chosen = np.isin(table["user_id"], np.random.default_rng(0).choice(everybody, people, replace=False))
        table = {name: column[chosen] for name, column in table.items()}
    return hz.count(table, hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=256), person="user_id")


def measure(counts: hz.Counts, releases: int, epsilon: float = 1.0) -> Judged:
    """Judge the squares of several simulated releases of the same counts, with all numbers added."""
    mechanism = hz.central.default(counts.grid, epsilon)
    found = [
        judge(hz.publish(mechanism, counts, randomness=hz.Simulation(seed)).squares(), counts)
        for seed in range(releases)
    ]
    total = found[0]
    for one in found[1:]:
        total += one
    return total


def main() -> None:
    """Print the shares for each dataset, and whether the goals are reached."""
    for name, counts, rich in (
        ("New York, 6,600 people", new_york(), True),
        ("New York, 200 people", new_york(200), False),
        ("demo city, 20,000 people", demo_city(), True),
    ):
        if counts is not None:
            judged = measure(counts, RELEASES)
            missed = judged.misses(rich=rich)
            print(f"{name}: {judged}: {'MISSED ' + ', '.join(missed) if missed else 'reached'}", flush=True)


if __name__ == "__main__":
    main()
