"""Sensors read a field that sources feed, and publish readings that hide where exactly the sources are."""

from heathaze.inference.sources import find_sources
from heathaze.inference.sparse_recovery import basis_pursuit
from heathaze.mechanisms.sensors.device import Card, Refused, Sensor
from heathaze.mechanisms.sensors.diffusion import Graph, Line, Linear, Plate, Snapshots
from heathaze.mechanisms.sensors.escrow import Escrow
from heathaze.mechanisms.sensors.layout import Layout
from heathaze.mechanisms.sensors.noisy_readings import NoisyReadings
from heathaze.mechanisms.sensors.readings import Readings
from heathaze.mechanisms.sensors.readings_file import ReadingsFile
from heathaze.mechanisms.sensors.sensitivity import sensitivity

__all__ = [
    "Card",
    "Escrow",
    "Graph",
    "Layout",
    "Line",
    "Linear",
    "NoisyReadings",
    "Plate",
    "Readings",
    "ReadingsFile",
    "Refused",
    "Sensor",
    "Snapshots",
    "basis_pursuit",
    "find_sources",
    "sensitivity",
]
