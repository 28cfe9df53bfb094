"""AdaptiveTree: look closer where noisy evidence says there is something to see, and infer the map from all of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.central._search import FIRST_LOOK, PARTS, search
from heathaze.domain.grid import Grid
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.inference.posterior import posterior
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import LaplaceOnPaths
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.randomness import Randomness


@dataclass(frozen=True)
class AdaptiveTree:
    """Counts of quadtree nodes, finer where counts above were large, every path spending ε; see ``adaptive_tree.md``.

    The release carries the noisy counts themselves, so it can say how sure it is of every place. There is no knob: what
    the budget goes to is decided by the noisy counts already paid for.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release.
    """

    grid: Grid
    epsilon: Fraction

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))

    def event(self, bound: int) -> LaplaceOnPaths:
        """Counts chosen in view of earlier ones; no path spends more than ε."""
        laplace_scale(bound, self.epsilon * FIRST_LOOK / PARTS)  # the largest noise: refused before anything is charged
        return LaplaceOnPaths(bound, self.epsilon)

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Measure, then infer; the second step sees noisy numbers only."""
        noisy = self.measure(counts, randomness)
        found = posterior(noisy)
        return Estimate(found.density, found.total, noisy)

    def measure(self, counts: Counts, randomness: Randomness) -> NoisyCounts:
        """Noisy counts on an adaptive tree, at most one a node."""
        return search(counts, self.epsilon, randomness)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon)}
