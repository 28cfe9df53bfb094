"""What may be written where, checked before anything is read or paid; and files that appear together or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from heathaze.errors import CannotWrite, UnknownFormat
from heathaze.release.formats import check_writable


def check_new(path: Path, *, overwrite: bool, source: str) -> None:
    """Refuse an output of a release that cannot be written, that exists, or that is the data itself."""
    check_writable(path)
    check_place(path, overwrite=overwrite, source=source)


def check_picture(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a picture, if one is wanted, that is no PNG, cannot be written or exists."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UnknownFormat(f"{path} does not end in .png, the only picture this command draws.")
    check_new(path, overwrite=overwrite, source="")


def check_place(path: Path, *, overwrite: bool, source: str | None) -> None:
    """Refuse a file whose directory is not there, that exists, or that is the data itself."""
    if not path.parent.is_dir():
        raise CannotWrite(f"Cannot write {path}: there is no directory {path.parent}; make it first.")
    if not path.exists():
        return
    if path.is_dir():
        raise CannotWrite(f"{path} is a directory; name a file to write.")
    if source is not None and Path(source).exists() and path.samefile(source):
        raise CannotWrite(f"{path} is one of the files that are read; choose another name for the output.")
    if not overwrite:
        raise CannotWrite(f"{path} exists already; choose another name, or add --overwrite.")


@contextlib.contextmanager
def together(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Hidden files beside the outputs, which take their places all together once everything is written, or none."""
    parts: dict[Path, Path] = {}
    try:
        try:
            for path in paths:
                descriptor, name = tempfile.mkstemp(prefix=".heathaze-", suffix=path.suffix, dir=path.resolve().parent)
                os.close(descriptor)
                parts[path] = Path(name)
            yield parts
            for part in parts.values():
                part.chmod(0o666 & ~_umask())
                with part.open("rb") as file:
                    os.fsync(file.fileno())
            for path, part in parts.items():
                part.replace(path)
        except OSError as problem:
            raise CannotWrite(
                f"Cannot write {', '.join(map(str, paths))}: {(problem.strerror or 'the disk refused').lower()}. "
                "Nothing was left behind."
            ) from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
