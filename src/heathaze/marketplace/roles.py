"""The parties of a purchase: consumer and owner, whose ledgers are charged; and a whole purchase in one process.

The curator charges no ledger, because the owners' ledgers already cover the noise that the curator draws.
:func:`curator_for` makes the curator of a plan. :func:`buy` runs all parties in one process, with the same classes that
would exchange messages over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy.typing as npt

from heathaze.errors import InvalidInput, LedgerError, UnexpectedMessage, expect
from heathaze.marketplace.herding import Herding, HerdingCurator, HerdingOwner
from heathaze.marketplace.messages import Broadcast, Delivery, FromOwner, Purchase, ToOwner, Wanted
from heathaze.marketplace.plan import PLAN_VERSION, Plan
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.private_greedy_parties import PrivateGreedyCurator, PrivateGreedyOwner
from heathaze.marketplace.protocol import Curator
from heathaze.privacy.door import Receipt, pay
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import warn_if_weak
from heathaze.privacy.randomness import Randomness, Secret, SecureRandomness
from heathaze.types import Floats


class Consumer(Secret):
    """The consumer: the party that wants to buy points similar to a private target.

    Args:
        plan: The plan that all parties agreed on.
        target: The points of the target; their number is ``plan.target_points``.
        ledger: The privacy budget of the target; the first call of :meth:`want` charges it.
        randomness: Leave this out. ``Simulation(seed)`` is for tests and papers.

    Raises:
        InvalidInput: The target does not fit the plan, or the noise would be longer than the mean hash can be. Nothing
            was charged.

    >>> import numpy as np
    >>> from heathaze.marketplace.features import Features
    >>> plan = Herding(Features(columns=1, gamma=1.0), points=2, target_points=200, epsilon=2)
    >>> Consumer(plan, np.zeros((200, 1))).want().broadcast.about
    'target'
    """

    def __init__(
        self, plan: Plan, target: npt.ArrayLike, *, ledger: Ledger | None = None, randomness: Randomness | None = None
    ) -> None:
        self.plan = plan
        self._points = plan.features.checked(target)
        if len(self._points) != plan.target_points:
            raise InvalidInput(
                f"The target has {len(self._points)} points, but the plan is for {plan.target_points}; make a plan "
                f"with target_points={len(self._points)}."
            )
        plan.check_signal()
        warn_if_weak(plan.guarantee_for_target.loss.epsilon)
        self._ledger, self._randomness = ledger, randomness
        self._wanted: Wanted | None = None

    def want(self) -> Wanted:
        """Make the consumer's message to the curator: the exact target, and its noisy mean hash for owners.

        The first call charges the ledger and draws the noise. Later calls return the same object, because fresh noise
        could be averaged away.

        Returns:
            The message.

        Raises:
            LedgerError: The ledger refuses the charge. No noise was drawn.
        """
        if self._wanted is None:
            plan = self.plan
            guarantee, event = plan.guarantee_for_target, plan.event_for_target
            receipt = pay(guarantee, event, ledger=self._ledger, randomness=self._randomness, note="target")
            values = plan.target_hash(plan.features.of(self._points), receipt.randomness)
            public = (plan.target_deviation, plan.target_points, plan.fingerprint)
            self._wanted = Wanted(self._points, Broadcast("target", values, *public, simulated=receipt.simulated))
        return self._wanted


class Owner(Secret):
    """An owner: a party that has points to sell.

    An owner without records should also take part, because staying away would reveal that the owner has no records.

    Args:
        plan: The plan that all parties agreed on. An owner for whom its privacy promise is too weak should not take
            part.
        points: The owner's records, encoded by the study.
        ledger: The privacy budget of the owner's records; charged before the first answer.
        randomness: Leave this out. ``Simulation(seed)`` is for tests and papers.

    Raises:
        InvalidInput: The points do not fit the plan.

    >>> import numpy as np
    >>> from heathaze.marketplace.features import Features
    >>> plan = Herding(Features(columns=1, gamma=1.0), points=2, target_points=200, epsilon=2)
    >>> broadcast = Consumer(plan, np.zeros((200, 1))).want().broadcast
    >>> type(Owner(plan, np.zeros((50, 1))).receive(broadcast)).__name__
    'Profile'
    """

    def __init__(
        self, plan: Plan, points: npt.ArrayLike, *, ledger: Ledger | None = None, randomness: Randomness | None = None
    ) -> None:
        self.plan = plan
        self._points = plan.features.checked(points)
        warn_if_weak(plan.guarantee_for_owners.loss.epsilon)
        self._ledger, self._randomness = ledger, randomness
        self._side: HerdingOwner | PrivateGreedyOwner | None = None

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer a message of the curator; a repeated message gets the same answer.

        Args:
            message: The curator's message. The first must be the broadcast of the target, which charges the ledger.

        Returns:
            The owner's answer, or None if the message needs no answer.

        Raises:
            UnexpectedMessage: The message is out of turn, contradicts an earlier message or belongs to another plan.
            LedgerError: The ledger refuses the charge. Nothing was sent.
        """
        if isinstance(message, Broadcast) and message.plan != self.plan.fingerprint:
            same = str(message.plan).startswith(f"{PLAN_VERSION}:")
            found = "another one" if same else f"in another format than {PLAN_VERSION}"
            do = "agree on one" if same else "use one version of Heathaze everywhere"
            raise UnexpectedMessage("The plan of a broadcast", found, "that of this owner", do)
        if self._side is None:
            if not (isinstance(message, Broadcast) and message.about == "target"):
                raise UnexpectedMessage("The first message", type(message).__name__, "the broadcast of the target")
            guarantee, event = self.plan.guarantee_for_owners, self.plan.event_for_owners
            receipt = pay(guarantee, event, ledger=self._ledger, randomness=self._randomness, note="owner")
            self._side = _owner_side(self.plan, self._points, receipt)
        return self._side.receive(message)


