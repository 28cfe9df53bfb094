"""A plain-Python count to compare the engines with, and tables that stand on borders."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave
from heathaze.ingest.counts import Counts

PRIME = 2**31 - 1


def kept(unit: object, visits: Counter[int], at_most: int | None) -> Counter[int]:
    """The at most k cells of a unit: the first in the order of its draws, among those below the cut."""
    if at_most is None or len(visits) <= at_most:
        return visits
    digest = hashlib.md5(f"heathaze|{unit}".encode()).hexdigest()
    seed = int(digest.translate(str.maketrans("abcdef", "012345"))[:9])
    draws = {cell: (((cell + seed) ** 2 + seed) % PRIME) ** 2 % PRIME for cell in visits}
    root = int(at_most**0.5)
    below = [cell for cell in visits if draws[cell] * len(visits) <= PRIME * (at_most + 3 * root + 8)]
    chosen = sorted(below, key=lambda cell: (draws[cell] // 256, cell))[:at_most]
    return Counter({cell: visits[cell] for cell in chosen})


def plain_count(
    grid: Grid,
    units: Sequence[object],
    xs: Sequence[float | None],
    ys: Sequence[float | None],
    *,
    at_most: int | None = None,
    weight: str = "share",
    mass: int = 2**20,
) -> dict[int, int]:
    """Mass per cell, one unit after the other."""
    positions = [np.array([np.nan if value is None else value for value in axis], dtype=float) for axis in (xs, ys)]
    rows, cols, inside = grid.cell_of(*positions)
    visits: defaultdict[object, Counter[int]] = defaultdict(Counter)
    for unit, row, col, there in zip(units, rows.tolist(), cols.tolist(), inside.tolist(), strict=True):
        if there:
            visits[unit][row * grid.cols + col] += 1
    total: Counter[int] = Counter()
    for unit, cells in visits.items():
        part = kept(unit, cells, at_most)
        whole = sum(part.values())
        for cell, n in part.items():
            total[cell] += mass * n // whole if weight == "share" else 1
    return {cell: value for cell, value in total.items() if value}


def as_cells(counts: Counts) -> dict[int, int]:
    rows, cols = deinterleave(counts.codes)
    return dict(zip((rows * counts.grid.cols + cols).tolist(), counts.mass.tolist(), strict=True))


GRIDS = {
    "globe": Grid.over(lon=(-74.10, -73.78), lat=(-40.9, -40.58), shape=(7, 10)),
    "mercator": Grid.over(lon=(-179.5, 3.3), lat=(-80.0, 71.3), shape=(13, 6), projection="web-mercator"),
    "plane": Grid.plane(x=(-1e6, 3.7), y=(-2.0, -0.1), shape=(5, 9)),
    "huge": Grid.over(lon=(-180, 180), lat=(-90, 90), size=2**20),
}


def axis(low: float, high: float, borders: Sequence[float]) -> st.SearchStrategy[float | None]:
    """Positions on borders, a hair beside them, inside, outside, nowhere."""
    near = [np.nextafter(border, towards) for border in borders for towards in (-np.inf, np.inf)]
    return st.one_of(
        st.sampled_from([*borders, *near]).map(float),
        st.floats(low, high),
        st.sampled_from([None, float("nan"), float("inf"), float("-inf"), low - 1.0, high + 1.0, 1e300]),
    )


def visits_on(grid: Grid, people: st.SearchStrategy[Any], most: int = 60) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    xs = axis(*grid.x, [float(x) for x in grid.x_at(np.linspace(0, grid.cols, min(grid.cols, 20) + 1))])
    ys = axis(*grid.y, [float(y) for y in grid.y_at(np.linspace(0, grid.rows, min(grid.rows, 20) + 1))])
    middle = st.just((0, sum(grid.x) / 2, sum(grid.y) / 2))
    rows = st.lists(st.tuples(people, xs, ys), max_size=most)
    # one visit that is surely inside, since a table with none is refused
    return st.tuples(rows, people, middle).map(lambda parts: [*parts[0], (parts[1], *parts[2][1:])])


def table(visits: Sequence[tuple[Any, ...]], grid: Grid, person: pa.DataType) -> pa.Table:
    names = ("lon", "lat") if grid.projection.is_geographic else ("x", "y")
    who, xs, ys = zip(*visits, strict=True)
    return pa.table(
        {
            "who": pa.array(who, person),
            names[0]: pa.array(xs, pa.float64(), from_pandas=False),
            names[1]: pa.array(ys, pa.float64(), from_pandas=False),
        }
    )


class Tools:
    """What the tests of this folder share."""

    plain_count: Callable[..., dict[int, int]] = staticmethod(plain_count)
    as_cells = staticmethod(as_cells)
    visits_on = staticmethod(visits_on)
    table = staticmethod(table)
    kept = staticmethod(kept)
    grids = GRIDS


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    return Tools


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark for all tests of this folder, which are in one group of xdist: it is slow to start.

    Java compiles each of the many small queries. Its quick compiler and its simplest memory management take half the
    processor time for queries that run only once.
    """
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        from heathaze.ingest.engines.spark import _local_session

        session = _local_session()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    # Nothing may depend on where the session believes itself to be.
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield session
    session.stop()


PLAIN = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture
def plain_plans(spark: Any) -> Iterator[None]:
    """No new plans at run time and no compiled plans, both of which take longer than counting ten rows.

    Results do not depend on them. test_spark.py and the long net, which runs under `make slow`, use Spark's defaults.
    """
    before = {name: spark.conf.get(name) for name in PLAIN}
    for name, value in PLAIN.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
