"""The steps of every run.py: run the trials, print the claims, draw the figures, and record the means."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.claims import Claim, summary
from harness.data import data_file
from harness.results import Config, Measure, Point, Results, run_all


@dataclass(frozen=True)
class Paper:
    """The folder of a paper, and the functions that reproduce the paper.

    ``files`` names the files of real data that a run uses if they exist, ``plan`` lists the trials of a mode ("full" or
    "quick"), ``claims`` tests the claims with the results and with expected.json, ``draw`` writes the pictures, and
    ``readme`` puts the tables of a full run with all data into the text of README.md. With ``parts``, it leaves tables
    as they are if the run did not measure them.
    """

    folder: Path
    about: str
    files: Callable[[Config], list[str]]
    plan: Callable[[Config, str], list[tuple[Point, Any]]]
    measure: Measure
    claims: Callable[[Results, Config, dict[str, Any]], list[Claim]]
    draw: Callable[[Results, Path], list[Path]]
    readme: Callable[[str, Results, Config, list[Claim]], str] | None = None
    parts: bool = False


def reproduce(paper: Paper, arguments: list[str] | None = None) -> int:
    """Run the trials of a paper and print its claims; the exit code is 1 if a claim does not hold."""
    options = _options(paper, arguments)
    mode = "quick" if options.quick else "full"
    config = tomllib.loads(options.config.read_text(encoding="utf-8"))
    expected_file = paper.folder / "expected.json"
    expected: dict[str, Any] = json.loads(expected_file.read_text(encoding="utf-8")) if expected_file.exists() else {}
    missing = [name for name in paper.files(config) if data_file(name) is None]
    for name in missing:
        print(f"{name} was not found, so the run leaves it out. Set HEATHAZE_DATA to its folder.")

    began = time.monotonic()
    trials = [(point, trial) for point, trial in paper.plan(config, mode) if _chosen(point, options.only)]
    results = with_progress(f"{mode} run", trials, paper.measure, config)
    known = {} if options.write_expected else expected.get(mode, {})
    claims = paper.claims(results, config, known)
    print_table(claims)
    print(f"{len(trials)} trials in {time.monotonic() - began:.0f} s")

    if options.figures is not None or (mode == "full" and not options.only):
        for path in paper.draw(results, options.figures or paper.folder):
            print(f"drew {path.name}")
    if options.write_expected:
        # Means of data sets that are missing on this machine stay as they were.
        expected[mode] = {**expected.get(mode, {}), **summary(results)}
        expected_file.write_text(_one_line_a_mean(expected), encoding="utf-8")
        print("wrote expected.json")
        if paper.readme is not None and mode == "full" and not missing and (not options.only or paper.parts):
            readme_file = paper.folder / "README.md"
            text = paper.readme(readme_file.read_text(encoding="utf-8"), results, config, claims)
            readme_file.write_text(text, encoding="utf-8")
            print("wrote README.md")
    return exit_code(claims)


def _chosen(point: Point, only: list[str]) -> bool:
    return not only or point.figure.split(",")[0] in only


def with_progress(title: str, trials: list[tuple[Point, Any]], measure: Measure, config: Config) -> Results:
    """Run every trial and show a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=len(trials))
        return run_all(trials, measure, config, lambda: bar.advance(task))


def _options(paper: Paper, arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=paper.about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs, no pictures, under 30 seconds on 2 cores")
    parser.add_argument("--config", type=Path, default=paper.folder / "config.toml", help="another config.toml")
    parser.add_argument("--figures", type=Path, help="folder for the pictures (a full run draws beside run.py)")
    parser.add_argument(
        "--only", nargs="+", default=[], help="only tables or figures with these names in expected.json"
    )
    parser.add_argument("--write-expected", action="store_true", help="record this run's means in expected.json")
    return parser.parse_args(arguments)


def _one_line_a_mean(expected: dict[str, Any]) -> str:
    modes = []
    for mode, means in sorted(expected.items()):
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(means.items()))
        modes.append(f" {json.dumps(mode)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(modes) + "\n}\n"


def exit_code(claims: list[Claim]) -> int:
    """1 if a claim does not hold, which is also said on standard error; otherwise 0."""
    broken = [claim for claim in claims if claim.fails]
    if broken:
        print(f"{len(broken)} of {len(claims)} claims do not hold.", file=sys.stderr)
    return 1 if broken else 0


def print_table(claims: list[Claim]) -> None:
    """Print the claims with the paper's value, ours, and whether they hold."""
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
