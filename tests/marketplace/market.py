"""A small made-up marketplace for tests: one owner has what the target wants."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from heathaze.marketplace import Features, Herding, Purchase

FEATURES = Features(columns=3, gamma=1.0, frequencies=20, seed=5)


def market(seed: int = 0, sizes: tuple[int, ...] = (80, 60, 90), target: int = 50) -> tuple[np.ndarray, dict]:
    """A target around (1, 1, 1) and owners around 0, 1, 2, …, the second of them right."""
    rng = np.random.default_rng(seed)
    owners = {f"owner{k}": rng.normal(k, 0.6, (size, 3)) for k, size in enumerate(sizes)}
    return rng.normal(1, 0.6, (target, 3)), owners


def plan(**changes) -> Herding:
    """Buy 30 points for a target of 50, with little noise unless asked for."""
    return Herding(**({"features": FEATURES, "points": 30, "target_points": 50, "epsilon": 50} | changes))


def check_points_are_the_owners(bought: Purchase, owners: Mapping[str, np.ndarray]) -> None:
    """Every bought point is, bit by bit, the row of the owner that the purchase names."""
    theirs = [owners[name][row] for name, row in zip(bought.owners, bought.rows, strict=True)]
    assert np.array_equal(theirs, bought.points)


def remedies(refusal: str, features: Features) -> list[dict[str, Any]]:
    """What a refusal says would be enough, as changes to the plan."""
    found: list[dict[str, Any]] = []
    for count, size in re.findall(r"at least ([\d,]+) points (of the target|bought)", refusal):
        found.append({"points" if size == "bought" else "target_points": int(count.replace(",", ""))})
    found += [{"epsilon": loss} for loss in re.findall(r"epsilon (\S+) or more", refusal)]
    found += [
        {"features": dataclasses.replace(features, frequencies=int(count))}
        for count in re.findall(r"at most (\d+) frequenc", refusal)
    ]
    return found
