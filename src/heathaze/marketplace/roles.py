"""The consumer's half: it tells its target once, with noise for owners, and takes what was bought."""

from __future__ import annotations

import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.marketplace.messages import Broadcast, Wanted
from heathaze.marketplace.protocol import Way, fingerprint
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
