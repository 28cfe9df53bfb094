"""Arrow tables: the types that an engine does not know, brought exactly to ones that it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heathaze.errors import UnreadableData
from heathaze.ingest.columns import locate


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
    if types.is_timestamp(kind):
        # a wall clock counts as one in UTC; the cast to a day rounds down, also before 1970
        return [arrow.timestamp(kind.unit, "UTC"), arrow.timestamp(kind.unit), arrow.date32()]
    return []
