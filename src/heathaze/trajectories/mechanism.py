"""Common parts of the local mechanisms for journeys: protocols of device and server, and the promise of a report."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from heathaze.domain.lines import Lines
from heathaze.local.mechanism import Sender
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers


class Model(Protocol):
    """What a server inferred from reports. It is public, and journeys are made up from it."""

    def sample(self, number: int, randomness: Randomness) -> Lines:
        """Make up journeys.

        Args:
            number: How many.
            randomness: The source of random bits.
        """


class JourneyMechanism(Sender, Protocol):
    """A local mechanism for journeys: how a device draws a report, and how a server infers a model from reports."""

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one report."""

    def draw(self, lines: Lines, randomness: Randomness) -> Integers:
        """Draw one report for each secret journey: one row, with :attr:`numbers` columns.

        Args:
            lines: The secret journeys.
            randomness: The source of random bits.
        """

    def check(self, reports: Integers) -> None:
        """Refuse reports that cannot come from this mechanism, so that one hostile report does not stop an estimate.

        Args:
            reports: One row of :attr:`numbers` integers below :attr:`limit` for each report.

        Raises:
            InvalidInput: A report cannot come from this mechanism.
        """

    def estimate(self, reports: Integers) -> Model:
        """Infer a model of journeys from reports.

        Args:
            reports: One row for each report, at least one.

        Raises:
            InvalidInput: There is no report, or a report cannot come from this mechanism.
        """


def promise(mechanism: JourneyMechanism, unit: Unit) -> Guarantee:
    """The guarantee of one report about a journey. Nobody has to be trusted.

    Args:
        mechanism: The mechanism that makes the report.
        unit: What one report stands for: a person, of whose journeys one is drawn in secret, or a trip.
    """
    return Guarantee(PrivacyLoss(mechanism.epsilon), unit, Adjacency.ANY_TWO_JOURNEYS, Trust.LOCAL)
