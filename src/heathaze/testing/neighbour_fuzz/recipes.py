"""Which tables there are: every source, sound and with each of its faults, in turn.

Faults that readers do well to refuse take turns with each other, so that about a quarter of all tables is refused:
of those nothing can be compared.
"""

from __future__ import annotations

from heathaze.testing.neighbour_fuzz.table import Recipe


def _turn(source: str, *faults: str) -> tuple[Recipe, ...]:
    return tuple(Recipe(source, fault) for fault in faults or ("none",))


_NAMES = tuple(Recipe(source, "names differ in case") for source in ("parquet", "csv", "arrow"))
_MIXED = tuple(Recipe(source, "mixed ids") for source in ("lists", "arrays", "pandas"))

ROUND = (
    _turn("parquet"),
    _turn("csv", "forged lines"),
    _turn("parquet", "wrong statistics"),
    _turn("json lines", "column folders"),
    _turn("csv", "stray quotes"),
    _MIXED,
    _turn("csv"),
    _NAMES,
    _turn("parquet", "person in folder names"),
    _turn("csv", "column folders"),
    _turn("arrow"),
    _turn("pandas"),
    _turn("csv", "line break in quotes"),
    _turn("parquet"),
    _turn("json lines"),
    _turn("parquet", "person in folder names only"),
    _turn("csv", "mixed line ends", "lone CR"),
    _turn("lists", "NUL ids"),
    _turn("parquet", "wrong null counts"),
    _turn("csv", "short row", "long row"),
    _turn("csv"),
    _turn("parquet", "column folders"),
    _turn("json lines", "escaped NUL"),
    _turn("csv", "quote in a field", "unterminated quote", "text after quote"),
    _turn("arrow"),
    _turn("parquet", "several files"),
    _turn("csv", "no-break space", "NUL byte", "not UTF-8"),
    _turn("arrays"),
    _turn("parquet"),
    _turn("pandas"),
    _turn("json lines", "huge ids", "keys differ in case", "duplicate keys"),
    _turn("csv", "several files"),
    _turn("parquet", "unusual types"),
    _turn("csv", "packed"),
    _turn("lists"),
    _turn("arrow", "unusual types"),
    _turn("parquet", "wrong statistics"),
    _turn("arrays", "NUL ids"),
    _turn("json lines", "column folders"),
    _turn("parquet"),
    _turn("csv"),
    _turn("arrow"),
    _turn("relation"),
    _turn("parquet", "several files"),
    _turn("pandas"),
    _turn("json lines"),
    _turn("csv", "column folders"),
    _turn("parquet"),
    _turn("relation"),
    _turn("arrow"),
)
"""One table of each turn is a round; the first forty or so meet every source and every fault that mixed people up."""


def recipe(number: int) -> Recipe:
    """What the table of this number is made like.

    >>> str(recipe(0)), str(recipe(1)), str(recipe(16)), str(recipe(66))
    ('parquet', 'csv, forged lines', 'csv, mixed line ends', 'csv, lone CR')
    """
    turn = ROUND[number % len(ROUND)]
    return turn[number // len(ROUND) % len(turn)]
