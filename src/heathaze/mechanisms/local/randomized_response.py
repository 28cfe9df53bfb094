"""RandomizedResponse: report the true cell e^ε times as likely as any other. The oldest local mechanism."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.domain.grid import Grid
from heathaze.mechanisms.local._window import Window
from heathaze.mechanisms.local._window_mechanism import WindowMechanism, check_local_grid
from heathaze.mechanisms.local.disk_area import disk_window
from heathaze.privacy.loss import Number, parse_epsilon


@dataclass(frozen=True)
class RandomizedResponse(WindowMechanism):
    """Generalised randomised response on the cells of a grid; see ``randomized_response.md``.

    Pr[true cell] = e^ε / (e^ε + n − 1),   Pr[any other] = 1 / (e^ε + n − 1)
    """

    grid: Grid
    epsilon: Fraction

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_local_grid(self.grid)

    @functools.cached_property
    def window(self) -> Window:
        """A disc of radius 0: the true cell alone is raised, and every output is a cell of the grid."""
        return disk_window(self.grid.shape, self.epsilon, radius=0)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon)}
