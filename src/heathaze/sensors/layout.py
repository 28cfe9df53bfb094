"""Layouts: public positions of sensors, read from a file before any measurement, and the field that they read."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from heathaze.checks import shown
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.files import Row, read_table
from heathaze.sensors.physics import Graph, Line, Plate, Snapshots
from heathaze.sensors.physics._base import length, point_text
from heathaze.sensors.physics.field import Field
from heathaze.sensors.physics.network import Network
from heathaze.sensors.physics.plate import Walls
from heathaze.types import Floats

_NUMBER_LIKE = re.compile(
    r"[+\-−]?[.,]?\d[\d.,'_ ]*(e[+\-]?\d+)?\s?[^\d\s]{0,3}|[+\-]?(nan|inf|infinity)", re.IGNORECASE
)
"""Pattern of a text that looks like a number, also with a decimal comma, thousands separators or a short unit."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A layout: names and positions of sensors, or the nodes and edges of a network.

    Args:
        names: Names of the sensors, or of the nodes.
        positions: Coordinates in metres, one row for each sensor: x on a line, x and y on a plate.
        network: The network, instead of positions.

    >>> layout = Layout(("door", "window"), np.array([[1.0, 0.5], [3.0, 2.0]]))
    >>> layout.field([60], diffusivity=0.01, size=(4, 3), walls="insulated").shape
    (2, 3072)
    """

    names: tuple[str, ...]
    positions: Floats | None = None
    network: Network | None = None

    def __repr__(self) -> str:
        kind = "nodes of a graph" if self.network else "sensors on a line" if self.dimensions == 1 else "sensors"
        return f"<Layout: {len(self.names)} {kind}>"

    @property
    def dimensions(self) -> int:
        """Number of coordinates of a sensor: 1 on a line, 2 on a plate, 0 on a graph."""
        return 0 if self.positions is None else self.positions.shape[1]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a layout from a CSV file.

        A line has the columns ``sensor, x``, with x in metres from the start of the line. A plate has the columns
        ``sensor, x, y``, in metres from its lower left corner. A network has the columns ``from, to`` with one edge per
        row, and optionally ``weight`` (conductivity for heat) and ``length`` (distance between the ends), both 1 by
        default. Fields are separated by commas, and numbers have decimal points. Before the header, lines that begin
        with ``#`` are skipped.

        Args:
            path: The file.

        Returns:
            The layout.

        Raises:
            UnreadableData: The file cannot be read as a layout. The sentence names the line.
            InvalidInput: The edges do not form a connected network.
        """
        rows = read_table(path)
        columns = set(rows[0]) if rows else set()
        if {"from", "to"} <= columns:
            return cls._of_edges(rows, columns)
        if not {"sensor", "x"} <= columns:
            if any(_NUMBER_LIKE.fullmatch(column) for column in columns):
                raise UnreadableData(f"{path} has no header; begin it with sensor,x or sensor,x,y or from,to.")
            raise UnreadableData(
                f"{path} has the columns {', '.join(sorted(columns)) or 'none'}; give the columns sensor,x or "
                "sensor,x,y or from,to."
            )
        axes = ("x", "y") if "y" in columns else ("x",)
        names = tuple(row["sensor"] for row in rows)
        if (twice := _first_repeated(names)) is not None:
            raise UnreadableData(f"{path} names the sensor {twice!r} twice; give each sensor once.")
        return cls(names, np.array([[row.number(axis) for axis in axes] for row in rows]))

    @classmethod
    def _of_edges(cls, rows: Sequence[Row], columns: set[str]) -> Self:
        names = tuple(sorted({row[end] for row in rows for end in ("from", "to")}))
        numbers = {name: index for index, name in enumerate(names)}
        edges = np.array([[numbers[row["from"]], numbers[row["to"]]] for row in rows])
        given = [column for column in ("weight", "length") if column in columns]
        extra = {f"{column}s": [row.number(column) for row in rows] for column in given}
        return cls(names, network=Network(edges, nodes=len(names), **extra))

    def field(
        self,
        times: Sequence[float],
        *,
        diffusivity: float,
        size: Sequence[float] | None = None,
        walls: Walls = "open",
        sensors: Sequence[str] | None = None,
    ) -> Field:
        """Make the field that the sensors of the layout read at some times.

        The field has one row for each reading: all sensors at the first time, then all sensors at the next time. The
        readings of all times are protected together.

        Args:
            times: Times since the heat was released, positive, in any unit.
            diffusivity: Square metres per unit of time; on a graph, the factor of the weights per unit of time.
            size: Length of the line, or width and height of the plate, in metres.
            walls: ``"open"`` or ``"insulated"``, for a plate.
            sensors: Names of the sensors that are read. By default all sensors.

        Returns:
            A line, a plate or a graph; for several times, :class:`~heathaze.sensors.Snapshots` of them.

        Raises:
            InvalidInput: A number is out of range, or a sensor is unknown or outside of the line or plate.
        """
        since = [_amount(time, "A time", "give a positive time since the heat was released") for time in times]
        speed = _amount(diffusivity, "The diffusivity", "give a positive number")
        names = self.names if sensors is None else sensors
        if (twice := _first_repeated(names)) is not None:
            raise InvalidInput(f"The sensor {twice!r} is named twice; name each sensor once.")
        read = [self.number_of(name) for name in names]
        extent = self._extent(size)
        self._check_places(extent, read)
        fields = [self._snapshot(speed * time, extent, walls, read) for time in since]
        return fields[0] if len(fields) == 1 else Snapshots(fields)

    def number_of(self, name: str, what: str = "sensor") -> int:
        """Find the index of a sensor, or of a node, in the layout.

        Args:
            name: The name of the sensor or node.
            what: The word for the sensor or node in the error sentence, such as "sensor".

        Returns:
            The index, from 0.

        Raises:
            InvalidInput: There is no such name. The sentence does not quote a name that looks like a number, because
                it may be a private reading if columns were swapped.
        """
        if name in self._places:
            return self._places[name]
        if _NUMBER_LIKE.fullmatch(name.strip()):
            among = " in the readings" if what == "sensor" else ""
            raise InvalidInput(
                f"A {what}{among} is not in the layout; its name looks like a number, so check whether columns are "
                "swapped."
            )
        todo = "add it, or leave its readings out" if what == "sensor" else "add it, or leave it out"
        raise InvalidInput(f"There is no {what} {name!r} in the layout; {todo}.")

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _extent(self, size: Sequence[float] | None) -> tuple[float, ...]:
        """Check the size of the layout: its length, or width and height; empty on a graph."""
        if self.network is not None:
            return ()
        try:
            found = tuple(size) if size is not None else ()
        except TypeError:
            found = ()
        if len(found) != self.dimensions:
            wanted = "its length" if self.dimensions == 1 else "its width and height"
            found_size = "" if size is None else f", but the size is {shown(size)}"
            raise InvalidInput(
                f"The layout has {self.dimensions} coordinates per sensor{found_size}; give the size, {wanted} in "
                "metres, as a list."
            )
        return tuple(length(side, "A side of the size", "metres") for side in found)

    def _check_places(self, size: tuple[float, ...], read: list[int]) -> None:
        """Refuse sensors that lie outside or at the same place; a field could not name them in errors."""
        if self.positions is None:
            return
        shape = "line" if self.dimensions == 1 else "plate"
        seen: dict[tuple[float, ...], int] = {}
        for sensor in read:
            place = tuple(self.positions[sensor].tolist())
            if not all(0 <= along <= most for along, most in zip(place, size, strict=True)):
                raise InvalidInput(
                    f"The sensor {self.names[sensor]!r} lies at {point_text(place)}, outside of the {shape}, which "
                    f"reaches from {point_text((0,) * len(size))} to {point_text(size)}; correct its position, or the "
                    "size."
                )
            if place in seen:
                raise InvalidInput(
                    f"The sensors {self.names[seen[place]]!r} and {self.names[sensor]!r} both lie at "
                    f"{point_text(place)}; give each place once, and average readings that were taken at one place."
                )
            seen[place] = sensor

    def _snapshot(self, spread: float, size: tuple[float, ...], walls: Walls, read: list[int]) -> Field:
        if self.network is not None:
            return Graph(self.network, spread, np.array(read))
        assert self.positions is not None
        where = self.positions[read]
        if self.dimensions == 1:
            if walls != "open":
                raise InvalidInput(
                    f"walls is {walls!r}, but a line always has open ends; leave walls out, or use a plate (x and y)."
                )
            return Line(512, None, spread, length=size[0], sensors=where)
        return Plate((size[0], size[1]), where, spread, walls=walls)


def _amount(value: float, name: str, todo: str) -> float:
    """Check a time or a diffusivity: a positive finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 < found < math.inf:
        raise InvalidInput(f"{name} is {shown(value) if math.isnan(found) else f'{found:g}'}; {todo}.")
    return found


def _first_repeated(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
