"""Values that engines are known to misread: grids, positions, ids and times, with the meaning of each value.

The generator knows the meaning of every value without an engine: a position is two floats, a person is a number, and a
day is the number of days since 1970-01-01 in UTC.
"""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.testing.neighbour_fuzz.table import Table

GRIDS = (
    Grid.plane(x=(0, 4), y=(0, 3), shape=(3, 4)),
    Grid.plane(x=(-1, 1), y=(-1, 1), shape=(2, 2)),
    Grid.plane(x=(-1e6, 3.7), y=(-2.0, -0.1), shape=(5, 9)),
    Grid.over(lon=(-74.10, -73.78), lat=(-40.9, -40.58), shape=(7, 10)),
    Grid.over(lon=(-180, 180), lat=(-90, 90), shape=(4, 8)),
    Grid.over(lon=(-180, 180), lat=(-90, 90), size=2**20),
    Grid.over(lon=(-179.5, 3.3), lat=(-80.0, 71.3), shape=(13, 6), projection="web-mercator"),
)
"""Grids on planes and on the globe, small and large; two of them span all longitudes from −180 to 180."""

# ── positions ───────────────────────────────────────────────────────────────────────────────────────────────────────

PROFILES = ("inside", "holes", "outside", "anything")
"""Where the visits of one person lie. Wrong statistics matter most if some people have no position and others lie
outside."""


def positions(rng: np.random.Generator, grid: Grid, profile: str, n: int) -> list[tuple[float | None, float | None]]:
    """Draw the positions of one person. None means null; NaN and infinite coordinates occur too."""
    found: list[tuple[float | None, float | None]] = []
    for place in range(n):
        x: float | None = _inside(rng, *grid.x, grid.x_at(np.linspace(0, grid.cols, min(grid.cols, 9) + 1)))
        y: float | None = _inside(rng, *grid.y, grid.y_at(np.linspace(0, grid.rows, min(grid.rows, 9) + 1)))
        odd = {"inside": 0.0, "holes": 0.0 if place == 0 else 0.6, "outside": 1.0, "anything": 0.4}[profile]
        if rng.random() < odd:
            which = int(rng.integers(3))
            x = _strange(rng, profile, *grid.x) if which != 1 else x
            y = _strange(rng, profile, *grid.y) if which != 0 else y
        found.append((x, y))
    return found


def _strange(rng: np.random.Generator, profile: str, low: float, high: float) -> float | None:
    """Draw a missing coordinate or one outside the grid.

    The profile "holes" gives only NaN and null, so that the smallest and largest values stay inside the grid.
    """
    if profile == "holes":
        return pick(rng, [math.nan, math.nan, math.nan, None])  # type: ignore[no-any-return]
    far = [high + 1.0, high + 1.0, low - 7.5, 1e300, -1e300]
    return pick(rng, [*far, math.nan, math.inf, -math.inf, None])  # type: ignore[no-any-return]


def _inside(rng: np.random.Generator, low: float, high: float, borders: Any) -> float:
    """Draw a coordinate of a test row: anywhere in the grid, on or next to a border, or nearly zero."""
    how = rng.random()
    value = float(rng.uniform(low, high))
    if how < 0.3:
        value = float(pick(rng, list(borders)))
    elif how < 0.45:
        value = float(np.nextafter(pick(rng, list(borders)), pick(rng, [low, high])))
    elif how < 0.55:
        value = pick(rng, [0.0, -0.0, 5e-324, -5e-324, 2.2e-308])
    elif how < 0.8:
        value = round(value, 2)
    return min(max(value, low), high)


def coordinate(rng: np.random.Generator, value: float | None, kind: str) -> Any:
    """Convert a coordinate to the value that a table stores; a text is one of several spellings of the number."""
    if kind != "text":
        return _rounded(value, kind)
    if value is None or value != value:
        return str(pick(rng, ["nan", "NaN", "-nan"])) if value is not None else None
    text = repr(value)
    spaced = str(pick(rng, [text, text, text, f" {text}", f"{text} ", text.upper(), f"+{text}"]))
    return text if text.startswith("-") and spaced.startswith("+") else spaced


