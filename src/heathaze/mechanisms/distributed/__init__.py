"""Only a sum is trusted: devices add noise to their vectors and mask them, and the server opens nothing but sums."""

from heathaze.mechanisms.distributed.adaptive_grid import AdaptiveGrid
from heathaze.mechanisms.distributed.adaptive_quadtree import AdaptiveQuadtree
from heathaze.mechanisms.distributed.cohort import Cohort
from heathaze.mechanisms.distributed.conduct import conduct
from heathaze.mechanisms.distributed.count_min import CountMin
from heathaze.mechanisms.distributed.device import Device, plan_terms
from heathaze.mechanisms.distributed.flat import Flat
from heathaze.mechanisms.distributed.hierarchical import Hierarchical
from heathaze.mechanisms.distributed.proportions import Proportions, proportions
from heathaze.mechanisms.distributed.question import Question
from heathaze.mechanisms.distributed.simulate import Population, simulate
from heathaze.mechanisms.distributed.spatial_decomposition import SpatialDecomposition
from heathaze.mechanisms.distributed.survey import Round, Survey

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
