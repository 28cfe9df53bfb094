"""RandomizedResponse: report the true cell e^ε times as likely as any other cell."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from heathaze.local._window import Window
from heathaze.local.disk_area import disk_window
from heathaze.local.mechanism import WindowMechanism


@dataclass(frozen=True, init=False)
class RandomizedResponse(WindowMechanism):
    """Generalised randomised response (k-RR) on the n cells of a grid; see ``randomized_response.md``.

        Pr[true cell] = e^ε / (e^ε + n − 1),   Pr[any other cell] = 1 / (e^ε + n − 1)

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.

    Raises:
        InvalidInput: ε is not positive.
        TooLarge: The grid has too many cells.

    >>> from heathaze.domain.grid import Grid
    >>> RandomizedResponse(Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), 1).transition_matrix().round(3).tolist()
    [[0.731, 0.269], [0.269, 0.731]]
    """

    @functools.cached_property
    def window(self) -> Window:
        """A disc of radius 0: only the true cell has the high weight, and every output is a cell of the grid."""
        return disk_window(self.grid.shape, self.epsilon, radius=0)
