"""Fields: how sources reach sensors, as linear maps with a cheap product and its adjoint; see ``diffusion.md``.

All satisfy :class:`heathaze.inference.field.Field`, and all drop missing readings with ``without(rows)`` and
``only(mask)``.
"""

from heathaze.mechanisms.sensors._graph import Graph
from heathaze.mechanisms.sensors._line import Line
from heathaze.mechanisms.sensors._linear import Linear
from heathaze.mechanisms.sensors._plate import Plate
from heathaze.mechanisms.sensors._snapshots import Snapshots

__all__ = ["Graph", "Line", "Linear", "Plate", "Snapshots"]
