"""Compare maps from local reports: discs of the paper's radius, and the default mixture.

    python papers/local_disk_area/mixture.py            writes mixture.json and the table in README.md
    python papers/local_disk_area/mixture.py --cities   synthetic cities instead of real data; writes nothing
    python papers/local_disk_area/mixture.py --people   EMD from 300 to 1,000,000 people; writes nothing
    python papers/local_disk_area/mixture.py --quick    two runs on a synthetic data set; writes nothing

All maps are estimated by ``hz.local.estimate`` from reports with the same ε of the same people. For each data set, grid
and ε the table shows the earth mover's distance (EMD) and the similarity (SIM) to the true map, as means over the runs,
and how often the mixture's 90 % intervals hold, and how wide they are: of all cells, of the densest hundredth of the
cells, of random boxes, and of the densest fifth of the boxes. Exits with 1 if, on a real data set, the mixture's EMD is
not at least a tenth below that of the paper's discs, its SIM on 64 × 64 cells is not at least 0.05 higher, or its
intervals hold in less than 86 % or more than 95 % of the cases, by more than two standard errors of the runs (pooled
over the settings of a grid).

``--people`` compares the two maps by EMD only, for other numbers of people, and may be combined with ``--cities``.
``--size`` and ``--epsilon`` select a part of its table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from calibration import square
from harness.data import seed_of
from harness.readme import between
from sources import people, present, truth

import heathaze as hz
from heathaze.datasets.city import synthetic_city
from heathaze.local.disk_area import paper_radius

HERE = Path(__file__).resolve().parent
REAL = ("gowalla", "accidents")
PAPER, MIXTURE = "discs, the paper's radius", "mixture"
PEOPLE = (300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
SIZES, EPSILONS = (15, 64, 128), (1.0, 2.0, 3.5, 5.0)
COVERED = ("cells", "dense cells", "boxes", "dense boxes")
LEAST, MOST = 0.86, 0.95
"""How often 90 % intervals should hold."""


def main(arguments: list[str] | None = None) -> int:
    """Run all trials, print the table, and write the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two runs on a synthetic data set; nothing is written")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cities", action="store_true", help="five kinds of synthetic cities; nothing is written")
    parser.add_argument("--people", type=int, nargs="*", help="EMD for these numbers of people; nothing is written")
    parser.add_argument("--size", type=int, nargs="*", default=SIZES, help="with --people: cells on a side")
    parser.add_argument("--epsilon", type=float, nargs="*", default=EPSILONS, help="with --people: privacy losses")
    chosen = parser.parse_args(arguments)
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    sources = ["normal"] if chosen.quick else [name for name in REAL if present(name, config)]
    if chosen.cities:
        sources = [f"city {number}" for number in range(5)]
    if not sources:
        print(
            "No file of real data was found, so nothing is measured. Set HEATHAZE_DATA to its folder, or give --cities."
        )
        return 0
    if chosen.people is not None:
        _over_people(config, sources, chosen)
        return 0
    rows: dict[str, dict[str, dict[str, float]]] = {}
    errors: dict[str, dict[str, float]] = {}
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
                errors[f"{source}, d = {size}, ε = {epsilon:g}"] = {
                    key: round(float(np.std([one[MIXTURE][key] for one in found], ddof=1)) / math.sqrt(len(found)), 5)
                    for key in found[0][MIXTURE]
                }
                print(f"{source}, d = {size}, ε = {epsilon:g}")
                for name, values in means.items():
                    print(f"  {name:27}" + "  ".join(f"{key} {value:.4f}" for key, value in values.items()), flush=True)
    if not chosen.quick and not chosen.cities:
        text = json.dumps({"runs": chosen.runs, "means": rows, "standard errors": errors}, ensure_ascii=False, indent=1)
        (HERE / "mixture.json").write_text(text + "\n", encoding="utf-8")
        readme = HERE / "README.md"
        readme.write_text(
            between(readme.read_text(encoding="utf-8"), "mixture", _table(rows, errors)), encoding="utf-8"
        )
        print("wrote mixture.json and README.md")
    missed = [] if chosen.quick or chosen.cities else _missed(rows, errors)
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return 1 if missed else 0


def _over_people(config: Mapping[str, Any], sources: Sequence[str], chosen: argparse.Namespace) -> None:
    """Print the EMD of both maps, as geometric means over data sets and runs, and the ratio of the two.

    Single ratios vary by about a quarter, so the table shows the standard error of the mean ratio too.
    """
    print("| d | ε | people | radius, share | discs | mixture | ratio |\n|---|---|---|---|---|---|---|")
    for size, epsilon, count in itertools.product(chosen.size, chosen.epsilon, chosen.people or PEOPLE):
        made = hz.local.default(square(size), epsilon, people=count)
        kind = f"{made.radius}, {made.hashing}"
        if (made.radius, made.hashing) == (math.floor(paper_radius(made.grid, epsilon)), 0):
            print(f"| {size} | {epsilon:g} | {count:,} | {kind} | the same reports | | 1 |", flush=True)
            continue
        found = [
            _trial(config, source, size, epsilon, run, count, draws=0)
            for source, run in itertools.product(sources, range(chosen.runs))
        ]
        discs, mixture = (np.log([one[name]["EMD"] for one in found]) for name in (PAPER, MIXTURE))
        ratio, error = float(np.exp(np.mean(mixture - discs))), float(np.std(mixture - discs) / math.sqrt(len(found)))
        errors = " | ".join(f"{math.exp(float(np.mean(logs))):.4f}" for logs in (discs, mixture))
        print(f"| {size} | {epsilon:g} | {count:,} | {kind} | {errors} | {ratio:.2f} ± {error:.2f} |", flush=True)


