"""How long `import heathaze` and `heathaze --help` take, beside Python's own start."""

from __future__ import annotations

import subprocess
import sys
import time


def main() -> None:
    """Print the best of five for each."""
    bare = _best([sys.executable, "-c", "pass"])
    imported = _best([sys.executable, "-c", "import heathaze"])
    helped = _best([sys.executable, "-c", "from heathaze.cli.main import run; run()", "--help"])
    print(f"python itself {bare:.2f} s")
    print(f"import heathaze {imported:.2f} s (wanted: under 0.5): {'reached' if imported < 0.5 else 'MISSED'}")
    print(f"heathaze --help {helped:.2f} s (wanted: under 1): {'reached' if helped < 1 else 'MISSED'}")


def _best(command: list[str]) -> float:
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begun)
    return min(times)


if __name__ == "__main__":
    main()
