"""Journeys: made-up journeys that may be published, with a trusted curator or without one."""

from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.ingest.journeys import Journeys
from heathaze.ingest.journeys import read_journeys as read
from heathaze.privacy.loss import Number
from heathaze.trajectories.device import Device, randomize
from heathaze.trajectories.estimate import estimate, read_reports
from heathaze.trajectories.figure import draw
from heathaze.trajectories.journey_trees import JourneyTrees
from heathaze.trajectories.ldp_trace import LdpTrace
from heathaze.trajectories.local_journeys import LocalJourneys
from heathaze.trajectories.made_up import MadeUp
from heathaze.trajectories.pivot_trace import PivotTrace
from heathaze.trajectories.publishing import publish
from heathaze.trajectories.reports import JourneyReports
from heathaze.trajectories.synthesis import JourneyModel

__all__ = [
    "Device",
    "JourneyModel",
    "JourneyReports",
    "JourneyTrees",
    "Journeys",
    "LdpTrace",
    "Lines",
    "LocalJourneys",
    "MadeUp",
    "PivotTrace",
    "default",
    "draw",
    "estimate",
    "publish",
    "randomize",
    "read",
    "read_reports",
]


def default(grid: Grid, epsilon: Number) -> JourneyTrees:
    """Make the mechanism for journeys that is recommended.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release, above 0.

    Returns:
        A JourneyTrees.

    >>> default(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1).parameters()
    {'epsilon': '1', 'squares': 64}
    """
    return JourneyTrees(grid, epsilon)
