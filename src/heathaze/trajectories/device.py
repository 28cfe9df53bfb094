"""Device of the local model for journeys: it draws one journey of its person, and one randomised report about it.

Which journey was drawn stays on the device. This module uses no network, no compiler and no server.
"""

from __future__ import annotations

import numpy as np

from heathaze.domain.lines import Lines
from heathaze.errors import BudgetExceeded, InvalidInput, expect
from heathaze.privacy.door import pay
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import decimal, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.mechanism import JourneyMechanism, promise
from heathaze.trajectories.reports import JourneyReports
from heathaze.types import Integers


class Device:
    """One person's device. It pays for reports from the person's ledger, and reports about the person's journeys.

    Args:
        mechanism: How to randomise; the server has the same mechanism.
        ledger: The person's own budget. A report that exceeds the budget is refused, and nothing leaves the device.

    Raises:
        InvalidInput: The mechanism is not a local mechanism for journeys.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.trajectories.local_journeys import LocalJourneys
    >>> device = Device(LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=1))
    >>> len(device.randomize(Lines.from_points([[(1, 1), (7, 7)], [(7, 7), (1, 1)]])))
    1
    """

    def __init__(self, mechanism: JourneyMechanism, *, ledger: Ledger | None = None) -> None:
        _check(mechanism)
        self.mechanism = mechanism
        self.ledger = ledger

    def randomize(self, journeys: Lines, *, randomness: Randomness | None = None) -> JourneyReports:
        """Charge the ledger, draw one of the journeys in secret, and draw the report about it.

        The charge is written to the disk before the report is drawn. The number of journeys has no influence on the
        number or size of reports. Positions outside the map count as the nearest place of the map.

        Args:
            journeys: All journeys of the person, at least one.
            randomness: Leave it out. ``Simulation(seed)`` is for tests; its reports cannot be saved.

        Returns:
            One report.

        Raises:
            InvalidInput: There is no journey. Nothing was charged.
            BudgetExceeded: The person's budget does not allow another report. Nothing was charged and nothing reported.
        """
        expect(Lines, journeys, "The journeys")
        try:
            return _reports(
                self.mechanism, journeys, np.zeros(len(journeys), np.int64), Unit.PERSON, self.ledger, randomness
            )
        except BudgetExceeded:
            assert self.ledger is not None
            raise BudgetExceeded(
                f"A report costs ε = {decimal(self.mechanism.epsilon)}, and {self.ledger.name} has "
                f"ε = {float(self.ledger.remaining):g} left; nothing was charged and nothing reported."
            ) from None


def randomize(
    mechanism: JourneyMechanism,
    journeys: Lines,
    owner: Integers | None = None,
    *,
    randomness: Randomness | None = None,
) -> JourneyReports:
    """Randomise journeys, in the role of many devices that report once each. No ledger is charged.

    Args:
        mechanism: How to randomise, for example ``hz.trajectories.LocalJourneys(grid, epsilon=1)``.
        journeys: The secret journeys.
        owner: The number of the person that each journey belongs to. Each person sends one report, about one of their
            journeys. If left out, each journey is a report of its own, and the privacy losses of a person's journeys
            add up.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers; its reports cannot be saved.

    Returns:
        The reports, in random order.

    Raises:
        InvalidInput: There is no journey, or not one owner for each, or an owner that is not a whole number.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.trajectories.local_journeys import LocalJourneys
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=1)
    >>> len(randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)], [(7, 7), (1, 1)]])))
    2
    """
    _check(mechanism)
    expect(Lines, journeys, "The journeys")
    unit = Unit.TRIP if owner is None else Unit.PERSON
    whose = np.arange(len(journeys)) if owner is None else _numbered(owner)
    return _reports(mechanism, journeys, whose, unit, None, randomness)


def _reports(
    mechanism: JourneyMechanism,
    journeys: Lines,
    owner: Integers,
    unit: Unit,
    ledger: Ledger | None,
    randomness: Randomness | None,
) -> JourneyReports:
    if not len(journeys) or owner.shape != (len(journeys),):
        raise InvalidInput("There is no journey to report, or not one owner for each journey; nothing was charged.")
    warn_if_weak(mechanism.epsilon)
    receipt = pay(promise(mechanism, unit), mechanism.event, ledger=ledger, randomness=randomness)
    drawn = journeys if unit is Unit.TRIP else journeys.take(_one_each(owner, receipt.randomness))
    reports = mechanism.draw(drawn, receipt.randomness)
    # Reports in the order of the people would reveal whose report each of them is.
    order = np.argsort(receipt.randomness.words(len(reports)), kind="stable")
    return JourneyReports(mechanism, reports[order], unit, receipt.simulated)


def _numbered(owner: Integers) -> Integers:
    """Number the owners of journeys from 0. Rounding could merge two people, so only whole numbers are accepted."""
    try:
        given = np.asarray(owner)
    except ValueError:  # rows of different lengths
        given = np.zeros((0, 0), np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInput("The owners of journeys are not all whole numbers; number the people, one for each journey.")
    return np.asarray(np.unique(given, return_inverse=True)[1], np.int64)


def _one_each(owner: Integers, randomness: Randomness) -> Integers:
    """Draw one journey of each owner, each equally likely. Owners are numbered from 0."""
    order = np.argsort(owner, kind="stable")
    first = np.flatnonzero(np.diff(owner[order], prepend=-1))
    number = np.diff(np.append(first, len(owner)))
    place = (randomness.words(len(first)) % number.astype(np.uint64)).astype(np.int64)
    return np.asarray(order[first + place])


def _check(mechanism: JourneyMechanism) -> None:
    if not (hasattr(mechanism, "draw") and hasattr(mechanism, "estimate")):
        raise InvalidInput(
            f"A device cannot use {type(mechanism).__name__} for journeys; give a local mechanism of "
            "hz.trajectories, as LocalJourneys."
        )
