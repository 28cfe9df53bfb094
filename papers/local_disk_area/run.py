"""Reproduce "Numerical Estimation of Spatial Distributions under Differential Privacy" (Du et al. 2024).

    python papers/local_disk_area/run.py            everything, with pictures
    python papers/local_disk_area/run.py --quick    the claims on few runs, in under 30 seconds

Repeats table III and figures 7, 8, 9 and 13, and tests the theorems. Prints a table of the claims, the paper's values
and ours. Exits with 1 if a claim does not hold.
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
from tables import filled_in


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""

    def files(config: dict) -> list[str]:
        return list(dict.fromkeys(made["file"] for made in config["data"].values() if "file" in made))

    return reproduce(Paper(HERE, __doc__, files, plan, measure, all_claims, draw_all, filled_in), arguments)


if __name__ == "__main__":
    sys.exit(main())
