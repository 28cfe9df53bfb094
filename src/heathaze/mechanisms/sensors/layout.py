"""Where sensors are, from a file, and the field they read. Public: fixed before anything is measured."""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.domain.network import Network
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.inference.field import Field
from heathaze.mechanisms.sensors._plate import Walls
from heathaze.mechanisms.sensors.diffusion import Graph, Line, Plate, Snapshots

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Names of sensors with their positions in metres, or names of nodes with the edges between them.

    Args:
        names: Of sensors, or of the nodes of a graph.
        positions: One row for each sensor: x on a line, x and y on a plate.
        network: Instead of positions.
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
        """A layout from a CSV file with the columns ``sensor, x`` or ``sensor, x, y`` in metres, or ``from, to``.

        Edges may also have a ``weight`` (how readily heat passes) and a ``length``.
        """
        rows = read_table(path)
        columns = set(rows[0]) if rows else set()
        if {"from", "to"} <= columns:
            return cls._of_edges(path, rows, columns)
        if not {"sensor", "x"} <= columns:
            raise UnreadableData(
                f"{path} has the columns {', '.join(sorted(columns)) or 'none'}; a layout has sensor, x and perhaps y, "
                "or from and to."
            )
        axes = ("x", "y") if "y" in columns else ("x",)
        names = tuple(row["sensor"] for row in rows)
        if twice := _first_repeated(names):
            raise UnreadableData(f"{path} names the sensor {twice!r} twice; give each sensor once.")
        return cls(names, np.array([[number(path, row, axis) for axis in axes] for row in rows]))

    @classmethod
    def _of_edges(cls, path: str | Path, rows: Sequence[Mapping[str, Any]], columns: set[str]) -> Self:
        names = tuple(sorted({row[end] for row in rows for end in ("from", "to")}))
        numbers = {name: index for index, name in enumerate(names)}
        edges = np.array([[numbers[row["from"]], numbers[row["to"]]] for row in rows])
        extra = {
            f"{column}s": [number(path, row, column) for row in rows]
            for column in ("weight", "length")
            if column in columns
        }
        return cls(names, network=Network.of(edges, nodes=len(names), **extra))

    def field(
        self,
        times: Sequence[float],
        *,
        diffusivity: float,
        size: Sequence[float] | None = None,
        walls: Walls = "open",
        sensors: Sequence[str] | None = None,
    ) -> Field:
        """What the sensors read at some times after the sources began, a row for each time and sensor, time by time.

        Args:
            times: Since heat was set free, in any unit.
            diffusivity: Square metres for each unit of time; on a graph, how much of the weight passes in it.
            size: Length of the line, or width and height of the plate, in metres.
            walls: ``"open"`` or ``"insulated"``, of a plate.
            sensors: Those that are read; all unless given.
        """
        for time in times:
            if not (math.isfinite(time) and time > 0):
                raise InvalidInput(f"A time is {time:g}; heat needs time to spread: count from when it was set free.")
        if not (math.isfinite(diffusivity) and diffusivity > 0):
            raise InvalidInput(f"The diffusivity is {diffusivity:g}; give a positive number.")
        read = self._numbers(self.names if sensors is None else sensors)
        fields = [self._snapshot(float(diffusivity * time), size, walls, read) for time in times]
        return fields[0] if len(fields) == 1 else Snapshots(fields)

    def _numbers(self, sensors: Sequence[str]) -> list[int]:
        return [self.number_of(name) for name in sensors]

    def number_of(self, name: str) -> int:
        """The place of a sensor, or of a node, among the names."""
        if name not in self._places:
            raise InvalidInput(f"There is no sensor {name!r} in the layout; add it, or leave its readings out.")
        return self._places[name]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _snapshot(self, spread: float, size: Sequence[float] | None, walls: Walls, read: list[int]) -> Field:
        if self.network is not None:
            return Graph(self.network, spread, np.array(read))
        assert self.positions is not None
        if size is None or len(size) != self.dimensions:
            wanted = "its length" if self.dimensions == 1 else "its width and height"
            raise InvalidInput(
                f"The layout has {self.dimensions} coordinates a sensor; give the size, {wanted} in metres."
            )
        where = self.positions[read]
        if self.dimensions == 1:
            if walls != "open":
                raise InvalidInput(f"A line has open ends; found walls {walls!r}. Use a plate, with x and y.")
            return Line(512, None, spread, length=size[0], sensors=where)
        return Plate((size[0], size[1]), where, spread, walls=walls)


def read_table(path: str | Path, comment: str = "#") -> list[dict[str, str]]:
    """The rows of a CSV file by their columns, without lines that begin with a comment sign."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in file if line.strip() and not line.startswith(comment)]
    except OSError as problem:
        raise UnreadableData(f"Cannot read {path}: {(problem.strerror or 'refused').lower()}.") from None
    except UnicodeDecodeError:
        raise UnreadableData(f"{path} is not text; give a CSV file.") from None
    reader = csv.DictReader(lines, skipinitialspace=True)
    names = [name.strip().lower() for name in reader.fieldnames or ()]
    if len(set(names)) < len(names):
        raise UnreadableData(f"{path} has a column twice; name each once.")
    reader.fieldnames = names
    rows = []
    for place, row in enumerate(reader, start=1):
        if None in row or None in row.values():
            raise UnreadableData(f"Row {place} of {path} has another number of fields than the header.")
        rows.append({name: value.strip() for name, value in row.items()})
    if not rows:
        raise UnreadableData(f"{path} has no rows; give a header and at least one row.")
    return rows


def number(path: str | Path, row: Mapping[str, str], column: str) -> float:
    """A finite number of a public table."""
    try:
        found = float(row[column])
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise UnreadableData(f"{path} has {column} {row[column]!r}; expected a number.")
    return found


def _first_repeated(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
