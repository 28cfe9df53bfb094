"""The shuffle model: a shuffler mixes encrypted messages, so that the server does not know who sent which."""

from heathaze.shuffle.decoys import Decoys
from heathaze.shuffle.device import Device, simulate
from heathaze.shuffle.mixed import Mixed
from heathaze.shuffle.server import Server, estimate
from heathaze.shuffle.shuffled_reports import ShuffledReports
from heathaze.shuffle.shuffler import Shuffler, mix_files
from heathaze.shuffle.study import Batch, Study, Submission

__all__ = [
    "Batch",
    "Decoys",
    "Device",
    "Mixed",
    "Server",
    "ShuffledReports",
    "Shuffler",
    "Study",
    "Submission",
    "estimate",
    "mix_files",
    "simulate",
]
