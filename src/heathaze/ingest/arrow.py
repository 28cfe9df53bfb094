"""Arrow tables: the types that an engine does not know, brought exactly to ones that it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heathaze.errors import UnreadableData
from heathaze.ingest.columns import locate
from heathaze.ingest.memory import MOST_DAYS, beyond_days

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_table(source: Any, wanted: Sequence[str], where: str) -> Any:
    """The wanted columns of an Arrow table: dictionaries and views as what they stand for, times as days in UTC."""
    import pyarrow as arrow

    table = source.select(locate(source.column_names, wanted, where))
    for place, field in enumerate(table.schema):
        column = table.column(place)
        try:
            if isinstance(field.type, arrow.UuidType):
                column = arrow.array([None if value is None else str(value) for value in column.to_pylist()])
            for kind in _steps(arrow, field.type):
                column = column.cast(kind)
            per_day = _per_day(arrow, column.type)
            if per_day is not None:
                column = _days(arrow, column, field.name, per_day)
        except arrow.ArrowException:
            raise UnreadableData(
                f"Column {field.name!r} of the type {field.type} cannot be read; convert it."
            ) from None
        table = table.set_column(place, field.name, column)
    return table


def _steps(arrow: Any, kind: Any) -> list[Any]:
    """Types through which a column is cast, one after the other; none of the casts merges two values."""
    types = arrow.types
    if types.is_dictionary(kind):
        return [kind.value_type, *_steps(arrow, kind.value_type)]
    if types.is_null(kind) or types.is_string_view(kind) or types.is_large_string(kind):
        return [arrow.string()]
    if types.is_float16(kind):
        return [arrow.float32()]
    return []


def _days(arrow: Any, column: Any, name: str, per_day: int) -> Any:
    """Times as dates, rounded down; a wall clock counts as one in UTC. Arrow's own cast would wrap around."""
    since = column.cast(arrow.int64())
    days = since.fill_null(0).to_numpy() // per_day
    if (np.abs(days) > MOST_DAYS).any():
        raise UnreadableData(beyond_days(name))
    return arrow.array(days.astype(np.int32), mask=since.is_null().to_numpy()).cast(arrow.date32())


def _per_day(arrow: Any, kind: Any) -> int | None:
    """How many of its units a day has, where a type holds times."""
    if arrow.types.is_date64(kind):
        return 86_400_000
    return 86_400 * _PER_SECOND[kind.unit] if arrow.types.is_timestamp(kind) else None
