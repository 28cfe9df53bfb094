"""Time the import of Heathaze, its models and its list of commands, and compare it with Python and numpy."""

from __future__ import annotations

import subprocess
import sys
import time

README = "import heathaze as hz; hz.Grid, hz.count, hz.Ledger, hz.publish, hz.central.default"
TIMES = 7


def main() -> None:
    """Print the best of seven times for each command; commands take turns, so that other work affects all of them."""
    commands = {
        "python": ["-c", "pass"],
        "numpy": ["-c", "import numpy"],
        "import heathaze": ["-c", "import heathaze"],
        "README's five names": ["-c", README],
        "typer": ["-c", "import typer"],
        "heathaze --help": ["-c", "from heathaze.cli.main import run; run()", "--help"],
    }
    for model in ("central", "local", "distributed", "sensors", "marketplace", "metrics"):
        commands[f"hz.{model}"] = ["-c", f"import heathaze as hz; hz.{model}"]
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(TIMES):
        for name, command in commands.items():
            best[name] = min(best[name], _seconds(command))
    wanted = {"import heathaze": 0.1, "README's five names": best["numpy"] + 0.3, "heathaze --help": 1.0}
    for name, seconds in best.items():
        goal = ""
        if name in wanted:
            goal = f" (wanted: under {wanted[name]:.2f}): {'reached' if seconds < wanted[name] else 'MISSED'}"
        print(f"{name:20} {seconds:.3f} s{goal}")


def _seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
