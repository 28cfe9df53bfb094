"""Appendix G of "Differentially Private Distributed Data Summarization under Covariate Shift" (Sarpatwar et al.).

    python papers/summaries/run.py            everything, with pictures
    python papers/summaries/run.py --quick    the claims on few runs, in about half a minute

With --write-expected a full run also writes the tables of README.md.

Prints a table of claim, the paper's value and ours. Exits with 1 when a claim does not hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from claims import all_claims
from experiments import plan
from figures import draw_all
from harness.claims import Claim
from harness.readme import writes_readme
from harness.reproduce import Paper, reproduce
from harness.results import Config, Results
from protocol import measure
from sources import HERE
from tables import write_readme


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and say with the exit code whether every claim holds."""

    def files(config: Config) -> list[str]:
        return [config[name]["file"] for name in ("mnist", "adult")]

    def claims(results: Results, config: Config, expected: dict) -> list[Claim]:
        found = all_claims(results, config, expected)
        if writes_readme(arguments):
            written = write_readme(HERE / "README.md", results, config, found)
            print("wrote README.md" if written else "README.md is kept: it needs MNIST and adult.")
        return found

    return reproduce(Paper(HERE, __doc__, files, plan, measure, claims, draw_all), arguments)


if __name__ == "__main__":
    sys.exit(main())
