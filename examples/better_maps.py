"""Draw the pictures of docs/guide/better-maps.md: maps of a synthetic city and their uncertainty.

python examples/better_maps.py docs/guide
"""

from __future__ import annotations

import sys
from pathlib import Path

import heathaze as hz
from heathaze.datasets.city import CITY, city
from heathaze.maps.figure import draw

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SIGMA = 1.5


def main() -> None:
    """Draw the true map and the releases side by side; the people are synthetic, so the true map may be shown."""
    grid = hz.Grid.over(lon=CITY.x, lat=CITY.y, size=256)
    counts = hz.count(city(people=2_000, visits=20_000), grid, person="person")
    truth = hz.Density.from_mass(grid, counts.dense())
    rivals = [
        ("the paper's pyramid", hz.central.Pyramid(grid, 1)),
        ("PrivTree", hz.central.PrivTree(grid, 1)),
        ("the default", hz.central.default(grid, 1)),
    ]
    bits = hz.Simulation(1)
    panels = [("truth, 2,000 people", truth.smooth(SIGMA))]
    panels += [(name, hz.publish(method, counts, randomness=bits).smooth(SIGMA)) for name, method in rivals]
    draw(panels, caption="The same 2,000 synthetic people, ε = 1.", path=FOLDER / "same-epsilon.png")
    panels = [
        (f"ε = {epsilon:g}", hz.publish(hz.central.default(grid, epsilon), counts, randomness=bits).smooth(SIGMA))
        for epsilon in (0.25, 1, 4)
    ]
    draw(
        panels,
        caption="The default mechanism, the same people, three values of epsilon.",
        path=FOLDER / "three-epsilons.png",
    )
    release = hz.publish(hz.central.default(grid, 1), counts)
    release.save(FOLDER / "how-sure.png", style="pair")
    for name in ("same-epsilon.png", "three-epsilons.png", "how-sure.png"):
        print(f"drew {FOLDER / name}")


if __name__ == "__main__":
    main()
