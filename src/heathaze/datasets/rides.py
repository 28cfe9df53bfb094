"""Synthetic rides: journeys of people along the streets of the synthetic city."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.datasets.city import CENTRES, CITY, STREETS
from heathaze.types import Floats

_FIRST = np.datetime64("2024-06-03T06:00:00", "s")
_STEP = 15
"""Seconds between two positions of a ride."""


def rides(people: int = 2_000, seed: int = 7) -> dict[str, npt.NDArray[np.generic]]:
    """Make rides of synthetic people in a city, as columns ``person``, ``trip``, ``time``, ``lon`` and ``lat``.

    Every person has a home centre and rides between one and a dozen times along the streets, to another centre and
    sometimes on to a third one. One person in a hundred rides the same way a hundred times.

    Args:
        people: The number of people, at least 10.
        seed: The seed; the same seed gives the same rows.

    Returns:
        The columns, of equal length: one row for each position. ``trip`` is the number of the ride among all rides.

    Raises:
        InvalidInput: There are too few people.

    >>> table = rides(people=10)
    >>> sorted(table), len(set(table["person"].tolist()))
    (['lat', 'lon', 'person', 'time', 'trip'], 10)
    """
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    people = whole(people, "people", "synthetic people", least=10)
    nearby = [np.concatenate([STREETS[STREETS[:, 0] == c, 1], STREETS[STREETS[:, 1] == c, 0]]) for c in range(6)]
    who: list[int] = []
    routes: list[Floats] = []
    for person in range(people):
        home = int(rng.choice(6, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.1]))
        often = 100 if person % 100 == 0 else 1 + int(rng.geometric(0.3))
        for _ in range(often):
            stops = [home, int(rng.choice(nearby[home])) if often < 100 else int(nearby[home][0])]
            if often < 100 and rng.random() < 0.4:
                stops.append(int(rng.choice(nearby[stops[-1]])))
            corners = CENTRES[stops[:: rng.choice([-1, 1])]] + rng.normal(0, 0.012, (len(stops), 2))
            routes.append(_ridden(corners, rng))
            who.append(person)
    counts = np.array([len(route) for route in routes])
    points = np.concatenate(routes)
    trip = np.repeat(np.arange(len(routes)), counts)
    step = np.arange(len(points)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = rng.integers(0, 5 * 86_400, len(routes))
    return {
        "person": np.repeat(np.array(who), counts),
        "trip": trip,
        "time": _FIRST + (begins[trip] + _STEP * step).astype("timedelta64[s]"),
        "lon": CITY.x[0] + np.clip(points[:, 0], 0, 1) * (CITY.x[1] - CITY.x[0]),
        "lat": CITY.y[0] + np.clip(points[:, 1], 0, 1) * (CITY.y[1] - CITY.y[0]),
    }


def _ridden(corners: Floats, rng: np.random.Generator) -> Floats:
    """Ride along straight streets between corners, with a position every hundredth of the map and some error."""
    legs = []
    for start, end in itertools.pairwise(corners):
        number = max(2, round(float(np.hypot(*(end - start))) * 100))
        legs.append(start + (end - start) * np.linspace(0, 1, number)[:, None])
    route = np.concatenate(legs)
    return np.asarray(route + rng.normal(0, 0.001, route.shape))
