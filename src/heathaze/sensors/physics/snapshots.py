"""Snapshots: readings of the same sources at several moments, joined into one field."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.errors import InvalidInput
from heathaze.sensors.physics._base import FieldBase, block
from heathaze.sensors.physics.field import Taylor
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats, Integers

_WHAT_A_FIELD_HAS = ("shape", "positions", "bounds", "network", "apply", "adjoint", "responses")
_ABSENT = object()


@dataclass(frozen=True, eq=False, init=False)
class Snapshots(FieldBase):
    """Field that joins the readings of the same sources at several moments, or by several sets of sensors.

    All readings are protected together, so the sensitivity is computed for all snapshots together (errata E4-3).

    Args:
        fields: Lines, plates, graphs or other fields over the same candidate places. Readings are in this order.

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
        """Readings of all snapshots, one snapshot after the other."""
        found = block(strengths, self.shape[1], "strengths")
        return np.concatenate([field.apply(found) for field in self.fields])

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint of the joined field: the sum over snapshots of the adjoint applied to the snapshot's readings."""
        parts = self._parts(block(readings, self.shape[0], "readings"))
        return np.sum([field.adjoint(part) for field, part in zip(self.fields, parts, strict=True)], axis=0)  # type: ignore[no-any-return]

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some places, in all snapshots."""
        return np.concatenate([field.responses(where) for field in self.fields])

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of all snapshots' readings by the coordinates of a unit source; for lines and plates only."""
        return np.concatenate([field.jacobian(where) for field in self.fields])

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives and bounds of the readings of all snapshots in boxes; for lines and plates only."""
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
