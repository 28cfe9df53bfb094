"""The consumer's half: it tells its target once, with noise for owners, and takes what was bought."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy.typing as npt

from heathaze.errors import InvalidInput, LedgerError, UnexpectedMessage, expect
from heathaze.marketplace.messages import Broadcast, FromOwner, Purchase, ToOwner, Wanted
from heathaze.marketplace.protocol import Parcel, Way, fingerprint
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import warn_if_weak
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.privacy.secret import Secret


class Consumer(Secret):
    """Who wants to buy points like those of its target.

    Args:
        plan: What everyone agreed on.
        target: Its points, as many as the plan says.
        ledger: The target's budget; charged when the target is first told.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.

    Raises:
        InvalidInput: The target is not as the plan says, or the noise would drown it; nothing was charged.
    """

    def __init__(
        self,
        plan: Way,
        target: npt.ArrayLike,
        *,
        ledger: Ledger | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.plan = plan
        self._points = plan.features.checked(target)
        if len(self._points) != plan.target_points:
            raise InvalidInput(
                f"The target has {len(self._points)} points, and the plan says {plan.target_points}; make the plan for "
                "this target."
            )
        plan.check_signal()
        warn_if_weak(plan.guarantee_for_target.loss.epsilon)
        self._ledger = ledger
        self._randomness = SecureRandomness() if randomness is None else randomness
        self._wanted: Wanted | None = None

    def want(self) -> Wanted:
        """What to tell the curator. Asked again, it says the very same: fresh noise could be averaged away."""
        if self._wanted is None:
            if self._ledger is not None:
                self._ledger.charge(self.plan.guarantee_for_target, self.plan.event_for_target, note="target")
            values = self.plan.target_hash(self.plan.features.of(self._points), self._randomness)
            told = Broadcast(
                "target", values, self.plan.target_deviation, self.plan.target_points, fingerprint(self.plan)
            )
            self._wanted = Wanted(self._points, told)
        return self._wanted


# TODO-merged from marketplace.owner: The owner's half: it answers the curator about its own records, and pays for it once.


class Owner(Secret):
    """Who has points to sell, or none: an owner without records takes part like any other, or its absence would tell.

    Args:
        plan: What everyone agreed on; an owner that finds its promise too weak does not take part.
        points: Its records, encoded as the study says.
        ledger: The budget of these records; charged before the first answer, and nothing is said if it refuses.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.
    """

    def __init__(
        self,
        plan: Way,
        points: npt.ArrayLike,
        *,
        ledger: Ledger | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.plan = plan
        source = SecureRandomness() if randomness is None else randomness
        self._seller = plan.seller(plan.features.checked(points), source)
        self._fingerprint = fingerprint(plan)
        warn_if_weak(plan.guarantee_for_owners.loss.epsilon)
        self._ledger = ledger
        self._paid = False

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer the curator. The same message again gets the same answer.

        Raises:
            UnexpectedMessage: It is out of turn or contradicts an earlier one; nothing was said.
            BudgetExceeded: The ledger does not allow; nothing was said.
        """
        if isinstance(message, Broadcast) and message.plan != self._fingerprint:
            raise UnexpectedMessage("The plan of a broadcast", "another one", "that of this owner", "agree on one")
        if not self._paid:
            if not (isinstance(message, Broadcast) and message.about == "target"):
                raise UnexpectedMessage("The first message", type(message).__name__, "the broadcast of the target")
            if self._ledger is not None:
                self._ledger.charge(self.plan.guarantee_for_owners, self.plan.event_for_owners, note="owner")
            self._paid = True
        return self._seller.receive(message)


# TODO-merged from marketplace.summarize: A whole purchase in one process: carries messages between consumer, curator and owners.


def summarize(
    plan: Way,
    target: npt.ArrayLike,
    owners: Mapping[str, npt.ArrayLike],
    *,
    target_ledger: Ledger | None = None,
    owner_ledgers: Mapping[str, Ledger] | None = None,
    randomness: Randomness | None = None,
    progress: Callable[[str], None] | None = None,
) -> Purchase:
    """Buy points of several owners that match a target, all of them in this process.

    Args:
        plan: :class:`Herding` or :class:`Rounds`.
        target: The consumer's points.
        owners: Points of each owner by name, encoded as the target is.
        target_ledger: The budget of the target.
        owner_ledgers: Budgets of owners by name; an owner whose ledger refuses is left out, with a note.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.
        progress: Told a few words now and then.

    Raises:
        InvalidInput: A table cannot be used, or the budget carries no signal; nothing was charged.
    """
    expect(Mapping, owners, "owners, which has the points of each owner by its name,")
    source = SecureRandomness() if randomness is None else randomness
    say = progress or (lambda _: None)
    ledgers = owner_ledgers or {}
    if unknown := sorted(set(ledgers) - set(owners)):
        raise InvalidInput(f"There is a ledger for {unknown[0]!r}, which is no owner; name the ledgers as the owners.")
    plan.check_owners(tuple(owners))
    notes: list[str] = []
    sellers: dict[str, Owner] = {}
    for name, points in owners.items():
        try:
            table = plan.features.checked(points)
        except InvalidInput as error:
            raise InvalidInput(f"Owner {name}: {error}") from None
        if not len(table):
            notes.append(f"{name} has no records; it takes part and offers nothing.")
        sellers[name] = Owner(plan, table, ledger=ledgers.get(name), randomness=source)
    consumer = Consumer(plan, target, ledger=target_ledger, randomness=source)
    say("The target is hashed")
    curator = plan.curator(tuple(sellers), consumer.want(), source)
    parcels = list(curator.begin())
    step = 0
    while curator.purchase is None:
        step += 1
        say(f"Step {step}: {len(parcels)} messages to owners")
        following: list[Parcel] = []
        for name, message in parcels:
            try:
                answer = sellers[name].receive(message)
            except LedgerError as error:
                notes.append(f"{name} does not take part: {error}")
                continue
            if answer is not None:
                following += curator.receive(name, answer)
        # Whoever still waits for someone waits in vain: every message of this process has been answered.
        parcels = following or list(curator.close_step())
    simulated = type(source) is not SecureRandomness
    return replace(curator.purchase, notes=(*notes, *curator.purchase.notes), simulated=simulated)
