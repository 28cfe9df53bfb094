"""Reproduce tables 1 to 5 and figures 7 to 9 of "Towards Sparse Federated Analytics" (Bagdasaryan et al. 2022).

    python papers/distributed_heatmaps/run.py            everything, with pictures
    python papers/distributed_heatmaps/run.py --quick    the claims on few runs, in under 20 seconds

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
from protocol import HERE, measure
from tables import filled_in


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""

    def files(config: Config) -> list[str]:
        return [config["data"]["file"], config["data"]["visits"]]

    return reproduce(Paper(HERE, __doc__, files, plan, measure, all_claims, draw_all, filled_in, parts=True), arguments)


if __name__ == "__main__":
    sys.exit(main())
