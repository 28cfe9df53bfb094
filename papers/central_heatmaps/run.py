"""Reproduce figures 1, 2, 10 and 11 of "Differentially Private Heatmaps" (Ghazi et al. 2022), and test its claims.

    python papers/central_heatmaps/run.py            everything, with pictures
    python papers/central_heatmaps/run.py --quick    the claims on few runs, in under 30 seconds

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
from protocol import HERE, measure


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""
    paper = Paper(HERE, __doc__, lambda config: [config["gowalla"]["file"]], plan, measure, all_claims, draw_all)
    return reproduce(paper, arguments)


if __name__ == "__main__":
    sys.exit(main())
