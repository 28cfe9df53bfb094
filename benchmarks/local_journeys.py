"""How made-up journeys without a curator resemble the true ones, for several epsilons and every local mechanism.

``python -m benchmarks.local_journeys`` uses synthetic rides. ``python -m benchmarks.local_journeys FILE WEST EAST SOUTH
NORTH`` reads another file with the columns person, journey, step, lon and lat. The signal is n (e^ε − 1)² / e^ε for n
reports. All errors are 0 for equal sets of journeys, and 0.693 for sets that have nothing in common.
"""

from __future__ import annotations

import math
import sys

import heathaze as hz
from heathaze.datasets import rides
from heathaze.trajectories.estimate import MECHANISMS

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
NUMBER = 4_000


def main() -> None:
    """Print density, trip and length divergence for each mechanism, epsilon and unit."""
    if len(sys.argv) == 6:
        west, east, south, north = map(float, sys.argv[2:])
        grid = hz.Grid.over(lon=(west, east), lat=(south, north), size=64)
        names = {"person": "person", "trip": "journey", "time": "step"}
        secret = hz.trajectories.read(sys.argv[1], grid, outside=True, **names)
    else:
        grid = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)
        secret = hz.trajectories.read(rides(), grid, person="person", trip="trip", time="time", outside=True)
    coarse = grid.resized((10, 10))
    print(f"{'mechanism':14} {'unit':6} {'ε':>5} {'signal':>9} {'density':>8} {'trip':>6} {'length':>7}")
    for unit, owner in (("trip", None), ("person", secret.owner)):
        for kind in MECHANISMS:
            for epsilon in EPSILONS:
                reports = hz.trajectories.randomize(
                    kind(grid, epsilon), secret.lines, owner, randomness=hz.Simulation(1)
                )
                made = hz.trajectories.estimate(reports, number=NUMBER, randomness=hz.Simulation(2)).lines
                signal = len(reports) * (math.exp(epsilon) - 1) ** 2 / math.exp(epsilon)
                errors = (
                    hz.metrics.density_divergence(secret.lines, made, coarse),
                    hz.metrics.trip_divergence(secret.lines, made, coarse),
                    hz.metrics.length_divergence(secret.lines, made, coarse),
                )
                print(
                    f"{kind.__name__:14} {unit:6} {epsilon:5} {signal:9,.0f} {errors[0]:8.3f} {errors[1]:6.3f} "
                    f"{errors[2]:7.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
