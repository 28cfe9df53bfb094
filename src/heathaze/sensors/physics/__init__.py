"""Fields: how sources reach sensors, as linear maps with a cheap product and its adjoint; see ``diffusion.md``.

All satisfy :class:`heathaze.sensors.physics.field.Field`, and all drop missing readings with ``without(rows)`` and
``only(mask)``.
"""

from heathaze.sensors.physics.graph import Graph
from heathaze.sensors.physics.line import Line
from heathaze.sensors.physics.linear import Linear
from heathaze.sensors.physics.plate import Plate
from heathaze.sensors.physics.snapshots import Snapshots

__all__ = ["Graph", "Line", "Linear", "Plate", "Snapshots"]
