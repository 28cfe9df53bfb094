"""Publishing made-up journeys for a trusted curator: pay, measure the secret journeys with noise, make up journeys."""

from __future__ import annotations

import math
from typing import Any

from heathaze.checks import shown
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.ingest.journeys import Journeys
from heathaze.privacy.door import pay
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.facts import count_facts
from heathaze.trajectories.journey_trees import JourneyTrees
from heathaze.trajectories.made_up import SPEED, MadeUp, check_speed
from heathaze.trajectories.synthesis import number_of_journeys


def publish(
    mechanism: JourneyTrees,
    journeys: Journeys,
    *,
    number: int | None = None,
    speed: float = SPEED,
    ledger: Ledger | None = None,
    label: str = "",
    randomness: Randomness | None = None,
) -> MadeUp:
    """Charge the ledger, measure the journeys with noise, and make up journeys from the noisy numbers.

    Args:
        mechanism: The mechanism, for example ``hz.trajectories.default(grid, epsilon=1)``.
        journeys: The secret journeys, from :func:`heathaze.trajectories.read`.
        number: How many journeys to make up, 1 to 10^7. If left out, the noisy number of units, but at most
            100,000.
        speed: The speed of made-up journeys in metres (or units of a plane) per second, 10^−6 to 10^6. It is public,
            never taken from the data.
        ledger: The ledger that is charged. Without a ledger, the guarantee covers only these journeys.
        label: A text for the ledger's entry.
        randomness: Leave this argument out to draw real noise. ``Simulation(seed)`` is for tests and papers.

    Returns:
        The made-up journeys.

    Raises:
        InvalidInput: The mechanism and the journeys lie on different grids, a number is out of range, or hours are to
            be measured of journeys without times. Nothing was charged.
        PromiseBroken: The mechanism promises nothing (an infinite epsilon), or costs more than it declares.
        BudgetExceeded: The mechanism costs more than the remaining budget of the ledger. Nothing was charged or drawn.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.ingest.journeys import read_journeys
    >>> plane = Grid.plane(x=(0, 8), y=(0, 8), size=8)
    >>> rows = {"who": [1, 1, 2, 2], "ride": [1, 1, 1, 1], "t": [1, 2, 1, 2], "x": [1, 7, 2, 6], "y": [1, 7, 2, 5]}
    >>> secret = read_journeys(rows, plane, person="who", trip="ride", time="t")
    >>> made = publish(JourneyTrees(plane, epsilon=1, squares=8), secret, number=5)
    >>> len(made.lines), made.guarantee.unit.value
    (5, 'person')
    """
    if not isinstance(mechanism, JourneyTrees) or not isinstance(journeys, Journeys):
        raise InvalidInput(
            f"publish takes a mechanism of hz.trajectories and then Journeys, not {shown(mechanism)} and a "
            f"{type(journeys).__name__}."
        )
    if mechanism.grid != journeys.grid:
        raise InvalidInput("The mechanism and the journeys lie on different grids; make both with the same Grid.")
    if not math.isfinite(mechanism.epsilon):
        raise PromiseBroken("An infinite epsilon promises nothing, so there is nothing to publish.")
    number_of_journeys(number, 1)
    speed = check_speed(speed)
    guarantee = Guarantee(PrivacyLoss(mechanism.epsilon), journeys.unit)
    warn_if_weak(guarantee.loss.epsilon)
    parameters: dict[str, Any] = mechanism.parameters()
    # An error in the journeys is found before anything is charged.
    facts = count_facts(journeys, mechanism.frame, hours=mechanism.hours)
    receipt = pay(guarantee, mechanism.event(), ledger=ledger, randomness=randomness, note=label)
    model = mechanism.measure(facts, receipt.randomness)
    wanted = number_of_journeys(number, model.count)
    lines = model.sample(wanted, receipt.randomness)
    begins = model.departures(wanted, receipt.randomness)
    provenance = receipt.provenance(type(mechanism).__name__, parameters, weight="share", at_most=None)
    doubts = mechanism.caution(model.count), mechanism.caution_about_hours(model.count)
    return MadeUp(mechanism.grid, lines, model, guarantee, provenance, begins, speed, *doubts)
