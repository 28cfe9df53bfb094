"""Helpers for files: write a file completely or not at all, and read CSV tables with line numbers for errors.

Public layouts, raw readings and protected readings are all read here. An error about a table names the line. It quotes
a field only if the caller says that the table is public.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import itertools
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from heathaze.checks import shown
from heathaze.errors import CannotWrite, UnreadableData

_DECIMAL_COMMA = re.compile(r"[+\-]?\d*,\d+(e[+\-]?\d+)?", re.IGNORECASE)
"""Matches a number with a decimal comma, such as 1,5."""


@contextlib.contextmanager
def replacing(*paths: Path, keep: bool = True) -> Iterator[list[Path]]:
    """Write files completely or not at all: write hidden files, and rename them when the block ends without an error.

    A reader sees the old files or the new ones, never half a file. If the block raises, the hidden files are removed.

    Args:
        paths: The files to write.
        keep: False removes the hidden files in any case, to test whether the files could be written.

    Yields:
        The hidden files, one for each path, in the same order.

    Raises:
        CannotWrite: A file cannot be written; no file is left behind.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as (part,):
    ...         _ = part.write_text("all of it")
    ...     print((Path(folder) / "a.txt").read_text())
    all of it
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


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that lock the same path waiting; a crash releases the lock.

    Args:
        path: The file that one process at a time may read and replace. The lock is a hidden file beside it.

    Raises:
        CannotWrite: The hidden file cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows has no such locks
        yield
        return
    try:
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as problem:
        raise cannot_write([path], problem) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cannot_write(paths: Sequence[Path], problem: OSError) -> CannotWrite:
    """Return the error for files that cannot be written.

    Args:
        paths: The files.
        problem: The error of the operating system.
    """
    reason = (problem.strerror or "the disk refused").lower()
    elsewhere = problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)
    remedy = "choose another place" if elsewhere else "free some space or choose another place"
    return CannotWrite(f"Cannot write {', '.join(map(str, paths))}: {reason}; {remedy}. Nothing of it was left behind.")


def flush(path: Path) -> None:
    """Wait until the contents of a file or directory are on the disk (fsync)."""
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
    """Create an empty hidden file in the target's directory, with the target's ending and an unused name."""
    for attempt in itertools.count():
        part = target.parent / f".heathaze-{os.getpid()}-{attempt}.part{target.suffix}"
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            continue
        return part
    raise AssertionError("unreachable")


class Row(dict[str, str]):
    """One row of a CSV table: a dictionary from column to text.

    Args:
        fields: The text of each column.
        path: The file, for error sentences.
        line: The number of the line in the file, from 1.
    """

    def __init__(self, fields: Mapping[str, str], path: str | Path, line: int) -> None:
        super().__init__(fields)
        self.path = path
        self.line = line

    def number(self, column: str) -> float:
        """Parse a field of a public CSV table as a finite number.

        Args:
            column: The name of the column.

        Raises:
            UnreadableData: The field is not a finite number. The sentence quotes the field.
        """
        text = self[column]
        found = _finite(text)
        if found is None:
            whose = f" for the sensor {self['sensor']!r}" if "sensor" in self else ""
            has = f"{column} {shown(text)}" if text else f"no {column}"
            hint = " with a point, not a comma" if _DECIMAL_COMMA.fullmatch(text) else ""
            raise UnreadableData(f"Line {self.line} of {self.path} has {has}{whose}; expected a number{hint}.")
        return found

    def secret_number(self, column: str, todo: str) -> float:
        """Parse a field of a CSV table that may be raw data as a finite number.

        Args:
            column: The name of the column.
            todo: The remedy if the field is not a number, which ends the error sentence.

        Raises:
            UnreadableData: The field is not a finite number. The sentence does not quote the field.
        """
        found = _finite(self[column])
        if found is None:
            if _DECIMAL_COMMA.fullmatch(self[column]):
                todo = "write a point, not a comma"
            raise UnreadableData(f"The {column} in line {self.line} of {self.path} is not a finite number; {todo}.")
        return found


