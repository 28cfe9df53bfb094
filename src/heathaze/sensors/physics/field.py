"""The interface of a field, which maps strengths of sources to readings; and snapshots, which join several fields."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.errors import InvalidInput
from heathaze.sensors.physics._base import FieldBase, block
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats, Integers

_WHAT_A_FIELD_HAS = ("shape", "positions", "bounds", "network", "apply", "adjoint", "responses")
_ABSENT = object()


class Field(Protocol):
    """Interface of a field: readings = M · strengths, with a matrix M of shape (readings, candidate places).

    A source lies at one of the candidate places. In a continuous space a source may also lie between candidates, see
    :meth:`responses`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of readings (sensors × snapshots), and number of candidate places."""

    @property
    def positions(self) -> Floats | None:
        """Coordinates of the candidates, shape (places, dimensions); None on a graph, whose places are its nodes."""

    @property
    def bounds(self) -> Floats | None:
        """Lower and upper corner of a continuous space, shape (2, dimensions); None if only candidates are possible."""

    @property
    def network(self) -> Network | None:
        """The network whose nodes are the places; None if places have coordinates."""

    @property
    def unit(self) -> str:
        """Unit of distances, such as "metre"."""

    def apply(self, strengths: Floats) -> Floats:
        """Readings M · strengths of the field, for one vector or for each column of a matrix."""

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint Mᵀ · readings of the field, for one vector or for each column of a matrix."""

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a source of strength 1 at each of some places, shape (readings, len(where)).

        Args:
            where: Coordinates, shape (k, dimensions), in a continuous space; otherwise indices of candidates.
        """

    def only(self, rows: npt.ArrayLike) -> Field:
        """The same field with only some of its readings.

        Args:
            rows: A mask over the readings, or indices of readings.
        """


@runtime_checkable
class SmoothField(Field, Protocol):
    """Interface of a field over a continuous space, whose readings change smoothly as a source moves."""

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of the readings by the coordinates of a unit source, shape (readings, len(where), dimensions)."""

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives of the readings at the middles of boxes, and bounds over the boxes middle ± half."""


@dataclass(frozen=True, eq=False)
class Taylor:
    """Derivatives of the readings of a unit source in k boxes of places, for the computation of the sensitivity.

    Args:
        slopes: First derivatives at the middle of each box, shape (readings, k, dimensions).
        bends: Second derivatives at the middle of each box, shape (readings, k, dimensions, dimensions).
        most_slope: Upper bound of the length of the first derivative in the whole box, shape (readings, k).
        most_twist: Upper bound of the norm of the third derivative in the whole box, shape (readings, k).
    """

    slopes: Floats
    bends: Floats
    most_slope: Floats
    most_twist: Floats

    @classmethod
    def stacked(cls, parts: list[Self]) -> Self:
        """Join the derivatives of several fields over the same boxes, one field's readings after the other's."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


