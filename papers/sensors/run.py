"""Figures 1 to 3 of "Local Differential Privacy for Physical Sensor Data and Sparse Recovery" (Gilbert and McMillan).

    python papers/sensors/run.py            everything, with pictures
    python papers/sensors/run.py --quick    the claims on few runs, in under 20 seconds

With --write-expected a full run also writes the tables of README.md.

Prints a table of claim, the paper's value and ours. Exits with 1 when a claim does not hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from claims import all_claims
from experiments import plan
from figures import draw_all
from harness.claims import Claim
from harness.reproduce import Paper, reproduce
from harness.results import Config, Results
from protocol import HERE, measure
from tables import write_readme


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and say with the exit code whether every claim holds."""

    def files(config: Config) -> list[str]:
        return [config["lab"]["file"]]

    def claims(results: Results, config: Config, expected: dict) -> list[Claim]:
        found = all_claims(results, config, expected)
        if _writes(arguments):
            written = write_readme(HERE / "README.md", results, config, found)
            print("wrote README.md" if written else "README.md is kept: it needs the lab's layout.")
        return found

    return reproduce(Paper(HERE, __doc__, files, plan, measure, claims, draw_all), arguments)


def _writes(arguments: list[str] | None) -> bool:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-expected", action="store_true")
    options, _ = parser.parse_known_args(arguments)
    return options.write_expected and not options.quick


if __name__ == "__main__":
    sys.exit(main())
