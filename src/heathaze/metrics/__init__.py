"""How far a published map lies from the truth.

One rule for all: every metric takes two maps, ``metric(truth, estimate)``. A map is a :class:`heathaze.Density`, a tree
density, or a two-dimensional array of mass. Both have the same shape, every value is finite and not negative, some mass
is there, and each map is divided by its sum first: a metric compares where the mass lies, never how much.

- Closer is larger: :func:`similarity`, :func:`pearson`.
- Closer is smaller: :func:`kl`, :func:`total_variation`, :func:`mse`, :func:`l1`, :func:`mape`, :func:`smape`,
  :func:`maape`.
- Closer is smaller, in units of length, with the extra ``eval``: :func:`emd` (exact, ℓ1 on the grid),
  :func:`w1` and :func:`w2` (exact, Euclidean, small grids).

What a metric says about real data is not private: the truth is one of its arguments.
"""

from heathaze.metrics.emd import emd
from heathaze.metrics.errors import l1, maape, mape, mse, smape
from heathaze.metrics.heatmap import kl, pearson, similarity, total_variation
from heathaze.metrics.transport import w1, w2

__all__ = [
    "emd",
    "kl",
    "l1",
    "maape",
    "mape",
    "mse",
    "pearson",
    "similarity",
    "smape",
    "total_variation",
    "w1",
    "w2",
]
