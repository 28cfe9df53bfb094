"""Draw three maps of the same people: the true map, a curator's, and one from local reports.

python examples/trust_nobody.py docs/guide
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import heathaze as hz
from heathaze.datasets.city import CITY, city
from heathaze.local.expectation_maximisation import expectation_maximisation
from heathaze.maps.figure import draw

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
PEOPLE, EPSILON = 100_000, 3.5


def main() -> None:
    """Draw the true map and the releases side by side; the people are synthetic, so the true map may be shown."""
    grid = hz.Grid.over(lon=CITY.x, lat=CITY.y, size=64)
    visits = city(people=PEOPLE, visits=5 * PEOPLE)
    # The first place of each person.
    _, first = np.unique(visits["person"], return_index=True)
    people = {name: column[first] for name, column in visits.items()}
    counts = hz.count(people, grid, person="person")
    bits = hz.Simulation(1)
    central = hz.publish(hz.central.default(grid, EPSILON), counts, randomness=bits)

    # On the devices: each person randomises one position. Only the reports leave.
    mechanism = hz.local.default(grid, EPSILON, people=PEOPLE)
    points = np.column_stack([people["lon"], people["lat"]])
    reports = hz.local.randomize(mechanism, points, randomness=bits)

    # On the server: count the reports, and estimate the map from the tally.
    tally = hz.local.Tally.of(reports)
    local = hz.local.estimate(tally)
    likeliest = expectation_maximisation(mechanism.channel(), tally.counts)
    # The first counts are those of discs: one for each cell of the map and of a margin around it.
    discs, margin = mechanism.disc, mechanism.radius
    raw = tally.counts[: discs.outcomes].reshape(discs.window.frame)[margin:-margin, margin:-margin]
    panels = [
        ("truth", hz.Density.from_mass(grid, counts.dense())),
        ("a curator is trusted", central.density),
        ("nobody is trusted", local.density),
        ("the reports of discs as they came", hz.Density.from_mass(grid, raw)),
        ("converged EM", hz.Density.from_mass(grid, likeliest.density)),
    ]
    caption = f"The same {PEOPLE:,} synthetic people, one position each, ε = {EPSILON:g}."
    draw(panels[:3], caption=caption, path=FOLDER / "whom-to-trust.png")
    panels.append(("Heathaze", local.density))
    draw(
        panels[3:],
        caption=f"The same reports, read three ways. {caption}",
        path=FOLDER / "from-reports.png",
    )
    print(local.guarantee)
    for name in ("whom-to-trust.png", "from-reports.png"):
        print(f"drew {FOLDER / name}")


if __name__ == "__main__":
    main()
