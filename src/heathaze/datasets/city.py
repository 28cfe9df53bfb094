"""A synthetic city: several centres, streets between them, and five people with thousands of visits each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Box
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

CITY = Box.over(lon=(9.90, 10.10), lat=(53.50, 53.62))
"""The box of the synthetic city."""

_CENTRES = np.array([(0.50, 0.52), (0.27, 0.70), (0.74, 0.66), (0.66, 0.28), (0.30, 0.30), (0.86, 0.44)])
_DRAW = np.array([0.34, 0.16, 0.16, 0.14, 0.12, 0.08])
_SPREAD = np.array([0.030, 0.022, 0.018, 0.020, 0.016, 0.012])
_STREETS = np.array([(0, 1), (0, 2), (0, 3), (0, 4), (2, 5), (3, 5), (1, 4), (1, 2), (3, 4)])


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
    if people < 10 or visits < 5 * people:
        raise InvalidInput(f"There are {people} people and {visits} visits; give at least 10 people and 5 visits each.")
    rng = np.random.default_rng(seed)
    person = _who_visits(rng, people, visits)
    centre = rng.choice(len(_CENTRES), size=people, p=_DRAW)
    home = np.where(
        rng.random((people, 1)) < 0.7,
        _CENTRES[rng.choice(len(_CENTRES), size=people, p=_DRAW)] + rng.normal(0, 0.07, (people, 2)),
        rng.random((people, 2)),
    )
    kind = rng.random(visits)
    at_home, at_centre, on_street = kind < 0.35, (kind >= 0.35) & (kind < 0.75), (kind >= 0.75) & (kind < 0.95)
    place = rng.random((visits, 2))
    place[at_home] = home[person[at_home]] + rng.normal(0, 0.002, (at_home.sum(), 2))
    place[at_centre] = _around(rng, centre[person[at_centre]])
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
    """Draw the person of each visit: everybody once, five people for a twentieth of the visits, the rest log-normal."""
    heavy = rng.integers(0, 5, visits // 20)
    appetite = rng.lognormal(0, 1, people)
    rest = rng.choice(people, size=visits - people - len(heavy), p=appetite / appetite.sum())
    return rng.permutation(np.concatenate([np.arange(people), heavy, rest]))


def _around(rng: np.random.Generator, centres: Integers) -> Floats:
    around: Floats = _CENTRES[centres] + rng.normal(0, 1, (len(centres), 2)) * _SPREAD[centres, None]
    return around


def _along_streets(rng: np.random.Generator, count: int) -> Floats:
    street = _STREETS[rng.integers(0, len(_STREETS), count)]
    along = rng.random((count, 1))
    points: Floats = (
        _CENTRES[street[:, 0]] * (1 - along) + _CENTRES[street[:, 1]] * along + rng.normal(0, 0.0025, (count, 2))
    )
    return points
