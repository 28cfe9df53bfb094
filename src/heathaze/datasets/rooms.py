"""A synthetic room with sensors and a few sources of heat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.checks import whole
from heathaze.types import Floats

SIZE = (12.0, 8.0)
DIFFUSIVITY = 0.01
TIMES = (60.0, 120.0)
MOST_SOURCES = 5
"""More sources that are three metres apart do not always fit into the room."""


@dataclass(frozen=True, eq=False)
class Room:
    """A room of 12 by 8 metres.

    ``sensors`` and ``sources`` hold one row (x, y) each, in metres from a corner. ``strengths`` holds the strength of
    each source.
    """

    sensors: Floats
    sources: Floats
    strengths: Floats


def room(seed: int = 0, sources: int = 3) -> Room:
    """Make a synthetic room with forty sensors, placed nearly evenly, and heat sources at least three metres apart.

    Args:
        seed: The seed of the room; the same seed gives the same room.
        sources: The number of sources, from 0 to 5.

    Returns:
        The room: its size, the positions of sensors and sources in metres, and the strengths of the sources.

    Raises:
        InvalidInput: More sources than fit.

    >>> room().sensors.shape, room().sources.shape
    ((40, 2), (3, 2))
    """
    whole(sources, "sources", "the number of sources that fit into the room", least=0, most=MOST_SOURCES)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    across, up = np.meshgrid((np.arange(8) + 0.5) * SIZE[0] / 8, (np.arange(5) + 0.5) * SIZE[1] / 5)
    sensors = np.stack([across.ravel(), up.ravel()], axis=1) + rng.uniform(-0.3, 0.3, (40, 2))
    placed: list[Floats] = []
    while len(placed) < sources:
        here = rng.uniform((1, 1), (SIZE[0] - 1, SIZE[1] - 1))
        if all(np.hypot(*(here - other)) > 3 for other in placed):
            placed.append(here)
    return Room(sensors.round(2), np.array(placed).round(2), np.ones(sources))