def _rounded(value: float | None, kind: str) -> Any:
    """Convert a coordinate to a type of number; None if the type cannot hold the value."""
    if value is None or kind == "double":
        return value
    if kind == "float":
        return float(np.float32(np.clip(value, -3e38, 3e38)))
    if not np.isfinite(value) or abs(value) > 1e9:
        return None
    return round(value) if kind == "integer" else decimal.Decimal(value).quantize(decimal.Decimal("0.001"))


# ── people ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class IdKind:
    """A type of ids, with groups of values that readers easily confuse. Different values are different people."""

    name: str
    groups: tuple[tuple[Any, ...], ...]


TEXT = IdKind(
    "text",
    (
        ("1", "01", "1.0", " 1", "1 ", "+1", "1e0", "001"),
        ("a", "A", "a ", " a", "á", "a\u0301"),
        ("é", "e\u0301", "É", "E\u0301"),
        ("NULL", "null", "None", "nan", "\\N", "NaN"),
        ("ß", "ss", "SS", "ſs"),
        ("山田", "😀", "O'Neil", "a|b", "2024-01-01|a"),
        ("true", "True", "false", "0", "-0", "0.0"),
        ("9007199254740992", "9007199254740993", "9223372036854775808"),
        ("\u00a0a", "\u2003a", "a\u200b", "a\u00a0"),
    ),
)
QUOTED_TEXT = IdKind("text", (*TEXT.groups, ('say "hi"', "say hi", '"', '""'), ("a,b", "a;b", "a\tb", "x|y", "a")))
NUL_TEXT = IdKind("text with NUL", (("a", "a\0", "a\0\0", "a\0b"), ("\0", "1", "1\0", "01")))
INTEGER = IdKind("integer", ((1, -1, 0, 10), (2**53, 2**53 + 1, 2**63 - 1), (-(2**63), 2**31, 7, 70)))
UNSIGNED = IdKind("unsigned", ((2**63, 2**63 + 1, 2**64 - 1, 1), (2**53, 2**53 + 1, 7)))
WIDE = IdKind(
    "decimal(38,0)",
    (tuple(decimal.Decimal(10**30 + i) for i in range(4)), tuple(map(decimal.Decimal, (1, -1, 2**64, 2**63)))),
)
FRACTION = IdKind("decimal(12,2)", (tuple(map(decimal.Decimal, ("1.00", "1.10", "1.01", "-1.00", "10.10"))),))
BOOLEAN = IdKind("boolean", ((True, False),))
UUIDS = IdKind("uuid", (tuple(uuid.UUID(int=10**30 + i) for i in range(5)),))
FLOATING = IdKind("floating", ((1.0, 1.5, 2.0, 0.1),))

SHORT_INTEGER = IdKind("integer", ((1, -1, 0, 10), (2**31, 7, 70)))
FILE_NAMES = IdKind("text", (("1", "01", "1.0", "001", "a", "á", "part-1"), ("ß", "ss", "山田", "nan", "true")))
"""Ids that can be the name of a file, without blanks at the end, which Shapefiles cannot hold."""

TYPED = (TEXT, QUOTED_TEXT, NUL_TEXT, INTEGER, UNSIGNED, WIDE, FRACTION, BOOLEAN)
"""Kinds of ids that a typed table can hold and both engines can read."""

MIXED = ((1, "1", "01", 2), (True, 1, 0, False), ("a", "a\0", "b"), (1, 1.0, 2, 2.5), ("1", b"1", "2"), (1, "a"))
"""Ids of several Python types in one list."""

SPELLINGS = (("1", "01", "001", "2", "02"), ("1", "01", "2", "1.0", "02"))
"""Names of folders that an engine reads as numbers, unless another folder is called alice."""


