"""Publishing in the central model: from the counts of a trusted curator to a release."""

from __future__ import annotations

import math

from heathaze.central.mechanism import Mechanism
from heathaze.checks import shown
from heathaze.errors import InvalidInput, PromiseBroken, kind_of
from heathaze.ingest.counts import Counts
from heathaze.privacy.door import pay
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.release.release import Release


def publish(
    mechanism: Mechanism,
    counts: Counts,
    *,
    ledger: Ledger | None = None,
    label: str = "",
    randomness: Randomness | None = None,
) -> Release:
    """Charge the ledger, run the mechanism, and make a release of the result.

    The charge is written to the disk before any noise is drawn. A crash may waste budget, but never overspends it.

    Args:
        mechanism: The central mechanism to run, for example ``hz.central.default(grid, epsilon=1)``.
        counts: The secret counts, from :func:`heathaze.count`.
        ledger: The ledger that is charged. Without a ledger, the guarantee covers only this release.
        label: A text for the ledger's entry, such as the name of the map.
        randomness: Leave this argument out to draw real noise. ``Simulation(seed)`` is for tests and papers, and a
            release made with it cannot be saved.

    Returns:
        The release.

    Raises:
        InvalidInput: The mechanism and the counts lie on different grids.
        PromiseBroken: The mechanism promises nothing (an infinite epsilon), or costs more than it declares.
        BudgetExceeded: The mechanism costs more than the remaining budget of the ledger. Nothing was charged or drawn.

    Warns:
        WeakPrivacy: ε is above 10. The warning comes before anything is charged.

    >>> import heathaze as hz
    >>> grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    >>> visits = {"person": ["ann", "bob", "eve"], "x": [1.5, 2.5, 6.5], "y": [1.5, 2.5, 6.5]}
    >>> counts = hz.count(visits, grid, person="person")
    >>> release = publish(hz.central.default(grid, epsilon=1), counts)
    >>> release.density.values.shape, release.guarantee.unit.value
    ((8, 8), 'person')
    """
    if not isinstance(counts, Counts):
        raise InvalidInput(f"publish takes a mechanism and then Counts (see count), not {kind_of(counts)}.")
    if isinstance(mechanism, type) or not (hasattr(mechanism, "run") and callable(getattr(mechanism, "event", None))):
        raise InvalidInput(f"mechanism is {shown(mechanism)}; give a central one such as hz.central.default(grid, 1).")
    guarantee = promise(mechanism, counts)
    warn_if_weak(guarantee.loss.epsilon)
    parameters = mechanism.parameters()
    receipt = pay(guarantee, mechanism.event(counts.bound), ledger=ledger, randomness=randomness, note=label)
    estimate = mechanism.run(counts, receipt.randomness)
    provenance = receipt.provenance(type(mechanism).__name__, parameters, weight=counts.weight, at_most=counts.at_most)
    return Release(estimate, guarantee, provenance)


def promise(mechanism: Mechanism, counts: Counts) -> Guarantee:
    """Compute the guarantee that a release will have, from public facts only.

    Args:
        mechanism: The mechanism that will run.
        counts: The counts. Only their grid and their unit are used.

    Raises:
        InvalidInput: The mechanism and the counts lie on different grids.
        PromiseBroken: Epsilon is infinite.
    """
    if mechanism.grid != counts.grid:
        raise InvalidInput("The mechanism and the counts lie on different grids; make both with the same Grid.")
    if not math.isfinite(mechanism.epsilon):
        raise PromiseBroken("An infinite epsilon promises nothing, so there is nothing to publish.")
    return Guarantee(PrivacyLoss(mechanism.epsilon), counts.unit)
