"""The markets (owners and target): MNIST by digits, adult by countries of birth, and scikit-learn's digits."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of

from heathaze.marketplace.features import Features
from heathaze.marketplace.study import Study

HERE = Path(__file__).resolve().parent

PAIRS = {"0, 1": (0, 1), "3, 4": (3, 4), "5, 6": (5, 6), "7, 8": (7, 8), "9, 2": (9, 2)}
"""The digits of each owner, as in appendix G."""

LATIN = "Latin America"
COUNTRIES = {
    LATIN: (
        "Mexico", "Puerto-Rico", "El-Salvador", "Cuba", "Dominican-Republic", "Guatemala", "Columbia", "Nicaragua",
        "Peru", "Ecuador", "Honduras",
    ),
    "Asia": (
        "Philippines", "India", "China", "South", "Japan", "Vietnam", "Taiwan", "Iran", "Hong", "Thailand", "Cambodia",
        "Laos",
    ),
    "Europe": (
        "Germany", "England", "Italy", "Poland", "Portugal", "Greece", "France", "Ireland", "Yugoslavia", "Scotland",
        "Hungary", "Holand-Netherlands",
    ),
    "United States": ("United-States",),
}  # fmt: skip
OTHERS = "others"


@dataclass(frozen=True, eq=False)
class Scene:
    """A market. ``right`` are the owners with points like the target's; ``held`` are the held-out target points."""

    features: Features
    owners: Mapping[str, np.ndarray]
    labels: Mapping[str, np.ndarray]
    right: tuple[str, ...]
    target: np.ndarray
    held: np.ndarray
    truths: np.ndarray


def available(name: str, config: Mapping[str, Any]) -> bool:
    """Whether the data of a market are available on this machine."""
    return "file" not in config[name] or data_file(config[name]["file"]) is not None


@functools.lru_cache(maxsize=2)
def _read(name: str, path: Path | None) -> tuple[np.ndarray, ...]:
    """The points and labels of a data set, and those of MNIST's test images too."""
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return digits.data / 16, digits.target
    if path is None:
        raise FileNotFoundError(f"The data file of {name} was not found. Set HEATHAZE_DATA to its folder.")
    if name == "mnist":
        with np.load(path) as file:
            return tuple(
                file[kind].reshape(len(file[kind]), -1) / 255 if kind.startswith("x") else file[kind]
                for kind in ("x_train", "y_train", "x_test", "y_test")
            )
    study = Study.read(HERE / "adult.toml")
    table = dict(zip(study.names, columns_of(path, *study.names), strict=True))
    income, country = columns_of(path, "income", "native_country")
    return study.encode(table).points, (income == ">50K").astype(np.int64), country


def scene(name: str, run: int, config: Mapping[str, Any], *, owners: int = 0) -> Scene:
    """The market of one run: target points and features differ between runs, owners do not.

    If ``owners`` is given, the market is divided into so many owners.
    """
    given = config[name]
    path = data_file(given["file"]) if "file" in given else None
    rng = np.random.default_rng(seed_of("scene", name, run))
    seed = seed_of("features", name, run)
    made = _countries if name == "adult" else _digits
    found = made(_read(name, path), given, rng, seed)
    return _cut(found, owners, rng) if owners > len(found.owners) else found


def _digits(data: tuple[np.ndarray, ...], given: Mapping[str, Any], rng: np.random.Generator, seed: int) -> Scene:
    points, labels = data[:2]
    pool, kinds = data[2:] if len(data) == 4 else (points, labels)
    test = np.concatenate(
        [
            rng.choice(np.flatnonzero(kinds == int(digit)), count, replace=False)
            for digit, count in given["test"].items()
        ]
    )
    rng.shuffle(test)
    wanted, held = test[: given["target"]], test[given["target"] :]
    free = np.ones(len(points), dtype=bool)
    if len(data) == 2:
        free[test] = False
    rows = {name: np.flatnonzero(free & np.isin(labels, digits)) for name, digits in PAIRS.items()}
    return Scene(
        Features(points.shape[1], gamma=given["gamma"], frequencies=given["frequencies"], seed=seed),
        {name: points[which] for name, which in rows.items()},
        {name: labels[which] for name, which in rows.items()},
        ("3, 4",),
        pool[wanted],
        pool[held],
        kinds[held],
    )


def _countries(data: tuple[np.ndarray, ...], given: Mapping[str, Any], rng: np.random.Generator, seed: int) -> Scene:
    points, labels, country = data
    group = np.full(len(points), OTHERS, dtype=object)
    for name, members in COUNTRIES.items():
        group[np.isin(country, members)] = name
    latin = rng.permutation(np.flatnonzero(group == LATIN))
    held, wanted = latin[: given["held"]], latin[given["held"] : given["held"] + given["target"]]
    group[held] = group[wanted] = None
    rows = {name: np.flatnonzero(group == name) for name in (*COUNTRIES, OTHERS)}
    study = Study.read(HERE / "adult.toml")
    return Scene(
        Features(points.shape[1], gamma=study.gamma, frequencies=study.frequencies, seed=seed),
        {name: points[which] for name, which in rows.items()},
        {name: labels[which] for name, which in rows.items()},
        (LATIN,),
        points[wanted],
        points[held],
        labels[held],
    )


def _cut(market: Scene, owners: int, rng: np.random.Generator) -> Scene:
    """Divide every owner of a market at random into equally many smaller owners, up to a total number of owners."""
    parts = owners // len(market.owners)
    points, labels, right = {}, {}, []
    for name, table in market.owners.items():
        for part, rows in enumerate(np.array_split(rng.permutation(len(table)), parts)):
            points[f"{name} ({part})"], labels[f"{name} ({part})"] = table[rows], market.labels[name][rows]
            right += [f"{name} ({part})"] if name in market.right else []
    return Scene(
        market.features, points, labels, tuple(right), market.target, market.held, market.truths
    )  # fmt: skip
