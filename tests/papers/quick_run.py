"""A paper's quick run, as a user starts it."""

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

PAPERS = Path(__file__).resolve().parents[2] / "papers"


def quick_run(script, *arguments, **environment):
    """Run a script of a paper's folder with --quick; more arguments and environment if given."""
    return subprocess.run(
        [sys.executable, str(script), "--quick", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
        timeout=500,
    )


def shown_pictures(folder):
    """The pictures of a paper's folder: each is small, and its README shows it."""
    readme = (folder / "README.md").read_text(encoding="utf-8")
    pictures = sorted(folder.glob("*.png"))
    for picture in pictures:
        assert picture.stat().st_size < 200_000, picture.name
        assert f"({picture.name})" in readme
    return pictures


def check_tables(folder, with_tables, means, mean, mark):
    """README.md has the tables of these means; they would change with this mean, and would miss this mark."""
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert with_tables(readme, means) == readme
    means[mean][0] *= 2
    assert with_tables(readme, means) != readme
    with pytest.raises(ValueError, match=f"0 pairs of marks for {mark}"):
        with_tables(readme.replace(f"<!-- {mark} -->", ""), means)


def times(folder):
    """When each file of a folder was last written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}


def verdicts(printed):
    """The last column of the table of claims."""
    lines = printed.splitlines()
    header = next(line for line in lines if line.startswith("claim"))
    assert header.split() == ["claim", "paper", "ours", "holds?"]
    return [line[header.index("holds?") :].strip() for line in lines if len(line) > header.index("holds?")]


def replaced_config(paper, changes, target):
    """The paper's config.toml with some texts replaced, each of which must be there."""
    text = (paper / "config.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    target.write_text(text, encoding="utf-8")
    return target


def check_quick_run(script, least, words):
    """A quick run finds every claim to hold, at least so many of them, says these words, and writes nothing."""
    before = times(script.parent)
    done = quick_run(script)
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(done.stdout)
    assert found.count("yes") >= least
    assert "NO" not in found
    for word in words:
        assert word in done.stdout
    assert times(script.parent) == before, "a quick run writes nothing"


@contextlib.contextmanager
def modules_of(paper: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """How to import a module of a paper's folder; modules of the same name in other folders are left alone."""
    before = dict(sys.modules)
    for folder in (paper.parent, paper):
        monkeypatch.syspath_prepend(str(folder))
    names = {path.stem for path in paper.glob("*.py")}
    for name in names:
        sys.modules.pop(name, None)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
        if name in before:
            sys.modules[name] = before[name]
