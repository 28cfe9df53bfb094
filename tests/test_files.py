"""Writing: all of a file or nothing, several files together or none, and one sentence when the disk refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heathaze.errors import CannotWrite
from heathaze.files import cannot_write, csv_text, flush, read_table, replacing


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_new_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.txt") as (part,):
        assert part.parent == tmp_path
        assert part.suffix == ".txt"
        part.write_text("new")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == {"a.txt"}


@pytest.mark.parametrize("crash", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_crash_in_the_block_leaves_the_old_file(tmp_path: Path, crash: type[BaseException]) -> None:
    (tmp_path / "a.txt").write_text("old")

    def write() -> None:
        with replacing(tmp_path / "a.txt") as (part,):
            part.write_text("half of the n")
            raise crash

    with pytest.raises(crash):
        write()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == {"a.txt"}


KILLED = """
import os, pathlib, signal, sys
from heathaze.files import replacing
with replacing(pathlib.Path(sys.argv[1])) as (part,):
    part.write_text("half of the n")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no SIGKILL")
def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a.txt"], check=False).returncode == -9
    assert (tmp_path / "a.txt").read_text() == "old"
    with replacing(tmp_path / "a.txt") as (part,):  # what the dead process left is not in the way
        part.write_text("new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_several_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.json"
    first.write_text("old")

    def write(*, fail: bool) -> None:
        with replacing(first, second) as parts:
            assert [part.suffix for part in parts] == [".csv", ".json"]
            parts[0].write_text("new a")
            assert first.read_text() == "old"
            if fail:
                raise ValueError
            parts[1].write_text("new b")

    with pytest.raises(ValueError):
        write(fail=True)
    assert (first.read_text(), names(tmp_path)) == ("old", {"a.csv"})
    write(fail=False)
    assert (first.read_text(), second.read_text(), names(tmp_path)) == ("new a", "new b", {"a.csv", "b.json"})


def test_nothing_is_kept_if_only_the_possibility_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with replacing(tmp_path / "a.txt", tmp_path / "b.txt", keep=False):
        pass
    assert ((tmp_path / "a.txt").read_text(), names(tmp_path)) == ("old", {"a.txt"})


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "folder" / "a.txt")
    with replacing(tmp_path / "link.txt") as (part,):
        part.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "folder" / "a.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere/a.txt", "there is no directory .*nowhere; make it first"),
        ("folder", "is a directory; name a file to write"),
    ],
)
def test_a_place_that_cannot_hold_a_file_is_refused_before_the_block(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(CannotWrite, match=sentence), replacing(tmp_path / "a.txt", tmp_path / name):
        pytest.fail("the block ran")
    assert names(tmp_path) == {"folder"}


def test_a_disk_that_refuses_gets_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(CannotWrite, match=r"Cannot write .*a\.txt: no space left on device; free some space"),
        replacing(tmp_path / "a.txt"),
    ):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == set()
    assert "the disk refused" in str(cannot_write([Path("a")], OSError()))


def test_flushing_a_file_and_a_folder_works(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("new")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    flush(tmp_path / "a.txt")
    flush(tmp_path)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before, "a file was left open"


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(csv_text(["Sensor", "x"], [["door, left", 0.1], ['"', 1e-300]]), encoding="utf-8")
    rows = read_table(tmp_path / "a.csv")
    assert [(row["sensor"], row.number("x"), row.line) for row in rows] == [("door, left", 0.1, 2), ('"', 1e-300, 3)]
