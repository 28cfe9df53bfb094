"""Synthetic data for demonstrations, tests and papers. It contains no real person."""

from heathaze.datasets.city import city
from heathaze.datasets.mixtures import mixture
from heathaze.datasets.owners import market
from heathaze.datasets.rooms import room

__all__ = ["city", "market", "mixture", "room"]
