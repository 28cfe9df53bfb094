"""Nobody is trusted: each device randomises its own position, and the server only ever sees reports."""

from heathaze.mechanisms.local.device import Device, randomize
from heathaze.mechanisms.local.disk_area import DiskArea
from heathaze.mechanisms.local.estimate import estimate
from heathaze.mechanisms.local.hybrid_uniform_exponential import HybridUniformExponential
from heathaze.mechanisms.local.local_hashing import LocalHashing
from heathaze.mechanisms.local.planar_laplace import PlanarLaplace
from heathaze.mechanisms.local.randomized_response import RandomizedResponse
from heathaze.mechanisms.local.reports import Reports
from heathaze.mechanisms.local.square_wave import SquareWave2D
from heathaze.mechanisms.local.subset_exponential import SubsetExponential
from heathaze.mechanisms.local.tally import Tally
from heathaze.mechanisms.local.unary_encoding import UnaryEncoding

__all__ = [
    "Device",
    "DiskArea",
    "HybridUniformExponential",
    "LocalHashing",
    "PlanarLaplace",
    "RandomizedResponse",
    "Reports",
    "SquareWave2D",
    "SubsetExponential",
    "Tally",
    "UnaryEncoding",
    "estimate",
    "randomize",
]
