"""Publish a synthetic city twice from one ledger, see a third release refused, and query the map."""

from __future__ import annotations

import tempfile
from pathlib import Path

import heathaze as hz
from heathaze.datasets.city import CITY


def main() -> None:
    """Run all steps: make the data, count, publish, query the release and save it."""
    visits = hz.datasets.city(people=5_000, visits=50_000)
    grid = hz.Grid.over(lon=CITY.x, lat=CITY.y, size=256)
    counts = hz.count(visits, grid, person="person", at_most=20)
    with tempfile.TemporaryDirectory() as folder:
        ledger = hz.Ledger.open(Path(folder) / "city.ledger", total=1)
        for epsilon in (0.25, 0.75):
            release = hz.publish(hz.central.Pyramid(grid, epsilon=epsilon), counts, ledger=ledger)
            print(release)
        try:
            hz.publish(hz.central.Pyramid(grid, epsilon=0.1), counts, ledger=ledger)
        except hz.HeathazeError as refusal:
            print(f"refused: {refusal}")
        print(release.guarantee)
        for lon, lat in release.centers(3):
            print(f"a centre near {lon:.3f}, {lat:.3f}")
        west = hz.Box.over(lon=(CITY.x[0], 10.0), lat=CITY.y)
        print(f"share of the western half: {release.mass_in(west):.3f}")
        print(f"written: {release.save(Path(folder) / 'city.html').name}")


if __name__ == "__main__":
    main()
