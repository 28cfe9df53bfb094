"""The server's half: reports go in, a release comes out. It cannot be given a position."""

from __future__ import annotations

import datetime

import numpy as np

from heathaze.domain.density import Density
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.estimate import Estimate
from heathaze.local.device import promise, warn_of
from heathaze.local.reports import Reports
from heathaze.local.smooth_map import smooth_map
from heathaze.local.tally import Tally
from heathaze.privacy.events import event_to_dict
from heathaze.privacy.provenance import Provenance
from heathaze.release.release import Release

DRAWS = 24
"""Maps drawn beside the estimate to say how sure it is: a standard deviation is then known to about a seventh."""


def estimate(reports: Reports | Tally, *, draws: int = DRAWS) -> Release:
    """The map that reports tell.

    Args:
        reports: Reports, or a tally of them; never positions.
        draws: How many maps to draw beside it, for its error bars; 0 for none, which is quicker.
    """
    tally = Tally.of(reports) if isinstance(reports, Reports) else reports
    if not isinstance(tally, Tally):
        raise InvalidInput(
            f"estimate takes Reports or a Tally of them (Tally.load reads files), not a {type(reports).__name__}; "
            "positions are randomised on the device and never reach the server."
        )
    if tally.reports == 0:
        raise InvalidInput("There are no reports to estimate a map from.")
    if draws == 1 or draws < 0:
        raise InvalidInput(f"draws is {draws}; give 0, or at least 2 to see how they differ.")
    mechanism, grid = tally.mechanism, tally.mechanism.grid
    warn_of(mechanism)
    fitted = smooth_map(mechanism.channel(), tally.counts)
    density = Density.from_mass(grid, fitted.density)
    provenance = Provenance(
        mechanism=type(mechanism).__name__,
        parameters=mechanism.parameters(),
        weight="share",
        at_most=None,
        event=event_to_dict(mechanism.event),
        day=datetime.datetime.now(datetime.UTC).date().isoformat(),
        simulated=tally.simulated,
    )
    drawn = DrawnMaps.of(grid, np.stack(list(fitted.draws(draws))), fitted.prior) if draws else None
    found = Estimate(density, float(tally.reports), drawn=drawn)
    return Release(found, promise(mechanism, tally.unit), provenance)
