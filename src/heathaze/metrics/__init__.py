"""Metrics that compare a published map with the true map.

Every metric takes two maps, ``metric(truth, estimate)``. A map is a :class:`heathaze.Density`, a tree density, or a
two-dimensional array of mass. Both maps must have the same shape and some mass, and all values must be finite and not
negative. Each map is divided by its sum first, so a metric compares where the mass lies, not how much there is.

- Similarities, which are larger for closer maps: :func:`similarity`, :func:`pearson`.
- Errors, which are smaller for closer maps: :func:`kl`, :func:`total_variation`, :func:`mse`, :func:`l1`,
  :func:`mape`, :func:`smape`, :func:`maape`.
- Distances in units of length: :func:`emd` (ℓ1 or Euclidean, with a proven lower and upper bound), :func:`sliced`
  (projected on lines), :func:`sinkhorn_w2` (smoothed W₂); with the extra ``eval`` also :func:`w1` and :func:`w2`
  (exact, Euclidean, small grids).

Metrics of made-up journeys take two sets of journeys (:class:`heathaze.domain.lines.Lines`) and a grid,
``metric(truth, made_up, grid)``:

- Divergences and errors, which are smaller for closer sets: :func:`density_divergence`, :func:`trip_divergence`,
  :func:`length_divergence`, :func:`diameter_divergence`, :func:`query_error`.
- Agreements, which are larger for closer sets: :func:`hot_spot_ndcg`, :func:`kendall_tau`, :func:`pattern_f1`.

The value of a metric on real data is not private, because it depends on the true map.
"""

from heathaze.metrics.cellwise import kl, l1, maape, mape, mse, pearson, similarity, smape, total_variation
from heathaze.metrics.emd import Distance, emd
from heathaze.metrics.journeys import (
    density_divergence,
    diameter_divergence,
    hot_spot_ndcg,
    kendall_tau,
    length_divergence,
    pattern_f1,
    query_error,
    trip_divergence,
)
from heathaze.metrics.wasserstein import sinkhorn_w2, sliced, w1, w2

__all__ = [
    "Distance", "density_divergence", "diameter_divergence", "emd", "hot_spot_ndcg", "kendall_tau", "kl",
    "l1", "length_divergence", "maape", "mape", "mse", "pattern_f1", "pearson", "query_error", "similarity",
    "sinkhorn_w2", "sliced", "smape", "total_variation", "trip_divergence", "w1", "w2",
]  # fmt: skip
