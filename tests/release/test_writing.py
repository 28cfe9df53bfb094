"""All of a file or nothing, and what cannot work is said before anything is paid."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heathaze.errors import CannotWrite, MissingExtra, UnknownFormat
from heathaze.release.formats import ENDINGS, check_writable
from heathaze.release.release import Release


@pytest.mark.parametrize("name", ["map.xyz", "map", "map.json", "map.npz.bak", ".npz"])
def test_an_ending_nobody_knows(small: Release, name: str, tmp_path: Path) -> None:
    for attempt in (small.save, check_writable):
        with pytest.raises(
            UnknownFormat, match=r"choose \.npz, \.parquet, \.geojson, \.gpkg, \.tif, \.png, \.svg, \.pdf or"
        ):
            attempt(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_path_that_takes_no_file(small: Release, ending: str, tmp_path: Path) -> None:
    (tmp_path / f"directory{ending}").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / f"pipe{ending}")
    for path, reason in (
        (tmp_path / "missing" / f"a{ending}", "no directory"),
        (tmp_path / "file" / f"a{ending}", "no directory"),
        (tmp_path / f"directory{ending}", "is a directory"),
        (tmp_path / f"pipe{ending}", "not a plain file"),
        (tmp_path / ("a" * 300 + ending), "too long"),
    ):
        for attempt in (small.save, check_writable):
            with pytest.raises(CannotWrite, match=reason):
                attempt(path)
    assert {path.name for path in tmp_path.iterdir()} == {f"directory{ending}", "file", f"pipe{ending}"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_check_leaves_nothing_and_an_old_file_as_it_was(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"old{ending}").write_text("old")
    check_writable(tmp_path / f"new{ending}")
    check_writable(str(tmp_path / f"old{ending}"))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_an_extra_that_is_not_installed(small: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for attempt in (small.save, check_writable):
        with pytest.raises(MissingExtra, match="the extra 'geo'"):
            attempt(tmp_path / "a.tif")
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_the_usual_permissions_and_a_link_stays_a_link(small: Release, tmp_path: Path) -> None:
    (tmp_path / "target.npz").touch(mode=0o600)
    link = tmp_path / "link.npz"
    link.symlink_to("target.npz")
    assert small.save(link) == link
    assert link.is_symlink()
    assert (tmp_path / "target.npz").stat().st_size > 0
    old = os.umask(0o027)
    try:
        fresh = small.save(tmp_path / "fresh.npz")
    finally:
        os.umask(old)
    assert fresh.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failure_inside_removes_the_part(
    small: Release, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / f"a{ending}").write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CannotWrite, match="no space left on device; free some space"):
        small.save(tmp_path / f"a{ending}")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_an_interrupt_removes_the_part(small: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small.save(tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


_FULL_DISK = """
import resource, sys
from pathlib import Path
from heathaze.errors import CannotWrite
from heathaze.release.formats import ENDINGS
from heathaze.release.release import load

release = load("source.npz")
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
for ending in ENDINGS:
    try:
        release.save("full/a" + ending)
    except CannotWrite as problem:
        print(ending, problem)
"""


def test_a_full_disk_leaves_the_old_file_and_nothing_else(wrap: object, tmp_path: Path) -> None:
    """The operating system refuses every byte beyond 8 KiB, as a full disk does."""
    import numpy as np

    from heathaze.domain.density import Density
    from heathaze.domain.grid import Grid

    values = np.random.default_rng(1).random((128, 128))
    release = wrap(Density.from_mass(Grid.over(lon=(0, 1), lat=(0, 1), size=128), values))  # type: ignore[operator]
    release.save(tmp_path / "source.npz")
    (tmp_path / "full").mkdir()
    for ending in ENDINGS:
        (tmp_path / "full" / f"a{ending}").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(ENDINGS)
    assert done.stdout.lower().count("file too large; free some space") == len(ENDINGS), done.stdout
    assert {path.name: path.read_text() for path in (tmp_path / "full").iterdir()} == {
        f"a{ending}": "old" for ending in ENDINGS
    }
