"""Turn hostile tables into files as people have them: other encodings, decimal commas, times, weights and row filters.

Each function takes a table whose visits are drawn and changes how they are written. The meaning of a visit (its place,
day, amount, and whether it is kept) is computed here in plain Python, independently of the reader.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np

from heathaze.testing.neighbour_fuzz.table import Table, Visit
from heathaze.testing.neighbour_fuzz.values import pick

WEIGHTS = (1, 1, 2, 7, 0, 0.5, 2.25, 0.0004, 1e6, 1e12, 1e300, None)
KINDS = ("walk", "walk", "walk", "Walk", "walk ", "ride", "")
ZONES = ("Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "America/New_York", "UTC")
FORMATS = ("%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d %H%M%S%z", "%d/%m/%y %H:%M:%S.%f %z")
CHANGES = (15338, 15339, 19813, 20023, 14898, 18000)
"""Days on which, or next to which, clocks change in one of the zones; on day 15338 there was no day in Apia."""

ENCODINGS = ("latin-1", "windows-1252", "utf-16")
FAULTS = (*ENCODINGS, "tabs", "decimal comma", "weights", "row filter", "local times", "epoch")


def apply(rng: np.random.Generator, table: Table) -> Table:
    """Apply the dialect of a table's recipe; a table without one stays as it is."""
    fault = table.recipe.fault
    if fault in ENCODINGS:
        return _styled(table, {"encoding": fault}, encoding=fault)
    if fault == "tabs":
        return _styled(table, {}, ending="tsv", separator="\t")
    changes: dict[str, Callable[[np.random.Generator, Table], Table]] = {
        "decimal comma": _decimal_comma,
        "weights": _weights,
        "row filter": _row_filter,
        "local times": _local_times,
        "epoch": _epoch,
    }
    return changes[fault](rng, table) if fault in changes else table


def _styled(table: Table, options: dict[str, Any], **style: Any) -> Table:
    known = dict(table.style.get("options", {}))
    return dataclasses.replace(table, style={**table.style, **style, "options": {**known, **options}})


def _changed(table: Table, change: Callable[[Visit], Visit]) -> Table:
    return dataclasses.replace(table, visits=tuple(map(change, table.visits)))


def _decimal_comma(rng: np.random.Generator, table: Table) -> Table:
    def comma(visit: Visit) -> Visit:
        x, y = (None if value is None else str(value).replace(".", ",") for value in (visit.x, visit.y))
        return dataclasses.replace(visit, x=x, y=y)

    return _styled(_changed(table, comma), {"decimal": ","}, separator=str(pick(rng, [";", "\t", "|"])))


def _with_column(rng: np.random.Generator, table: Table, role: str) -> Table:
    """Add a column before the last one, which is free text."""
    place = int(rng.integers(len(table.order)))
    order = (*table.order[:place], role, *table.order[place:])
    return dataclasses.replace(table, order=order, names={**table.names, role: f"{role} of it"})


def _weights(rng: np.random.Generator, table: Table) -> Table:
    def weigh(visit: Visit) -> Visit:
        weight = pick(rng, WEIGHTS)
        amount = 0 if weight is None else math.floor(min(float(weight), 2.0**32) * 1000)
        text = table.coordinate_kind == "text" and weight is not None
        return dataclasses.replace(visit, weight=repr(weight) if text else weight, amount=amount)

    table = _changed(_with_column(rng, table, "weight"), weigh)
    return _styled(dataclasses.replace(table, weight="share"), {"weight_column": table.names["weight"]})


def _row_filter(rng: np.random.Generator, table: Table) -> Table:
    def sort(visit: Visit) -> Visit:
        kind = str(pick(rng, KINDS))
        return dataclasses.replace(visit, kind=kind, kept=kind in ("walk", "Walk"))

    table = _changed(_with_column(rng, table, "kind"), sort)
    return _styled(table, {"only": {table.names["kind"]: ["walk", "Walk"]}})


def _local_times(rng: np.random.Generator, table: Table) -> Table:
    """Write times in a format, some of them with an offset, and count days in a zone."""
    zone = str(pick(rng, ZONES))
    form = str(pick(rng, FORMATS))

    def write(visit: Visit) -> Visit:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(int(pick(rng, CHANGES)), int(rng.integers(86400)))
        day = _days(moment)
        if "%z" in form:
            offset = datetime.timezone(datetime.timedelta(minutes=int(pick(rng, [0, 60, -180, 345, 780]))))
            moment = moment.replace(tzinfo=offset)
            day = _days(moment.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None))
        text = moment.strftime(form)
        text = text.replace("+0000", "Z") if rng.random() < 0.3 else text
        return dataclasses.replace(visit, day=day, time=text)

    return _styled(_changed(table, write), {"time_format": form, "time_zone": zone})


def _epoch(rng: np.random.Generator, table: Table) -> Table:
    """Write times as seconds or milliseconds since 1970, and count days in a zone."""
    zone, unit = str(pick(rng, ZONES)), str(pick(rng, ["seconds", "milliseconds"]))

    def write(visit: Visit) -> Visit:
        second = int(pick(rng, CHANGES)) * 86400 + int(rng.integers(-86400, 86400))
        local = datetime.datetime.fromtimestamp(second, zoneinfo.ZoneInfo(zone))
        number: Any = second if unit == "seconds" else second * 1000 + int(rng.integers(1000))
        if table.time_kind == "text":
            number = f"{number}{pick(rng, ['', '.0', '.75'])}"
        return dataclasses.replace(visit, day=_days(local.replace(tzinfo=None)), time=number)

    return _styled(_changed(table, write), {"time_format": unit, "time_zone": zone})


def _days(moment: datetime.datetime) -> int:
    return (moment.date() - datetime.date(1970, 1, 1)).days
