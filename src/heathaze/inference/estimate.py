"""The result of a mechanism: a map made from noisy numbers, before a guarantee is attached to it."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, fields
from typing import Any

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnMaps, DrawnPosterior
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.inference.posterior import Posterior, posterior


@dataclass(frozen=True, eq=False)
class Estimate:
    """A map and a total, both made from noisy numbers only. Public.

    Args:
        density: Where the mass lies: one number for each cell, or a tree of squares on fine grids.
        total: Estimated number of units (people, person-days or visits), or of presences with weight "presence".
        noisy: The noisy counts from which the map was inferred, or None if the mechanism keeps none.
        drawn: Other maps that fit the reports equally well, or None if the mechanism draws none.
        simulated: Whether the noise came from simulated randomness. A release of such an estimate cannot be saved.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> counts = NoisyCounts(grid, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [100, 61, 22, 12, -2], [5, 1, 1, 1, 1])
    >>> found = Estimate.infer(counts)
    >>> round(found.total), found.posterior.deviations().round(2).tolist()
    (96, [[0.02, 0.02], [0.02, 0.01]])
    """

    density: Density | TreeDensity
    total: float
    noisy: NoisyCounts | None = None
    drawn: DrawnMaps | None = None
    simulated: bool = False

    @classmethod
    def infer(cls, noisy: NoisyCounts, *, simulated: bool = False) -> Estimate:
        """Infer a map from noisy counts: the mean of their posterior. The posterior is kept and not inferred again.

        Args:
            noisy: Counts of quadtree nodes with noise of known scale.
            simulated: Whether the noise came from simulated randomness.

        Returns:
            The estimate, with its posterior.
        """
        found = posterior(noisy)
        estimate = cls(found.density, found.total, noisy, simulated=simulated)
        vars(estimate)["posterior"] = found
        return estimate

    def marked_simulated(self) -> Estimate:
        """Return the same estimate, with its posterior if it was inferred, marked as simulated."""
        marked = copy.copy(self)
        vars(marked).update(vars(self), simulated=True)
        return marked

    @property
    def grid(self) -> Grid:
        """The public frame of the map."""
        return self.density.grid

    @property
    def knows_uncertainty(self) -> bool:
        """Whether the estimate has a posterior."""
        return self.noisy is not None or self.drawn is not None

    @functools.cached_property
    def posterior(self) -> Posterior | DrawnPosterior:
        """The probability distribution over all maps, given the noisy counts or reports.

        Raises:
            InvalidInput: The mechanism kept neither noisy counts nor drawn maps.
        """
        if self.drawn is not None:
            return DrawnPosterior(self.drawn, self.density.dense(), self.total)
        if self.noisy is None:
            raise InvalidInput("This map has no error bars; publish with hz.central.default(…) to get them.")
        return posterior(self.noisy)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields only. The posterior is many times as large and can be inferred again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
