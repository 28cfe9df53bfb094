"""Figures 1, 2, 10 and 11 of "Differentially Private Heatmaps" (Ghazi et al. 2022), and whether its claims hold.

    python papers/central_heatmaps/run.py            everything, with pictures
    python papers/central_heatmaps/run.py --quick    the claims on few runs, in under 30 seconds

Prints a table of claim, the paper's value and ours. Exits with 1 when a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
import tomllib
from pathlib import Path
from typing import Any

from claims import Claim, all_claims, summary
from experiments import plan, run_all
from protocol import HERE, data_file


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and say with the exit code whether every claim holds."""
    options = _options(arguments)
    mode = "quick" if options.quick else "full"
    config = tomllib.loads(options.config.read_text(encoding="utf-8"))
    expected_file = HERE / "expected.json"
    expected: dict[str, Any] = json.loads(expected_file.read_text(encoding="utf-8")) if expected_file.exists() else {}
    if data_file(config) is None:
        print(f"{config['gowalla']['file']} is not here: synthetic data alone. Set HEATHAZE_DATA to its folder.")

    began = time.monotonic()
    trials = plan(config, mode)
    results = _with_progress(trials, config, mode)
    known = {} if options.write_expected else expected.get(mode, {})
    claims = all_claims(results, config, known)
    _print_table(claims)
    print(f"{len(trials)} trials in {time.monotonic() - began:.0f} s")

    if options.figures is not None or mode == "full":
        from figures import draw_all

        for path in draw_all(results, options.figures or HERE):
            print(f"drew {path.name}")
    if options.write_expected:
        # What this machine has no data for is kept.
        expected[mode] = {**expected.get(mode, {}), **summary(results)}
        expected_file.write_text(_one_line_a_mean(expected), encoding="utf-8")
        print("wrote expected.json")
    broken = [claim for claim in claims if claim.fails]
    if broken:
        print(f"{len(broken)} of {len(claims)} claims do not hold.", file=sys.stderr)
    return 1 if broken else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs, no pictures, under 30 seconds on 2 cores")
    parser.add_argument("--config", type=Path, default=HERE / "config.toml", help="another config.toml")
    parser.add_argument("--figures", type=Path, help="folder for the pictures (a full run draws beside run.py)")
    parser.add_argument("--write-expected", action="store_true", help="record this run's means in expected.json")
    return parser.parse_args(arguments)


def _with_progress(trials: list[Any], config: dict[str, Any], mode: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{mode} run", total=len(trials))
        return run_all(trials, config, lambda: bar.advance(task))


def _one_line_a_mean(expected: dict[str, Any]) -> str:
    modes = []
    for mode, means in sorted(expected.items()):
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(means.items()))
        modes.append(f" {json.dumps(mode)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(modes) + "\n}\n"


def _print_table(claims: list[Claim]) -> None:
    widths = (46, 26, 44, 14)
    _print_row(("claim", "paper", "ours", "holds?"), widths)
    print("  ".join("─" * width for width in widths))
    for claim in claims:
        _print_row((claim.text, claim.paper, claim.ours, claim.verdict), widths)


def _print_row(cells: tuple[str, ...], widths: tuple[int, ...]) -> None:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    for line in range(max(map(len, wrapped))):
        parts = [lines[line] if line < len(lines) else "" for lines in wrapped]
        print("  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
