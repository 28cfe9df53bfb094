"""Publishing: from the counts of a trusted curator to a release."""

from __future__ import annotations

import math

from heathaze.central.mechanism import Mechanism
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.ingest.counts import Counts
from heathaze.privacy.door import pay
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.release.release import Release


def publish(
    mechanism: Mechanism, counts: Counts, *, ledger: Ledger | None = None, randomness: Randomness | None = None
) -> Release:
    """Charge the ledger, run the mechanism, wrap the result.

    The charge is on the disk before any noise exists: a crash may waste budget, never overspend it.

    Args:
        mechanism: What to run, for example ``hz.central.Pyramid(grid, epsilon=1)``.
        counts: The secret side, from :func:`heathaze.count`.
        ledger: The budget to pay from. Without one the guarantee stands for this release alone.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers; its releases cannot be saved.

    An ε above 10 is warned of (:class:`heathaze.errors.WeakPrivacy`) before anything is charged.

    Raises:
        BudgetExceeded: The ledger has less left than the mechanism costs; nothing happened.
    """
    if not isinstance(counts, Counts):
        raise InvalidInput(f"publish takes a mechanism and then Counts (see count), not a {type(counts).__name__}.")
    guarantee = promise(mechanism, counts)
    warn_if_weak(guarantee.loss.epsilon)
    receipt = pay(guarantee, mechanism.event(counts.bound), ledger=ledger, randomness=randomness)
    estimate = mechanism.run(counts, receipt.randomness)
    provenance = receipt.provenance(
        type(mechanism).__name__, mechanism.parameters(), weight=counts.weight, at_most=counts.at_most
    )
    return Release(estimate, guarantee, provenance)


def promise(mechanism: Mechanism, counts: Counts) -> Guarantee:
    """What will be promised, from public facts alone."""
    if mechanism.grid != counts.grid:
        raise InvalidInput("The mechanism and the counts lie on different grids; make both with the same Grid.")
    if not math.isfinite(mechanism.epsilon):
        raise PromiseBroken("An infinite epsilon promises nothing, so there is nothing to publish.")
    return Guarantee(PrivacyLoss(mechanism.epsilon), counts.unit)
