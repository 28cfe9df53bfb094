"""The central model: a trusted curator holds the raw data and adds noise once, before anything is published."""

from heathaze.central.adaptive_grid import AdaptiveGrid
from heathaze.central.adaptive_tree import AdaptiveTree
from heathaze.central.dawa import Dawa
from heathaze.central.dense import Dense
from heathaze.central.flat import Flat, FlatTop
from heathaze.central.priv_tree import PrivTree
from heathaze.central.pyramid import Pyramid
from heathaze.central.uniform_grid import UniformGrid
from heathaze.domain.grid import Grid
from heathaze.privacy.loss import Number

__all__ = [
    "AdaptiveGrid",
    "AdaptiveTree",
    "Dawa",
    "Dense",
    "Flat",
    "FlatTop",
    "PrivTree",
    "Pyramid",
    "UniformGrid",
    "default",
]


def default(grid: Grid, epsilon: Number) -> AdaptiveTree:
    """Make the central mechanism that is recommended: it gives the most accurate map, with error bars.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release, above 0.

    Returns:
        An AdaptiveTree.

    >>> default(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1).parameters()
    {'epsilon': '1'}
    """
    return AdaptiveTree(grid, epsilon)
