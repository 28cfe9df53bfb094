"""``python -m mutants`` checks that the named test of every known bug catches the bug."""

from __future__ import annotations

import argparse
import functools
import hashlib
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mutants.bug import Bug
from mutants.known import BUGS
from mutants.runner import Copy, Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all or some known bugs; return 0 if every bug was caught."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these bugs")
    parser.add_argument("--sample", type=int, metavar="NUMBER", help="run only this many bugs, chosen by --seed")
    parser.add_argument("--seed", default="", metavar="TEXT", help="another text chooses another sample")
    parser.add_argument("--list", action="store_true", help="list the bugs without running tests")
    parser.add_argument("--jobs", type=int, default=2, help="number of bugs that are run at a time (default: 2)")
    options = parser.parse_args(arguments)
    bugs = list(BUGS)
    if options.only:
        if unknown := sorted(set(options.only) - {bug.name for bug in BUGS}):
            parser.error(f"there is no bug {', '.join(unknown)}; --list shows all")
        bugs = [bug for bug in BUGS if bug.name in options.only]
    if options.sample is not None:
        if options.sample < 1:
            parser.error(f"--sample is {options.sample}; give a number of bugs, at least 1")
        bugs = sample(bugs, options.sample, options.seed)
    if options.list:
        for bug in bugs:
            print(f"{bug.name}\n    breaks: {bug.promise}\n    in:     {bug.file}\n    caught: {', '.join(bug.ids)}")
        print(f"{len(bugs)} bugs")
        return 0
    # When this process is terminated, it also ends the tests that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    return _run(bugs, max(1, min(options.jobs, len(bugs))))


def sample(bugs: Sequence[Bug], number: int, seed: str) -> list[Bug]:
    """Choose some bugs, in their order; every seed chooses others, and the same seed always the same."""

    def place(bug: Bug) -> bytes:
        return hashlib.sha256(f"{seed}\n{bug.name}".encode()).digest()

    chosen = set(sorted(map(place, bugs))[:number])
    return [bug for bug in bugs if place(bug) in chosen]


def _run(bugs: Sequence[Bug], jobs: int) -> int:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="heathaze-mutants-") as folder:
        copies = [Copy(Path(folder) / str(number)) for number in range(jobs)]
        for copy in copies:
            copy.check_import()
        ids = sorted({name for bug in bugs for name in bug.ids})
        print(f"{len(bugs)} bugs; first their {len(ids)} tests without a bug ...", flush=True)
        try:
            if wrong := _unpatched(copies, ids):
                print("\n".join(wrong))
                print("A test that fails without a bug cannot show that it catches the bug; fix the test first.")
                return 1
            print(f"... all pass, {time.monotonic() - start:.0f} s", flush=True)
            verdicts = _verdicts(copies, bugs)
        finally:
            for copy in copies:
                copy.stop()
    order = {bug.name: place for place, bug in enumerate(bugs)}
    verdicts.sort(key=lambda verdict: order[verdict.bug.name])
    print(_table(verdicts))
    missed = [verdict for verdict in verdicts if not verdict.caught]
    for verdict in missed:
        print(f"\nNOT CAUGHT: {verdict.bug.name}\n  breaks: {verdict.bug.promise}\n  {verdict.by}")
    print(f"\n{len(verdicts) - len(missed)} passed, {len(missed)} failed in {time.monotonic() - start:.0f} s")
    return 1 if missed else 0


def _unpatched(copies: Sequence[Copy], ids: Sequence[str]) -> list[str]:
    """Run the named tests without a bug, divided over the copies; tests of one file run together to save time."""
    files = sorted({name.split("::")[0] for name in ids})
    wrong: list[str] = []

    def run(number: int) -> None:
        mine = set(files[number :: len(copies)])
        if part := [name for name in ids if name.split("::")[0] in mine]:
            wrong.extend(copies[number].unpatched(part))

    _at_once([functools.partial(run, number) for number in range(len(copies))])
    return wrong


def _verdicts(copies: Sequence[Copy], bugs: Sequence[Bug]) -> list[Verdict]:
    waiting: queue.SimpleQueue[Bug] = queue.SimpleQueue()
    for bug in bugs:
        waiting.put(bug)
    verdicts: list[Verdict] = []
    lock = threading.Lock()

    def work(copy: Copy) -> None:
        while True:
            try:
                bug = waiting.get_nowait()
            except queue.Empty:
                return
            verdict = copy.verdict(bug)
            with lock:
                verdicts.append(verdict)
                word = "caught" if verdict.caught else "NOT CAUGHT"
                print(f"{len(verdicts):4d}/{len(bugs)}  {verdict.seconds:5.1f} s  {word}  {bug.name}", flush=True)

    _at_once([functools.partial(work, copy) for copy in copies])
    return verdicts


def _at_once(jobs: Sequence[Callable[[], None]]) -> None:
    """Run functions in threads and wait for all of them; an exception in a thread is raised here."""
    problems: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def _table(verdicts: Sequence[Verdict]) -> str:
    rows = [("bug", "caught by", "seconds")]
    rows += [
        (found.bug.name, found.by.splitlines()[0] if found.caught else "-", f"{found.seconds:.1f}")
        for found in verdicts
    ]
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in wide) + "|"
    return "\n".join(["", lines[0], rule, *lines[1:]])


if __name__ == "__main__":
    sys.exit(main())
