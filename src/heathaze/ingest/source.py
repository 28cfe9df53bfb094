"""Find files of visits, and determine their format, separator and names of columns.

The dialect of a file is declared, or taken from the ending of its name and from its header. No row is looked at, except
that the names of the columns of JSON lines are the keys of the first lines. The engines read the visits later, with the
separator and names that were found here. The two engines therefore cannot guess differently. A CSV file that could be
read in two ways is refused before an engine opens it. Text in another encoding than UTF-8 is copied as UTF-8 first, and
the copy is checked and read.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import enum
import glob
import gzip
import io
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from heathaze.errors import InvalidInput, UnknownFormat, UnreadableData
from heathaze.ingest.columns import locate

SEPARATORS = ",;\t|"
"""The possible separators of a CSV file. The most frequent one in the header is taken; a comma if there is none."""

LONGEST_HEADER = 2**20
"""The largest length of a header in characters; longer lines are refused in any case."""

PEEKED_LINES = 1000
"""The number of lines of a JSON file that are read to find the names of columns."""


ENCODINGS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "latin-1", "windows-1252": "cp1252"}
"""The encodings of text files, with Python's names. In each encoding, different files are different texts."""


class Format(enum.Enum):
    """The format of a file of visits; the value is its name in ``format=…``."""

    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    JSON_LINES = "jsonl"
    GEOJSON = "geojson"
    GEOPACKAGE = "gpkg"
    GEOPARQUET = "geoparquet"
    GPX = "gpx"
    MDS = "mds"
    SHAPEFILE = "shp"

    @property
    def is_geographic(self) -> bool:
        """Whether the format holds positions as geometries, which :mod:`heathaze.ingest.places` reads."""
        return self not in (Format.CSV, Format.TSV, Format.PARQUET, Format.JSON_LINES)


ENDINGS = {".csv": Format.CSV, ".csv.gz": Format.CSV, ".tsv": Format.TSV, ".tsv.gz": Format.TSV}
ENDINGS |= {".parquet": Format.PARQUET, ".geoparquet": Format.GEOPARQUET, ".geojson": Format.GEOJSON}
ENDINGS |= {".gpx": Format.GPX, ".gpkg": Format.GEOPACKAGE, ".shp": Format.SHAPEFILE}
ENDINGS |= dict.fromkeys((".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"), Format.JSON_LINES)


@dataclass(frozen=True)
class Dialect:
    """How a file of visits is written, as its curator declares it.

    Args:
        format: Name of the format; None for that of the file's ending.
        encoding: "utf-8", "utf-16" (with a byte order mark), "latin-1" or "windows-1252".
        separator: The separator of a CSV file; None for the most frequent one of the header.
        layer: The layer of a GeoPackage; None if there is only one.

    Raises:
        InvalidInput: There is no such format, encoding or separator.
    """

    format: str | None = None
    encoding: str = "utf-8"
    separator: str | None = None
    layer: str | None = None

    def __post_init__(self) -> None:
        formats = [one.value for one in Format]
        if self.format is not None and self.format not in formats:
            raise InvalidInput(f"There is no format {self.format!r}; choose one of {', '.join(formats)}.")
        if self.encoding not in ENCODINGS:
            raise InvalidInput(f"There is no encoding {self.encoding!r}; choose one of {', '.join(ENCODINGS)}.")
        if self.separator is not None and (len(self.separator) != 1 or self.separator not in SEPARATORS):
            raise InvalidInput(
                f"The separator {self.separator!r} is not known; choose a comma, a semicolon, a tab or a bar."
            )


UNDECLARED = Dialect()


