"""Time the whole job, from a file of visits to a map on disk, and compare it with OpenDP and PipelineDP.

python -m benchmarks.whole_job [--peers PYTHON] [--rows 1 10] [--hundred] [--repeat 3]

PYTHON is an interpreter that has the peers' packages (``pip install '.[peer]'`` in a separate environment); without
``--peers``, the interpreter of Heathaze is used. ``--hundred`` adds 100 million rows, for Heathaze only. The last lines
are a Markdown table of all jobs.

Every job is one fresh process: it starts Python, imports its packages, reads the Parquet file, bounds each person's
influence, releases 256 × 256 counts with ε = 1 and writes them:

- heathaze runs the lines of the README: at most 20 distinct cells per person with a total weight of 1, the adaptive
  tree, and a page with the map and its uncertainty.
- opendp uses OpenDP 0.16 with its Polars interface: at most 20 distinct cells per person, each counted once, Laplace
  noise on every cell, and a Parquet file of the counts. It keeps the first cells of a person, because keeping random
  ones fails on this query.
- opendp-visits is the same with at most 20 visits per person instead of 20 cells, which is less work.
- pipelinedp uses PipelineDP 0.3 on its local backend: at most 20 distinct cells per person, each counted once, Laplace
  noise on every cell, and a numpy file of the counts. Cells are computed by numpy beforehand, because PipelineDP would
  be slower.

The peers release bare noisy counts. Heathaze also infers the map and its uncertainty, inside the measured time.

Time is the best of several runs, because other work on the machine only adds time. Memory is the largest sum of
resident memory over the process and its children. A first run of each job is not measured: it fills the caches of
compiled code.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Only standard-library imports here: the peers' interpreter may lack heathaze, and ours may lack the peers.

WEST, EAST, SOUTH, NORTH, SIZE = -74.10, -73.78, 40.58, 40.90, 256
EPSILON, PLACES, VISITS_A_PERSON = 1.0, 20, 20
MILLION = 1_000_000

MOST_OF_OPENDP, MOST_OF_OPENDP_MEMORY, MOST_OF_PIPELINEDP = 0.7, 0.5, 0.5
MOST_SECONDS, MOST_GIGABYTES = 30.0, 1.5
"""The most seconds and gigabytes that are wanted for 100 million rows."""

POLL = 0.01
"""The seconds between two measurements of a job's memory."""


@dataclass(frozen=True)
class Measured:
    """One job: wall-clock seconds, processor seconds and peak memory."""

    seconds: float
    processor: float
    gigabytes: float


