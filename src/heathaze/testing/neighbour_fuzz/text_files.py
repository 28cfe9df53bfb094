"""Files of text. Every line is written once, with its faults: a person alone has the bytes they have among others.

The net does not say which faults are to be refused. It checks that no person's line changes what another person counts,
and that all engines read the file alike.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.testing.neighbour_fuzz.table import Table, Visit
from heathaze.testing.neighbour_fuzz.values import pick

QUOTING = {"all": csv.QUOTE_ALL, "minimal": csv.QUOTE_MINIMAL, "none": csv.QUOTE_NONE}


def csv_lines(rng: np.random.Generator, table: Table, separator: str | None = None) -> Table:
    """The table with a line for every visit, damaged as the recipe says; the separator is drawn unless given."""
    fault = table.recipe.fault
    needs_quotes = fault in ("forged lines", "line break in quotes", "text after quote")
    quoting = "minimal" if needs_quotes else pick(rng, ["all", "minimal", "minimal", "none"])
    separator = separator or str(pick(rng, [",", ",", ";", "\t", "|"]))
    if quoting == "none" and any(
        sign in str(value)
        for sign in f'{separator}"'
        for value in (*table.names.values(), *(visit.id for visit in table.visits))
    ):
        quoting = "minimal"
    end = pick(rng, ["\n", "\n", "\r\n"])
    style = {"quoting": quoting, "separator": separator, "end": end, "mark": bool(rng.random() < 0.15)}
    header = _line([table.names[role] for role in table.order], style)
    table = dataclasses.replace(table, style={**table.style, **style, "header": header.encode()})
    visits = []
    for visit in table.visits:
        note = visit.note.replace(separator, " ").replace('"', "") if quoting == "none" else visit.note
        # Blank lines are no rows; and a last line need not end.
        blank = str(pick(rng, [end, end * 2])) if rng.random() < 0.08 else ""
        plain = dataclasses.replace(visit, note=note)
        visits.append(dataclasses.replace(plain, line=(_line(fields(table, plain), style) + blank).encode()))
    table = dataclasses.replace(table, visits=tuple(visits))
    return _FAULTS[fault](rng, table) if fault in _FAULTS else table


def fields(table: Table, visit: Visit) -> list[str]:
    """A visit's values as text, in the order of the columns."""
    values = {"person": visit.id, "x": visit.x, "y": visit.y, "time": visit.time}
    texts = {role: "" if value is None else str(value) for role, value in values.items()}
    return [texts[role] if role in texts else visit.other(role) for role in table.order]


def _line(values: Sequence[str], style: dict[str, object]) -> str:
    if style["quoting"] == "none":
        return str(style["separator"]).join(values) + str(style["end"])
    text = io.StringIO()
    csv.writer(
        text,
        delimiter=str(style["separator"]),
        quoting=QUOTING[str(style["quoting"])],  # type: ignore[arg-type]
        lineterminator=str(style["end"]),
    ).writerow(values)
    return text.getvalue()


def write_csv(table: Table, folder: Path, visits: Sequence[Visit], plain: bool) -> str:
    """Write the files; returns a path or a pattern."""
    packed = table.style.get("packed", False)
    written = sorted({visit.file for visit in visits}) or [0]
    for number in written:
        where = folder / ("plain" if plain else table.folders[number % len(table.folders)])
        where.mkdir(parents=True, exist_ok=True)
        mark = b"\xef\xbb\xbf" if table.style["mark"] else b""
        content = mark + table.style["header"] + b"".join(visit.line for visit in visits if visit.file == number)
        if table.style.get("open_end"):
            content = content.rstrip(b"\r\n")
        name = f"part-{number}.csv" + (".gz" if packed else "")
        (where / name).write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return found(folder, table, written, plain, "csv.gz" if packed else "csv")