@dataclass(frozen=True)
class Files:
    """One file of visits, or several files of the same format and columns.

    ``names`` are the columns of text files. For JSON lines they are the keys of the first lines, and later lines may
    have other keys. For Parquet files they are empty, because engines find them in the file. ``rows`` is the number of
    rows of CSV files. It is secret, and is compared with the number of rows that an engine read.
    """

    given: str
    paths: tuple[str, ...]
    format: Format
    names: tuple[str, ...] = ()
    separator: str = ","
    rows: int | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Bytes of all files together, as they are stored."""
        return sum(os.path.getsize(path) for path in self.paths)

    @property
    def is_text(self) -> bool:
        """Whether the format holds numbers as text, so that reading them twice is slow."""
        return self.format is not Format.PARQUET


def find_files(given: str, dialect: Dialect = UNDECLARED, folder: str | None = None) -> Files:
    """Find the files of visits that a path or pattern names, and check their format.

    Args:
        given: A path, or a pattern such as ``visits/*.parquet``.
        dialect: How the files are written.
        folder: A folder for copies in UTF-8, which exist as long as the files are read. It may be left out if the
            encoding is UTF-8.

    Returns:
        The files, with the names of their columns if they are text.

    Raises:
        UnknownFormat: The ending is not one of ENDINGS, and no format is declared.
        UnreadableData: There is no such file, or it is empty, a directory, or written in another way than declared.
    """
    paths = existing(given, dialect)
    formats = {format_of(path, dialect) for path in paths}
    if len(formats) > 1:
        raise UnreadableData(f"{given!r} matches files of several formats; give a pattern that matches one.")
    kind = formats.pop()
    _check_fits(dialect, kind)
    if kind is Format.PARQUET or kind.is_geographic:
        return Files(given, tuple(paths), kind)
    copies = paths
    if dialect.encoding != "utf-8":
        assert folder is not None
        copies = [_copied(path, f"{folder}/{place}.{kind.value}", dialect) for place, path in enumerate(paths)]
    declared = "\t" if kind is Format.TSV else dialect.separator
    kind = Format.CSV if kind is Format.TSV else kind
    heads = dict.fromkeys(_head(path, copy, kind, declared) for path, copy in zip(paths, copies, strict=True))
    if len(heads) > 1 and kind is Format.CSV:
        raise UnreadableData(f"The files of {given!r} have different headers; give files with the same columns.")
    separator = next(iter(heads))[1]
    # Keys of JSON lines may differ between files. A key that a line lacks counts as missing.
    names = tuple(dict.fromkeys(name for head, _ in heads for name in head))
    if kind is Format.CSV:
        from heathaze.ingest.csv_lines import check_csv  # imported only for CSV files, because it is compiled

        names, rows = next(iter(heads))[0], 0
        for path, copy in zip(paths, copies, strict=True):
            with opened(copy) as file:
                rows += check_csv(file, repr(path), separator, len(names))
        return Files(given, tuple(copies), kind, names, separator, rows)
    return Files(given, tuple(copies), kind, names, separator)


def _check_fits(dialect: Dialect, kind: Format) -> None:
    """Refuse a declared dialect that means nothing for the format of a file."""
    if dialect.encoding != "utf-8" and kind not in (Format.CSV, Format.TSV, Format.JSON_LINES):
        raise InvalidInput(f"A {kind.value} file has no encoding {dialect.encoding}; leave the encoding out.")
    if dialect.separator not in (None, "\t" if kind is Format.TSV else dialect.separator) or (
        dialect.separator is not None and kind not in (Format.CSV, Format.TSV)
    ):
        raise InvalidInput(f"A {kind.value} file has no separator {dialect.separator!r}; leave the separator out.")
    if dialect.layer is not None and kind not in (Format.GEOPACKAGE, Format.SHAPEFILE):
        raise InvalidInput(f"A {kind.value} file has no layers; leave the layer out.")


def _copied(path: str, copy: str, dialect: Dialect) -> str:
    """Copy a text file as UTF-8, character by character, and return the path of the copy."""
    if dialect.encoding == "utf-16":
        with opened(path) as file:
            if file.read(2) not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise UnreadableData(f"{path!r} does not begin with the mark of UTF-16; check its encoding.")
    try:
        with (
            opened(path) as binary,
            io.TextIOWrapper(binary, encoding=ENCODINGS[dialect.encoding], newline="") as text,
            open(copy, "w", encoding="utf-8", newline="") as file,
        ):
            shutil.copyfileobj(text, file, 2**20)
    except UnicodeError:
        raise UnreadableData(f"{path!r} is not written in {dialect.encoding}; declare its own encoding.") from None
    return copy


def existing(given: str, dialect: Dialect) -> list[str]:
    """Return the files that a path or pattern names; refuse directories, empty files and unknown endings."""
    if os.path.isdir(given):
        raise UnreadableData(
            f"{given!r} is a directory; give a file, or a pattern such as {os.path.join(given, '*.parquet')!r}."
        )
    paths = [given] if os.path.exists(given) else sorted(glob.glob(given, recursive=True))
    paths = [path for path in paths if not os.path.isdir(path)]
    if not paths:
        raise UnreadableData(f"There is no file {given!r}; check the path.")
    for number, path in enumerate(paths, 1):
        shown = named(path, format_of(path, dialect), number)
        try:
            with open(path, "rb") as file:
                if not file.read(1):
                    raise UnreadableData(f"{shown} is empty; there is nothing to count.")
        except OSError as error:
            raise UnreadableData(f"{shown} cannot be opened: {error.strerror}.") from None
    return [os.path.abspath(path) for path in paths]


def named(path: str, kind: Format, number: int | None = None) -> str:
    """Name a file in an error. The name of a GPX file is the id of its person, so an error gives only its number."""
    if kind is not Format.GPX:
        return repr(path)
    return "The GPX file" if number is None else f"GPX file {number} (in the order of their names)"


def format_of(path: str, dialect: Dialect) -> Format:
    """Return the declared format of a file, or that of its ending."""
    if dialect.format is not None:
        return Format(dialect.format)
    name = os.path.basename(path).lower()
    for ending, kind in ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise UnknownFormat(
        f"{os.path.basename(path)!r} has an unknown file type; give .csv, .tsv (also .gz), .parquet, .jsonl, .ndjson, "
        ".json, .geojson, .geoparquet, .gpkg, .gpx or .shp, or declare the format."
    )


def _head(path: str, copy: str, kind: Format, separator: str | None) -> tuple[tuple[str, ...], str]:
    """Read the names of the columns and the separator from the beginning of a text file."""
    try:
        with opened(copy) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file:
            if kind is Format.CSV:
                return _csv_head(path, file, separator)
            return _json_names(path, file), ","
    except UnicodeDecodeError:
        raise UnreadableData(f"{path!r} is not written in UTF-8; save it as UTF-8, or declare its encoding.") from None


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; a gzip file is decompressed."""
    try:
        with gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb") as file:
            yield cast(BinaryIO, file)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UnreadableData(f"{path!r} cannot be unpacked; the file is damaged or not gzip.") from None


def _csv_head(path: str, file: io.TextIOWrapper, declared: str | None) -> tuple[tuple[str, ...], str]:
    line = file.readline(LONGEST_HEADER)
    if not line.strip():
        raise UnreadableData(
            f"{path!r} does not begin with a header; write the names of the columns on the first line."
        )
    unquoted = re.sub(r'"[^"]*"', "", line)
    separator = declared or max(SEPARATORS, key=unquoted.count)
    other = max(SEPARATORS, key=unquoted.count)
    if separator not in unquoted and other in unquoted:
        known = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
        raise UnreadableData(
            f"The declared separator of {path!r} is a {known[separator]}, but its first line has none and has a "
            f"{known[other]}; the separator is probably {known[other]}."
        )
    try:
        return tuple(next(csv.reader([line], delimiter=separator))), separator
    except csv.Error:
        raise UnreadableData(
            f"The first line of {path!r} cannot be read as names of columns; a name has more than "
            f"{csv.field_size_limit()} characters."
        ) from None


def _json_names(path: str, file: io.TextIOWrapper) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for _, line in zip(range(PEEKED_LINES), file, strict=False):
        if not line.strip():
            continue
        try:
            visit = json.loads(line)
        except (ValueError, RecursionError):
            visit = None
        if not isinstance(visit, dict):
            raise UnreadableData(f'{path!r} is not JSON lines; write one object per line, such as {{"lon": …}}.')
        names.update(dict.fromkeys(visit))
    if not names:
        raise UnreadableData(f"{path!r} is empty; there is nothing to count.")
    return tuple(names)


def check_parquet(connection: Any, paths: Sequence[str], wanted: Sequence[str], where: str) -> None:
    """Refuse Parquet files of visits in which an engine could confuse columns.

    An engine has its own rules to rename and cast columns if there are several files, or names that differ only in
    case. Files for which these rules matter are refused for both engines. Only names and types are read from the footer
    of a file. Its row counts and its smallest and largest values are not used, because they may be wrong.

    Args:
        connection: A connection to DuckDB, which reads the schemas.
        paths: The files that will be read together.
        wanted: Names of the columns that each file must have.
        where: The name of the files in errors.

    Raises:
        UnreadableData: A file lacks a column, has two names that are equal or differ only in case, or has a wanted
            column in another type than the other files.
    """
    schemas = [_columns(connection, path) for path in paths]
    places = []
    for schema in schemas:
        names = [name for name, _ in schema]
        places.append(locate(names, wanted, where))
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise UnreadableData(f"{where} has several columns {repeated!r}; rename all but one.")
    types = {tuple(schema[place][1] for place in found) for schema, found in zip(schemas, places, strict=True)}
    if len(types) > 1:
        # Engines would cast all files to the types of the first file, which can merge the ids of two people.
        raise UnreadableData(
            f"The files of {where} hold the same columns in different types; write them with one type."
        )


def _columns(connection: Any, path: str) -> list[tuple[str, str]]:
    """Return the name and type of each column of a Parquet file, without the fields inside nested columns."""
    rows = connection.execute(
        "select name, num_children, duckdb_type from parquet_schema(?) order by column_id", [glob.escape(path)]
    ).fetchall()
    columns = []
    # The schema is a tree in depth-first order, beginning with its root.
    place = 1
    while place < len(rows):
        columns.append((rows[place][0], str(rows[place][2])))
        open_nodes = 1
        while open_nodes:
            open_nodes += (rows[place][1] or 0) - 1
            place += 1
    return columns
