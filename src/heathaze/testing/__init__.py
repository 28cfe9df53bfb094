"""Checks of mechanisms, samplers and neighbouring datasets, for tests. No other part of Heathaze imports them."""

from heathaze.testing.check_mechanism import check_mechanism, noiseless
from heathaze.testing.neighbours import Neighbours, neighbouring_counts, neighbouring_visits
from heathaze.testing.statistics import (
    assert_distribution,
    assert_same_distribution,
    discrete_gaussian_law,
    discrete_laplace_law,
    goodness_of_fit,
    two_sample,
)

__all__ = [
    "Neighbours", "assert_distribution", "assert_same_distribution", "check_mechanism", "discrete_gaussian_law",
    "discrete_laplace_law", "goodness_of_fit", "neighbouring_counts", "neighbouring_visits", "noiseless", "two_sample",
]  # fmt: skip