def main(peers: str | None = None, rows: tuple[float, ...] = (1, 10), hundred: bool = False, repeat: int = 3) -> None:
    """Print the time and memory of every job, the ratios, and whether the goals are reached."""
    python = peers or sys.executable
    jobs = [job for job, package in PEERS.items() if _has(python, package)]
    for job in [job for job in PEERS if job not in jobs]:
        print(f"{job}: the package {PEERS[job]} is not installed; give --peers PYTHON to compare")
    table: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for millions in rows:
            path = _visits(Path(folder), round(millions * MILLION))
            found = {job: _best(job, python, path, repeat) for job in ("heathaze", *jobs)}
            print(f"{millions:g} million visits, {SIZE} × {SIZE} cells, ε = {EPSILON:g}")
            for job, measured in found.items():
                _row(job, measured, found["heathaze"])
            table += _markdown(millions, found)
            _judge(millions, found)
            path.unlink()
        if hundred:
            ours = _best("heathaze", python, _visits(Path(folder), 100 * MILLION), repeat)
            print("100 million visits")
            _row("heathaze", ours, ours)
            table += _markdown(100, {"heathaze": ours})
            _wanted("seconds", ours.seconds, MOST_SECONDS)
            _wanted("GB", ours.gigabytes, MOST_GIGABYTES)
    print("\nThe table of benchmarks/README.md:\n")
    print("| visits | job | seconds | seconds of processors | GB | our time / its | our memory / its |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(table))


def _markdown(millions: float, found: dict[str, Measured]) -> list[str]:
    """Write the rows of the Markdown table."""
    ours = found["heathaze"]
    return [
        f"| {millions:g} million | {job} | {its.seconds:.2f} | {its.processor:.2f} | {its.gigabytes:.2f} | "
        f"{ours.seconds / its.seconds:.2f} | {ours.gigabytes / its.gigabytes:.2f} |"
        for job, its in found.items()
    ]


def _row(job: str, measured: Measured, ours: Measured) -> None:
    times, memory = ours.seconds / measured.seconds, ours.gigabytes / measured.gigabytes
    beside = "" if measured is ours else f"   Heathaze takes {times:.2f} of its time, {memory:.2f} of its memory"
    print(
        f"  {job:<14}{measured.seconds:7.2f} s ({measured.processor:6.2f} s of processors)"
        f"{measured.gigabytes:7.2f} GB{beside}",
        flush=True,
    )


def _judge(millions: float, found: dict[str, Measured]) -> None:
    ours = found["heathaze"]
    if millions == 10 and "opendp" in found:
        _wanted("of OpenDP's time", ours.seconds / found["opendp"].seconds, MOST_OF_OPENDP)
        _wanted("of OpenDP's memory", ours.gigabytes / found["opendp"].gigabytes, MOST_OF_OPENDP_MEMORY)
    if millions == 1 and "pipelinedp" in found:
        _wanted("of PipelineDP's time", ours.seconds / found["pipelinedp"].seconds, MOST_OF_PIPELINEDP)


def _wanted(what: str, value: float, most: float) -> None:
    print(f"  {value:.2f} {what} (wanted: at most {most:g}): {'reached' if value <= most else 'MISSED'}", flush=True)


def _has(python: str, package: str) -> bool:
    looked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", looked], check=False).returncode == 0


# Measuring


def _best(job: str, peers: str, path: Path, repeat: int) -> Measured:
    """The best time and the largest memory of several fresh processes, after a first process that is not measured."""
    python = sys.executable if job == "heathaze" else peers
    runs = [_measured(job, python, path) for _ in range(repeat + 1)][1:]
    return Measured(
        min(run.seconds for run in runs), min(run.processor for run in runs), max(run.gigabytes for run in runs)
    )


def _measured(job: str, python: str, path: Path) -> Measured:
    output = path.with_name(f"{job}.{'html' if job == 'heathaze' else 'out'}")
    output.unlink(missing_ok=True)
    # All packages are loaded from compiled bytecode, which is kept in a separate folder, so that nothing is written
    # into the installations.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(path.parent / "bytecode")
    before, begun = os.times(), time.perf_counter()
    process = subprocess.Popen([python, "-P", __file__, "--job", job, str(path), str(output)], env=environment)
    peak, done = [0], threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peak, done))
    watcher.start()
    failed = process.wait()
    seconds, after = time.perf_counter() - begun, os.times()
    done.set()
    watcher.join()
    if failed or not output.exists():
        raise RuntimeError(f"The job {job} failed.")
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return Measured(seconds, processor, peak[0] / 2**30)


def _watch(pid: int, peak: list[int], done: threading.Event) -> None:
    """Record the largest resident memory, in bytes, of a process and its descendants."""
    while not done.wait(POLL):
        peak[0] = max(peak[0], sum(map(_resident, _below(pid))))


