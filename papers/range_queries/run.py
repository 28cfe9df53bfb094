"""Repeat DPBench's range queries (Hay et al. 2016) with every central mechanism, and test the claims about them.

    python papers/range_queries/run.py            everything, with pictures
    python papers/range_queries/run.py --quick    the claims on few trials, in under 30 seconds

Prints a table of the claims, the wanted values and ours. Exits with 1 if a claim does not hold.
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
from protocol import HERE, measure
from tables import filled_in


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""

    def files(config: Config) -> list[str]:
        return [config["data"]["grids"], config["data"]["peers"]]

    return reproduce(Paper(HERE, __doc__, files, plan, measure, all_claims, draw_all, filled_in), arguments)


if __name__ == "__main__":
    sys.exit(main())