def found(folder: Path, table: Table, written: Sequence[int], plain: bool, ending: str) -> str:
    """The path of one file, or a pattern for several."""
    if len({visit.file for visit in table.visits}) == 1:
        where = folder / ("plain" if plain else table.folders[written[0] % len(table.folders)])
        return str(where / f"part-{written[0]}.{ending}")
    return str(folder / "**" / f"part-*.{ending}")


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed(table: Table, change: dict[int, bytes], *, known: bool) -> Table:
    visits = [
        dataclasses.replace(visit, line=change[place]) if place in change else visit
        for place, visit in enumerate(table.visits)
    ]
    guilty = table.visits[min(change)].person
    return dataclasses.replace(table, visits=tuple(visits), known=table.known and known, guilty=guilty)


def _victim(rng: np.random.Generator, table: Table) -> int:
    return int(rng.integers(len(table.visits)))


def _respelt(table: Table, place: int, note: str) -> bytes:
    """The line of a visit with another text in its last field."""
    values = [*fields(table, table.visits[place])[:-1], note]
    return _line(values, dict(table.style)).encode()


def _forged_lines(rng: np.random.Generator, table: Table) -> Table:
    """A quoted line break in the last field, and after it what looks like rows of everybody else."""
    place = _victim(rng, table)
    end, separator = str(table.style["end"]), str(table.style["separator"])
    note = "hello"
    for person in table.people:
        if person != table.visits[place].person:
            # to a cell of the box where that person has not been, if there is one
            been = set(table.cells(table.of(person)))
            cells = zip(table.visits, table.cells(table.visits), strict=True)
            there = pick(rng, [visit for visit, cell in cells if cell not in been | {None}] or table.visits)
            forged = dataclasses.replace(pick(rng, table.of(person)), note="x", x=there.x, y=there.y)
            note += end + separator.join(fields(table, forged))
    return _changed(table, {place: _respelt(table, place, note)}, known=True)


def _line_break(rng: np.random.Generator, table: Table) -> Table:
    place = _victim(rng, table)
    note = f"one{pick(rng, [chr(10), chr(13) + chr(10), chr(13)])}two"
    return _changed(table, {place: _respelt(table, place, note)}, known=True)


def _written(table: Table, place: int) -> list[str]:
    """The fields of a visit, each as it is written, so that they can be joined with one that is not."""
    texts = []
    for value in fields(table, table.visits[place]):
        alone = _line([value, ""], {**table.style, "end": ""})
        texts.append(alone[: alone.rindex(str(table.style["separator"]))])
    return texts


def _joined(table: Table, texts: Sequence[str]) -> bytes:
    return (str(table.style["separator"]).join(texts) + str(table.style["end"])).encode()


def _stray_quotes(rng: np.random.Generator, table: Table) -> Table:
    """A quotation mark that opens in a person's first row and one that closes in their last."""
    person = max(table.people, key=lambda each: (len(table.of(each)), rng.random()))
    mine = [place for place, visit in enumerate(table.visits) if visit.person == person]
    first, last = mine[0], mine[-1]
    opening, closing = [*_written(table, first)[:-1], '"hi'], [*_written(table, last)[:-1], 'x"']
    return _changed(table, {first: _joined(table, opening), last: _joined(table, closing)}, known=False)


def _raw(text: Callable[[list[str]], list[str]]) -> Callable[..., Table]:
    """A fault in how one line's fields are written."""

    def damage(rng: np.random.Generator, table: Table) -> Table:
        place = _victim(rng, table)
        return _changed(table, {place: _joined(table, text(_written(table, place)))}, known=False)

    return damage


def _ends(ends: Sequence[str]) -> Callable[..., Table]:
    def damage(rng: np.random.Generator, table: Table) -> Table:
        change = {
            place: visit.line.rstrip(b"\r\n") + str(pick(rng, ends)).encode()
            for place, visit in enumerate(table.visits)
        }
        return _changed(table, change, known=False)

    return damage


def _no_break_space(rng: np.random.Generator, table: Table) -> Table:
    """A no-break space before a coordinate."""
    place = _victim(rng, table)
    visit = table.visits[place]
    odd = dataclasses.replace(visit, x=f"\u00a0{'' if visit.x is None else visit.x}")
    return _changed(table, {place: _line(fields(table, odd), dict(table.style)).encode()}, known=False)