@dataclass(frozen=True, eq=False, init=False)
class Snapshots(FieldBase):
    """Field that joins the readings of the same sources at several moments, or by several sets of sensors.

    All readings are protected together, so the sensitivity is computed for all snapshots together (errata E4-3).

    Args:
        fields: Lines, plates, graphs or other fields over the same candidate places. This is the order of the readings.

    Raises:
        InvalidInput: There is no field, or the fields have different places.

    >>> from heathaze.sensors.physics import Line
    >>> Snapshots([Line(10, 5, T) for T in (0.1, 0.2)]).shape
    (10, 10)
    """

    fields: tuple[Any, ...]

    def __init__(self, fields: Sequence[Any]) -> None:
        try:
            stack = tuple(fields)
        except TypeError:
            raise InvalidInput(f"Snapshots are made of a list of fields; found one {type(fields).__name__}.") from None
        if not stack:
            raise InvalidInput("There are no snapshots to stack; give at least one field.")
        for number, field in enumerate(stack):
            if any(inspect.getattr_static(field, name, _ABSENT) is _ABSENT for name in _WHAT_A_FIELD_HAS):
                raise InvalidInput(
                    f"Snapshot {number} is of type {type(field).__name__} and not a field; give lines, plates, graphs "
                    "or other fields."
                )
        for number, field in enumerate(stack[1:], start=1):
            if reason := _difference(stack[0], field):
                raise InvalidInput(
                    f"Snapshot {number} has {reason} than snapshot 0; stack fields over the same places."
                )
        assign(self, fields=stack)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of readings of all snapshots, and number of places."""
        return sum(field.shape[0] for field in self.fields), self.fields[0].shape[1]

    @property
    def positions(self) -> Floats | None:
        """Coordinates of the candidate places, which all snapshots share."""
        return self.fields[0].positions  # type: ignore[no-any-return]

    @property
    def bounds(self) -> Floats | None:
        """Corners of the continuous space, which all snapshots share; or None."""
        return self.fields[0].bounds  # type: ignore[no-any-return]

    @property
    def network(self) -> Network | None:
        """Network of the places, which all snapshots share; or None."""
        return self.fields[0].network  # type: ignore[no-any-return]

    @property
    def unit(self) -> str:
        """Unit of distances between places."""
        return getattr(self.fields[0], "unit", "unit of the positions")

    @property
    def nonnegative(self) -> bool:
        """Whether no source can lower a reading, in all snapshots."""
        return all(getattr(field, "nonnegative", False) for field in self.fields)

    def apply(self, strengths: Floats) -> Floats:
        """Readings of all snapshots, one snapshot after the other.

        Args:
            strengths: Strength of each candidate source.

        Returns:
            One number for each reading.
        """
        found = block(strengths, self.shape[1], "strengths")
        return np.concatenate([field.apply(found) for field in self.fields])

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint of the joined field: the sum over snapshots of the adjoint applied to the snapshot's readings.

        Args:
            readings: One number for each reading of all snapshots.

        Returns:
            One number for each candidate source.
        """
        parts = self._parts(block(readings, self.shape[0], "readings"))
        return np.sum([field.adjoint(part) for field, part in zip(self.fields, parts, strict=True)], axis=0)  # type: ignore[no-any-return]

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some places, in all snapshots.

        Args:
            where: The places, as the fields of the snapshots expect them.

        Returns:
            One column of readings for each place.
        """
        return np.concatenate([field.responses(where) for field in self.fields])

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of all snapshots' readings by the coordinates of a unit source; for lines and plates only.

        Args:
            where: Coordinates of the sources in metres.

        Returns:
            The derivatives per metre.
        """
        return np.concatenate([field.jacobian(where) for field in self.fields])

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives and bounds of the readings of all snapshots in boxes; for lines and plates only.

        Args:
            middles: Middles of the boxes in metres.
            half: Half the size of the boxes in metres.

        Returns:
            The derivatives and their bounds.
        """
        return Taylor.stacked([field.taylor(middles, half) for field in self.fields])

    def _with(self, rows: Integers) -> Self:
        # A snapshot without readings is dropped.
        mask = np.zeros(self.shape[0], dtype=np.bool_)
        mask[rows] = True
        pairs = zip(self.fields, self._parts(mask), strict=True)
        return type(self)([field.only(part) for field, part in pairs if part.any()])

    def _parts(self, readings: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        return np.split(readings, np.cumsum([field.shape[0] for field in self.fields])[:-1])


def snapshots_of(field: Any) -> list[Any]:
    """All fields that a field joins, also those of snapshots within snapshots; the field itself if it joins none."""
    if not isinstance(field, Snapshots):
        return [field]
    return [part for each in field.fields for part in snapshots_of(each)]


def _difference(one: Any, other: Any) -> str:
    """Phrase for an error sentence that says how the places of two snapshots differ; empty if they do not."""
    if one.shape[1] != other.shape[1]:
        return f"{other.shape[1]} places rather"
    if (one.network is None) != (other.network is None) or (
        one.network is not None and not one.network.same_as(other.network)
    ):
        return "another network"
    # numpy counts None as equal to None only.
    if not np.array_equal(one.positions, other.positions):
        return "other positions of its places"
    if not np.array_equal(one.bounds, other.bounds):
        return "other bounds"
    return ""