def _owner_side(plan: Plan, points: Floats, receipt: Receipt) -> HerdingOwner | PrivateGreedyOwner:
    match plan:
        case Herding():
            return HerdingOwner(plan, points, receipt)
        case PrivateGreedy():
            return PrivateGreedyOwner(plan.features, points)
    raise _unknown(plan)


def curator_for(plan: Plan, owners: Sequence[str], wanted: Wanted, randomness: Randomness | None = None) -> Curator:
    """Make the curator of a purchase, for the protocol of the plan.

    Args:
        plan: :class:`Herding` or :class:`PrivateGreedy`.
        owners: Names of the owners.
        wanted: The consumer's message.
        randomness: Leave this out. ``Simulation(seed)`` is for tests and papers.

    Returns:
        The curator; call its ``begin`` for the first messages.

    Raises:
        InvalidInput: The owners or the consumer's message do not fit the plan.

    >>> import numpy as np
    >>> from heathaze.marketplace.features import Features
    >>> plan = Herding(Features(columns=1, gamma=1.0), points=2, target_points=200, epsilon=2)
    >>> curator = curator_for(plan, ["coast", "hills"], Consumer(plan, np.zeros((200, 1))).want())
    >>> [(owner, type(message).__name__) for owner, message in curator.begin()]
    [('coast', 'Broadcast'), ('hills', 'Broadcast')]
    """
    match plan:
        case Herding():
            return HerdingCurator(plan, owners, wanted)
        case PrivateGreedy():
            return PrivateGreedyCurator(plan, owners, wanted, SecureRandomness() if randomness is None else randomness)
    raise _unknown(plan)


def _unknown(plan: object) -> InvalidInput:
    return InvalidInput(f"plan is of the type {type(plan).__name__}; expected Herding or PrivateGreedy.")


def buy(
    plan: Plan,
    target: npt.ArrayLike,
    owners: Mapping[str, npt.ArrayLike],
    *,
    target_ledger: Ledger | None = None,
    owner_ledgers: Mapping[str, Ledger] | None = None,
    randomness: Randomness | None = None,
    progress: Callable[[str], None] | None = None,
) -> Purchase:
    """Buy points of several owners that match a target, with all parties in this process.

    The caller holds all data, so the caller must be trusted like the curator. All inputs are checked before a ledger is
    charged. The target's ledger is charged first, and the ledger of each owner before that owner's first answer.

    Args:
        plan: :class:`Herding` or :class:`PrivateGreedy`.
        target: The consumer's points, one per row.
        owners: The points of each owner by name, encoded like the target.
        target_ledger: The privacy budget of the target.
        owner_ledgers: Privacy budgets of owners by name. An owner whose ledger refuses the charge is left out, with a
            note.
        randomness: Leave this out. ``Simulation(seed)`` is for tests and papers.
        progress: Called with a short text at every step.

    Returns:
        The points that were bought. NOT PRIVATE: they are raw records.

    Raises:
        InvalidInput: A table does not fit the plan, or the noise would hide the target. Nothing was charged.
        LedgerError: The target's ledger refuses the charge. Nothing was bought.

    >>> import numpy as np
    >>> from heathaze.marketplace.features import Features
    >>> plan = Herding(Features(columns=1, gamma=1.0), points=2, target_points=200, epsilon=2)
    >>> buy(plan, np.zeros((200, 1)), {"near": np.zeros((50, 1)), "far": np.full((50, 1), 9.0)}).owners
    ('near', 'near')
    """
    expect(Mapping, owners, "owners, a mapping from names to points,")
    say = progress or (lambda _: None)
    ledgers = owner_ledgers or {}
    if unknown := sorted(set(ledgers) - set(owners)):
        raise InvalidInput(f"There is a ledger for {unknown[0]!r}, which is no owner; name ledgers after owners.")
    plan.check_owners(tuple(owners))
    notes: list[str] = []
    parties: dict[str, Owner] = {}
    for name, points in owners.items():
        try:
            parties[name] = Owner(plan, points, ledger=ledgers.get(name), randomness=randomness)
        except InvalidInput as error:
            raise InvalidInput(f"Owner {name}: {error}") from None
        if not len(parties[name]._points):
            notes.append(f"{name} has no records; it takes part and offers nothing.")
    consumer = Consumer(plan, target, ledger=target_ledger, randomness=randomness)
    say("The target is hashed")
    curator = curator_for(plan, tuple(parties), consumer.want(), randomness)
    deliveries = list(curator.begin())
    step = 0
    while curator.purchase is None:
        step += 1
        say(f"Step {step}: {len(deliveries)} messages to owners")
        following: list[Delivery] = []
        for name, message in deliveries:
            try:
                answer = parties[name].receive(message)
            except LedgerError as error:
                notes.append(f"{name} does not take part: {error}")
                continue
            if answer is not None:
                following += curator.receive(name, answer)
        # All messages were delivered and answered in this process, so an owner who has not answered never will.
        deliveries = following or list(curator.close_step())
    return replace(curator.purchase, notes=(*notes, *curator.purchase.notes))