def _id_bytes(sign: bytes) -> Callable[..., Table]:
    """A byte that is no text at the end of one person's id, in all of their rows."""

    def damage(rng: np.random.Generator, table: Table) -> Table:
        person = table.visits[_victim(rng, table)].person
        change = {}
        for place, visit in enumerate(table.visits):
            if visit.person == person:
                marked = fields(table, dataclasses.replace(visit, id=f"{visit.id}\x01"))
                change[place] = _line(marked, dict(table.style)).encode().replace(b"\x01", sign)
        return _changed(table, change, known=False)

    return damage


_FAULTS: dict[str, Callable[[np.random.Generator, Table], Table]] = {
    "forged lines": _forged_lines,
    "line break in quotes": _line_break,
    "stray quotes": _stray_quotes,
    "quote in a field": _raw(lambda values: [*values[:-1], '5" pipe']),
    "unterminated quote": _raw(lambda values: [*values[:-1], '"never closed']),
    "text after quote": _raw(lambda values: [*values[:-1], '"closed" and more']),
    "short row": _raw(lambda values: values[:-1]),
    "long row": _raw(lambda values: [*values, "more"]),
    "lone CR": _ends(["\r"]),
    "mixed line ends": _ends(["\n", "\r\n", "\r"]),
    "no-break space": _no_break_space,
    "NUL byte": _id_bytes(b"\0"),
    "not UTF-8": _id_bytes(b"\xeb"),
}
CSV_FAULTS = tuple(_FAULTS)


# ── JSON lines ──────────────────────────────────────────────────────────────────────────────────────────────────────


def json_lines(rng: np.random.Generator, table: Table) -> Table:
    """The table with a line for every visit, damaged as the recipe says."""
    fault = table.recipe.fault
    visits: list[Visit] = []
    for place, visit in enumerate(table.visits):
        # somebody whose lines all lack a key would be a table without that column
        first = all(visit.person != before.person or visit.file != before.file for before in visits)
        values = {"person": visit.id, "x": visit.x, "y": visit.y, "time": visit.time}
        pairs: list[tuple[str, Any]] = []
        for role in table.order:
            value = values.get(role, {"nested": [visit.note, {"u": 1, "x": 99}]})
            if value is None and not first and rng.random() < 0.5:
                continue  # a key that is missing is a null
            if role in "xy" and value is not None and rng.random() < 0.2:
                value = str(value)
            pairs.append((table.names[role], value))
        odd = place % 3 == 0
        person = table.names["person"]
        if fault == "duplicate keys" and odd:
            pairs.append((person, pick(rng, table.visits).id))
        elif fault == "keys differ in case" and odd:
            pairs.insert(int(rng.integers(len(pairs))), (person.swapcase(), pick(rng, table.visits).id))
        ascii_only = bool(rng.integers(2))
        text = ", ".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=ascii_only)}" for key, value in pairs)
        blank = "\n" if rng.random() < 0.05 else ""
        visits.append(dataclasses.replace(visit, line=f"{{{text}}}\n{blank}".encode()))
    known = table.known and fault not in ("duplicate keys", "keys differ in case")
    return dataclasses.replace(table, visits=tuple(visits), known=known)


def write_json(table: Table, folder: Path, visits: Sequence[Visit], plain: bool) -> str:
    """Write the files; returns a path or a pattern."""
    ending = str(table.style.get("ending", "jsonl"))
    written = sorted({visit.file for visit in visits}) or [0]
    for number in written:
        where = folder / ("plain" if plain else table.folders[number % len(table.folders)])
        where.mkdir(parents=True, exist_ok=True)
        content = b"".join(visit.line for visit in visits if visit.file == number)
        (where / f"part-{number}.{ending}").write_bytes(
            gzip.compress(content, mtime=0) if ending.endswith("gz") else content
        )
    return found(folder, table, written, plain, ending)
