"""Time buying 1,000 of 60,000 points of five owners by both private protocols, against greedy in plain numpy.

python -m benchmarks.marketplace
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heathaze.marketplace.features import Features
from heathaze.marketplace.herding import Herding
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.roles import buy
from heathaze.privacy.randomness import Simulation

CANDIDATES, POINTS, COLUMNS, TARGET = 60_000, 1_000, 50, 250
OWNERS = ("a", "b", "c", "d", "e")
WANTED_SECONDS, WANTED_RATIO = 60, 3
WANTED_GROWTH = 3
"""The largest factor by which time may grow with twice the data. Linear time gives a little more than 2, because larger
tables do not fit into caches; quadratic time gives 4."""


def main() -> None:
    """Print times and ratios, and whether the goals are reached."""
    features = Features(COLUMNS, gamma=1 / COLUMNS)
    target, owners = _market(CANDIDATES)
    plans = {
        "herding": Herding(features, POINTS, TARGET, 2),
        "private greedy": PrivateGreedy(features, points=POINTS, target_points=TARGET, epsilon=2, delta="0.000001"),
    }
    for plan in plans.values():  # Whatever is loaded late.
        _buy(plan, target, _market(500)[1])
    slow, seconds, _ = _timed(lambda: _greedy_in_numpy(features, target, owners))
    print(f"greedy in numpy (not private): {seconds:.1f} s, {slow:.1f} s of the processors")
    for name, plan in plans.items():
        work, seconds, bought = _timed(lambda plan=plan: _buy(plan, target, owners))
        seen = f"{bought.seen / len(bought.points):.2f} points seen for each bought"
        print(
            f"{name}: {seconds:.1f} s (wanted: under {WANTED_SECONDS} s): {_verdict(seconds <= WANTED_SECONDS)}; {seen}"
        )
        ratio = slow / work
        print(f"  {ratio:.1f} times as fast (wanted: at least {WANTED_RATIO}): {_verdict(ratio >= WANTED_RATIO)}")
    _growth(features)


def _growth(features: Features) -> None:
    """Time herding with twice the candidates, and with twice the points."""
    target, owners = _market(CANDIDATES)
    twice = _market(2 * CANDIDATES)[1]
    once = _least(lambda: _buy(Herding(features, POINTS, TARGET, 2), target, owners))
    for name, work in (
        ("candidates", lambda: _buy(Herding(features, POINTS, TARGET, 2), target, twice)),
        ("points", lambda: _buy(Herding(features, 2 * POINTS, TARGET, 2), target, owners)),
    ):
        growth = _least(work) / once
        print(f"herding, twice the {name}: {growth:.2f} times (wanted: at most {WANTED_GROWTH}): ", end="")
        print(_verdict(growth <= WANTED_GROWTH))


def _market(candidates: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A synthetic market: each owner's points lie around one centre, and the target mixes the points of two owners."""
    rng = np.random.default_rng(1)
    places = rng.normal(0, 0.5, (len(OWNERS), COLUMNS))
    owners = {
        name: place + rng.normal(size=(candidates // len(OWNERS), COLUMNS))
        for name, place in zip(OWNERS, places, strict=True)
    }
    target = places[rng.choice(2, TARGET, p=[0.7, 0.3])] + rng.normal(size=(TARGET, COLUMNS))
    return target, owners


def _buy(plan: Any, target: np.ndarray, owners: Mapping[str, np.ndarray]) -> Any:
    return buy(plan, target, owners, randomness=Simulation(1))


def _greedy_in_numpy(features: Features, target: np.ndarray, owners: Mapping[str, np.ndarray]) -> list[int]:
    """The peer: a plain loop that scores every candidate again for every chosen point, in double precision."""
    hashes, wanted = features.of(np.concatenate(list(owners.values()))), features.of(target).mean(axis=0)
    rows: list[int] = []
    for q in range(POINTS):
        scores = hashes @ wanted
        if rows:
            scores -= q / (q + 1) * (hashes @ hashes[rows].mean(axis=0))
            scores[rows] = -np.inf
        rows.append(int(np.argmax(scores)))
    return rows


def _verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def _least(work: Callable[[], Any]) -> float:
    """Processor seconds of a call, the smallest of three."""
    return min(_timed(work)[0] for _ in range(3))


def _timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Processor seconds, wall-clock seconds, and the result of a call."""
    began, start = time.perf_counter(), time.process_time()
    found = work()
    return time.process_time() - start, time.perf_counter() - began, found


if __name__ == "__main__":
    main()