def ids(rng: np.random.Generator, table: Table, n: int) -> tuple[IdKind, list[Any]]:
    """Draw the type of ids, and up to n different ids of this type, one for each person."""
    source, fault = table.recipe.source, table.recipe.fault
    if fault == "mixed ids":
        return IdKind("mixed", ()), list(pick(rng, MIXED))
    if fault == "person in folder names only":
        return TEXT, spellings(rng, n)
    kinds: Sequence[IdKind] = TYPED
    if fault in ("NUL ids", "escaped NUL"):
        kinds = [NUL_TEXT]
    elif fault == "huge ids":
        kinds = [UNSIGNED]
    elif "id_type" in table.style:
        kinds = [UUIDS] if table.style["id_type"] == "uuid" else [TEXT, QUOTED_TEXT]
    elif source == "gpx":
        kinds = [FILE_NAMES]
    elif fault in ("latin-1", "windows-1252"):
        kinds = [_encodable(kind, fault) for kind in (TEXT, QUOTED_TEXT)]
    elif source == "csv":
        kinds = [TEXT, TEXT, QUOTED_TEXT]
    elif source in ("json lines", "geojson", "mds", "geopandas"):
        kinds = [TEXT, QUOTED_TEXT, INTEGER, BOOLEAN]
    elif source == "geopackage":
        kinds = [TEXT, QUOTED_TEXT, INTEGER]
    elif source == "polars":
        kinds = [TEXT, QUOTED_TEXT, NUL_TEXT, INTEGER, UNSIGNED, BOOLEAN]
    elif source == "shapefile":
        kinds = [FILE_NAMES, SHORT_INTEGER]
    elif source in ("lists", "arrays"):
        kinds = [TEXT, INTEGER, UNSIGNED, BOOLEAN]
    elif source == "pandas":
        text = [TEXT, QUOTED_TEXT, NUL_TEXT]
        kinds = {
            "Int64": [INTEGER],
            "arrow": TYPED,
            "object": [*text, INTEGER, BOOLEAN],
            "category": [TEXT, INTEGER],
        }.get(str(table.style["pandas"]), text)
    if source in ("parquet", "arrow", "arrays") and fault == "none" and rng.random() < 0.04:
        kinds = [FLOATING]
    kind = pick(rng, kinds)
    # Ids of one group come first, so that ids which readers confuse occur together.
    groups = [list(kind.groups[place]) for place in rng.permutation(len(kind.groups))]
    for group in groups:
        rng.shuffle(group)
    return kind, list(dict.fromkeys(value for group in groups for value in group))[:n]


def _encodable(kind: IdKind, encoding: str) -> IdKind:
    """Leave out the ids that an encoding cannot write."""
    groups = (
        [text for text in group if text.encode(encoding, "ignore").decode(encoding) == text] for group in kind.groups
    )
    return IdKind(kind.name, tuple(tuple(group) for group in groups))


def spellings(rng: np.random.Generator, n: int) -> list[str]:
    """Draw names of folders: alice, and names that an engine would read as numbers if alice were not there."""
    return ["alice", *pick(rng, SPELLINGS)][:n]


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────────

FIRST_WRITTEN, LAST_WRITTEN = -719162, 2932896
"""The day numbers of 0001-01-01 and 9999-12-31, the first and last day that ISO text with four-digit years can hold."""

ORDINARY_DAYS = (19782, 19783, 19784, 0, -1)
FAR_DAYS = (-1_000_000, -719163, FIRST_WRITTEN, LAST_WRITTEN, LAST_WRITTEN + 1, 4_000_000, 4_000_001)


def time_of(rng: np.random.Generator, day: int, second: int, kind: str) -> Any:
    """Convert a time on a given day in UTC to the value that a table stores."""
    if kind == "text":
        return _iso_text(rng, day, second)
    return day if kind == "date" else (day * 86400 + second) * 1_000_000


def _iso_text(rng: np.random.Generator, day: int, second: int) -> str:
    """Write a time on a given day in UTC as ISO text with a random offset, so that the local date may differ."""
    offset = int(pick(rng, [0, 0, 60, -120, 330, -30, 840]))
    local = day * 86400 + second + offset * 60
    if not FIRST_WRITTEN <= local // 86400 <= LAST_WRITTEN:
        offset, local = 0, day * 86400 + second
    date, clock = str(np.datetime64(local, "s")).split("T")
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}{pick(rng, [':', ''])}{abs(offset) % 60:02}"
    zone = zone if offset else pick(rng, ["Z", "", "+00:00"])
    fraction = pick(rng, ["", ".5", ".999999"])
    return f"{date}{pick(rng, ['T', ' '])}{clock}{fraction}{zone}"


def pick(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    """Draw one of several values with its own type; numpy's choice would convert all values to one type."""
    return values[int(rng.integers(len(values)))]
