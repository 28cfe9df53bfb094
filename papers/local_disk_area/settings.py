"""Tabulate what the local mechanisms choose, and how well other mechanisms would show a single cell.

    python papers/local_disk_area/settings.py    writes two tables into README.md, in a second

The first table shows the radius and the share of hashed reports that the library chooses. The second table compares
mechanisms that report single cells. Nothing is random: both tables follow from formulas.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from calibration import square
from harness.readme import between

import heathaze as hz
from heathaze.local.disk_area import best_radius, paper_radius

README = Path(__file__).resolve().parent / "README.md"
SIDES, EPSILONS = (8, 15, 32, 64, 128, 256), (1.0, 2.0, 3.5, 5.0, 7.0)
PEOPLE = 100_000


def main() -> None:
    """Write both tables into README.md."""
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    print("wrote README.md")


def with_tables(readme: str) -> str:
    """The text of README.md with both tables between its marks."""
    return between(between(readme, "radii", _radii()), "oracles", _oracles())


def _radii() -> Iterator[Sequence[str]]:
    yield "cells on a side", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)
    for side in SIDES:
        cells = []
        for epsilon in EPSILONS:
            grid = square(side)
            mixture = hz.local.default(grid, epsilon, people=PEOPLE)
            discs = best_radius(grid, epsilon), paper_radius(grid, epsilon)
            cells.append(f"{mixture.radius} and {mixture.hashing}; {discs[0]}; {discs[1]:.1f}")
        yield str(side), *cells


def _oracles() -> Iterator[Sequence[str]]:
    yield "cells on a side, ε", "randomised response", "unary encoding", "local hashing", "subset selection"
    for side in (15, 64, 256):
        for epsilon in EPSILONS:
            hashed = hz.local.LocalHashing(square(side), epsilon).support
            found = (
                deviation(*randomised_response(side**2, epsilon)),
                deviation(0.5, 1 / (math.exp(epsilon) + 1)),
                deviation(*hashed),
                min(deviation(*subset_selection(side**2, epsilon, size)) for size in sizes(side**2, epsilon)),
            )
            yield f"{side}, {epsilon:g}", *(f"{value:,.0f}" for value in found)


def deviation(own: float, other: float) -> float:
    """The standard error of the number of people in an empty cell, if everybody reports.

    Args:
        own: The probability that a report supports the true cell.
        other: The probability that it supports another given cell.
    """
    return math.sqrt(PEOPLE * other * (1 - other)) / (own - other)


def randomised_response(cells: int, epsilon: float) -> tuple[float, float]:
    """The probabilities with which a report supports the true cell, and another given cell."""
    whole = math.exp(epsilon) + cells - 1
    return math.exp(epsilon) / whole, 1 / whole


def subset_selection(cells: int, epsilon: float, size: int) -> tuple[float, float]:
    """The same for subset selection (Ye and Barg 2018): a report is a random set of this many cells.

    A set with the true cell is e^ε times as likely as a set without it.
    """
    own = size * math.exp(epsilon) / (size * math.exp(epsilon) + cells - size)
    return own, own * (size - 1) / (cells - 1) + (1 - own) * size / (cells - 1)


def sizes(cells: int, epsilon: float) -> range:
    """The sizes of sets among which the best is sought; it is near cells / (e^ε + 1)."""
    near = cells / (math.exp(epsilon) + 1)
    return range(max(1, math.floor(near / 2)), min(cells - 1, math.ceil(2 * near) + 1) + 1)


if __name__ == "__main__":
    main()
