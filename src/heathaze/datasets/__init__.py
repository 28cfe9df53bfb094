"""Synthetic people for demos, tests and papers: no real person is in here."""

from heathaze.datasets.city import city

__all__ = ["city"]
