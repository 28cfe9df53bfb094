"""Neighbouring worlds under the same broadcasts, played through the real parts of rounds."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Broadcast, FromOwner, ToOwner, Wanted
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.private_greedy_parties import PrivateGreedyCurator, PrivateGreedyOwner
from heathaze.privacy.randomness import Randomness, Simulation

FEATURES = Features(columns=2, gamma=2, frequencies=1, seed=3)
"""Hashes on a circle: the one of a point can be opposite to that of another, which is as far as they can be."""


class Scripted(PrivateGreedy):
    """A plan whose broadcasts of the summary are given, whatever the summary is; it notes what it would have told."""

    script: Any
    summaries: Any

    def check_signal(self) -> None:
        """What is broadcast here is no noise of ours."""

    def summary_hash(self, hashes: np.ndarray, bought: int, _: Randomness) -> np.ndarray:
        self.summaries.append(hashes)
        return self.script[bought]


def scripted(points: int, **more: Any) -> Scripted:
    """A plan that tells the summary after every round, in view of which the next point is chosen."""
    return Scripted(FEATURES, points, 10, 100, 1e-6, broadcasts=points - 1, **more)


def play(
    plan: Scripted,
    owners: Mapping[str, np.ndarray],
    target: np.ndarray,
    script: np.ndarray,
    curator: type[PrivateGreedyCurator] = PrivateGreedyCurator,
    seed: int = 0,
    lost: Callable[[str, FromOwner], bool] = lambda *_: False,
) -> tuple[list[np.ndarray], PrivateGreedyCurator, dict[str, list[ToOwner]]]:
    """One purchase, in which some answers may get lost.

    Returns the hashes of the summary after each round but the last, the curator, and what each owner was told.
    """
    object.__setattr__(plan, "script", script)
    object.__setattr__(plan, "summaries", [])
    target = target / max(1.0, float(np.linalg.norm(target)))  # a longer one is no mean hash
    wanted = Wanted(np.zeros((10, 2)), Broadcast("target", target, plan.target_deviation, 10, plan.fingerprint))
    one = curator(plan, list(owners), wanted, Simulation(seed))
    parties = {name: PrivateGreedyOwner(FEATURES, points) for name, points in owners.items()}
    told: dict[str, list[ToOwner]] = {name: [] for name in owners}
    deliveries = list(one.begin())
    while one.purchase is None:
        if not deliveries:
            deliveries += one.close_step()
            continue
        name, message = deliveries.pop(0)
        told[name].append(message)
        answer = parties[name].receive(message)
        if answer is not None and not lost(name, answer):
            deliveries += one.receive(name, answer)
    return plan.summaries, one, told


def swaps(first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
    """How many members are only in the first summary, and how many only in the second."""
    here, there = [sorted(map(bytes, np.ascontiguousarray(side))) for side in (first, second)]
    only_here = list(here)
    only_there = []
    for member in there:
        if member in only_here:
            only_here.remove(member)
        else:
            only_there.append(member)
    return len(only_here), len(only_there)


def neighbours(
    rng: np.random.Generator, owners: int, most: int = 5
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Owners with a few points each, and the same with one more point of one of them, at a place of its own."""
    first = {f"owner {k}": rng.normal(size=(int(rng.integers(0, most + 1)), 2)) for k in range(owners)}
    whose = f"owner {rng.integers(owners)}"
    place = int(rng.integers(len(first[whose]) + 1))
    second = dict(first) | {whose: np.insert(first[whose], place, rng.normal(size=2), axis=0)}
    return first, second
