"""Measure the error of maps from local reports, by the radius of the disc and the share of hashed reports.

    python benchmarks/local_settings.py                          all settings, in about an hour
    python benchmarks/local_settings.py --side 16 --epsilon 5    only settings with these numbers

Synthetic cities of all five kinds report through a mixture of discs and hashing. For each setting (cells on a side, ε,
people) the table shows the earth mover's distance (EMD, geometric mean over cities and runs) and the similarity (SIM,
mean) by radius and share. Such tables, for a few settings, helped to choose the constants of ``heathaze.local.mixture``
and ``heathaze.local.disk_area``; ``mixture.md`` says what else did. All maps have the same prior (fall 0.65),
because learning it takes five times as long.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from heathaze.datasets.city import synthetic_city
from heathaze.domain.grid import Grid
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.inference.smooth_map import HEIGHT, MapProblem
from heathaze.local import Mixture
from heathaze.local.disk_area import paper_radius
from heathaze.local.estimate import Tallies
from heathaze.metrics import emd, similarity
from heathaze.privacy.randomness import Simulation

SIDES = (8, 16, 32, 64)
EPSILONS = (1.0, 2.0, 3.5, 5.0, 7.0)
PEOPLE = (10_000, 100_000, 1_000_000)
FRACTIONS = (0.2, 0.35, 0.5, 0.7, 1.0)
SHARES = ("0", "1/4", "1/2", "3/4")
CITIES = range(10)
FALL = 0.65


def main() -> None:
    """Print one table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, nargs="*", default=SIDES)
    parser.add_argument("--epsilon", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--people", type=int, nargs="*", default=PEOPLE)
    parser.add_argument("--cities", type=int, default=len(CITIES))
    chosen = parser.parse_args()
    for side in chosen.side:
        for epsilon in chosen.epsilon:
            for people in chosen.people:
                _table(side, epsilon, people, range(chosen.cities))


def _table(side: int, epsilon: float, people: int, cities: range) -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=side)
    radii = sorted({round(part * paper_radius(grid, epsilon)) for part in FRACTIONS})
    print(f"{side} × {side} cells, ε = {epsilon:g}, {people:,} people; the paper's radius is "
          f"{paper_radius(grid, epsilon):.1f}; EMD / SIM")  # fmt: skip
    print("| radius | " + " | ".join(f"hashing {share}" for share in SHARES) + " |\n|---|" + "---|" * len(SHARES))
    for radius in radii:
        cells = []
        for share in SHARES:
            found = [_error(Mixture(grid, epsilon, radius, share), people, city) for city in cities]
            distances, alike = zip(*found, strict=True)
            cells.append(f"{math.exp(float(np.mean(np.log(distances)))):.4f} / {np.mean(alike):.3f}")
        print(f"| {radius} | " + " | ".join(cells) + " |", flush=True)
    print(flush=True)


def _error(mechanism: Mixture, people: int, number: int) -> tuple[float, float]:
    """EMD and SIM of the map from the reports of one synthetic city."""
    city = synthetic_city(mechanism.grid.shape, number)
    source = Simulation(number)
    cells = np.minimum(np.searchsorted(np.cumsum(city.ravel()), source.uniforms(people)), city.size - 1)
    counts = mechanism.tally(mechanism.draw(cells, source)).astype(np.float64)
    prior = LogPyramid(mechanism.grid.shape, HEIGHT, FALL)
    knots = MapProblem([Tallies(mechanism.channel(), counts)], prior).solve(np.zeros(prior.size), steps=200)
    density = prior.density(knots)
    return float(emd(city, density, tolerance=1e-3)), similarity(city, density)


if __name__ == "__main__":
    main()
