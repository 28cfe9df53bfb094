"""Physics of sensors: a field is the linear map from strengths of sources to readings of sensors; see ``diffusion.md``.

Every class here satisfies :class:`heathaze.sensors.physics.field.Field` and has fast products with the map and its
adjoint. The methods ``only(rows)`` and ``without(rows)`` leave out missing readings.
"""

from heathaze.sensors.physics.field import Snapshots
from heathaze.sensors.physics.graph import Graph
from heathaze.sensors.physics.line import Line
from heathaze.sensors.physics.linear import Linear
from heathaze.sensors.physics.plate import Plate

__all__ = ["Graph", "Line", "Linear", "Plate", "Snapshots"]
