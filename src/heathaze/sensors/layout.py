"""Layouts: where sensors are, read from a file, and the field that they see. Public, fixed before any measurement."""

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
from heathaze.sensors.physics._checks import length, point_text
from heathaze.sensors.physics.field import Field
from heathaze.sensors.physics.network import Network
from heathaze.sensors.physics.plate import Walls
from heathaze.types import Floats

_NUMBER_LIKE = re.compile(
    r"[+\-−]?[.,]?\d[\d.,'_ ]*(e[+\-]?\d+)?\s?[^\d\s]{0,3}|[+\-]?(nan|inf|infinity)", re.IGNORECASE
)
"""A number, perhaps with a decimal comma, with groups of thousands, or with a unit of up to three characters."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Sensors and their positions, or the nodes of a network and its edges.

    Args:
        names: Names of the sensors, or of the nodes.
        positions: One row for each sensor, in metres: x on a line, x and y on a plate.
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
        """1 on a line, 2 on a plate, 0 on a graph."""
        return 0 if self.positions is None else self.positions.shape[1]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """A layout from a CSV file.

        The columns are ``sensor, x`` for a line, in metres from its start; ``sensor, x, y`` for a plate, in metres from
        its lower left corner; or ``from, to`` for the edges of a network, perhaps with ``weight`` (how readily heat
        passes) and ``length`` (the distance of the ends), both 1 unless given. Fields are separated by commas and
        numbers have points. Lines that begin with ``#`` are left out before the header.

        Args:
            path: The file.

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
                f"{path} has the columns {', '.join(sorted(columns)) or 'none'}; a layout has sensor, x and perhaps y, "
                "or from and to."
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
        extra = {
            f"{column}s": [row.number(column) for row in rows] for column in ("weight", "length") if column in columns
        }
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
        """The field that the sensors read at some times: a row for each time and sensor, time by time.

        All these readings are protected together.

        Args:
            times: Since the heat was set free, positive, in any unit.
            diffusivity: Square metres per unit of time; on a graph, the factor of the weights per unit of time.
            size: The length of the line, or width and height of the plate, in metres.
            walls: ``"open"`` or ``"insulated"``, for a plate.
            sensors: The sensors that are read; all unless given.

        Returns:
            A line, a plate or a graph; :class:`~heathaze.sensors.Snapshots` of them for several times.

        Raises:
            InvalidInput: A number is out of range, or a sensor is unknown or outside of the line or plate.
        """
        since = [
            _amount(time, "A time", "heat needs time to spread: count from when it was set free") for time in times
        ]
        speed = _amount(diffusivity, "The diffusivity", "give a positive number")
        read = self._numbers(self.names if sensors is None else sensors)
        extent = self._extent(size)
        self._check_places(extent, read)
        fields = [self._snapshot(speed * time, extent, walls, read) for time in since]
        return fields[0] if len(fields) == 1 else Snapshots(fields)

    def _numbers(self, sensors: Sequence[str]) -> list[int]:
        if (twice := _first_repeated(sensors)) is not None:
            raise InvalidInput(f"The sensor {twice!r} is to be read twice; name each sensor once.")
        return [self.number_of(name) for name in sensors]

    def number_of(self, name: str, what: str = "sensor") -> int:
        """The index of a sensor, or of a node, among the names.

        Args:
            name: The name.
            what: What the name stands for, for the sentence.

        Raises:
            InvalidInput: There is no such name. A name that looks like a number is not quoted: if columns are swapped,
                it is a reading.
        """
        if name in self._places:
            return self._places[name]
        if _NUMBER_LIKE.fullmatch(name.strip()):
            among = " in the readings" if what == "sensor" else ""
            raise InvalidInput(
                f"A {what}{among} is not in the layout; its name looks like a number: are the columns swapped?"
            )
        todo = "add it, or leave its readings out" if what == "sensor" else "add it, or leave it out"
        raise InvalidInput(f"There is no {what} {name!r} in the layout; {todo}.")

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _extent(self, size: Sequence[float] | None) -> tuple[float, ...]:
        """Length, or width and height; empty on a graph."""
        if self.network is not None:
            return ()
        try:
            found = tuple(size) if size is not None else ()
        except TypeError:
            found = ()
        if len(found) != self.dimensions:
            wanted = "its length" if self.dimensions == 1 else "its width and height"
            found_size = "" if size is None else f", and the size is {shown(size)}"
            raise InvalidInput(
                f"The layout has {self.dimensions} coordinates a sensor{found_size}; give the size, {wanted} in "
                "metres, as a list."
            )
        return tuple(length(side, "A side of the size", "metres") for side in found)

    def _check_places(self, size: tuple[float, ...], read: list[int]) -> None:
        """Refuse sensors outside or at one place, by their names: fields know only their numbers."""
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
                raise InvalidInput(f"A line has open ends; found walls {walls!r}. Use a plate, with x and y.")
            return Line(512, None, spread, length=size[0], sensors=where)
        return Plate((size[0], size[1]), where, spread, walls=walls)


def _amount(value: float, name: str, todo: str) -> float:
    """A positive finite number, or a sentence."""
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
