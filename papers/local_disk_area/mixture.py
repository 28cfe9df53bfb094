"""Compare maps from local reports: discs of the paper's radius, and the default mixture.

    python papers/local_disk_area/mixture.py            writes mixture.json
    python papers/local_disk_area/mixture.py --cities   synthetic cities instead of real data; writes nothing
    python papers/local_disk_area/mixture.py --quick    two runs on a synthetic data set; writes nothing

All maps are estimated by ``hz.local.estimate`` from reports with the same ε of the same people. For each data set, grid
and ε the table shows the earth mover's distance (EMD) and the similarity (SIM) to the true map, as means over the runs,
and how often the mixture's 90 % intervals hold: of all cells, of the densest hundredth of the cells, of random boxes,
and of the densest fifth of the boxes. Exits with 1 if the mixture's EMD is not at least a tenth below that of the
paper's discs, or if its SIM on 64 × 64 cells is not at least 0.05 higher, on a real data set.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from calibration import square
from harness.data import seed_of
from sources import people, present, truth

import heathaze as hz
from heathaze.datasets.city import synthetic_city
from heathaze.local.disk_area import paper_radius

HERE = Path(__file__).resolve().parent
REAL = ("gowalla", "accidents")
PAPER, MIXTURE = "discs, the paper's radius", "mixture"

COVERED = 3
"""The number of runs in which intervals are checked, which takes most of the time."""


def main(arguments: list[str] | None = None) -> int:
    """Run all trials, print the table, and write the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two runs on a synthetic data set; nothing is written")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cities", action="store_true", help="five kinds of synthetic cities; nothing is written")
    chosen = parser.parse_args(arguments)
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    sources = ["normal"] if chosen.quick else [name for name in REAL if present(name, config)]
    if chosen.cities:
        sources = [f"city {number}" for number in range(5)]
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for source in sources:
        for size in (15,) if chosen.quick else (15, 64):
            for epsilon in (3.5, 5.0):
                runs = range(2 if chosen.quick else chosen.runs)
                found = [_trial(config, source, size, epsilon, run) for run in runs]
                means = {
                    name: {
                        key: round(float(np.mean([one[name][key] for one in found if key in one[name]])), 5)
                        for key in found[0][name]
                    }
                    for name in (PAPER, MIXTURE)
                }
                rows[f"{source}, d = {size}, ε = {epsilon:g}"] = means
                print(f"{source}, d = {size}, ε = {epsilon:g}")
                for name, values in means.items():
                    print(f"  {name:27}" + "  ".join(f"{key} {value:.4f}" for key, value in values.items()), flush=True)
    if not chosen.quick and not chosen.cities:
        text = json.dumps({"runs": chosen.runs, "means": rows}, ensure_ascii=False, indent=1)
        (HERE / "mixture.json").write_text(text + "\n", encoding="utf-8")
        print("wrote mixture.json")
    missed = [] if chosen.quick or chosen.cities else list(_missed(rows))
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return 1 if missed else 0


def _missed(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    found = []
    for place, means in rows.items():
        if means[MIXTURE]["EMD"] > 0.9 * means[PAPER]["EMD"]:
            found.append(f"{place}: the mixture's EMD is not a tenth below that of the paper's discs.")
        if "d = 64" in place and means[MIXTURE]["SIM"] < means[PAPER]["SIM"] + 0.05:
            found.append(f"{place}: the mixture's SIM is not 0.05 above that of the paper's discs.")
    return found


def _trial(config: Mapping[str, Any], source: str, size: int, epsilon: float, run: int) -> dict[str, dict[str, float]]:
    if source.startswith("city"):
        shares = synthetic_city((size, size), int(source.split()[1]) + 5 * run)
    else:
        shares = truth(source, run, size, config)
    count = config["protocol"]["estimator_reports"]
    cells = people(shares, count, seed_of("people", source, run, size))
    luck = hz.Simulation(seed_of("mixture", source, run, size, epsilon))
    grid = square(size)
    mechanisms = {
        PAPER: hz.local.DiskArea(grid, epsilon, radius=math.floor(paper_radius(grid, epsilon))),
        MIXTURE: hz.local.default(grid, epsilon, people=count),
    }
    found = {}
    for name, mechanism in mechanisms.items():
        reports = hz.local.Reports(mechanism, mechanism.draw(cells, luck), simulated=True)
        release = hz.local.estimate(reports, draws=24 if name == MIXTURE and run < COVERED else 0)
        density = release.density.values
        found[name] = {
            "EMD": float(hz.metrics.emd(shares, density, tolerance=1e-4)),
            "SIM": hz.metrics.similarity(shares, density),
        }
        if release.knows_uncertainty:
            found[name] |= _coverage(release, shares, run)
    return found


def _coverage(release: hz.Release, shares: np.ndarray, run: int) -> dict[str, float]:
    """How often 90 % intervals hold the true share: of cells and of boxes, and of the densest of either."""
    size = len(shares)
    rng = np.random.default_rng(run)
    lengths = np.exp(rng.uniform(0, math.log(0.7 * size), (100, 2))).astype(np.int64)
    corners = rng.integers(0, size - lengths + 1)
    boxes = [(top, left, top + tall, left + wide) for (top, left), (tall, wide) in zip(corners, lengths, strict=True)]
    densest = np.argsort(-shares.ravel())[: max(10, size * size // 100)]
    some = rng.choice(size * size, min(200, size * size), replace=False)
    single = [(cell // size, cell % size, cell // size + 1, cell % size + 1) for cell in (*some, *densest)]

    def held(box: tuple[int, int, int, int]) -> tuple[bool, float]:
        top, left, bottom, right = map(int, box)
        share = release.mass_in(hz.Box.plane(x=(left, right), y=(top, bottom)))
        true = float(shares[top:bottom, left:right].sum())
        assert share.low is not None
        assert share.high is not None
        return share.low <= true <= share.high, true / ((bottom - top) * (right - left))

    of_cells, of_boxes = [held(box) for box in single], [held(box) for box in boxes]
    dense = sorted(of_boxes, key=lambda pair: -pair[1])[:20]
    return {
        "cells": float(np.mean([fits for fits, _ in of_cells[: len(some)]])),
        "dense cells": float(np.mean([fits for fits, _ in of_cells[len(some) :]])),
        "boxes": float(np.mean([fits for fits, _ in of_boxes])),
        "dense boxes": float(np.mean([fits for fits, _ in dense])),
    }


if __name__ == "__main__":
    sys.exit(main())
