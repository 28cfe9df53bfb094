"""Who masks with whom: everyone takes a seat on a circle at random, neighbours are those who sit near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from heathaze.privacy.randomness import Randomness

Neighbours = Mapping[int, tuple[int, ...]]
"""For each member its neighbours, in ascending order."""


def draw(members: Sequence[int], degree: int, randomness: Randomness) -> Neighbours:
    """The Harary graph on a uniformly random order of the members.

    Args:
        members: Distinct clients.
        degree: An even number of neighbours each; with no more members than that, everybody is everybody's neighbour.
        randomness: Where the order comes from.

    >>> from heathaze.privacy.randomness import Simulation
    >>> {len(near) for near in draw(range(100), 6, Simulation(1)).values()}
    {6}
    """
    if degree >= len(members) - 1:
        return {one: tuple(sorted(other for other in members if other != one)) for one in members}
    seats = [members[k] for k in permutation(len(members), randomness)]
    around = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    count = len(seats)
    return {one: tuple(sorted(seats[(seat + step) % count] for step in around)) for seat, one in enumerate(seats)}


def permutation(count: int, randomness: Randomness) -> list[int]:
    """A uniformly random order: sort by random words, and draw all of them again should two be equal."""
    while True:
        words = randomness.words(count)
        if len(np.unique(words)) == count:
            return [int(k) for k in np.argsort(words)]
