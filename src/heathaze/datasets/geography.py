"""The geography of the synthetic city: a coast with an island, a river, streets, and districts with names.

All of it is made up. It is the backdrop of the demonstration, and an example of a file for ``--backdrop``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.datasets.city import CENTRES, CITY, STREETS
from heathaze.errors import CannotWrite
from heathaze.types import Floats

DISTRICTS = ("Old Town", "Northgate", "Mill Hill", "Southbank", "Westfield", "Eastcliff")
"""The name of the district around each centre."""

_RIVER = [
    (0.40, 1.06),
    (0.43, 0.92),
    (0.48, 0.80),
    (0.45, 0.68),
    (0.40, 0.58),
    (0.43, 0.47),
    (0.48, 0.38),
    (0.45, 0.27),
    (0.47, 0.05),
]
"""Places along the middle of the river."""

_SEA = "Grey Sound"
_ROADS = {1: [(-0.06, 0.78), (0.24, 1.06)], 2: [(0.82, 1.06), (1.06, 0.74)], 4: [(-0.06, 0.34)], 5: [(1.06, 0.47)]}
"""Where streets that leave the city cross the border of the map, by the number of their centre."""


def city_geography() -> dict[str, Any]:
    """Make the geography of the city of :func:`heathaze.datasets.city`, as GeoJSON in longitude and latitude.

    Features have the properties ``kind`` (land, water, street or border) and ``name``.

    >>> made = city_geography()
    >>> sorted({feature["properties"]["kind"] for feature in made["features"]})
    ['border', 'land', 'street', 'water']
    """
    land = _land()
    features = [
        _feature("Polygon", land, "land"),
        _feature("Polygon", _ellipse((0.845, 0.035), (0.030, 0.016)), "land"),
        _feature("Polygon", _river(), "water"),
        _feature("Point", np.array([(0.17, 0.028)]), "water", _SEA),
    ]
    features += [_feature("LineString", CENTRES[list(ends)], "street") for ends in STREETS.tolist()]
    roads = [(CENTRES[centre], np.array(end)) for centre, ends in _ROADS.items() for end in ends]
    features += [_feature("LineString", np.stack(ends), "street") for ends in roads]
    # A ring road around each centre.
    for centre, radius in zip(CENTRES, (0.055, 0.035, 0.035, 0.035, 0.03, 0.025), strict=True):
        ring = _ellipse(tuple(centre.tolist()), (radius, radius * 1.1), corners=24)
        features.append(_feature("LineString", np.vstack([ring, ring[:1]]), "street"))
    features += [_feature("Polygon", _district(land, k), "border", name) for k, name in enumerate(DISTRICTS)]
    return {"type": "FeatureCollection", "features": features}


def write_geojson(geography: dict[str, Any], path: str | Path) -> Path:
    """Write a geography to a GeoJSON file.

    Args:
        geography: A feature collection, such as :func:`city_geography` returns.
        path: The file; an existing file is replaced.

    Returns:
        The path.

    Raises:
        CannotWrite: The folder does not exist or cannot be written to.
    """
    try:
        Path(path).write_text(json.dumps(geography, separators=(",", ":")) + "\n", encoding="utf-8")
    except OSError:
        raise CannotWrite(f"Cannot write {path}; choose another folder.") from None
    return Path(path)


def _feature(kind: str, places: npt.ArrayLike, role: str, name: str = "") -> dict[str, Any]:
    """Make a feature from places in fractions of the city's box."""
    low, high = np.array([CITY.x[0], CITY.y[0]]), np.array([CITY.x[1], CITY.y[1]])
    degrees = (low + np.asarray(places) * (high - low)).round(6).tolist()
    coordinates = {"Point": degrees[0], "LineString": degrees, "Polygon": [[*degrees, degrees[0]]]}[kind]
    properties = {"kind": role, "name": name} if name else {"kind": role}
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def _coast(x: Floats) -> Floats:
    """Compute how far north the coast lies: a sum of waves, with a bay at the mouth of the river."""
    waves = ((0.018, 1.1, 0.1), (0.012, 3.3, 0.4), (0.006, 9.1, 0.2), (0.0035, 23.0, 0.7), (0.0015, 57.0, 0.3))
    coast = sum(size * np.sin(2 * np.pi * (often * x + shift)) for size, often, shift in waves)
    return np.asarray(0.078 + coast + 0.04 * np.exp(-(((x - 0.47) / 0.04) ** 2)))


def _land() -> Floats:
    """Make the land, which reaches beyond the map in the north, west and east."""
    x = np.linspace(-0.06, 1.06, 500)
    return np.vstack([np.column_stack([x, _coast(x)]), [(1.06, 1.06), (-0.06, 1.06)]])


def _river() -> Floats:
    """Make the outline of the river, a smooth line that widens towards the sea."""
    from scipy.interpolate import CubicSpline

    at = np.linspace(0, 1, 160)
    line = CubicSpline(np.linspace(0, 1, len(_RIVER)), np.array(_RIVER))
    middle, along = line(at), line(at, 1)
    # The box is about as wide as it is high, in metres.
    across = np.column_stack([-along[:, 1], along[:, 0]]) / np.hypot(*along.T)[:, None]
    half = (0.004 + 0.010 * at**3)[:, None]
    outline = np.vstack([middle + half * across, (middle - half * across)[::-1]])
    # The river ends at the coast.
    return np.column_stack([outline[:, 0], np.maximum(outline[:, 1], _coast(outline[:, 0]))])


def _ellipse(middle: tuple[float, ...], radii: tuple[float, float], corners: int = 60) -> Floats:
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return np.asarray(np.array(middle) + np.array(radii) * np.column_stack([np.cos(angle), np.sin(angle)]))


def _district(land: Floats, centre: int) -> Floats:
    """Cut from the land the part that is nearer to one centre than to the others."""
    ring = land
    for other in np.delete(CENTRES, centre, axis=0):
        # The half-plane of places p with p · step ≤ middle · step, one after the other (Sutherland and Hodgman 1974).
        step, middle = other - CENTRES[centre], (other + CENTRES[centre]) / 2
        inside = (middle - ring) @ step
        after, further = np.roll(ring, -1, axis=0), np.roll(inside, -1)
        crosses = (inside >= 0) != (further >= 0)
        share = inside / np.where(crosses, inside - further, 1.0)
        ring = np.stack([ring, ring + share[:, None] * (after - ring)], axis=1)[
            np.stack([inside >= 0, crosses], axis=1)
        ]
    return np.asarray(ring)
