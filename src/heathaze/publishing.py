"""THE DOOR: the only way from Counts to a Release."""

from __future__ import annotations

import datetime
import math

from heathaze.central.mechanism import Mechanism
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import event_to_dict
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Entry, Ledger
from heathaze.privacy.loss import PrivacyLoss, warn_if_weak
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness
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
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidInput(f"ledger is {ledger!r}; open it first: Ledger.open(path, total=…).")
    guarantee = promise(mechanism, counts)
    warn_if_weak(guarantee.loss.epsilon)
    entry = None if ledger is None else ledger.charge(guarantee, mechanism.event(counts.bound))
    source = SecureRandomness() if randomness is None else randomness
    # Only bits from the operating system make a release; any other source might be repeated.
    simulated = type(source) is not SecureRandomness
    return _wrap(mechanism, counts, mechanism.run(counts, source), guarantee, entry, simulated=simulated)


def promise(mechanism: Mechanism, counts: Counts) -> Guarantee:
    """What will be promised, from public facts alone; refuses a mechanism whose noise costs more than it declares."""
    if mechanism.grid != counts.grid:
        raise InvalidInput("The mechanism and the counts lie on different grids; make both with the same Grid.")
    if not math.isfinite(mechanism.epsilon):
        raise PromiseBroken("An infinite epsilon promises nothing, so there is nothing to publish.")
    if compose([mechanism.event(counts.bound)]).epsilon > mechanism.epsilon:
        raise PromiseBroken(f"{type(mechanism).__name__} spends more than the epsilon it declares; do not use it.")
    return Guarantee(PrivacyLoss(mechanism.epsilon), counts.unit)


def _wrap(
    mechanism: Mechanism, counts: Counts, estimate: Estimate, guarantee: Guarantee, entry: Entry | None, simulated: bool
) -> Release:
    provenance = Provenance(
        mechanism=type(mechanism).__name__,
        parameters=mechanism.parameters(),
        weight=counts.weight,
        at_most=counts.at_most,
        event=event_to_dict(mechanism.event(counts.bound)),
        day=datetime.datetime.now(datetime.UTC).date().isoformat(),
        ledger_entry=None if entry is None else entry.reference(),
        simulated=simulated,
    )
    return Release(estimate.density, estimate.total, guarantee, provenance, estimate.noisy)
