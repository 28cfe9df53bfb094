"""How far a published map lies from the truth.

One rule for all: every metric takes two maps, ``metric(truth, estimate)``. A map is a :class:`heathaze.Density`, a tree
density, or a two-dimensional array of mass. Both have the same shape, every value is finite and not negative, some mass
is there, and each map is divided by its sum first: a metric compares where the mass lies, never how much.

- Closer is larger: :func:`similarity`, :func:`pearson`.
- Closer is smaller: :func:`kl`, :func:`total_variation`, :func:`mse`, :func:`l1`, :func:`mape`, :func:`smape`,
  :func:`maape`.
- Closer is smaller, in units of length: :func:`emd` (ℓ1 or Euclidean, a :class:`Distance` with two bounds that are
  proven; ``float()`` of it is the middle), :func:`sliced` (seen from many sides), :func:`sinkhorn_w2` (smoothed W₂);
  with the extra ``eval`` also :func:`w1` and :func:`w2` (exact, Euclidean, small grids).
- Between sources rather than maps: :func:`line_emd`, :func:`plane_emd`, :func:`graph_emd`, or :func:`source_emd`, which
  picks by the field; :func:`recovery_floor` is what no estimate of sources can undercut.
- Between tables of points: :func:`mmd_squared`, through a kernel.

Beside them, for plots: how far off an adversary guesses who sees a report, :func:`sampling_adversary` and
:func:`bayes_adversary`. They are no privacy guarantee.

What a metric says about real data is not private: the truth is one of its arguments.
"""

from heathaze.metrics.distance import Distance
from heathaze.metrics.emd import emd
from heathaze.metrics.errors import l1, maape, mape, mse, smape
from heathaze.metrics.heatmap import kl, pearson, similarity, total_variation
from heathaze.metrics.location_privacy import bayes_adversary, sampling_adversary
from heathaze.metrics.mmd import mmd_squared
from heathaze.metrics.recovery_floor import recovery_floor
from heathaze.metrics.sinkhorn import sinkhorn_w2
from heathaze.metrics.sliced import sliced
from heathaze.metrics.source_emd import graph_emd, line_emd, plane_emd, source_emd
from heathaze.metrics.transport import w1, w2

__all__ = [
    "Distance",
    "bayes_adversary",
    "emd",
    "graph_emd",
    "kl",
    "l1",
    "line_emd",
    "maape",
    "mape",
    "mmd_squared",
    "mse",
    "pearson",
    "plane_emd",
    "recovery_floor",
    "sampling_adversary",
    "similarity",
    "sinkhorn_w2",
    "sliced",
    "smape",
    "source_emd",
    "total_variation",
    "w1",
    "w2",
]
