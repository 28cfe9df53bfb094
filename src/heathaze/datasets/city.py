"""Synthetic cities: a table of people's visits in one city, and densities of cities of different kinds.

The city of :func:`city` has several centres, streets between them, and five people with thousands of visits each. Plans
and rehearsals, which read no data, use the densities of :func:`synthetic_city`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.domain.grid import Box
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

CITY = Box.over(lon=(9.90, 10.10), lat=(53.50, 53.62))
"""The box of the synthetic city."""

CENTRES = np.array([(0.50, 0.52), (0.27, 0.70), (0.74, 0.66), (0.66, 0.28), (0.30, 0.30), (0.86, 0.44)])
"""Where the centres of the city lie, in fractions of the box from its south-west corner."""

_DRAW = np.array([0.34, 0.16, 0.16, 0.14, 0.12, 0.08])
_SPREAD = np.array([0.030, 0.022, 0.018, 0.020, 0.016, 0.012])
STREETS = np.array([(0, 1), (0, 2), (0, 3), (0, 4), (2, 5), (3, 5), (1, 4), (1, 2), (3, 4)])
"""The two centres that each street connects."""


_BACKGROUND = 0.05
"""The share of the mass that is spread evenly over the map."""

_STEPS = 2048
"""The number of points along a street; a street is one cell wide."""


def city(people: int = 20_000, visits: int = 200_000, seed: int = 7) -> dict[str, npt.NDArray[np.generic]]:
    """Make visits of synthetic people in a city, as columns ``person``, ``lon``, ``lat`` and ``time``.

    Every person has a home and a favourite centre. Most people have a few visits. Five people share a further twentieth
    of all visits, each at one place. Real data often has such people, and a map of raw counts mostly shows them.

    Args:
        people: The number of people, at least 10.
        visits: The number of visits (rows), at least five times ``people``.
        seed: The seed of the city; the same seed gives the same rows.

    Returns:
        The columns, of equal length.

    Raises:
        InvalidInput: There are too few people or visits.

    >>> table = city(people=100, visits=1000)
    >>> sorted(table), len(table["lon"])
    (['lat', 'lon', 'person', 'time'], 1000)
    """
    people = whole(people, "people", "synthetic people", least=10)
    visits = whole(visits, "visits", "five visits or more for each person", least=5 * people)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    person = _who_visits(rng, people, visits)
    centre = rng.choice(len(CENTRES), size=people, p=_DRAW)
    home = np.where(
        rng.random((people, 1)) < 0.7,
        CENTRES[rng.choice(len(CENTRES), size=people, p=_DRAW)] + rng.normal(0, 0.07, (people, 2)),
        rng.random((people, 2)),
    )
    kind = rng.random(visits)
    at_home, at_centre, on_street = kind < 0.35, (kind >= 0.35) & (kind < 0.75), (kind >= 0.75) & (kind < 0.95)
    place = rng.random((visits, 2))
    place[at_home] = home[person[at_home]] + rng.normal(0, 0.002, (at_home.sum(), 2))
    there = centre[person[at_centre]]
    place[at_centre] = CENTRES[there] + rng.normal(0, 1, (len(there), 2)) * _SPREAD[there, None]
    place[on_street] = _along_streets(rng, int(on_street.sum()))
    busy = person < 5
    place[busy] = home[person[busy]]
    place = np.clip(place, 0.0005, 0.9995)
    start = np.datetime64("2026-03-02T00:00:00")
    return {
        "person": person.astype(np.int64),
        "lon": CITY.x[0] + place[:, 0] * (CITY.x[1] - CITY.x[0]),
        "lat": CITY.y[0] + place[:, 1] * (CITY.y[1] - CITY.y[0]),
        "time": start + rng.integers(0, 28 * 86_400, visits).astype("timedelta64[s]"),
    }


def _who_visits(rng: np.random.Generator, people: int, visits: int) -> Integers:
    """Draw the person of each visit.

    Everybody has one visit. Five people share a further twentieth of the visits. The other visits are divided at random
    in proportion to log-normal numbers, one for each person.
    """
    heavy = rng.integers(0, 5, visits // 20)
    appetite = rng.lognormal(0, 1, people)
    rest = rng.choice(people, size=visits - people - len(heavy), p=appetite / appetite.sum())
    return rng.permutation(np.concatenate([np.arange(people), heavy, rest]))


def _along_streets(rng: np.random.Generator, count: int) -> Floats:
    street = STREETS[rng.integers(0, len(STREETS), count)]
    along = rng.random((count, 1))
    points: Floats = (
        CENTRES[street[:, 0]] * (1 - along) + CENTRES[street[:, 1]] * along + rng.normal(0, 0.0025, (count, 2))
    )
    return points


# ── densities of cities ─────────────────────────────────────────────────────────────────────────────────────────────


def synthetic_city(shape: tuple[int, int], number: int) -> Floats:
    """Make a synthetic city: the expected share of the visits in every cell.

    Consecutive numbers give five kinds of city in turn: few clusters, many clusters, streets between centres, one
    centre, and people spread over the whole map. Places, sizes and weights are drawn anew for every number.

    Args:
        shape: Rows and columns, at least 1 each. Cells are squares, and the longer side has length 1.
        number: The number of the city, from 0. The same number gives the same city.

    Returns:
        An array of the given shape with sum 1.

    Raises:
        InvalidInput: The shape or the number is out of range.

    >>> city = synthetic_city((4, 8), 0)
    >>> city.shape, round(float(city.sum()), 9)
    ((4, 8), 1.0)
    """
    if min(shape) < 1 or number < 0:
        raise InvalidInput(f"There is no city {number} on {shape} cells; give a shape from (1, 1) and a number from 0.")
    rng = np.random.default_rng([2026, number])
    # The positions of the centres of rows and columns; the longer side of the map has length 1.
    down, across = ((np.arange(count) + 0.5) / max(shape) for count in shape)
    mass = _KINDS[number % len(_KINDS)](rng, down, across)
    even = np.full(shape, 1.0 / mass.size)
    return np.asarray((1 - _BACKGROUND) * mass / mass.sum() + _BACKGROUND * even)


def draw_people(city: Floats, people: int, visits: int, number: int) -> Integers:
    """Draw the number of visits in every cell of a synthetic city. The cost does not depend on the number of people.

    Args:
        city: The expected share of the visits in every cell, from :func:`synthetic_city`.
        people: The number of people.
        visits: The number of visits of each person.
        number: The seed of the draw; the same number gives the same visits.

    >>> int(draw_people(synthetic_city((4, 8), 0), people=10**9, visits=4, number=0).sum())
    4000000000
    """
    rng = np.random.default_rng([2027, number])
    return rng.multinomial(people * visits, city.ravel() / city.sum()).reshape(city.shape).astype(np.int64)


def _places(rng: np.random.Generator, down: Floats, across: Floats, count: int) -> Floats:
    """Draw random places in a city, away from its border."""
    return np.asarray(rng.uniform(0.08, 0.92, (count, 2)) * (down[-1] + down[0], across[-1] + across[0]))


def _clusters(
    rng: np.random.Generator, down: Floats, across: Floats, count: int, spread: tuple[float, float]
) -> Floats:
    mass = np.zeros((len(down), len(across)))
    for place, weight in zip(_places(rng, down, across, count), rng.lognormal(0, 0.7, count), strict=True):
        tall, wide = rng.uniform(*spread, 2)
        # A cluster is never narrower than a cell, so that no cluster falls between the centres of cells.
        tall, wide = max(tall, down[0]), max(wide, across[0])
        bell = np.outer(
            np.exp(-((down - place[0]) ** 2) / (2 * tall**2)), np.exp(-((across - place[1]) ** 2) / (2 * wide**2))
        )
        mass += weight * bell / bell.sum()
    return mass


def _few_clusters(rng: np.random.Generator, down: Floats, across: Floats) -> Floats:
    return _clusters(rng, down, across, int(rng.integers(3, 9)), (0.01, 0.05))


def _many_clusters(rng: np.random.Generator, down: Floats, across: Floats) -> Floats:
    return _clusters(rng, down, across, int(rng.integers(50, 100)), (0.01, 0.04))


def _streets(rng: np.random.Generator, down: Floats, across: Floats) -> Floats:
    """Make a city with a third of its mass around centres and the rest on straight streets between centres."""
    ends = _places(rng, down, across, 12)
    along = np.linspace(0, 1, _STEPS)[:, None]
    lines = np.zeros((len(down), len(across)))
    side = max(lines.shape)
    for _ in range(24):
        one, other = ends[rng.choice(len(ends), 2, replace=False)]
        row, col = (((1 - along) * one + along * other) * side).astype(np.int64).T
        np.add.at(lines, (row, col), rng.lognormal(0, 0.7) * np.hypot(*(one - other)))
    return np.asarray(_clusters(rng, down, across, 6, (0.01, 0.03)) / 12 + lines / lines.sum())


def _one_centre(rng: np.random.Generator, down: Floats, across: Floats) -> Floats:
    """Make a city with one centre near the middle, from which the density falls as exp(−distance / scale)."""
    middle = rng.uniform(0.4, 0.6, 2) * (down[-1] + down[0], across[-1] + across[0])
    distance = np.hypot(down[:, None] - middle[0], across[None, :] - middle[1])
    return np.asarray(np.exp(-distance / rng.uniform(0.06, 0.12)))


def _spread_out(rng: np.random.Generator, down: Floats, across: Floats) -> Floats:
    """Make a city with denser and emptier quarters everywhere: the exponential of a smooth random surface."""
    surface = np.zeros((len(down), len(across)))
    for _ in range(60):
        waves, phase = rng.normal(0, 12, 2), rng.uniform(0, 2 * np.pi)
        surface += np.cos(waves[0] * down[:, None] + waves[1] * across[None, :] + phase)
    return np.asarray(np.exp(surface / np.sqrt(60 / 2)))


_KINDS: tuple[Callable[[np.random.Generator, Floats, Floats], Floats], ...] = (
    _few_clusters,
    _many_clusters,
    _streets,
    _one_centre,
    _spread_out,
)
