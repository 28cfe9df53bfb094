"""RandomizedResponse: report the true cell e^ε times as likely as any other. The oldest local mechanism."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from heathaze.local._window import Window
from heathaze.local.disk_area import disk_window
from heathaze.local.mechanism import WindowMechanism


@dataclass(frozen=True, init=False)
class RandomizedResponse(WindowMechanism):
    """Generalised randomised response on the cells of a grid; see ``randomized_response.md``.

    Pr[true cell] = e^ε / (e^ε + n − 1),   Pr[any other] = 1 / (e^ε + n − 1)
    """

    @functools.cached_property
    def window(self) -> Window:
        """A disc of radius 0: the true cell alone is raised, and every output is a cell of the grid."""
        return disk_window(self.grid.shape, self.epsilon, radius=0)
