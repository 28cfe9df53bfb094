"""JSON lines: every line is written once, so that a person alone has the bytes they have among others."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.testing.neighbour_fuzz.csv_files import found
from heathaze.testing.neighbour_fuzz.table import Table, Visit
from heathaze.testing.neighbour_fuzz.values import pick

FAULTS = ("duplicate keys", "keys differ in case", "escaped NUL", "huge ids")


def written_lines(rng: np.random.Generator, table: Table) -> Table:
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
