"""Look at the beginning of a file of visits, and guess its dialect and columns, for the curator alone.

Nothing that reads data for a release uses these guesses. The curator reads the guesses and declares the dialect. The
dialect of a release is therefore declared and never guessed.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heathaze.domain.projection import Projection
from heathaze.errors import UnreadableData
from heathaze.ingest.columns import Columns
from heathaze.ingest.places import rows_of
from heathaze.ingest.source import SEPARATORS, Dialect, Files, Format, existing, format_of, opened
from heathaze.types import Floats

BEGINNING = 2**18
"""The number of bytes of a text file that are looked at."""

ROLES = {
    "lon": r"lon|lng|long|longitude|l(ä|ae)ngengrad|laenge|länge|x|easting|rechtswert",
    "lat": r"lat|latitude|breitengrad|breite|y|northing|hochwert",
    "time": r".*(time|date|datum|zeit|stamp|when|heure|fecha).*",
    "weight": r".*(seconds|duration|dwell|dauer|minutes|sekunden|minuten).*",
    "person": r".*(user|person|rider|who|people|customer|device|phone|subject|participant|nutzer|kunde|trip_id).*",
}
"""Patterns of the names of columns, for each role; the first column that fits gets the role."""

TIMES = {
    "iso": r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?",
    "seconds": r"1\d{9}(\.\d+)?",
    "milliseconds": r"1\d{12}",
    "%d.%m.%Y %H:%M": r"\d\d?\.\d\d?\.\d{4} \d\d?:\d\d",
    "%d.%m.%Y %H:%M:%S": r"\d\d?\.\d\d?\.\d{4} \d\d?:\d\d:\d\d",
    "%d.%m.%Y": r"\d\d?\.\d\d?\.\d{4}",
    "%m/%d/%Y %I:%M:%S %p": r"\d\d?/\d\d?/\d{4} \d\d?:\d\d:\d\d [AaPp][Mm]",
    "%d/%m/%Y %H:%M": r"\d\d?/\d\d?/\d{4} \d\d?:\d\d",
    "%d/%m/%Y %H:%M:%S": r"\d\d?/\d\d?/\d{4} \d\d?:\d\d:\d\d",
}
"""Formats of times, each with the texts that fit."""


_PERSONS = {
    Format.GPX: ("file", "Each file is taken as one person; if a file has the tracks of several, give --person track."),
    Format.MDS: ("trip_id", "Such files name no riders, so --person trip_id protects single trips."),
}
"""The column of the person in formats that have a fixed one, and what to know about it."""


@dataclass(frozen=True)
class Look:
    """What a file of visits seems to be. It holds names and guesses, and no value of the file.

    Attributes:
        format: The format that the file seems to have.
        options: Options of ``heathaze publish`` that the file needs, with their values.
        roles: The column that seems to hold each role: lon, lat, person, time, weight.
        columns: Names of all columns.
        notes: Sentences about what could not be decided.
    """

    format: str
    options: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def look(path: str) -> Look:
    """Look at the beginning of a file of visits, and guess how to read it.

    Args:
        path: The file, or a pattern; the first file is looked at.

    Returns:
        The guesses.

    Raises:
        UnreadableData: There is no such file, or it cannot be read at all.
        UnknownFormat: The file has an unknown ending.
    """
    file = existing(path, Dialect())[0]
    kind = format_of(file, Dialect())
    options: dict[str, str] = {}
    if kind is Format.JSON_LINES and _is_mds(file):
        kind, options["format"] = Format.MDS, "mds"
    if kind in (Format.PARQUET, Format.GEOPARQUET):
        return _guessed(kind, options, *_parquet_rows(file))
    if kind.is_geographic:
        return _guessed(kind, options, *_points(Files(path, (file,), kind)))
    names, rows = _text_rows(file, kind, options)
    return _guessed(kind, options, names, rows)


def _guessed(kind: Format, options: dict[str, str], names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Look:
    """Guess roles from names, and the spelling of numbers and times from the texts of these columns."""
    roles: dict[str, str] = {}
    notes: list[str] = []
    for role, pattern in ROLES.items():
        fits = [name for name in names if re.fullmatch(pattern, name.strip().lower()) and name not in roles.values()]
        roles |= {role: fits[0]} if fits else {}
    for name in names:
        if "person" not in roles and name not in roles.values() and name.lower().endswith("id"):
            roles["person"] = name
    texts = {
        role: [str(row[list(names).index(name)]).strip() for row in rows if row[list(names).index(name)] is not None]
        for role, name in roles.items()
    }
    if any(re.fullmatch(r"[+-]?\d+,\d+", text) for role in ("lon", "lat") for text in texts.get(role, [])):
        options["decimal"] = "comma"
    if kind.is_geographic:
        roles |= {"lon": "lon", "lat": "lat"}
    if kind in _PERSONS:
        roles["person"], note = _PERSONS[kind]
        notes.append(note)
    if {"lon", "lat"} <= roles.keys() and {roles["lon"], roles["lat"]} <= set(names):
        across, down = (list(names).index(roles[role]) for role in ("lon", "lat"))
        places = _places([(row[across], row[down]) for row in rows])
        if (np.abs(places[:, 1]) > 90).any() and not (np.abs(places) > 180).any():
            notes.append("Some latitudes are above 90 degrees; longitude and latitude are probably exchanged.")
        elif (np.abs(places) > 180).any():
            notes.append("Some places are no degrees; give the box in the units of the file (--x, --y).")
        elif _some_exchanged(places):
            notes.append(
                "Some of these rows seem to have longitude and latitude exchanged; correct them, because publish does "
                "not count rows outside the map."
            )
    missing = [role for role in ("lon", "lat", "person") if role not in roles]
    notes += [f"No column is called like {role}; name it in the command." for role in missing]
    if "time" in roles:
        filled = [text for text in texts["time"] if text]
        fits = [form for form, pattern in TIMES.items() if all(re.fullmatch(pattern, text) for text in filled)]
        if filled and not fits:
            notes.append(f"The times of {roles['time']!r} have an unknown format; describe it with --time-format.")
        elif fits and fits[0] != "iso":
            options["time-format"] = fits[0]
        if any("/" in form for form in fits[:1]):
            notes.append("Times with slashes may have the month or the day first; check --time-format.")
    return Look(kind.value, options, roles, tuple(names), tuple(notes))


def _places(pairs: Sequence[tuple[Any, Any]]) -> Floats:
    """Read pairs of coordinates, and leave out rows without a position."""
    places = []
    for pair in pairs:
        with contextlib.suppress(ValueError):
            places.append([float(str(value).strip().replace(",", ".")) for value in pair])
    return np.array(places, dtype=np.float64).reshape(-1, 2)


def _some_exchanged(places: Floats) -> bool:
    """Guess whether some, but not most, places are much nearer to the median place if x and y are exchanged."""
    if not len(places):
        return False
    middle = np.median(places, axis=0)
    exchanged = np.abs(places[:, ::-1] - middle).sum(axis=1)
    return bool((4 * exchanged < np.abs(places - middle).sum(axis=1)).any())


def _text_rows(path: str, kind: Format, options: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    with opened(path) as file:
        beginning = file.read(BEGINNING)
    text = _decoded(beginning, options)
    lines = text.splitlines()[: max(1, text.count("\n"))][:500]
    if kind is Format.JSON_LINES:
        try:
            objects = [json.loads(line) for line in lines if line.strip()]
        except (ValueError, RecursionError):
            objects = [None]
        if not all(isinstance(one, dict) for one in objects):
            raise UnreadableData(f"{path!r} is not JSON lines; write one object per line.")
        names = list(dict.fromkeys(name for one in objects for name in one))
        return names, [[one.get(name) for name in names] for one in objects]
    separator = "\t" if kind is Format.TSV else max(SEPARATORS, key=re.sub(r'"[^"]*"', "", lines[0]).count)
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
    except csv.Error:
        raise UnreadableData(
            f"{path!r} has a field of more than {csv.field_size_limit()} characters; shorten it."
        ) from None
    return rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]


def _decoded(beginning: bytes, options: dict[str, str]) -> str:
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        options["encoding"] = "utf-16"
        return beginning[: len(beginning) // 2 * 2].decode("utf-16", "replace")
    # The part of the file that was read may end within a character of UTF-8.
    for cut in range(4):
        try:
            return beginning[: len(beginning) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    for encoding in ("windows-1252", "latin-1"):
        try:
            text = beginning.decode(encoding)
        except UnicodeDecodeError:
            continue
        options["encoding"] = encoding
        return text
    raise AssertionError("latin-1 decodes every byte")


def _is_mds(path: str) -> bool:
    with opened(path) as file:
        return re.match(rb'\s*\{\s*"version"\s*:', file.read(200)) is not None


def _parquet_rows(path: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    import duckdb

    try:
        with duckdb.connect() as connection:
            found = connection.read_parquet(path).limit(500)
            return list(found.columns), found.fetchall()
    except duckdb.Error:
        raise UnreadableData(f"{path!r} cannot be read as Parquet; the file is damaged.") from None


def _points(files: Files) -> tuple[list[str], list[list[Any]]]:
    columns = Columns("lon", "lat")
    rows = list(itertools.islice(rows_of(files, Dialect(), columns, Projection.PLANE), 500))
    names = list(dict.fromkeys(name for row in rows for name in row))
    return names, [[row.get(name) for name in names] for row in rows]
