"""Payment: every holder of private data charges a ledger here before a noisy result about the data is made.

Publishing, devices, sensors, and the consumers and owners of the marketplace all call :func:`pay`. This function checks
that the event costs no more than the guarantee declares, charges the ledger, and returns the randomness from which the
noise is drawn. A mechanism needs this randomness to draw noise. No other module calls ``Ledger.charge``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.checks import shown
from heathaze.errors import InvalidInput
from heathaze.privacy.events import Event, event_to_dict
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Budget, Entry, check_declared
from heathaze.privacy.loss import LARGEST_EPSILON
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness


@dataclass(frozen=True)
class Receipt:
    """The result of :func:`pay`: the ledger's entry of the payment, and the randomness from which to draw the noise.

    ``entry`` is None if no ledger was given.
    """

    guarantee: Guarantee
    event: Event
    entry: Entry | None
    randomness: Randomness

    @property
    def simulated(self) -> bool:
        """Whether the noise can be repeated. A result with such noise must not be saved as a release."""
        return self.randomness.simulated

    def provenance(
        self, mechanism: str, parameters: Mapping[str, Any], *, weight: str, at_most: int | None
    ) -> Provenance:
        """Return the provenance of the release that was paid for.

        Args:
            mechanism: Name of the mechanism.
            parameters: The public parameters of the mechanism.
            weight: How one unit is counted, such as "share".
            at_most: The largest number of cells that count for one unit, or None for all its cells.
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
    ledger: Budget | None = None,
    randomness: Randomness | None = None,
    note: str = "",
    once: str | None = None,
) -> Receipt:
    """Charge the ledger for an event, and return the randomness for its noise.

    The charge is on the disk before any noise is drawn. A crash may waste budget, but never overspends it.

    Args:
        guarantee: The guarantee of the release.
        event: The description of the noise that will be added.
        ledger: The :class:`Ledger` or :class:`Budget` to charge. Without one nothing is charged.
        randomness: The source of random bits for the noise; the operating system if left out.
        note: A text for the ledger's entry.
        once: If given, the charge is refused if the note of an earlier entry begins with this text.

    Returns:
        The receipt.

    Raises:
        PromiseBroken: The event costs more than the guarantee declares; nothing was charged.
        BudgetExceeded: The event costs more than the ledger has left; nothing was charged.
        AlreadyCharged: The note of an entry begins with ``once``; nothing was charged.
        LedgerMismatch: The ledger was charged in another unit or adjacency before; nothing was charged.
        InvalidInput: ``ledger`` is not a ledger, ``randomness`` not a source of random bits, or ε is not an exact
            fraction of at most 1000; nothing was charged.

    >>> from fractions import Fraction
    >>> from heathaze.privacy.events import DiscreteLaplace
    >>> from heathaze.privacy.guarantee import Unit
    >>> from heathaze.privacy.loss import PrivacyLoss
    >>> budget = Budget(2)
    >>> receipt = pay(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON), DiscreteLaplace(1, Fraction(1)), ledger=budget)
    >>> budget.remaining, receipt.simulated
    (Fraction(1, 1), False)
    """
    if ledger is not None and not isinstance(ledger, Budget):
        raise InvalidInput(f"ledger is {shown(ledger)}; open it first: Ledger.open(path, total=…).")
    if randomness is not None and not isinstance(randomness, Randomness):
        raise InvalidInput(f"randomness is {shown(randomness)}; leave it out, or give Simulation(seed) in a test.")
    loss = guarantee.loss
    if not isinstance(loss.epsilon, Fraction) or not isinstance(loss.delta, Fraction):
        raise InvalidInput(f"epsilon is {loss.epsilon!r} and delta {loss.delta!r}; give exact fractions.")
    if guarantee.adjacency.length is None and loss.epsilon > LARGEST_EPSILON:
        raise InvalidInput(f"epsilon is above {LARGEST_EPSILON}, which promises nothing; 1 is a common choice.")
    check_declared(guarantee, event)
    entry = None if ledger is None else ledger.charge(guarantee, event, note, once=once)
    return Receipt(guarantee, event, entry, SecureRandomness() if randomness is None else randomness)
