"""The shuffle model: a shuffler mixes encrypted messages, so that the server does not know who sent which."""

from heathaze.shuffle.decoys import Decoys
from heathaze.shuffle.mechanism import Mixed, estimate, simulate
from heathaze.shuffle.shuffled_reports import ShuffledReports

__all__ = [
    "Decoys",
    "Mixed",
    "ShuffledReports",
    "estimate",
    "simulate",
]