def read_table(path: str | Path, comment: str = "#") -> list[Row]:
    """Read the rows of a CSV file with a header, separated by commas, in UTF-8.

    Blank lines are skipped. Lines that begin with ``comment`` are skipped only before the header, so that a name in the
    first column may begin with that text. Each line is one record: a quotation mark that is not closed does not extend
    to the next line.

    Args:
        path: The file.
        comment: The text with which a line of comment begins.

    Returns:
        At least one row. Names of columns are in lower case.

    Raises:
        UnreadableData: The file cannot be read as such a table. The error quotes no field, which may be raw data.
    """
    try:
        # A line ends with LF or CRLF. A CR without LF does not end a line, because a field could then forge a row.
        with Path(path).open(newline="\n", encoding="utf-8-sig") as file:
            lines = [line.removesuffix("\n").removesuffix("\r") for line in file]
    except OSError as problem:
        raise UnreadableData(f"Cannot read {path}: {(problem.strerror or 'refused').lower()}.") from None
    except UnicodeDecodeError:
        raise UnreadableData(f"{path} is not written in UTF-8; give a CSV file, saved as UTF-8.") from None
    before = 0
    while before < len(lines) and (not lines[before].strip() or lines[before].startswith(comment)):
        before += 1
    _refuse_other_separators(path, lines[before] if before < len(lines) else "")
    records = _records(path, lines[before:], before + 1)
    _, header = next(records, (0, []))
    names = [name.strip().lower() for name in header]
    if len(set(names)) < len(names):
        raise UnreadableData(f"{path} has two columns of the same name; give each column its own name.")
    rows = []
    for line, record in records:
        if len(record) != len(names):
            raise UnreadableData(_other_number_of_fields(path, line, record, len(names), comment))
        rows.append(Row({name: field.strip() for name, field in zip(names, record, strict=True)}, path, line))
    if not rows:
        raise UnreadableData(f"{path} has no rows; give a header and at least one row.")
    return rows


def read_readings(path: str | Path) -> tuple[tuple[str, ...], tuple[float, ...], list[float]]:
    """Read sensor readings from a CSV file with the columns sensor, time and value.

    An empty value or a missing row means that the sensor took no reading at that time.

    Args:
        path: The file.

    Returns:
        The names of the sensors in the order of the file, the times in rising order, and the values. The values are
        ordered by time and then by sensor, with NaN for a reading that was not taken.

    Raises:
        UnreadableData: The file cannot be read. The error quotes no value, which may be raw data.
    """
    rows = read_table(path)
    missing = {"sensor", "time", "value"} - set(rows[0])
    if missing:
        raise UnreadableData(f"{path} lacks the column {sorted(missing)[0]!r}; readings have sensor, time and value.")
    found: dict[tuple[float, str], float] = {}
    for row in rows:
        key = (row.secret_number("time", "give times as numbers, counted from the release of heat"), row["sensor"])
        if key in found:
            raise UnreadableData(
                f"Line {row.line} of {path} is a second reading of the same sensor and time; keep one, or average them."
            )
        found[key] = row.secret_number("value", "leave an unknown value empty") if row["value"] else math.nan
    sensors = tuple(dict.fromkeys(sensor for _, sensor in found))
    times = tuple(sorted({time for time, _ in found}))
    return sensors, times, [found.get((time, sensor), math.nan) for time in times for sensor in sensors]


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    r"""Write a table as CSV text that :func:`read_table` can read.

    Args:
        header: Names of the columns.
        rows: Rows with one field for each column. A float is written so that it is read as the same float.

    >>> csv_text(["sensor", "x"], [["door, left", 0.5]])
    'sensor,x\n"door, left",0.5\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def _finite(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _records(path: str | Path, lines: Sequence[str], first: int) -> Iterator[tuple[int, list[str]]]:
    """Parse CSV lines into records with their line numbers, without blank records. Each line is one record."""
    for number, line in enumerate(lines, start=first):
        if "\r" in line:
            raise UnreadableData(f"Line {number} of {path} has a carriage return inside; end lines with LF or CRLF.")
        try:
            record = next(csv.reader([line], skipinitialspace=True, strict=True), [])
        except csv.Error:
            raise UnreadableData(
                f"Line {number} of {path} cannot be read as CSV: a quotation mark is not closed on the line or stands "
                f"inside a field, or a field has more than {csv.field_size_limit()} characters; correct the line."
            ) from None
        if len(record) > 1 or (record and record[0].strip()):
            yield number, record


def _refuse_other_separators(path: str | Path, header: str) -> None:
    for sign, name in ((";", "semicolons"), ("\t", "tabs")):
        if sign in header.strip() and "," not in header:
            raise UnreadableData(f"{path} is separated by {name}; save it with commas, and points in numbers.")


def _other_number_of_fields(path: str | Path, line: int, record: Sequence[str], expected: int, comment: str) -> str:
    """Write the error about a row with too many or too few fields. It quotes no field, which may be raw data."""
    hint = "give one field for each column"
    if record[0].startswith(comment):
        hint = f"lines that begin with {comment} are skipped only before the header"
    elif len(record) > expected:
        hint = "if numbers have decimal commas, write points"
    return f"Line {line} of {path} has another number of fields than the header: {len(record)}, not {expected}; {hint}."
