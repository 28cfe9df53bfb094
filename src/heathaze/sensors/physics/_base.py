"""What all fields share: leaving out readings, and checks of lengths, places, indices and factors of products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import positive, shown
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

MOST_LENGTH = 1e30
"""Largest length; the smallest is its inverse. Within these limits squares and cubes of lengths do not overflow."""


class FieldBase(ABC):
    """Base class of the fields of this package. A field implements ``_with`` and gets ``only`` and ``without``."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of readings, and number of candidate places."""

    @abstractmethod
    def _with(self, rows: Integers) -> Self:
        """The same field with only the readings at the indices ``rows``, which are ascending."""

    def only(self, rows: npt.ArrayLike) -> Self:
        """The same field with only these readings, given as a mask or as indices.

        Args:
            rows: The readings to keep, as a mask or as indices.
        """
        return self._with(_kept(rows, self.shape[0], keep=True))

    def without(self, rows: npt.ArrayLike) -> Self:
        """The same field without these readings, given as a mask or as indices.

        Args:
            rows: The readings to leave out, as a mask or as indices.
        """
        return self._with(_kept(rows, self.shape[0], keep=False))


def length(value: float, name: str, meaning: str) -> float:
    """Check a length of a field: a number between 1e-30 and 1e30.

    Raises:
        InvalidInput: The length is not such a number.
    """
    number = positive(value, name, meaning)
    if not 1 / MOST_LENGTH <= number <= MOST_LENGTH:
        raise InvalidInput(
            f"{name} is {shown(value)}; give {meaning}, between {1 / MOST_LENGTH:g} and {MOST_LENGTH:g}."
        )
    return number


def spread(T: float, size: float) -> float:
    """Check a field's T (diffusivity times time): √T must lie between a millionth and a million times the size.

    With a smaller T, heat would reach only sensors that lie exactly at a source.
    """
    area = positive(T, "T", "diffusivity times time, an area")
    if not 1e-12 * size**2 <= area <= 1e12 * size**2:
        raise InvalidInput(
            f"T is {shown(T)} on a length of {size:g}; give diffusivity times time, an area, with √T between a "
            "millionth of that length and a million times it."
        )
    return area


def coordinates(values: npt.ArrayLike, dimensions: int, what: str) -> Floats:
    """Check coordinates of places: finite, shape (k, dimensions); in one dimension a plain list is accepted too."""
    found = floats(values, f"The positions of {what} are not numbers; give coordinates.")
    if found.ndim == 1 and dimensions == 1:
        found = found[:, None]
    if found.ndim != 2 or found.shape[1] != dimensions:
        raise InvalidInput(f"The positions of {what} have the shape {found.shape}; give the shape (k, {dimensions}).")
    if not np.isfinite(found).all():
        wrong = point_text(found[~np.isfinite(found).all(axis=1)][0])
        raise InvalidInput(f"A position among {what} is {wrong}; give finite coordinates.")
    return found


def sensor_places(values: npt.ArrayLike, size: Floats) -> Floats:
    """Check positions of sensors: at least one sensor, all between 0 and ``size``, and no two at the same place."""
    places = coordinates(values, len(size), "sensors")
    if len(places) == 0:
        raise InvalidInput("There are no sensors; give the position of at least one.")
    outside = ((places < 0) | (places > size)).any(axis=1)
    if outside.any():
        number = int(np.flatnonzero(outside)[0])
        raise InvalidInput(
            f"Sensor {number} lies at {point_text(places[number])}, outside of 0 to {point_text(size)}; "
            "correct its position, or the size."
        )
    if (twins := same_place(places)) is not None:
        raise InvalidInput(
            f"Sensors {twins[0]} and {twins[1]} both lie at {point_text(places[twins[0]])}; give each place once, and "
            "average readings that were taken at one place."
        )
    return places


def same_place(places: Floats) -> tuple[int, int] | None:
    """Find two places with equal coordinates: their row indices in ascending order, or None."""
    order = np.lexsort(places.T)
    same = np.flatnonzero((np.diff(places[order], axis=0) == 0).all(axis=1))
    if not same.size:
        return None
    one, other = sorted(order[same[0] : same[0] + 2].tolist())
    return one, other


def block(values: npt.ArrayLike, length: int, what: str) -> Floats:
    """Check the vector or matrix that is multiplied with a field: its length, or the length of its columns."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim not in (1, 2) or found.shape[0] != length:
        raise InvalidInput(
            f"The {what} have the shape {found.shape}; give a vector of {length} numbers, or a matrix with "
            f"{length} rows."
        )
    return found


def candidate_numbers(where: npt.ArrayLike, count: int) -> Integers:
    """Check indices of candidate places."""
    found = np.asarray(where)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InvalidInput(
            f"Places are given as {found.dtype} of shape {found.shape}; give a list of indices of candidate places."
        )
    check_indices(found, count, "There is no place", "places")
    return found.astype(np.int64)


def check_indices(found: npt.NDArray[Any], count: int, problem: str, what: str) -> None:
    """Check that indices of nodes, places or readings lie between 0 and ``count`` − 1.

    Args:
        found: The indices, integers.
        count: Number of nodes, places or readings.
        problem: Begin of the error sentence, which the first wrong index follows.
        what: The word for nodes, places or readings in the plural.
    """
    outside = (found < 0) | (found >= count)
    if outside.any():
        raise InvalidInput(f"{problem} {found[outside][0]}; the {count} {what} have the indices 0 to {count - 1}.")


def floats(values: npt.ArrayLike, refusal: str) -> Floats:
    """Copy values into an array of floats, or refuse them with the given sentence.

    The error does not carry numpy's own sentence, which quotes a value.
    """
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(refusal) from None


def units(where: Integers, count: int) -> Floats:
    """Unit vectors as columns of a matrix of shape (count, len(where)): column k is 1 at index where[k].

    >>> units(np.array([2, 0]), 3).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    found = np.zeros((count, len(where)))
    found[where, np.arange(len(where))] = 1
    return found


def point_text(position: Sequence[float] | Floats) -> str:
    """Format the coordinates of a place for error sentences.

    >>> point_text([0.5]), point_text([1, 2.25])
    ('0.5', '(1, 2.25)')
    """
    text = ", ".join(f"{along:g}" for along in position)
    return text if len(position) == 1 else f"({text})"


def _kept(rows: npt.ArrayLike, count: int, *, keep: bool) -> Integers:
    """Indices of the readings that stay in a field, ascending.

    ``rows`` is a mask or a list of indices. ``rows`` names the readings to keep, or the readings to leave out if
    ``keep`` is False.
    """
    found = np.asarray(rows)
    if found.size == 0 and found.dtype != np.bool_:
        found = found.astype(np.int64)
    if found.dtype == np.bool_:
        if found.shape != (count,):
            raise InvalidInput(
                f"The mask of readings has the shape {found.shape}; give one for each of {count} readings."
            )
        mask = found
    elif found.dtype.kind in "iu" and found.ndim <= 1:
        check_indices(found, count, "There is no reading", "readings")
        mask = np.zeros(count, dtype=np.bool_)
        mask[found] = True
    else:
        raise InvalidInput(f"Readings are named by values of type {found.dtype}; give a mask, or indices of readings.")
    stay = np.flatnonzero(mask if keep else ~mask)
    if stay.size == 0:
        raise InvalidInput(f"None of the {count} readings is left; keep at least one.")
    return stay
