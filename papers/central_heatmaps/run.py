"""Reproduce the figures of "Differentially Private Heatmaps" (Ghazi et al. 2022), and test its claims.

    python papers/central_heatmaps/run.py                      everything, with pictures
    python papers/central_heatmaps/run.py --quick              the claims on few runs, in under 30 seconds
    python papers/central_heatmaps/run.py --only gaze users    the figures of these sections of config.toml

Prints a table of the claims, the paper's values and ours. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from claims import all_claims
from experiments import measure_any, plan
from figures import draw_all
from harness.reproduce import Paper, reproduce
from harness.results import Config, Point
from protocol import HERE


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="the figures of these sections of config.toml")
    own, others = parser.parse_known_args(arguments)

    def chosen(config: Config, mode: str) -> list[tuple[Point, Any]]:
        trials = [(point, trial) for point, trial in plan(config, mode) if not own.only or point.figure in own.only]
        if not trials:
            parser.error(f"No figure is named {' or '.join(own.only)}; choose among the sections of config.toml.")
        return trials

    paper = Paper(
        HERE,
        __doc__ + "\nrun.py --only SECTION ... runs only the figures of these sections of config.toml.",
        lambda config: [config["gowalla"]["file"], config["gaze"]["file"]],
        chosen, measure_any, all_claims, draw_all,
    )  # fmt: skip
    return reproduce(paper, others)


if __name__ == "__main__":
    sys.exit(main())
