"""What one report promises, unless a mechanism says otherwise."""

from __future__ import annotations

from fractions import Fraction

from heathaze.privacy.events import RandomizedReport
from heathaze.privacy.trust import Adjacency


class OneReport:
    """ε for one report, between any two positions."""

    epsilon: Fraction

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions."""
        return Adjacency.ANY_TWO

    @property
    def event(self) -> RandomizedReport:
        """One report."""
        return RandomizedReport(self.epsilon)
