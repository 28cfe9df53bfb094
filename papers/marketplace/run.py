"""Reproduce appendix G of "Differentially Private Distributed Data Summarization" (Sarpatwar et al. 2019).

    python papers/marketplace/run.py            everything, with pictures
    python papers/marketplace/run.py --quick    the claims on few runs, in about half a minute

With --write-expected a full run also writes the tables of README.md.

Prints a table of the claims, the paper's values and ours. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from claims import all_claims
from experiments import plan
from figures import draw_all
from harness.reproduce import Paper, reproduce
from harness.results import Config
from protocol import measure
from sources import HERE
from tables import filled_in


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""

    def files(config: Config) -> list[str]:
        return [config[name]["file"] for name in ("mnist", "adult")]

    return reproduce(Paper(HERE, __doc__, files, plan, measure, all_claims, draw_all, filled_in), arguments)


if __name__ == "__main__":
    sys.exit(main())
