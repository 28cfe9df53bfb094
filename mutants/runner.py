"""Put known bugs into copies of the source tree, one at a time in each copy, and run their tests.

A bug is *caught* only if pytest ends with exit code 1 and a test failed while it ran. These failures do not count:

- an error before the test began: in collection, in an import or in a fixture;
- a failure that shows a broken patch instead of a broken promise: a name that does not exist, a syntax error, a kernel
  that does not compile;
- a timeout, unless the bug is marked ``hangs``.

Copies keep the modification times of files and their ``__pycache__``, so numba finds its compiled kernels there. After
each bug, the file's text and modification time and the compiled files of its folder are restored. A bug in a kernel is
therefore compiled only for its own run, and other bugs compile nothing. Numba does not compile a kernel again if it
calls a kernel of *another* file and that other file changes. A bug in a kernel must therefore be caught by a test that
calls a kernel of the bug's own file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.bug import Bug, DoesNotApply

ROOT = Path(__file__).resolve().parents[1]

SECONDS = 180.0
"""The longest time in seconds that the tests of one bug may take; most take three seconds."""

SECONDS_UNPATCHED = 900.0
"""The longest time in seconds for all named tests without a bug, which may have to compile kernels first."""

_LEFT_OUT = ("demo", "build", "dist", "node_modules")
_BROKEN_PATCH = (
    "NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError",
    "numba.core.errors", "numba.errors", "fixture ",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The verdict on one bug: whether it was caught, by which test, and after how many seconds."""

    bug: Bug
    caught: bool
    by: str
    """The test that caught the bug, or the reason why the bug was not caught."""
    seconds: float


@dataclass(frozen=True)
class Ran:
    """One run of pytest: its exit code (None after a timeout), and the outcome of each test by pytest id."""

    code: int | None
    failed: tuple[tuple[str, str], ...]
    passed: frozenset[str]
    output: str
    seconds: float


class Copy:
    """A copy of the source tree into which bugs can be put.

    Args:
        place: The folder of the copy, which must not exist yet.
    """

    def __init__(self, place: Path) -> None:
        self.tree = place / "tree"
        self._report = place / "report.xml"
        self._aside = place / "compiled"
        self._running: subprocess.Popen[str] | None = None
        shutil.copytree(ROOT, self.tree, symlinks=True, ignore=_ignored)

    def check_import(self) -> None:
        """Check that tests in this copy import the copy's package and not the installed one.

        Raises:
            RuntimeError: They import another package.
        """
        command = [sys.executable, "-c", "import heathaze; print(heathaze.__file__)"]
        found = subprocess.run(command, cwd=self.tree, env=self._environment(), capture_output=True, text=True)
        expected = self.tree / "src" / "heathaze" / "__init__.py"
        if found.stdout.strip() != str(expected):
            raise RuntimeError(f"The tests would import {found.stdout.strip() or found.stderr}, not {expected}.")

    def unpatched(self, ids: Sequence[str]) -> list[str]:
        """Run tests without any bug, and return a sentence for each test that does not pass."""
        ran = self._pytest(ids, SECONDS_UNPATCHED, write_compiled=True)
        if ran.code is None:
            return [f"The tests took more than {SECONDS_UNPATCHED:g} seconds without a bug."]
        wrong = [f"{name} fails without a bug: {why}" for name, why in ran.failed]
        # A parametrised test may be named without its parameters.
        names = ran.passed | {name.split("[")[0] for name in ran.passed}
        missing = [name for name in ids if name not in names and name not in {failed for failed, _ in ran.failed}]
        wrong += [f"{name} did not run (skipped, or there is no such test)." for name in missing]
        return wrong if wrong or ran.code == 0 else [f"pytest ended with {ran.code} without a bug:\n{ran.output}"]

    def verdict(self, bug: Bug) -> Verdict:
        """Put a bug into the copy, run its tests, and restore the copy."""
        start = time.monotonic()
        path = self.tree / bug.file
        try:
            text = bug.patched(self.tree)
            if path.suffix == ".py":
                compile(text, bug.file, "exec")
        except (DoesNotApply, SyntaxError) as why:
            return Verdict(bug, False, f"DOES NOT APPLY: {why}", time.monotonic() - start)
        original, stamp, compiled = path.read_bytes(), path.stat(), path.parent / "__pycache__"
        shutil.rmtree(self._aside, ignore_errors=True)
        if compiled.is_dir():
            shutil.copytree(compiled, self._aside)
        try:
            path.write_text(text, encoding="utf-8")
            # A modification time that differs from the original's, so that code compiled from the original is not used.
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 7_000_000_000))
            ran = self._pytest(bug.ids, SECONDS, "-x")
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            shutil.rmtree(compiled, ignore_errors=True)
            if self._aside.is_dir():
                shutil.copytree(self._aside, compiled)
        caught, by = judged(bug, ran)
        return Verdict(bug, caught, by, time.monotonic() - start)

    def stop(self) -> None:
        """End the running tests, if any, and all processes that they started."""
        if self._running is not None and self._running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGKILL)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(self.tree / "src"),
            # Two copies run on two cores, so libraries must not start more threads.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def _pytest(self, ids: Sequence[str], seconds: float, *options: str, write_compiled: bool = False) -> Ran:
        self._report.unlink(missing_ok=True)
        environment = self._environment()
        if not write_compiled:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider",
            "-o", "junit_family=xunit1", f"--junitxml={self._report}", *options, *ids,
        ]  # fmt: skip
        start = time.monotonic()
        # The tests run in a new session, so that the processes which they started can be ended together.
        self._running = process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            self.stop()
            output, _ = process.communicate()
            code = None
        failed, passed = _read(self._report)
        return Ran(code, failed, passed, output[-3000:], time.monotonic() - start)


def judged(bug: Bug, ran: Ran) -> tuple[bool, str]:
    """Decide from a run of pytest whether a bug was caught, and by which test or why not."""
    if ran.code is None:
        return (True, f"{bug.ids[0]} (hangs)") if bug.hangs else (False, f"RAN OUT OF TIME after {SECONDS:g} seconds")
    if ran.code == 0:
        return False, "SURVIVED: its tests pass"
    if ran.code != 1 or not ran.failed:
        return False, f"NO TEST FAILED: pytest ended with {ran.code}\n{ran.output}"
    name, why = ran.failed[0]
    if why.startswith(_BROKEN_PATCH):
        return False, f"THE PATCH IS BROKEN: {name}: {why}"
    return True, name


def _read(report: Path) -> tuple[tuple[tuple[str, str], ...], frozenset[str]]:
    """The tests that failed while they ran, each with its reason, and the tests that passed."""
    failed: list[tuple[str, str]] = []
    passed: set[str] = set()
    if not report.is_file():
        return (), frozenset()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('file')}::{case.get('name')}"
        outcomes = {child.tag for child in case} & {"failure", "error", "skipped"}
        failure = case.find("failure")
        if failure is not None:
            failed.append((name, failure.get("message", "").splitlines()[0] if failure.get("message") else ""))
        elif not outcomes:
            passed.add(name)
    return tuple(failed), frozenset(passed)


def _ignored(folder: str, names: list[str]) -> list[str]:
    """The names that are not copied: hidden folders (.git, .venv), build products and bytecode.

    Bytecode holds the paths of the original tree, and pytest would name its tests by them.
    """
    if Path(folder) == ROOT:
        return [name for name in names if name.startswith(".") or name in _LEFT_OUT]
    return [name for name in names if name.endswith(".pyc")]
