"""What a mechanism returns: a map made from noisy numbers, before a guarantee is attached to it."""

from __future__ import annotations

from dataclasses import dataclass

from heathaze.domain.density import Density, TreeDensity
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.noisy_counts import NoisyCounts


@dataclass(frozen=True)
class Estimate:
    """What comes out of the noise: where the mass lies, and how much there is (in units, or presences). Public.

    How sure the map is, ``noisy`` tells, the noisy counts behind it, or ``drawn``, other maps that fit as well; neither
    where a mechanism keeps none.
    """

    density: Density | TreeDensity
    total: float
    noisy: NoisyCounts | None = None
    drawn: DrawnMaps | None = None
