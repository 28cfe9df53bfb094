"""Heathaze turns sensitive locations into maps that can be published, with a differential-privacy guarantee.

    import heathaze as hz

    grid = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=256)
    counts = hz.count("demo/visits.parquet", grid, person="person", at_most=20)
    ledger = hz.Ledger.open("demo/visits.ledger", total=2.0)
    release = hz.publish(hz.central.default(grid, epsilon=1.0), counts, ledger=ledger)
    release.save("demo/map.html")  # the ending selects the format: .html .png .pdf .tif .geojson .gpkg .parquet .npz

One module for each model of trust: ``hz.central`` (a curator holds the data), ``hz.shuffle`` (nobody knows who sent
which message), ``hz.distributed`` (only sums of many people are seen), ``hz.local`` (each device randomises its own
position). ``hz.trajectories`` makes up journeys. Two neighbours of the problem: ``hz.sensors`` (heat sources seen
through sensors) and ``hz.marketplace`` (training data from private owners). ``hz.metrics`` compares maps,
``hz.datasets`` makes synthetic people.
"""

from typing import TYPE_CHECKING

from heathaze.version import __version__

# A name is imported when it is first used (PEP 562), so that `import heathaze` loads neither numpy nor any model.
# Type checkers and editors read the block below; Python reads the two tables after it. A test compares them.
if TYPE_CHECKING:
    from heathaze import central, datasets, distributed, local, marketplace, metrics, sensors, shuffle, trajectories
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

_MODULES = (
    "central",
    "datasets",
    "distributed",
    "local",
    "marketplace",
    "metrics",
    "sensors",
    "shuffle",
    "trajectories",
)
_MODULE_OF = {
    "Box": "heathaze.domain.grid",
    "Counts": "heathaze.ingest.counts",
    "Density": "heathaze.domain.density",
    "Grid": "heathaze.domain.grid",
    "Guarantee": "heathaze.privacy.guarantee",
    "HeathazeError": "heathaze.errors",
    "Ledger": "heathaze.privacy.ledger",
    "Release": "heathaze.release.release",
    "SecureRandomness": "heathaze.privacy.randomness",
    "Simulation": "heathaze.privacy.randomness",
    "count": "heathaze.ingest.count",
    "load": "heathaze.release.release",
    "plan": "heathaze.planning",
    "publish": "heathaze.publishing",
}

__all__ = [
    "Box", "Counts", "Density", "Grid", "Guarantee", "HeathazeError", "Ledger", "Release", "SecureRandomness",
    "Simulation", "__version__", "central", "count", "datasets", "distributed", "load", "local", "marketplace",
    "metrics", "plan", "publish", "sensors", "shuffle", "trajectories",
]  # fmt: skip

if not TYPE_CHECKING:  # otherwise type checkers would accept every misspelt name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"heathaze.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'heathaze' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
