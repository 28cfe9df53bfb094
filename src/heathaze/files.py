"""Files that several modules share: writing all of a file or nothing, and CSV tables that know their lines.

Tables are read here for public layouts, raw readings and protected readings alike. Sentences about a table name the
line. They quote no field unless the caller says that the table is public.
"""

from __future__ import annotations

import contextlib
import csv
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
"""A text that would be a number if its comma were a point."""


@contextlib.contextmanager
def replacing(*paths: Path, keep: bool = True) -> Iterator[list[Path]]:
    """Create hidden files beside the targets, and rename them to the targets when the block ends without an error.

    A reader sees the old files or the new ones, never half a file. If the block raises, the hidden files are removed.

    Args:
        paths: The files to write.
        keep: False removes the hidden files in any case, to test only whether writing is possible.

    Yields:
        The hidden files, one for each target, in the same order.

    Raises:
        CannotWrite: The disk or the directory refuses; nothing is left behind.

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


def cannot_write(paths: Sequence[Path], problem: OSError) -> CannotWrite:
    """Return the error for files that cannot be written.

    Args:
        paths: The files.
        problem: What the operating system reported.
    """
    reason = (problem.strerror or "the disk refused").lower()
    return CannotWrite(
        f"Cannot write {', '.join(map(str, paths))}: {reason}; free some space or choose another place. Nothing was "
        "left behind."
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
    """A new empty file beside the target, with its ending, under a name that no other file has."""
    for attempt in itertools.count():
        part = target.parent / f".heathaze-{os.getpid()}-{attempt}.part{target.suffix}"
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            continue
        return part
    raise AssertionError("unreachable")


class Row(dict[str, str]):
    """One row of a table, by its columns.

    Args:
        fields: The text of each column.
        path: The file, for error sentences.
        line: The line in the file, counted from 1 as an editor counts.
    """

    def __init__(self, fields: Mapping[str, str], path: str | Path, line: int) -> None:
        super().__init__(fields)
        self.path = path
        self.line = line

    def number(self, column: str) -> float:
        """A finite number of a public table.

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
        """A finite number of a table that may be raw data.

        Args:
            column: The name of the column.
            todo: What to do about a field that is not a number.

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
    """The rows of a CSV file with a header, comma-separated, in UTF-8.

    Blank lines are left out. Lines that begin with ``comment`` are left out before the header only, so that a name in
    the first column may begin with that sign. A line is a record: a quotation mark that is not closed cannot take in
    the lines after it.

    Args:
        path: The file.
        comment: How a line of comment begins.

    Returns:
        At least one row. Names of columns are in lower case.

    Raises:
        UnreadableData: The file cannot be read as such a table. The sentence quotes no field: it may be raw data.
    """
    try:
        # A line ends with LF, perhaps behind a CR; a CR alone ends none, or a field could forge a row.
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
        raise UnreadableData(f"{path} has a column twice; name each once.")
    rows = []
    for line, record in records:
        if len(record) != len(names):
            raise UnreadableData(_other_number_of_fields(path, line, record, len(names), comment))
        rows.append(Row({name: field.strip() for name, field in zip(names, record, strict=True)}, path, line))
    if not rows:
        raise UnreadableData(f"{path} has no rows; give a header and at least one row.")
    return rows


def read_readings(path: str | Path) -> tuple[tuple[str, ...], tuple[float, ...], list[float]]:
    """One value for each time and sensor, from a CSV file with the columns sensor, time and value.

    An empty value, or a row that is not there, is a reading that was not taken.

    Args:
        path: The file.

    Returns:
        The names of the sensors in the order of the file, the times in rising order, and the values, time by time and
        at each time sensor by sensor, NaN where no reading was taken.

    Raises:
        UnreadableData: The file cannot be read. The sentence quotes no value: it may be raw data.
    """
    rows = read_table(path)
    missing = {"sensor", "time", "value"} - set(rows[0])
    if missing:
        raise UnreadableData(f"{path} lacks the column {sorted(missing)[0]!r}; readings have sensor, time and value.")
    found: dict[tuple[float, str], float] = {}
    for row in rows:
        key = (row.secret_number("time", "times are numbers, counted since heat was set free"), row["sensor"])
        if key in found:
            raise UnreadableData(
                f"Line {row.line} of {path} is a second reading of the same sensor and time; keep one, or average them."
            )
        found[key] = row.secret_number("value", "leave an unknown value empty") if row["value"] else math.nan
    sensors = tuple(dict.fromkeys(sensor for _, sensor in found))
    times = tuple(sorted({time for time, _ in found}))
    return sensors, times, [found.get((time, sensor), math.nan) for time in times for sensor in sensors]


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    r"""A table as :func:`read_table` reads it.

    Args:
        header: Names of the columns.
        rows: As many fields each; a float is written so that it is read as the same float.

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
    """Each record with its line, without blank ones. A line is a record, so that none can swallow the next."""
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
    """A sentence that quotes nothing: the file may be raw data."""
    hint = "give one field for each column"
    if record[0].startswith(comment):
        hint = f"lines that begin with {comment} are left out before the header alone"
    elif len(record) > expected:
        hint = "if numbers have decimal commas, write points"
    return f"Line {line} of {path} has another number of fields than the header: {len(record)}, not {expected}; {hint}."
