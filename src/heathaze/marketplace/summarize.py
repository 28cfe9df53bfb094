"""A whole purchase in one process: carries messages between consumer, curator and owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy.typing as npt

from heathaze.errors import InvalidInput, LedgerError, expect
from heathaze.marketplace.messages import Purchase
from heathaze.marketplace.owner import Owner
from heathaze.marketplace.protocol import Parcel, Way
from heathaze.marketplace.roles import Consumer
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.randomness import Randomness, SecureRandomness


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
