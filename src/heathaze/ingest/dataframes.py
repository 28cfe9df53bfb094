"""Convert tables in memory (DataFrames, dicts of arrays, Arrow tables) to types that every engine reads alike.

A conversion that could merge two people is refused. For example, numpy converts 1 and "1" to the same text, and 1 and
True to the same number. Values of an object column are converted to text one by one, so the result of one value does
not depend on the other values.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import UnreadableData
from heathaze.ingest.columns import Columns, locate
from heathaze.ingest.times import Clock

Array = npt.NDArray[Any]

MOST_DAYS = 2**31 - 1
"""The largest distance of a date from 1970-01-01, in days, that every engine can hold."""

_IDS = (str, int, bool, uuid.UUID)
_MISSING = ("NoneType", "NAType", "NaTType")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def is_pandas(source: Any) -> bool:
    """Return whether a source is a pandas DataFrame, without importing pandas."""
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def is_arrow(source: Any) -> bool:
    """Return whether a source is an Arrow table, without importing pyarrow."""
    return type(source).__module__.split(".")[0] == "pyarrow" and hasattr(source, "column_names")


def name_of(source: Any) -> str:
    """Return the name of a table in errors: that of the files from which it was read, or "The table".

    Only tables that were read from files have a text in the attribute ``where``. In pandas, ``where`` is a method, and
    the text of this method contains all rows.
    """
    where = getattr(source, "where", None)
    return where if isinstance(where, str) else "The table"


def arrays(source: Any, wanted: Columns, where: str) -> list[Array]:
    """Convert the wanted columns of a DataFrame, or of a dict of arrays or lists.

    Args:
        source: The table.
        wanted: The columns. The ids of people must be all text, all whole numbers, all booleans or all UUIDs.
        where: The name of the table in errors.

    Returns:
        One array of one dimension for each column, all of the same length.

    Raises:
        UnreadableData: A column is missing, or holds values that an engine could misread.
    """
    names = wanted.wanted
    if is_pandas(source):
        places = locate([str(name) for name in source.columns], names, where)
        found = [_from_pandas(source.iloc[:, place], wanted.clock) for place in places]
    else:
        places = locate([str(name) for name in source], names, where)
        given = list(source.values())
        found = [_from_values(given[place], wanted.clock) for place in places]
    if len({column.shape for column in found}) != 1 or any(column.ndim != 1 for column in found):
        raise UnreadableData("The arrays have different lengths, or more than one dimension; give one value per visit.")
    return [
        _plain(column, name, name in (wanted.person, wanted.trip)) for column, name in zip(found, names, strict=True)
    ]


def _from_pandas(column: Any, clock: Clock) -> Array:
    kind = column.dtype
    if getattr(kind, "tz", None) is not None:
        times = getattr(column, "dt", column).tz_convert("UTC")
        instants = np.asarray(getattr(times, "dt", times).tz_localize(None).to_numpy())
        days = clock.local_days(instants.astype("datetime64[s]").astype(np.int64)).astype("datetime64[D]")
        return np.where(np.isnat(instants), np.datetime64("NaT"), days)
    if isinstance(kind, np.dtype) and kind.kind != "O":
        return np.asarray(column.to_numpy())
    if kind.kind in "biuf" and hasattr(kind, "numpy_dtype") and not column.isna().any():
        return np.asarray(column.to_numpy(dtype=kind.numpy_dtype))
    # Values are kept as Python objects, which are not rounded. Whole numbers with missing values would otherwise become
    # floats.
    return np.asarray(column.to_numpy(dtype=object, na_value=None))


def _from_values(values: Any, clock: Clock) -> Array:
    """Convert the values of one column to an array. Lists become arrays of objects, because numpy would unify types."""
    if isinstance(values, np.ma.MaskedArray):
        column = np.asarray(values.data).astype(object)
        column[np.ma.getmaskarray(values)] = None  # filled(None) would insert the array's fill value instead of None
        return column
    if type(values).__module__.split(".")[0] == "pandas" and hasattr(values, "dtype"):
        return _from_pandas(values, clock)
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise UnreadableData(f"A column has the type {type(values).__name__}; give an array or a list.")
    return np.fromiter(values, dtype=object, count=len(values))


def _plain(column: Array, name: str, is_person: bool) -> Array:
    """Convert a column to a type that every engine knows: objects and numpy's texts to text, times to days."""
    kind = column.dtype.kind
    if kind == "O" or column.dtype.char == "T":
        return _texts(column.astype(object), name, is_person)
    if kind == "U":
        return column.astype(object)
    if kind == "S":
        return _decoded(column, name)
    if kind == "M":
        return _days(column, name)
    if kind not in "biuf":
        raise UnreadableData(f"Column {name!r} holds values of the type {column.dtype}; give numbers, text or times.")
    if kind == "f" and column.dtype.itemsize > 8:
        return column.astype(np.float64)
    return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))


