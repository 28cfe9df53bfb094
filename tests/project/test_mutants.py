"""The list of known bugs is well formed. Nothing is run here; ``make mutants`` runs the bugs."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from mutants.__main__ import sample
from mutants.bug import Bug, DoesNotApply
from mutants.known import BUGS
from mutants.runner import ROOT, Ran, judged


@functools.cache
def functions_in(file: str) -> frozenset[str]:
    """Names of the functions that a test file defines at its top."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_there_are_enough_and_no_two_have_one_name() -> None:
    names = [bug.name for bug in BUGS]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert len({(bug.file, bug.old, bug.new) for bug in BUGS}) == len(names)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_applies_and_names_tests_that_exist(bug: Bug) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", bug.name)
    assert bug.promise.endswith((".", ")."))
    text = bug.patched(ROOT)
    if bug.file.endswith(".py"):
        compile(text, bug.file, "exec")
    assert bug.ids
    for test in bug.ids:
        file, _, name = test.partition("::")
        assert name, f"{test} is a whole file; name one test of it"
        if file.startswith("src/"):
            assert (ROOT / file).is_file(), "a doctest of a file that is there"
        else:
            assert name.split("[")[0] in functions_in(file), f"there is no test {test}"


def test_a_text_that_is_gone_or_there_twice_is_refused(tmp_path: Path) -> None:
    bug = Bug("a-bug", "A promise.", "a.py", "old", "new", "tests/a.py::test_a")
    for text in (None, "nothing", "old and old"):
        if text is not None:
            (tmp_path / "a.py").write_text(text, encoding="utf-8")
        with pytest.raises(DoesNotApply):
            bug.patched(tmp_path)
    (tmp_path / "a.py").write_text("an old line", encoding="utf-8")
    assert bug.patched(tmp_path) == "an new line"


def test_a_sample_is_the_same_for_a_seed_and_reaches_every_bug() -> None:
    assert sample(BUGS, 60, "a") == sample(BUGS, 60, "a") != sample(BUGS, 60, "b")
    assert len(sample(BUGS, 60, "a")) == 60
    reached = {bug.name for seed in range(60) for bug in sample(BUGS, 60, str(seed))}
    assert reached == {bug.name for bug in BUGS}
    assert sample(BUGS, 10_000, "a") == list(BUGS)


@pytest.mark.parametrize(
    ("code", "failed", "hangs", "caught"),
    [
        (1, [("tests/a.py::test_a", "assert 1 == 2")], False, True),
        (0, [], False, False),
        (1, [], False, False),  # an error in a fixture, and no test that failed
        (2, [], False, False),  # an error in collection
        (4, [], False, False),  # no such test
        (None, [], False, False),
        (None, [], True, True),
        (1, [("tests/a.py::test_a", "NameError: name 'x' is not defined")], False, False),
    ],
)
def test_only_a_test_that_failed_catches_a_bug(
    code: int | None, failed: list[tuple[str, str]], hangs: bool, caught: bool
) -> None:
    bug = Bug("a-bug", "A promise.", "a.py", "old", "new", "tests/a.py::test_a", hangs)
    assert judged(bug, Ran(code, tuple(failed), frozenset(), "", 0.0))[0] is caught
