"""Sensors: noisy readings that hide the exact places of sources, and recovery of sources from noisy readings.

:class:`Readings` adds the noise, :class:`NoisyReadings` is the public result, and :func:`find_sources` locates sources
from this result.
"""

from heathaze.sensors.device import Card, Refused, Sensor
from heathaze.sensors.emd import graph_emd, line_emd, plane_emd, source_emd
from heathaze.sensors.escrow import Escrow
from heathaze.sensors.layout import Layout
from heathaze.sensors.noisy_readings import NoisyReadings
from heathaze.sensors.physics import Graph, Line, Linear, Plate, Snapshots
from heathaze.sensors.readings import Readings
from heathaze.sensors.recovery.basis_pursuit import basis_pursuit
from heathaze.sensors.recovery.posterior import find_sources
from heathaze.sensors.recovery_floor import recovery_floor
from heathaze.sensors.sensitivity import sensitivity

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
    "Refused",
    "Sensor",
    "Snapshots",
    "basis_pursuit",
    "find_sources",
    "graph_emd",
    "line_emd",
    "plane_emd",
    "recovery_floor",
    "sensitivity",
    "source_emd",
]
