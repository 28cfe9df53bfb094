"""What may be written where: checked before anything is read or paid."""

from __future__ import annotations

from pathlib import Path

from heathaze.errors import CannotWrite
from heathaze.release.formats import check_writable


def check_new(path: Path, *, overwrite: bool, source: str) -> None:
    """Refuse an output that cannot be written, that exists, or that is the data itself."""
    check_writable(path)
    if not path.exists():
        return
    if Path(source).exists() and path.samefile(source):
        raise CannotWrite(f"{path} is the file of visits itself; choose another name for the output.")
    if not overwrite:
        raise CannotWrite(f"{path} exists already; choose another name, or add --overwrite.")
