"""Repeat appendix D of "Numerical Estimation of Spatial Distributions under Differential Privacy" at equal ε.

    python papers/local_disk_area/journeys/run.py            table V and figure 14, with a picture
    python papers/local_disk_area/journeys/run.py --quick    a synthetic city on few runs, in under 30 seconds

The appendix charges the disk mechanism ε for each point of a journey, and its rivals ε for a whole journey. Every claim
is tested at this accounting and at equal ones. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))

from accounting import measure, plan
from claims import all_claims
from harness.reproduce import Paper, reproduce
from pages import draw_all, filled_in


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""

    def files(config: dict) -> list[str]:
        return [made["file"] for made in config["data"].values() if "file" in made]

    folder = Path(__file__).resolve().parent
    return reproduce(Paper(folder, __doc__, files, plan, measure, all_claims, draw_all, filled_in), arguments)


if __name__ == "__main__":
    sys.exit(main())
