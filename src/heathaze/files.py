"""Writing files: all of a file or nothing, and one sentence when the disk refuses."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from heathaze.errors import CannotWrite


@contextlib.contextmanager
def replacing(*paths: Path, keep: bool = True) -> Iterator[list[Path]]:
    """Hidden files beside some targets, which take their places together when the block ends well.

    A reader sees the old files or the new ones, never half a file. When the block raises, the hidden files are removed.

    Args:
        paths: The files to write.
        keep: False removes the hidden files in any case, to see only whether writing is possible.

    Yields:
        The hidden files, one for each target, in the same order.

    Raises:
        CannotWrite: The disk or the directory refuses; nothing is left behind.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]
    parts: list[Path] = []
    try:
        for path, target in zip(paths, targets, strict=True):
            _check_place(path, target)
        try:
            parts += [_create_hidden(target) for target in targets]
            yield parts
            if keep:
                for part in parts:
                    flush(part)
                while parts:
                    parts[0].replace(targets[-len(parts)])
                    parts.pop(0)
                for folder in {target.parent for target in targets}:
                    flush(folder)
        finally:
            for part in parts:
                part.unlink(missing_ok=True)
    except OSError as problem:
        raise cannot_write(paths, problem) from None


def cannot_write(paths: Sequence[Path], problem: OSError) -> CannotWrite:
    """The sentence for a file that cannot be written."""
    reason = (problem.strerror or "the disk refused").lower()
    return CannotWrite(
        f"Cannot write {', '.join(map(str, paths))}: {reason}; free some space or choose another place. Nothing was left "
        "behind."
    )


def flush(path: Path) -> None:
    """Wait until a file or directory is on the disk."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_place(path: Path, target: Path) -> None:
    if not target.parent.is_dir():
        raise CannotWrite(f"Cannot write {path}: there is no directory {path.parent}; make it first.")
    with contextlib.suppress(FileNotFoundError):
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            found = "a directory" if stat.S_ISDIR(mode) else "not a plain file"
            raise CannotWrite(f"{path} is {found}; name a file to write.")


def _create_hidden(target: Path) -> Path:
    """A new empty file beside the target, with its ending, under a name that nobody has."""
    for attempt in itertools.count():
        part = target.parent / f".heathaze-{os.getpid()}-{attempt}.part{target.suffix}"
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            continue
        return part
    raise AssertionError("unreachable")
