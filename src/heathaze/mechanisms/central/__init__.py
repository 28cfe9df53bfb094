"""A curator is trusted: it holds the raw data, and adds noise once, before anything leaves."""

from heathaze.mechanisms.central.dense import Dense
from heathaze.mechanisms.central.flat import Flat
from heathaze.mechanisms.central.flat_top import FlatTop
from heathaze.mechanisms.central.pyramid import Pyramid

__all__ = ["Dense", "Flat", "FlatTop", "Pyramid"]
