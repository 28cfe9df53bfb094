"""The distributed model: devices add noise to masked vectors, and the server learns only noisy sums of the vectors.

A :class:`Survey` asks a :class:`Cohort` of devices in a few rounds. A mechanism such as :class:`AdaptiveQuadtree`
chooses the question of each round. A :class:`Device` answers :class:`Question` s and pays from its own budget.
:func:`simulate` runs a whole survey on a made-up population; :func:`run_survey` runs one with real devices and real
secure sums in one process.
"""

from heathaze.distributed.adaptive_grid import AdaptiveGrid
from heathaze.distributed.adaptive_quadtree import AdaptiveQuadtree
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.count_min import CountMin
from heathaze.distributed.device import Device
from heathaze.distributed.levels import Flat, Hierarchical, SpatialDecomposition
from heathaze.distributed.mechanism import Round
from heathaze.distributed.proportions import Proportions, proportions
from heathaze.distributed.question import Question
from heathaze.distributed.simulate import Population, run_survey, simulate
from heathaze.distributed.survey import Survey

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
    "proportions",
    "run_survey",
    "simulate",
]
