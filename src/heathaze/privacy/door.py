"""The door: whoever holds a secret pays here before anything about it leaves.

Publishing, devices, sensors, consumers and owners of data all come through :func:`pay`. It checks that the event costs
no more than the guarantee declares, charges the ledger, and hands out the randomness that the noise is drawn from: noise
that was not paid for has nothing to be drawn from. No other module calls ``Ledger.charge``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heathaze.errors import InvalidInput
from heathaze.privacy.events import Event, event_to_dict
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Budget, Entry, Ledger, check_declared
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness


@dataclass(frozen=True)
class Receipt:
    """What :func:`pay` hands out: proof of payment, and the randomness to draw from.

    ``entry`` is the ledger's entry, or None where no ledger was given.
    """

    guarantee: Guarantee
    event: Event
    entry: Entry | None
    randomness: Randomness

    @property
    def simulated(self) -> bool:
        """Whether the noise can be repeated, so that what is made with it must not be saved.

        Only bits from the operating system make a release; any other source might be repeated.
        """
        return type(self.randomness) is not SecureRandomness

    def provenance(
        self, mechanism: str, parameters: Mapping[str, Any], *, weight: str, at_most: int | None
    ) -> Provenance:
        """The public facts about what was paid for.

        Args:
            mechanism: Name of the mechanism.
            parameters: Its public parameters.
            weight: What one unit counts for.
            at_most: The most cells of one unit that count, or None for all.
        """
        return Provenance(
            mechanism=mechanism,
            parameters=parameters,
            weight=weight,
            at_most=at_most,
            event=event_to_dict(self.event),
            ledger_entry=None if self.entry is None else self.entry.reference(),
            simulated=self.simulated,
        )


def pay(
    guarantee: Guarantee,
    event: Event,
    *,
    ledger: Ledger | Budget | None = None,
    randomness: Randomness | None = None,
    note: str = "",
    once: str | None = None,
) -> Receipt:
    """Charge the ledger for an event, and hand out the randomness for its noise.

    The charge is on the disk before any noise exists: a crash may waste budget, never overspend it.

    Args:
        guarantee: What is promised.
        event: What will be done to the data.
        ledger: The budget to pay from. Without one nothing is charged.
        randomness: Where the noise comes from; the operating system if left out.
        note: A text for the ledger's entry.
        once: The charge is refused if an entry's note begins with this text.

    Returns:
        The receipt.

    Raises:
        PromiseBroken: The event costs more than the guarantee declares; nothing was charged.
        BudgetExceeded: The ledger has less left than this costs; nothing was charged.
        AlreadyCharged: There is an entry whose note begins with ``once``; nothing was charged.
        LedgerMismatch: The ledger was charged in another unit or adjacency before; nothing was charged.
        InvalidInput: ``ledger`` is not a ledger.

    >>> from fractions import Fraction
    >>> from heathaze.privacy.events import DiscreteLaplace
    >>> from heathaze.privacy.guarantee import Unit
    >>> from heathaze.privacy.loss import PrivacyLoss
    >>> budget = Budget(2)
    >>> receipt = pay(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON), DiscreteLaplace(1, Fraction(1)), ledger=budget)
    >>> budget.remaining, receipt.simulated
    (Fraction(1, 1), False)
    """
    if ledger is not None and not isinstance(ledger, Ledger | Budget):
        raise InvalidInput(f"ledger is {ledger!r}; open it first: Ledger.open(path, total=…).")
    check_declared(guarantee, event)
    entry = None if ledger is None else ledger.charge(guarantee, event, note, once=once)
    return Receipt(guarantee, event, entry, SecureRandomness() if randomness is None else randomness)