def _table(
    rows: Mapping[str, Mapping[str, Mapping[str, float]]], errors: Mapping[str, Mapping[str, float]]
) -> Iterator[Sequence[str]]:
    """The table of README.md: EMD / SIM of both, and of the mixture's intervals how often they hold, and the width."""
    yield "data, d, ε", "discs", "mixture", *COVERED
    for place, means in rows.items():
        maps = [f"{means[name]['EMD']:.4f} / {means[name]['SIM']:.3f}" for name in (PAPER, MIXTURE)]
        own, error = means[MIXTURE], errors[place]
        yield (
            place,
            *maps,
            *(f"{own[kind]:.2f} ± {error[kind]:.2f}, {own[f'{kind}, width']:.2g}" for kind in COVERED),
        )


def _missed(
    rows: Mapping[str, Mapping[str, Mapping[str, float]]], errors: Mapping[str, Mapping[str, float]]
) -> list[str]:
    found = []
    for place, means in rows.items():
        if means[MIXTURE]["EMD"] > 0.9 * means[PAPER]["EMD"]:
            found.append(f"{place}: the mixture's EMD is not a tenth below that of the paper's discs.")
        if "d = 64" in place and means[MIXTURE]["SIM"] < means[PAPER]["SIM"] + 0.05:
            found.append(f"{place}: the mixture's SIM is not 0.05 above that of the paper's discs.")
        for kind in COVERED:
            # The standard error of few runs near 100 % is too small, so it is pooled over the settings of a grid.
            size = place.split(", ")[1]
            alike = [error[kind] for where, error in errors.items() if f"{size}," in where]
            held, slack = means[MIXTURE][kind], 2 * math.sqrt(float(np.mean(np.square(alike))))
            if not LEAST - slack <= held <= MOST + slack:
                found.append(f"{place}: 90 % intervals of {kind} hold in {held:.1%} of the cases.")
    return found


def _trial(
    config: Mapping[str, Any],
    source: str,
    size: int,
    epsilon: float,
    run: int,
    count: int | None = None,
    draws: int = 24,
) -> dict[str, dict[str, float]]:
    """EMD and SIM of both maps, and with ``draws`` how often the mixture's intervals hold."""
    if source.startswith("city"):
        shares = synthetic_city((size, size), int(source.split()[1]) + 5 * run)
    else:
        shares = truth(source, run, size, config)
    count = config["protocol"]["estimator_reports"] if count is None else count
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
        release = hz.local.estimate(reports, draws=draws if name == MIXTURE else 0)
        density = release.density.values
        found[name] = {
            "EMD": float(hz.metrics.emd(shares, density, tolerance=1e-4)),
            "SIM": hz.metrics.similarity(shares, density),
        }
        if release.knows_uncertainty:
            found[name] |= _coverage(release, shares, run)
    return found


def _coverage(release: hz.Release, shares: np.ndarray, run: int) -> dict[str, float]:
    """How often 90 % intervals hold the true share, and their mean width: of cells, boxes, and the densest of both."""
    size = len(shares)
    rng = np.random.default_rng(run)
    lengths = np.exp(rng.uniform(0, math.log(0.7 * size), (100, 2))).astype(np.int64)
    corners = rng.integers(0, size - lengths + 1)
    boxes = [(top, left, top + tall, left + wide) for (top, left), (tall, wide) in zip(corners, lengths, strict=True)]
    densest = np.argsort(-shares.ravel())[: max(10, size * size // 100)]
    some = rng.choice(size * size, min(200, size * size), replace=False)
    single = [(cell // size, cell % size, cell // size + 1, cell % size + 1) for cell in (*some, *densest)]

    def held(box: tuple[int, int, int, int]) -> tuple[bool, float, float]:
        top, left, bottom, right = map(int, box)
        share = release.mass_in(hz.Box.plane(x=(left, right), y=(top, bottom)))
        true = float(shares[top:bottom, left:right].sum())
        assert share.low is not None
        assert share.high is not None
        return share.low <= true <= share.high, share.high - share.low, true / ((bottom - top) * (right - left))

    of_cells, of_boxes = [held(box) for box in single], [held(box) for box in boxes]
    dense = sorted(of_boxes, key=lambda box: -box[2])[:20]
    kinds = of_cells[: len(some)], of_cells[len(some) :], of_boxes, dense
    found: dict[str, float] = {}
    for name, kind in zip(COVERED, kinds, strict=True):
        found[name] = float(np.mean([fits for fits, _, _ in kind]))
        found[f"{name}, width"] = float(np.mean([width for _, width, _ in kind]))
    return found


if __name__ == "__main__":
    sys.exit(main())
