"""What the three searches for the steepest move find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["exact", "bound"]

SAFETY = 1e-9
"""Relative: what sums of rounded numbers may lose."""

FLOOR = 1e-12
"""Of the largest response to a unit source: no difference of responses is known better (errata E4-8).
On graphs where tau times the degrees is large, rounding is more than that: ``Graph.rounding``."""


@dataclass(frozen=True)
class Rate:
    """How fast readings can change with the place of a unit source, in one norm, rounded up.

    Args:
        value: Never below the truth.
        kind: "exact" within the tolerance of the search, or a "bound" that may be larger.
        where: Two candidates, or one place in continuous space, where the rate was found.
    """

    value: float
    kind: Kind
    where: tuple[int, int] | tuple[float, ...]
