"""Only a sum is trusted: devices add noise to their vectors and mask them, and the server opens nothing but sums."""

from heathaze.mechanisms.distributed.adaptive_quadtree import AdaptiveQuadtree
from heathaze.mechanisms.distributed.cohort import Cohort
from heathaze.mechanisms.distributed.device import Device, plan_terms
from heathaze.mechanisms.distributed.proportions import Proportions, proportions
from heathaze.mechanisms.distributed.question import Question
from heathaze.mechanisms.distributed.simulate import Population, simulate
from heathaze.mechanisms.distributed.survey import Round, Survey

__all__ = [
    "AdaptiveQuadtree",
    "Cohort",
    "Device",
    "Population",
    "Proportions",
    "Question",
    "Round",
    "Survey",
    "plan_terms",
    "proportions",
    "simulate",
]
