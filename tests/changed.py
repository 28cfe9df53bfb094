"""``python -m tests.changed``: run the tests of what changed since the branch left main, or since the last commit.

A change in ``src/heathaze/local`` runs ``tests/local`` and the examples of the changed files; a changed test file runs
itself. No test begins after some seconds; those that are left are for ``make test``.
"""

from __future__ import annotations

import _thread
import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Limit:
    """A pytest plugin that stops the run after some seconds, and remembers whether a test failed before.

    It looks at the clock whenever a test ends. A test that takes GRACE seconds longer is interrupted.
    """

    GRACE = 5.0

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.reached = False
        self.failed = False
        self.alarm = threading.Timer(seconds + self.GRACE, self._interrupt)
        self.alarm.daemon = True
        self.alarm.start()

    def _interrupt(self) -> None:
        self.reached = True
        print("\nThe time is up, and a test still runs; `make test` runs it.", flush=True)
        _thread.interrupt_main()

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        self.alarm.cancel()

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed
        if time.monotonic() > self.until and not self.reached:
            self.reached = True
            # With several workers it is xdist that runs the loop over the tests.
            loop = self.session.config.pluginmanager.getplugin("dsession") or self.session
            loop.shouldstop = "the time is up; `make test` runs the rest"


def main() -> int:
    """Run them; the exit code is pytest's, and 0 if nothing failed before the time was up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=45, help="begin no test later than this")
    limit = Limit(parser.parse_args().seconds)
    paths = paths_for(changed_files())
    if not paths:
        limit.alarm.cancel()
        print("No file with tests changed.")
        return 0
    print("Tests of what changed:", *paths)
    code = int(pytest.main(["-n", "2", "--dist", "loadgroup", "-q", "-m", "not slow", *paths], plugins=[limit]))
    if limit.reached:
        return int(limit.failed)
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


def changed_files() -> list[str]:
    """Files that differ from where this branch left main, or from the commit before on main itself; new ones too."""
    head = _git("rev-parse", "HEAD")
    base = next((found for name in ("origin/main", "main") if (found := _git("merge-base", "HEAD", name))), head)
    if base == head and not _git("status", "--porcelain"):
        base = _git("rev-parse", "HEAD~1") or head
    changed = _git("diff", "--name-only", base).splitlines()
    return sorted({*changed, *_git("ls-files", "--others", "--exclude-standard").splitlines()})


def paths_for(files: Iterable[str]) -> list[str]:
    """Paths to run for changed files: changed tests first, then tests of changed folders, then examples of modules.

    Examples come last: a module that pytest imports by its path, before any test imports the package, may exist twice.

    >>> paths_for(["tests/domain/test_grid.py", "README.md"])
    ['tests/domain/test_grid.py', 'tests/project/test_prose.py', 'tests/project/test_public_face.py']
    >>> paths_for(["src/heathaze/privacy/noise.py"])[:3]
    ['tests/project/test_docstrings.py', 'tests/project/test_house.py', 'tests/privacy']
    >>> paths_for(["src/heathaze/privacy/noise.py"])[3:]
    ['src/heathaze/privacy/noise.py']
    """
    first: list[str] = []
    rules: list[str] = []
    modules: list[str] = []
    last: set[str] = set()
    for file in files:
        parts = Path(file).parts
        if parts[0] == "tests" and parts[-1].startswith("test_") and (ROOT / file).is_file():
            first.append(file)
        elif parts[0] == "tests" and parts[-1] == "conftest.py" and len(parts) > 2:
            last.add(str(Path(*parts[:-1])))
        elif parts[:2] == ("src", "heathaze"):
            if file.endswith(".py") and (ROOT / file).is_file():
                modules.append(file)
                rules += ["tests/project/test_docstrings.py", "tests/project/test_house.py"]
            last.add(f"tests/{parts[2]}" if len(parts) > 3 else f"tests/test_{parts[2]}")
        elif parts[0] == "papers" and len(parts) > 2:
            last.add(f"tests/papers/test_{parts[1]}.py")
        elif file.endswith(".md"):
            last |= {"tests/project/test_prose.py", "tests/project/test_public_face.py"}
    found = [path for path in sorted(last) if (ROOT / path).exists()]
    return list(dict.fromkeys([*first, *rules, *found, *modules]))


def _git(*words: str) -> str:
    """What a command of git prints; nothing if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
