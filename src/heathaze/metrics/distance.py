"""A distance that is known to lie between two numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Distance:
    """What :func:`heathaze.metrics.emd` returns: the exact distance lies in [lower, upper], and that is proven.

    Attributes:
        lower: The value of a potential that no plan can undercut.
        upper: The cost of a way to move the mass that exists.
        steps: How often the solver improved its guess.

    ``float(distance)`` is the middle of the two, so it is off by at most half the gap.

    >>> d = Distance(lower=0.25, upper=0.75, steps=50)
    >>> float(d), d.gap, f"{d:.2f}"
    (0.5, 0.5, '0.50')
    >>> print(Distance(0.1041, 0.1045, 50))
    0.1043 (between 0.1041 and 0.1045)
    """

    lower: float
    upper: float
    steps: int

    @property
    def gap(self) -> float:
        """How far apart the bounds are."""
        return self.upper - self.lower

    def __float__(self) -> float:
        return (self.lower + self.upper) / 2

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{float(self):.4g} (between {self.lower:.4g} and {self.upper:.4g})"
