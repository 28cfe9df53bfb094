"""The local model: each device randomises its own position, and the server sees only reports. Nobody is trusted."""

from heathaze.local.device import Device, randomize
from heathaze.local.disk_area import DiskArea
from heathaze.local.estimate import estimate
from heathaze.local.hybrid_uniform_exponential import HybridUniformExponential
from heathaze.local.local_hashing import LocalHashing
from heathaze.local.mixture import Mixture, default
from heathaze.local.planar_laplace import PlanarLaplace
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.local.reports import Reports
from heathaze.local.square_wave import SquareWave2D
from heathaze.local.subset_exponential import SubsetExponential
from heathaze.local.tally import Tally
from heathaze.local.unary_encoding import UnaryEncoding

__all__ = [
    "Device",
    "DiskArea",
    "HybridUniformExponential",
    "LocalHashing",
    "Mixture",
    "PlanarLaplace",
    "RandomizedResponse",
    "Reports",
    "SquareWave2D",
    "SubsetExponential",
    "Tally",
    "UnaryEncoding",
    "default",
    "estimate",
    "randomize",
]