def _texts(column: Array, name: str, is_person: bool) -> Array:
    """Convert each value of a column to text, and a missing value to None."""
    values = [_python(value) for value in column.tolist()]
    kinds = {type(value) for value in values}
    kinds = {kind for kind in kinds if kind.__name__ not in _MISSING}
    if is_person and (len(kinds) > 1 or not kinds <= set(_IDS)):
        raise UnreadableData(
            f"Column {name!r} mixes kinds of ids, or holds neither text nor whole numbers; convert it to one of them."
        )
    texts = np.empty(len(values), dtype=object)
    try:
        texts[:] = [None if type(value).__name__ in _MISSING else str(value) for value in values]
    except Exception:  # the error comes from the value's own code and may quote the value
        raise UnreadableData(f"Column {name!r} holds a value that cannot be written as text; correct it.") from None
    return texts


def _python(value: Any) -> Any:
    """Convert a value of numpy to one of Python. A time in nanoseconds would become a number, and becomes text."""
    if not isinstance(value, np.generic):
        return value
    found = value.item()
    return str(value) if isinstance(value, np.datetime64) and isinstance(found, int) else found


def _days(column: Array, name: str) -> Array:
    """Convert times to the first second of their day, because only the day counts."""
    days = column.astype("datetime64[D]")
    known = ~np.isnat(column)
    is_coarse = np.datetime_data(column.dtype)[0] in "YMW"  # in these units a distant day would overflow
    if (np.abs(days[known].astype(np.int64)) > MOST_DAYS).any() or (
        is_coarse and (days.astype(column.dtype) != column)[known].any()
    ):
        raise UnreadableData(_beyond_days(name))
    return days.astype("datetime64[s]")


def _decoded(column: Array, name: str) -> Array:
    """Convert a column of numpy's bytes to text."""
    try:
        return np.strings.decode(column, "utf-8").astype(object)
    except UnicodeDecodeError:
        raise UnreadableData(f"Column {name!r} holds bytes that are not UTF-8; convert it to text.") from None


def plain_table(source: Any, wanted: Columns, where: str) -> Any:
    """Convert the wanted columns of an Arrow table, exactly, to types that every engine knows.

    Columns of dictionary and view types become plain values. Times become days. An instant becomes its day in the
    clock's zone, and a time without a zone becomes the day that is written in it.

    Args:
        source: The table.
        wanted: The columns.
        where: The name of the table in errors.

    Returns:
        An Arrow table of the wanted columns, in their order.

    Raises:
        UnreadableData: A column is missing, or has a type that cannot be converted exactly.
    """
    import pyarrow as arrow

    table = source.select(locate(source.column_names, wanted.wanted, where))
    for place, field in enumerate(table.schema):
        column = table.column(place)
        try:
            if isinstance(field.type, arrow.UuidType):
                column = arrow.array([None if value is None else str(value) for value in column.to_pylist()])
            for kind in _steps(arrow, field.type):
                column = column.cast(kind)
            per_day = _per_day(arrow, column.type)
            if per_day is not None:
                column = _arrow_days(arrow, column, field.name, per_day, wanted.clock)
        except arrow.ArrowException:
            raise UnreadableData(
                f"Column {field.name!r} of the type {field.type} cannot be read; convert it."
            ) from None
        table = table.set_column(place, field.name, column)
    return table


def _steps(arrow: Any, kind: Any) -> list[Any]:
    """Return the Arrow types to which a column is cast, one after the other; no cast merges two values."""
    types = arrow.types
    if types.is_dictionary(kind):
        return [kind.value_type, *_steps(arrow, kind.value_type)]
    if types.is_null(kind) or types.is_string_view(kind) or types.is_large_string(kind):
        return [arrow.string()]
    if types.is_float16(kind):
        return [arrow.float32()]
    return []


def _arrow_days(arrow: Any, column: Any, name: str, per_day: int, clock: Clock) -> Any:
    """Convert Arrow times to dates, rounded down. Arrow's own cast may overflow."""
    since = column.cast(arrow.int64())
    units = since.fill_null(0).to_numpy()
    days = units // per_day
    if (np.abs(days) > MOST_DAYS).any():
        raise UnreadableData(_beyond_days(name))
    if getattr(column.type, "tz", None) is not None:
        days = clock.local_days(units // (per_day // 86_400))
    return arrow.array(days.astype(np.int32), mask=since.is_null().to_numpy()).cast(arrow.date32())


def _per_day(arrow: Any, kind: Any) -> int | None:
    """Return the number of an Arrow time type's units in a day; None for other types."""
    if arrow.types.is_date64(kind):
        return 86_400_000
    return 86_400 * _PER_SECOND[kind.unit] if arrow.types.is_timestamp(kind) else None


def _beyond_days(name: str) -> str:
    """Write the error sentence about a day that no engine can hold."""
    return f"Column {name!r} holds a time millions of years away; correct it."
