"""Only a sum is trusted: devices add noise to their vectors and mask them, and the server opens nothing but sums."""

from heathaze.distributed.adaptive_grid import AdaptiveGrid
from heathaze.distributed.adaptive_quadtree import AdaptiveQuadtree
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.count_min import CountMin
from heathaze.distributed.device import Device, plan_terms
from heathaze.distributed.flat import Flat
from heathaze.distributed.hierarchical import Hierarchical
from heathaze.distributed.proportions import Proportions, proportions
from heathaze.distributed.question import Question
from heathaze.distributed.simulate import Population, conduct, simulate
from heathaze.distributed.spatial_decomposition import SpatialDecomposition
from heathaze.distributed.survey import Round, Survey

__all__ = [
    "AdaptiveGrid",
    "AdaptiveQuadtree",
    "Cohort",
    "CountMin",
    "Device",
    "Flat",
    "Hierarchical",
    "Population",
    "Proportions",
    "Question",
    "Round",
    "SpatialDecomposition",
    "Survey",
    "conduct",
    "plan_terms",
    "proportions",
    "simulate",
]
