"""The result of a search for the steepest move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["exact", "bound"]

SAFETY = 1e-9
"""Relative margin for the rounding of sums."""

FLOOR = 1e-12
"""Margin for differences of responses, as a part of the largest response to a unit source (errata E4-8).

On graphs where tau times the degrees is large, rounding is larger: ``Graph.rounding``."""


@dataclass(frozen=True)
class Rate:
    """The largest change of the readings for each unit of strength and length, in one norm, rounded up.

    Args:
        value: The rate; never below the truth.
        kind: "exact" within the tolerance of the search, or a "bound", which may be larger.
        where: The two candidates, or the place in a continuous space, where the rate was found.
    """

    value: float
    kind: Kind
    where: tuple[int, int] | tuple[float, ...]
