"""Draw four maps of the same people: the true map, a curator's, one from a secure sum, and one from local reports.

python examples/trust_a_sum.py docs/guide
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import heathaze as hz
from heathaze.datasets.city import CITY, city
from heathaze.maps.figure import draw

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
PEOPLE, EPSILON = 100_000, 1.0


def main() -> None:
    """Draw the true map and the releases side by side, then survey 60 devices with real secure sums."""
    grid = hz.Grid.over(lon=CITY.x, lat=CITY.y, size=128)
    visits = city(people=PEOPLE, visits=5 * PEOPLE)
    # The first place of each person.
    _, first = np.unique(visits["person"], return_index=True)
    people = {name: column[first] for name, column in visits.items()}
    points = np.column_stack([people["lon"], people["lat"]])
    counts = hz.count(people, grid, person="person")
    bits = hz.Simulation(1)
    central = hz.publish(hz.central.default(grid, EPSILON), counts, randomness=bits)

    # A secure sum: one shard of 100,000 devices, one place each.
    population = hz.distributed.Population.from_table(grid, people["person"], people["lon"], people["lat"])
    survey = hz.distributed.Survey(hz.distributed.AdaptiveQuadtree(grid, EPSILON), hz.distributed.Cohort(people=PEOPLE))
    survey = hz.distributed.simulate(survey, population, randomness=bits, dropout=0.05)

    coarse = hz.Grid.over(lon=CITY.x, lat=CITY.y, size=64)
    reports = hz.local.randomize(hz.local.default(coarse, EPSILON), points, randomness=bits)
    panels = [
        ("truth", hz.Density.from_mass(grid, counts.dense())),
        ("a curator is trusted", central.density),
        ("only a sum is trusted", survey.estimate(draws=0).density),
        ("nobody is trusted", hz.local.estimate(reports, draws=0).density.resample(grid.shape)),
    ]
    caption = f"The same {PEOPLE:,} synthetic people, one position each, ε = {EPSILON:g}."
    draw(panels, caption=caption, path=FOLDER / "a-sum-is-trusted.png")
    print(survey.guarantee)
    for one in survey.rounds:
        print(f"round {one.question.number}: {one.question.length} regions, ε = {float(one.question.epsilon):.4f}")
    print(f"drew {FOLDER / 'a-sum-is-trusted.png'}")

    # Sixty devices with real keys, masks and shares; a few of them drop out.
    devices = [hz.distributed.Device(point, budget=EPSILON) for point in points[:60]]
    cohort = hz.distributed.Cohort(people=60, dropout=0.25, colluding=0.05)
    small = hz.distributed.Survey(hz.distributed.AdaptiveQuadtree(grid, EPSILON), cohort)
    small = hz.distributed.run_survey(small, devices, dropout=0.01)
    print(f"{small.rounds[-1].people} of 60 devices delivered in the last round; nobody saw any one of their vectors")


if __name__ == "__main__":
    main()
