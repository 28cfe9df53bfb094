"""Heathaze: sensitive locations become maps that can be published, with a differential-privacy guarantee.

import heathaze as hz

grid = hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=256)
counts = hz.count("visits.parquet", grid, person="user_id", lon="lon", lat="lat", at_most=20)
ledger = hz.Ledger.open("visits.ledger", total=2.0)
release = hz.publish(hz.central.Pyramid(grid, epsilon=1.0), counts, ledger=ledger)
release.save("nyc.html")
"""

# Heavy packages (duckdb, numba, scipy, matplotlib) are imported where they are used, so that this stays quick.
from heathaze import central, datasets, distributed, local, marketplace, metrics, sensors
from heathaze.domain.density import Density
from heathaze.domain.grid import Box, Grid
from heathaze.errors import HeathazeError
from heathaze.ingest.count import count
from heathaze.ingest.counts import Counts
from heathaze.planning import plan
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.randomness import SecureRandomness, Simulation
from heathaze.publishing import publish
from heathaze.release.release import Release, load
from heathaze.version import __version__

__all__ = [
    "Box",
    "Counts",
    "Density",
    "Grid",
    "Guarantee",
    "HeathazeError",
    "Ledger",
    "Release",
    "SecureRandomness",
    "Simulation",
    "__version__",
    "central",
    "count",
    "datasets",
    "distributed",
    "load",
    "local",
    "marketplace",
    "metrics",
    "plan",
    "publish",
    "sensors",
]
