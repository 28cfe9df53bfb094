"""The price of trust: every model of trust on check-ins of New York and on the cities of the README, with claims.

    python papers/central_heatmaps/trust.py                  writes trust.json, about 10 minutes
    python papers/central_heatmaps/trust.py --only decoys    runs one model; the others stay as they were
    python papers/central_heatmaps/trust.py --only           runs nothing, and writes the tables of trust.json again
    python papers/central_heatmaps/trust.py --quick          a synthetic city and few people; writes nothing

Each person has one check-in, drawn without replacement, on 64 × 64 cells, with ε = 1 and δ = 1e-6 for replacing one
person's position; the curator and the secure sum run at ε/2 for adding or removing a person. Prints a table of the
claims, and exits with 1 if one does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import heathaze as hz
from heathaze.shuffle.study import Study
from heathaze.trust import MODELS, Row, compare_on, compare_trust

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from harness.claims import Claim
from harness.data import columns_of, data_file, seed_of
from harness.readme import between, with_claims
from harness.reproduce import exit_code, print_table

HERE = Path(__file__).resolve().parent
CITIES = 5
"""The synthetic cities of the README's picture, as many as ``heathaze trust`` takes."""

FOUND = ("emd", "coverage", "width", "sent")

Found = Mapping[str, Mapping[str, float]]
"""The means of each model, by model and number of people."""


def main(arguments: list[str] | None = None) -> int:
    """Run all trials, and check the claims; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a synthetic city and few people; nothing is written")
    parser.add_argument("--only", nargs="*", metavar="MODEL", default=MODELS, help="the other models stay as they were")
    options = parser.parse_args(arguments)
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    if options.quick:
        rows = compare_trust(1, 2000, size=32, models=("curator", "decoys", "shuffled reports"))
        claims = list(city_claims({row.model: numbers(row) for row in rows}))
        print_table(claims)
        return exit_code(claims)
    points = checkins(config["gowalla"])
    if points is None:
        print("gowalla_nyc.parquet was not found, so nothing is measured. Set HEATHAZE_DATA, or give --quick.")
        return 0
    file, readme = HERE / "trust.json", HERE / "README.md"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"gowalla": {}, "city": {}}
    for people in (10_000, 100_000):
        for model in (model for model in config["trust"][f"models_{people}"] if model in options.only):
            runs = config["trust"]["runs"].get(model, 3) if people == 10_000 else 3
            values = measure(*points, people, model, runs)
            found["gowalla"][f"{model}, {people:,} people"] = values
            print(f"{model}, {people:,} people", {key: round(value, 4) for key, value in values.items()}, flush=True)
    rows = compare_trust(1, 10_000, cities=CITIES, models=tuple(model for model in MODELS if model in options.only))
    found["city"] |= {row.model: numbers(row) for row in rows}
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    claims = all_claims(found, config)
    readme.write_text(with_tables(readme.read_text(encoding="utf-8"), found["gowalla"], claims), encoding="utf-8")
    print_table(claims)
    return exit_code(claims)


def with_tables(readme: str, found: Found, claims: list[Claim]) -> str:
    """Replace the tables of this script in the README: the numbers of all models, and the claims."""
    head = "model", "runs", "EMD", "90 % intervals that hold", "mean width", "bytes sent by a person"
    rows = [
        (
            name,
            f"{one['runs']:.0f}",
            f"{one['emd']:.4f}",
            f"{one['coverage']:.0%}",
            f"{one['width']:.2%}",
            f"{one['sent']:,.0f}",
        )
        for name, one in found.items()
    ]
    return with_claims(between(readme, "trust", [head, *rows]), claims, ("gowalla", "city"))


def checkins(made: Mapping[str, Any]) -> tuple[hz.Grid, np.ndarray] | None:
    """The grid of 64 × 64 cells and all check-ins inside it, or None without the file."""
    path = data_file(made["file"])
    if path is None:
        return None
    lon, lat = columns_of(path, "lon", "lat")
    grid = hz.Grid.over(lon=tuple(made["lon"]), lat=tuple(made["lat"]), size=64)
    return grid, np.column_stack([lon, lat])[grid.cell_of(lon, lat)[2]]


def measure(grid: hz.Grid, points: np.ndarray, people: int, model: str, runs: int) -> dict[str, float]:
    """Means over draws of people: EMD, coverage and width of intervals, and bytes. All models see the same people."""
    found = []
    for run in range(runs):
        rng = np.random.default_rng(seed_of("trust", people, run))
        chosen = points[rng.choice(len(points), people, replace=False)]
        [row] = compare_on(grid, chosen, 1, 1e-6, seed=seed_of("noise", people, run) % 10**6, models=(model,))
        found.append(numbers(row))
    return {key: float(np.mean([one[key] for one in found])) for key in FOUND} | {"runs": runs}


def numbers(row: Row) -> dict[str, float]:
    """The numbers of one model; NaN where it has no intervals."""
    return {key: float("nan") if getattr(row, key) is None else float(getattr(row, key)) for key in FOUND}


# ── claims ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def all_claims(found: Mapping[str, Found], config: Mapping[str, Any]) -> list[Claim]:
    """All claims of a full run."""
    return [*gowalla_claims(found["gowalla"], config["trust"]), *city_claims(found["city"])]


def gowalla_claims(found: Found, config: Mapping[str, Any]) -> Iterator[Claim]:
    """What every model of trust must reach on the check-ins."""
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=64)
    for wanted in config["claims"]:
        model, people = wanted["model"], wanted["people"]
        values = found[f"{model}, {people:,} people"]
        name = f"gowalla: {model}, {people:,} people"
        yield Claim(f"{name}: EMD", f"at most {wanted['EMD']}", f"{values['emd']:.4f}", values["emd"] <= wanted["EMD"])
        if model != "decoys":
            continue
        decoys = hz.shuffle.Decoys(grid, 1, people)
        sent = f"{decoys.messages:.1f} ({decoys.messages * Study(decoys, bytes(32)).sealed_bytes:,.0f} bytes)"
        most = wanted["messages"]
        yield Claim(f"{name}: messages of a person", f"at most {most}", sent, decoys.messages <= most)
        low, high = config["coverage"]
        yield Claim(
            f"{name}: 90 % intervals that hold",
            f"{low:.0%} to {high:.0%}",
            f"{values['coverage']:.1%}",
            low <= values["coverage"] <= high,
        )


def city_claims(city: Found) -> Iterator[Claim]:
    """What the picture of the README shows, as far as its models were run."""
    errors = {model: values["emd"] for model, values in city.items()}
    said = ", ".join(f"{model} {error:.4f}" for model, error in errors.items())
    yield Claim("city: nobody else comes below the curator by a quarter", "the curator is best", said,
                errors["curator"] < 1.25 * min(errors.values()))  # fmt: skip
    if "nobody" in errors:
        others = max(error for model, error in errors.items() if model != "nobody")
        yield Claim("city: trusting somebody divides the error by five", "at least", f"{errors['nobody'] / others:.1f}",
                    5 * others <= errors["nobody"])  # fmt: skip
    yield Claim("city: decoys make a better map than shuffled reports", "smaller EMD", said,
                errors["decoys"] < errors["shuffled reports"])  # fmt: skip
    if "secure sum" in city:
        sent = {model: city[model]["sent"] for model in ("decoys", "secure sum")}
        yield Claim("city: decoys send less than the secure sum", "fewer bytes",
                    ", ".join(f"{model} {size:,.0f}" for model, size in sent.items()),
                    sent["decoys"] < sent["secure sum"])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
