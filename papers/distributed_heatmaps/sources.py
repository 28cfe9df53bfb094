"""Data of the surveys: two real population rasters, two synthetic ones, and people with several places each."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of

import heathaze as hz
from heathaze.datasets.city import CITY, city
from heathaze.distributed import Population

Raster = tuple[hz.Grid, np.ndarray]

_CENTRES = ((0.36, 0.42, 1.0, 0.09), (0.62, 0.30, 0.6, 0.05), (0.30, 0.74, 0.5, 0.06), (0.70, 0.68, 0.35, 0.12))
"""x, y, people and extent of the synthetic city's centres, in units of the map's side."""

_TRACTS = 48
"""The number of census tracts along a side of the synthetic city."""

_VILLAGES = 400
"""The number of villages of the synthetic country."""


def present(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a data set is available on this machine."""
    files = {"synthetic": None, "country": None, "city": None, "gowalla": config["data"]["visits"]}
    file = files.get(name, config["data"]["file"])
    return file is None or data_file(file) is not None


def raster_of(name: str, file: str, size: int) -> Raster:
    """A population raster on its grid; the cells sum to 1."""
    made = {"synthetic": _synthetic, "country": _country}
    return made[name](size) if name in made else _real(name, file)


@functools.cache
def _real(name: str, file: str) -> Raster:
    path = data_file(file)
    assert path is not None
    with np.load(path) as rasters:
        people = rasters[name].astype(np.float64)
        south, north, west, east = rasters[f"{name}_bbox"].tolist()
    grid = hz.Grid.over(lon=(west, east), lat=(south, north), shape=people.shape)
    return grid, people / people.sum()


@functools.cache
def _synthetic(size: int) -> Raster:
    """The synthetic raster: centres and suburbs in tracts of constant density, a river, a park, a sea in the east."""
    down, across = (np.indices((size, size)) + 0.5) / size
    people = np.full((size, size), 0.02)
    for x, y, weight, reach in _CENTRES:
        people += weight * np.exp(-np.hypot(across - x, down - y) / reach)
    # 48 × 48 tracts with a constant density each, as in a census.
    place = np.arange(size) * _TRACTS // size
    tract = (place[:, None] * _TRACTS + place).ravel()
    own = np.exp(2 * hz.Simulation(seed_of("tracts")).uniforms(_TRACTS**2) - 1)
    mean = np.bincount(tract, people.ravel()) / np.bincount(tract)
    flat = (own * mean)[tract].reshape(size, size)
    river = np.abs(down - 0.55 - 0.10 * np.sin(7 * across)) < 0.018
    park = (np.abs(across - 0.44) < 0.05) & (np.abs(down - 0.30) < 0.08)
    sea = across > 0.84 + 0.06 * np.sin(9 * down)
    flat[river | park | sea] = 0
    return hz.Grid.plane(x=(0, 10), y=(0, 10), size=size), flat / flat.sum()


@functools.cache
def _country(size: int) -> Raster:
    """The synthetic country: people nearly everywhere, rough at every scale, with 400 villages, a sea and a river."""
    luck = hz.Simulation(seed_of("country"))
    surface = np.zeros((size, size))
    for level in range(1, size.bit_length()):
        side = 1 << level
        # Heights of each level have a standard deviation of 0.6 · 0.8^(level − 1).
        heights = 0.6 * 0.8 ** (level - 1) * math.sqrt(12) * (luck.uniforms(side**2).reshape(side, side) - 0.5)
        surface += heights.repeat(size // side, axis=0).repeat(size // side, axis=1)
    people = np.exp(surface)
    people /= people.mean()
    down, across = (np.indices((size, size)) + 0.5) / size
    for x, y, weight, reach in luck.uniforms(4 * _VILLAGES).reshape(_VILLAGES, 4):
        people += 60 * weight**4 * np.exp(-np.hypot(across - x, down - y) / (0.001 + 0.004 * reach**2))
    people[(np.abs(down - 0.4 - 0.2 * np.sin(5 * across)) < 0.02) | (down + across < 0.4)] = 0
    return hz.Grid.plane(x=(0, 10), y=(0, 10), size=size), people / people.sum()


def people_of(raster: Raster, people: int, *names: object) -> Population:
    """Draw a number of people from a raster, with one place each."""
    return Population.from_raster(*raster, people, hz.Simulation(seed_of("people", people, *names)))


@functools.cache
def visitors(name: str, run: int, file: str, lon: tuple[float, float], lat: tuple[float, float]) -> Population:
    """People with several places each, on 64 × 64 cells; the synthetic city is drawn anew in every run."""
    if name == "city":
        table = city(people=5_000, visits=50_000, seed=run + 1)
        grid = hz.Grid.over(lon=CITY.x, lat=CITY.y, size=64)
        return Population.from_table(grid, table["person"], table["lon"], table["lat"])
    path = data_file(file)
    assert path is not None
    person, x, y = columns_of(path, "user_id", "lon", "lat")
    inside = (x >= lon[0]) & (x <= lon[1]) & (y >= lat[0]) & (y <= lat[1])
    return Population.from_table(hz.Grid.over(lon=lon, lat=lat, size=64), person[inside], x[inside], y[inside])


def favourites(population: Population) -> Population:
    """The same people, each with the place they visit most."""
    places = np.split(population.codes, population.first[1:-1])
    codes = [np.bincount(np.unique(mine, return_inverse=True)[1]).argmax() for mine in places]
    most = [np.unique(mine)[best] for mine, best in zip(places, codes, strict=True)]
    return Population(population.grid, np.array(most, dtype=np.int64), np.arange(len(most) + 1))