def _below(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0


def _visits(folder: Path, rows: int) -> Path:
    """Write synthetic visits in random order; the most active 1 % of people make 10 % of the visits.

    A visit is at the r-th place of its person or a later one with probability r^(−2/3): n visits are at about n^0.6
    distinct places, as in records of mobile phones (Song et al., Nature Physics 6, 2010). Places are normal around a
    home (standard deviation 4 % of the map's side), and visits are normal around their place (0.05 %, about 15 m).
    """
    import duckdb

    def uniform(number: str) -> str:
        return f"hash({number}) / 2e0**64"

    def normal(number: str, trigonometry: str) -> str:
        return f"sqrt(-2 * ln({uniform(number)} + 1e-19)) * {trigonometry}(2 * pi() * {uniform(number + ' + 1')})"

    path = folder / f"visits-{rows}.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"""
            copy (
                with visits as (
                    select
                        5 * i as visit,
                        cast(floor(pow({uniform("5 * i + 2")}, 2) * {rows // VISITS_A_PERSON}) as bigint) as person,
                        cast(floor(pow({uniform("5 * i + 3")} + 1e-9, -1.5)) as bigint) as place
                    from range({rows}) as numbers(i)
                ),
                places as (
                    select visit, person, -7 * (1048576 * person + place % 1048576) as place from visits
                )
                select
                    person * 7919 + 13 as user_id,
                    {WEST} + {EAST - WEST} * (
                        {uniform("-3 * person - 1")} + 0.04 * {normal("place", "cos")} + 5e-4 * {normal("visit", "cos")}
                    ) as lon,
                    {SOUTH} + {NORTH - SOUTH} * (
                        {uniform("-3 * person - 2")} + 0.04 * {normal("place", "sin")} + 5e-4 * {normal("visit", "sin")}
                    ) as lat
                from places
            ) to '{path}' (format parquet)
        """).fetchall()
    return path


# The jobs


def _heathaze(visits: str, output: str) -> None:
    import heathaze as hz

    grid = hz.Grid.over(lon=(WEST, EAST), lat=(SOUTH, NORTH), size=SIZE)
    counts = hz.count(visits, grid, person="user_id", lon="lon", lat="lat", at_most=PLACES)
    hz.publish(hz.central.default(grid, EPSILON), counts).save(output)


def _opendp(visits: str, output: str, of_cells: bool = True) -> None:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    lon, lat = pl.col("lon"), pl.col("lat")
    context = dp.Context.compositor(
        data=pl.scan_parquet(visits),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(epsilon=EPSILON),
        split_evenly_over=1,
    )
    side, cell = pl.Series(range(SIZE), dtype=pl.Int32), ["row", "col"]
    cells = pl.LazyFrame({"row": side}).join(pl.LazyFrame({"col": side}), how="cross")
    placed = (
        context.query()
        .filter((lon >= WEST) & (lon < EAST) & (lat > SOUTH) & (lat <= NORTH))
        .with_columns(
            row=((NORTH - lat) * (SIZE / (NORTH - SOUTH))).cast(pl.Int32),
            col=((lon - WEST) * (SIZE / (EAST - WEST))).cast(pl.Int32),
        )
    )
    if of_cells:
        bounded = placed.truncate_per_group(1, by=cell, keep="first").truncate_num_groups(PLACES, by=cell, keep="first")
    else:
        bounded = placed.truncate_per_group(PLACES)
    released = bounded.group_by(*cell).agg(dp.len(signed=True)).with_keys(cells).release().collect()
    released.write_parquet(output)


def _pipelinedp(visits: str, output: str) -> None:
    import numpy as np
    import pipeline_dp
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(visits, columns=["user_id", "lon", "lat"])
    person, lon, lat = (table.column(name).to_numpy() for name in ("user_id", "lon", "lat"))
    del table
    inside = (lon >= WEST) & (lon < EAST) & (lat > SOUTH) & (lat <= NORTH)
    row = ((NORTH - lat[inside]) * (SIZE / (NORTH - SOUTH))).astype(np.int64)
    col = ((lon[inside] - WEST) * (SIZE / (EAST - WEST))).astype(np.int64)
    rows = list(zip(person[inside].tolist(), (row * SIZE + col).tolist(), strict=True))
    del person, lon, lat, inside, row, col
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=PLACES,
        max_contributions_per_partition=1,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda visit: visit[0],
        partition_extractor=lambda visit: visit[1],
        value_extractor=lambda visit: 0,  # noqa: ARG005
    )
    released = engine.aggregate(rows, parameters, extractors, public_partitions=list(range(SIZE * SIZE)))
    budget.compute_budgets()
    counts = np.zeros(SIZE * SIZE)
    for cell, metrics in released:
        counts[cell] = metrics.count
    with open(output, "wb") as file:
        np.save(file, counts.reshape(SIZE, SIZE))


JOBS = {
    "heathaze": _heathaze,
    "opendp": _opendp,
    "opendp-visits": functools.partial(_opendp, of_cells=False),
    "pipelinedp": _pipelinedp,
}

PEERS = {"opendp": "polars", "opendp-visits": "polars", "pipelinedp": "pipeline_dp"}
"""The jobs of the peers, and for each the package whose presence shows that the peer is installed."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has opendp[polars] and pipeline-dp")
    parser.add_argument("--rows", metavar="MILLIONS", type=float, nargs="+", default=[1, 10])
    parser.add_argument("--hundred", action="store_true", help="also 100 million rows, Heathaze alone")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each job that are measured")
    parser.add_argument("--job", nargs=3, metavar=("JOB", "VISITS", "OUTPUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        JOBS[options.job[0]](*options.job[1:])
    else:
        main(options.peers, tuple(options.rows), options.hundred, options.repeat)
