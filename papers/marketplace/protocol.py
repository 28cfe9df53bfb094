"""One trial of the marketplace: choose points from a market, and measure how well they represent the target."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.data import seed_of
from sources import Scene, scene

from heathaze.marketplace import mmd_squared
from heathaze.marketplace.baselines import Chosen, exact_greedy, greedy, random_pool, target_only, uniform
from heathaze.marketplace.herding import Herding
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.roles import buy
from heathaze.privacy.randomness import Simulation

HERDING, ROUNDS = "herding", "rounds"
"""The private methods, ``Herding`` and ``PrivateGreedy``, by their names in seeds and expected.json."""

EXACT, GREEDY, POOL, RIGHT, TARGET_ONLY, UNIFORM = (
    "exact greedy", "greedy", "random pool", "right owner", "target only", "uniform",
)  # fmt: skip
REFERENCES = (GREEDY, EXACT, POOL, RIGHT, TARGET_ONLY, UNIFORM)
PRIVATE = (HERDING, ROUNDS)

MMD, SVM, NETWORK, SEEN, SHARE = "MMD2", "SVM", "network", "seen", "right"


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial: the market, and the methods that choose points in it.

    ``owners`` is the number of owners into which the market is divided; 0 keeps the owners as they are. ``learn`` says
    whether classifiers are trained on the chosen points.
    """

    name: str
    run: int
    points: int
    epsilon: float
    methods: tuple[str, ...]
    seen: float = 2.0
    owners: int = 0
    learn: bool = True


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Measure each method; all methods of a trial see the same market."""
    most = max(trial.points, *config["full"]["points"][trial.name])
    return {
        method: _private(trial, method, config)
        if method in PRIVATE
        else _reference(
            trial.name, trial.run, method, trial.points, most, trial.seen, trial.owners, trial.learn, _Key(config)
        )
        for method in trial.methods
    }


class _Key(dict):
    """The settings as a hashable object, for the key of a cache. There is one configuration in a process."""

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=2)
def _market(name: str, run: int, owners: int, config: _Key) -> Scene:
    return scene(name, run, config, owners=owners)


@functools.lru_cache(maxsize=64)
def _reference(
    name: str, run: int, method: str, points: int, most: int, seen: float, owners: int, learn: bool, config: _Key
) -> dict[str, float]:
    """The scores of a method that does not depend on epsilon; they are computed once in a process."""
    market = _market(name, run, owners, config)
    if method == POOL:
        luck = Simulation(seed_of("pool", name, run))
        chosen = random_pool(market.features, market.target, market.owners, points, seen=seen, randomness=luck)
        return _scored(market, chosen, seen, learn)
    chosen = _longest(name, run, method, most, owners, config).first(points)
    there = sum(map(len, market.owners.values()))
    return _scored(market, chosen, 1.0 if method in (RIGHT, UNIFORM) else there / points, learn)


@functools.lru_cache(maxsize=8)
def _longest(name: str, run: int, method: str, most: int, owners: int, config: _Key) -> Chosen:
    """The choice of the most points that any trial needs; the choice of fewer points is the first part of it."""
    market = _market(name, run, owners, config)
    match method:
        case "exact greedy":
            return exact_greedy(market.features, market.target, market.owners, most)
        case "greedy":
            return greedy(market.features, market.target, market.owners, most)
        case "target only":
            return target_only(market.features, market.target, market.owners, most)
        case "right owner":
            right = {owner: market.owners[owner] for owner in market.right}
            return uniform(right, most, Simulation(seed_of(RIGHT, name, run)))
        case "uniform":
            return uniform(market.owners, most, Simulation(seed_of(UNIFORM, name, run)))
    raise ValueError(f"There is no method called {method}.")


def _private(trial: Trial, method: str, config: Mapping[str, Any]) -> dict[str, float]:
    market = _market(trial.name, trial.run, trial.owners, _Key(config))
    settings = {
        "points": trial.points,
        "target_points": len(market.target),
        "epsilon": str(trial.epsilon),
        "delta": config["protocol"]["delta"],
    }
    if method == HERDING:
        plan = Herding(market.features, seen=trial.seen, **settings)
    else:
        plan = PrivateGreedy(market.features, **settings)
    luck = seed_of(method, trial.name, trial.run, trial.points, trial.epsilon, trial.seen, trial.owners)
    bought = buy(plan, market.target, market.owners, randomness=Simulation(luck))
    chosen = Chosen(bought.owners, bought.rows, bought.points)
    return _scored(market, chosen, bought.seen / len(bought.points), trial.learn) | {"noise": plan.noise_to_signal}


def _scored(market: Scene, chosen: Chosen, seen: float, learn: bool) -> dict[str, float]:
    """Score chosen points: MMD² to the held-out target points, points seen, share of the right owners, accuracies."""
    scores = {
        MMD: mmd_squared(market.held, chosen.points, market.features.gamma),
        SEEN: seen,
        SHARE: float(np.mean([owner in market.right for owner in chosen.owners])),
    }
    return scores | accuracies(market, chosen) if learn else scores


def accuracies(market: Scene, chosen: Chosen) -> dict[str, float]:
    """The accuracies of a linear SVM and of a network with 32 hidden units, trained on the chosen points."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import LinearSVC

    labels = np.array([market.labels[owner][row] for owner, row in zip(chosen.owners, chosen.rows, strict=True)])
    if len(set(labels.tolist())) == 1:
        always = float((market.truths == labels[0]).mean())
        return {SVM: always, NETWORK: always}
    with warnings.catch_warnings():
        # It stops after 100 passes, near enough; the same for all.
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = {SVM: LinearSVC(random_state=0), NETWORK: MLPClassifier((32,), max_iter=100, random_state=0)}
        return {
            name: float(model.fit(chosen.points, labels).score(market.held, market.truths))
            for name, model in models.items()
        }
