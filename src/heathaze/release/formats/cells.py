"""The rectangles of a release for files with tables and polygons: its certain squares, or its cells.

A release with error bars is written as its certain squares, and one without as the cells or tree squares that hold
mass. Every column names its unit.

| column | of | meaning |
|---|---|---|
| ``level``, ``code`` | squares | the square of the quadtree |
| ``class`` | squares | the class of density in words, such as "3 to 10", "under 3" or "unknown: may be few or many" |
| ``class_number`` | squares | the class from 0, −1 below the first class, −2 if unknown |
| ``people`` | both | estimated number of people (or ``visits``, ``person_days``, ``presences``) |
| ``people_low``, ``people_high`` | squares | the ends of the interval of this number, 90 % each |
| ``people_per_km2`` | squares | estimated density, in the unit of the map |
| ``row``, ``col`` | cells | the cell |
| ``share_of_total`` | cells | the share of the total of the map |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.domain.density import TreeDensity
from heathaze.domain.quadtree import node_extent
from heathaze.inference.estimate import Estimate
from heathaze.maps.squares import Squares
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.privacy.provenance import Provenance
from heathaze.release.squares import certain_squares
from heathaze.types import Floats, Integers

_PLURALS = {Unit.PERSON: "people", Unit.PERSON_DAY: "person-days", Unit.VISIT: "visits", Unit.TRIP: "trips"}


@dataclass(frozen=True)
class Rectangles:
    """Rectangles with their columns; ``bounds`` has west, south, east and north of each, in the grid's coordinates."""

    columns: dict[str, npt.NDArray[np.generic]]
    bounds: Floats


def counted(guarantee: Guarantee, provenance: Provenance) -> str:
    """Name what the total of a release counts, in the plural: "people", for example."""
    return "presences" if provenance.weight == "presence" else _PLURALS.get(guarantee.unit, f"{guarantee.unit.value}s")


def rectangles_of(estimate: Estimate, counts: str) -> Rectangles:
    """List the certain squares of an estimate, or its cells if it has no error bars.

    Args:
        estimate: The map.
        counts: What the map counts, from :func:`counted`.
    """
    if has_deviations(estimate):
        return _squares(certain_squares(estimate, counts))
    grid, density, name = estimate.grid, estimate.density, _column(counts)
    if isinstance(density, TreeDensity):
        keys, share = {"level": density.levels, "code": density.codes}, density.mass
        top, bottom, left, right = node_extent(grid, density.levels, density.codes)
    else:
        top, left = (part.astype(np.int64) for part in np.nonzero(density.values))
        bottom, right = top + 1, left + 1
        keys, share = {"row": top, "col": left}, density.values[top, left]
    ys = np.sort(np.stack([grid.y_at(top), grid.y_at(bottom)]), axis=0)
    bounds = np.stack([grid.x_at(left), ys[0], grid.x_at(right), ys[1]], axis=1)
    return Rectangles({**keys, "share_of_total": share, name: share * estimate.total}, bounds)


def _squares(squares: Squares) -> Rectangles:
    name = _column(squares.counted)
    names = {int(kind): squares.name(int(kind)) for kind in np.unique(squares.kinds)}
    columns: dict[str, npt.NDArray[np.generic]] = {
        "level": squares.levels,
        "code": squares.codes,
        "class": np.array([names[kind] for kind in squares.kinds.tolist()], dtype=object),
        "class_number": squares.kinds,
        name: squares.people,
        f"{name}_low": squares.low,
        f"{name}_high": squares.high,
        _column(squares.unit): squares.density,
    }
    return Rectangles(columns, squares.bounds())


def polygons(bounds: Floats) -> list[bytes]:
    """Write rectangles as polygons in well-known binary, counterclockwise from the corner with the smallest x and y.

    Args:
        bounds: (n, 4) west, south, east and north.

    >>> len(polygons(np.array([[0.0, 0.0, 1.0, 1.0]]))[0])
    93
    """
    records = np.zeros(len(bounds), [("order", "u1"), ("head", "<u4", 3), ("ring", "<f8", (5, 2))])
    records["order"] = 1  # little-endian
    records["head"] = (3, 1, 5)  # a polygon, with one ring, of five points
    records["ring"] = bounds[:, [0, 1, 2, 1, 2, 3, 0, 3, 0, 1]].reshape(-1, 5, 2)
    return [record.tobytes() for record in records]


def _column(unit: str) -> str:
    """Make the name of a column from a unit: "people per 100 km²" becomes "people_per_100_km2"."""
    return unit.replace("²", "2").replace(" × ", "x").replace(",", "").replace("-", "_").replace(" ", "_")


def has_deviations(estimate: Estimate) -> bool:
    """Check whether the cells have standard deviations: the posterior exists and has the same grid as the density."""
    behind = estimate.noisy or estimate.drawn
    return behind is not None and behind.grid == estimate.grid


def deviations_of(estimate: Estimate) -> Floats | None:
    """Compute the standard deviation of the share of each cell (dense) or of each square (tree) for a release file.

    Returns:
        An array of the grid's shape (dense), or one number for each square (tree). None if the estimate has no error
        bars, or if its posterior has other squares than its density.
    """
    if not has_deviations(estimate):
        return None
    density, posterior = estimate.density, estimate.posterior
    if not isinstance(density, TreeDensity):
        return posterior.deviations()
    levels, codes, _, deviations = posterior.squares
    known, wanted = _numbered(levels, codes), _numbered(density.levels, density.codes)
    order = np.argsort(known)
    at = order[np.searchsorted(known, wanted, sorter=order).clip(max=len(known) - 1)]
    if not np.array_equal(known[at], wanted):
        return None
    return np.asarray(deviations[at] / max(posterior.total, 1e-300))


def _numbered(levels: Integers, codes: Integers) -> Integers:
    """Give each quadtree node an index of its own; 4^0 + … + 4^(level − 1) nodes come before the nodes of a level."""
    return np.asarray(((np.int64(1) << (2 * levels)) - 1) // 3 + codes)
