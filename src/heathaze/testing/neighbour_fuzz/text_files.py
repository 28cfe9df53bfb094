"""Write hostile tables to CSV files and JSON lines, with faults.

The line of each visit is made once, with its faults. The lines of a person are therefore the same bytes in a file of
this person alone and in a file of everybody. The fuzz test does not prescribe which faults a reader refuses. It checks
that the lines of one person do not change the counts of another person, and that all engines read a file alike.
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
    """Make the CSV line of every visit of a table, with its fault. Without a separator, choose one at random."""
    fault = table.recipe.fault
    needs_quotes = fault in ("forged lines", "line break in quotes", "text after quote")
    quoting = "minimal" if needs_quotes else pick(rng, ["all", "minimal", "minimal", "none"])
    separator = separator or str(table.style.get("separator") or pick(rng, [",", ",", ";", "\t", "|"]))
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
        # Blank lines are not rows, and the last line may lack a line end.
        blank = str(pick(rng, [end, end * 2])) if rng.random() < 0.08 else ""
        plain = dataclasses.replace(visit, note=note)
        visits.append(dataclasses.replace(plain, line=(_line(fields(table, plain), style) + blank).encode()))
    table = dataclasses.replace(table, visits=tuple(visits))
    return _FAULTS[fault](rng, table) if fault in _FAULTS else table


def fields(table: Table, visit: Visit) -> list[str]:
    """Return the values of a visit as texts, in the order of the table's columns."""
    values = {"person": visit.id, "x": visit.x, "y": visit.y, "time": visit.time}
    values |= {"weight": visit.weight, "kind": visit.kind}
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


def write_text(table: Table, visits: Sequence[Visit], path: Path) -> None:
    """Write the lines of some visits to a CSV file or a file of JSON lines, which is packed if its ending is .gz."""
    mark = b"\xef\xbb\xbf" if table.style.get("mark") else b""
    content = mark + table.style.get("header", b"") + b"".join(visit.line for visit in visits)
    if table.style.get("open_end"):
        content = content.rstrip(b"\r\n")
    if "encoding" in table.style:
        content = content.decode("utf-8-sig").encode(str(table.style["encoding"]))
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


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
    """Return the CSV line of a visit with another text in its last field."""
    values = [*fields(table, table.visits[place])[:-1], note]
    return _line(values, dict(table.style)).encode()


def _forged_lines(rng: np.random.Generator, table: Table) -> Table:
    """Fault: the last field has a quoted line break, followed by text that looks like rows of all other people."""
    place = _victim(rng, table)
    end, separator = str(table.style["end"]), str(table.style["separator"])
    note = "hello"
    for person in table.people:
        if person != table.visits[place].person:
            # The forged row lies in a cell that this person has not visited, if there is such a cell.
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
    """Return the CSV text of each field of a visit, so that they can be joined with a field of raw text."""
    texts = []
    for value in fields(table, table.visits[place]):
        alone = _line([value, ""], {**table.style, "end": ""})
        texts.append(alone[: alone.rindex(str(table.style["separator"]))])
    return texts


def _joined(table: Table, texts: Sequence[str]) -> bytes:
    return (str(table.style["separator"]).join(texts) + str(table.style["end"])).encode()


def _stray_quotes(rng: np.random.Generator, table: Table) -> Table:
    """Fault: a quotation mark opens in the first row of a person and closes in the last row of this person."""
    person = max(table.people, key=lambda each: (len(table.of(each)), rng.random()))
    mine = [place for place, visit in enumerate(table.visits) if visit.person == person]
    first, last = mine[0], mine[-1]
    opening, closing = [*_written(table, first)[:-1], '"hi'], [*_written(table, last)[:-1], 'x"']
    return _changed(table, {first: _joined(table, opening), last: _joined(table, closing)}, known=False)


def _raw(text: Callable[[list[str]], list[str]]) -> Callable[..., Table]:
    """Return a fault that changes the raw text of one line's fields."""

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
    """Fault: a no-break space stands before a coordinate."""
    place = _victim(rng, table)
    visit = table.visits[place]
    odd = dataclasses.replace(visit, x=f"\u00a0{'' if visit.x is None else visit.x}")
    return _changed(table, {place: _line(fields(table, odd), dict(table.style)).encode()}, known=False)


def _id_bytes(sign: bytes) -> Callable[..., Table]:
    """Return a fault that adds a byte which is not valid text to the id of one person, in all rows of this person."""

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
    """Make the JSON line of every visit of a table, with the fault of its recipe."""
    fault = table.recipe.fault
    visits: list[Visit] = []
    for place, visit in enumerate(table.visits):
        # If all lines of a person lacked a key, the table of this person alone would lack the column.
        first = all(visit.person != before.person or visit.file != before.file for before in visits)
        values = {"person": visit.id, "x": visit.x, "y": visit.y, "time": visit.time}
        values |= {"weight": visit.weight, "kind": visit.kind} if "options" in table.style else {}
        pairs: list[tuple[str, Any]] = []
        for role in table.order:
            value = values.get(role, {"nested": [visit.note, {"u": 1, "x": 99}]})
            if value is None and not first and rng.random() < 0.5:
                continue  # a missing key means null
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
