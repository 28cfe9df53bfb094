"""Synthetic people for demos, tests and papers: no real person is in here."""

from heathaze.datasets.city import city
from heathaze.datasets.mixtures import mixture
from heathaze.datasets.owners import market
from heathaze.datasets.rooms import room

__all__ = ["city", "market", "mixture", "room"]
