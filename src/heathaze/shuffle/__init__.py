"""The shuffle model: a shuffler mixes encrypted messages, so that the server does not know who sent which message."""

from heathaze.shuffle.decoys import Decoys
from heathaze.shuffle.device import Device, Participant, simulate
from heathaze.shuffle.mixed import Mixed
from heathaze.shuffle.rounds import Rounds, estimate_rounds
from heathaze.shuffle.server import Server, estimate
from heathaze.shuffle.shares import NoisyLevels, simulate_rounds
from heathaze.shuffle.shuffled_reports import ShuffledReports
from heathaze.shuffle.shuffler import Shuffler, mix_files
from heathaze.shuffle.split_and_mix import SplitAndMix
from heathaze.shuffle.study import Batch, Study, Submission

__all__ = [
    "Batch",
    "Decoys",
    "Device",
    "Mixed",
    "NoisyLevels",
    "Participant",
    "Rounds",
    "Server",
    "ShuffledReports",
    "Shuffler",
    "SplitAndMix",
    "Study",
    "Submission",
    "estimate",
    "estimate_rounds",
    "mix_files",
    "simulate",
    "simulate_rounds",
]
