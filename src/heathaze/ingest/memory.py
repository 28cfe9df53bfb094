"""Tables in memory, brought to arrays that every engine reads alike.

Whatever could merge two people on the way is refused: numpy makes one text of 1 and "1", and one number of 1 and True.
Values of an object column are brought to text one by one, by the rule below, never by what the whole column holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import UnreadableData
from heathaze.ingest.columns import locate

Array = npt.NDArray[Any]

_IDS = (str, int, bool, uuid.UUID)
_MISSING = ("NoneType", "NAType", "NaTType")


def is_pandas(source: Any) -> bool:
    """Whether this is a DataFrame, without an import of pandas."""
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def is_arrow(source: Any) -> bool:
    """Whether this is an Arrow table, without an import of pyarrow."""
    return type(source).__module__.split(".")[0] == "pyarrow" and hasattr(source, "column_names")


def arrays(source: Any, wanted: Sequence[str], where: str) -> list[Array]:
    """The wanted columns of a DataFrame or of a dict of arrays or lists: one dimension, one length, no surprises.

    The third column, where there is one, tells people apart: its ids are all text, all whole numbers, all truth values
    or all UUIDs.
    """
    if is_pandas(source):
        places = locate([str(name) for name in source.columns], wanted, where)
        found = [_from_pandas(source.iloc[:, place]) for place in places]
    else:
        locate([str(name) for name in source], wanted, where)
        found = [_from_values(source[name]) for name in wanted]
    if len({column.shape for column in found}) != 1 or any(column.ndim != 1 for column in found):
        raise UnreadableData("The arrays have different lengths, or more than one dimension; give one value per visit.")
    return [_plain(column, name, place == 2) for place, (column, name) in enumerate(zip(found, wanted, strict=True))]


def _from_pandas(column: Any) -> Array:
    kind = column.dtype
    if getattr(kind, "tz", None) is not None:
        return np.asarray(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if isinstance(kind, np.dtype) and kind.kind != "O":
        return np.asarray(column.to_numpy())
    if kind.kind in "biuf" and hasattr(kind, "numpy_dtype") and not column.isna().any():
        return np.asarray(column.to_numpy(dtype=kind.numpy_dtype))
    # As objects nothing is rounded: whole numbers with gaps between them would become floats.
    return np.asarray(column.to_numpy(dtype=object, na_value=None))


def _from_values(values: Any) -> Array:
    """An array of what a caller gave for one column; a list becomes objects, since numpy would make them all alike."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(object), None))
    if type(values).__module__.split(".")[0] == "pandas" and hasattr(values, "dtype"):
        return _from_pandas(values)
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise UnreadableData(f"A column is of the kind {type(values).__name__}; give an array or a list.")
    return np.fromiter(values, dtype=object, count=len(values))


def _plain(column: Array, name: str, is_person: bool) -> Array:
    """An array of a type that every engine knows: objects and numpy's texts as text, times as the second of a day."""
    kind = column.dtype.kind
    if kind == "O" or column.dtype.char == "T":
        return _texts(column.astype(object), name, is_person)
    if kind == "U":
        return column.astype(object)
    if kind == "S":
        return _decoded(column, name)
    if kind == "M":
        return column.astype("datetime64[D]").astype("datetime64[s]")  # only the day counts
    if kind not in "biuf":
        raise UnreadableData(f"Column {name!r} holds values of the type {column.dtype}; give numbers, text or times.")
    if kind == "f" and column.dtype.itemsize > 8:
        return column.astype(np.float64)
    return column.astype(column.dtype.newbyteorder("="), copy=False)


def _texts(column: Array, name: str, is_person: bool) -> Array:
    """Each value as text, None where it is missing."""
    values = [value.item() if isinstance(value, np.generic) else value for value in column.tolist()]
    kinds = {type(value) for value in values}
    kinds = {kind for kind in kinds if kind.__name__ not in _MISSING}
    if is_person and (len(kinds) > 1 or not kinds <= set(_IDS)):
        raise UnreadableData(
            f"Column {name!r} mixes kinds of ids, or holds neither text nor whole numbers; convert it to one of them."
        )
    texts = np.empty(len(values), dtype=object)
    texts[:] = [None if type(value).__name__ in _MISSING else str(value) for value in values]
    return texts


def _decoded(column: Array, name: str) -> Array:
    """Numpy's bytes as text."""
    try:
        return np.strings.decode(column, "utf-8").astype(object)
    except UnicodeDecodeError:
        raise UnreadableData(f"Column {name!r} holds bytes that are not UTF-8; convert it to text.") from None
