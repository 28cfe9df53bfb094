"""Fields: what sensors read of sources, as linear maps with a fast product and adjoint; see ``diffusion.md``.

All of them satisfy :class:`heathaze.sensors.physics.field.Field`. ``only(rows)`` and ``without(rows)`` leave out
missing readings.
"""

from heathaze.sensors.physics.graph import Graph
from heathaze.sensors.physics.line import Line
from heathaze.sensors.physics.linear import Linear
from heathaze.sensors.physics.plate import Plate
from heathaze.sensors.physics.snapshots import Snapshots

__all__ = ["Graph", "Line", "Linear", "Plate", "Snapshots"]
