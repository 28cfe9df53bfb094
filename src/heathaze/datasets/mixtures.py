"""Synthetic people whose visits follow a mixture of Gaussians of given sparsity (Ghazi et al., appendix E.3)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.errors import InvalidInput
from heathaze.types import Floats

BATCH = 20_000
MOST_POINTS = 4_000_000
"""The largest number of points; a sparsity that needs more points is refused."""


def mixture(
    people: int = 200,
    clusters: int = 20,
    sparsity: float = 0.05,
    size: int = 256,
    spread: tuple[float, float] = (0.02, 0.06),
    *,
    seed: int,
) -> dict[str, npt.NDArray[np.generic]]:
    """Make points of a Gaussian mixture in the unit square, as columns ``person``, ``x`` and ``y``.

    All Gaussians have the same weight; their means and covariances are random. Points are drawn until the share
    ``sparsity`` of the cells of a size × size grid contains a point. The points are given to the people in turn, so all
    people have nearly the same number of points. Points outside the square are dropped.

    Args:
        people: The number of people, at least 1.
        clusters: The number of Gaussians, at least 1.
        sparsity: The share of cells with at least one point, above 0 and at most 1. "Sparsity" is the papers' word,
            although a larger value means denser data.
        size: The number of cells a side of the grid on which sparsity is measured.
        spread: The smallest and largest standard deviation along an axis of a Gaussian; the square's side is 1.
        seed: The seed of the data; the same seed gives the same rows.

    Returns:
        The columns, of equal length.

    Raises:
        InvalidInput: A value is out of range, there are fewer points than people, or the mixture does not reach the
            share ``sparsity`` of the cells.

    >>> table = mixture(people=10, clusters=3, sparsity=0.02, size=64, seed=1)
    >>> cells = np.unique((table["y"] * 64).astype(int) * 64 + (table["x"] * 64).astype(int))
    >>> len(cells), len(np.unique(table["person"]))    # 2 % of 64 × 64, rounded up
    (82, 10)
    """
    _check(people, clusters, sparsity, size, spread)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    means = rng.uniform(0.05, 0.95, (clusters, 2))
    axes = _random_axes(rng, clusters, spread)
    points = _until_hit(rng, means, axes, size, wanted=math.ceil(sparsity * size * size))
    if points is None:
        raise InvalidInput(
            f"{clusters} clusters of spread {spread} do not hit {sparsity:.0%} of the cells; give a smaller sparsity, "
            "or more or wider clusters."
        )
    if len(points) < people:
        raise InvalidInput(f"A sparsity of {sparsity} leaves people without a point; give fewer people or more cells.")
    return {
        "person": np.arange(len(points), dtype=np.int64) % people,
        "x": points[:, 0],
        "y": points[:, 1],
    }


def _until_hit(rng: np.random.Generator, means: Floats, axes: Floats, size: int, wanted: int) -> Floats | None:
    """Draw points of the mixture until ``wanted`` cells contain a point; None if that takes too many points."""
    hit = np.zeros(size * size, dtype=np.bool_)
    batches: list[Floats] = []
    while sum(map(len, batches)) < MOST_POINTS:
        points = _draw(rng, means, axes)
        cell = (points[:, 1] * size).astype(np.int64) * size + (points[:, 0] * size).astype(np.int64)
        fresh = np.flatnonzero(~hit[cell])
        _, firsts = np.unique(cell[fresh], return_index=True)
        missing = wanted - int(hit.sum())
        if len(firsts) >= missing:
            last = fresh[np.sort(firsts)[missing - 1]]
            return np.concatenate([*batches, points[: last + 1]])
        hit[cell] = True
        batches.append(points)
    return None


def _random_axes(rng: np.random.Generator, clusters: int, spread: tuple[float, float]) -> Floats:
    """Draw a square root of each Gaussian's covariance: two standard deviations, rotated by a random angle."""
    angle = rng.uniform(0, np.pi, clusters)
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1).reshape(-1, 2, 2)
    return np.asarray(turn * rng.uniform(*spread, (clusters, 1, 2)))


def _draw(rng: np.random.Generator, means: Floats, axes: Floats) -> Floats:
    which = rng.integers(0, len(means), BATCH)
    points = means[which] + np.einsum("nij,nj->ni", axes[which], rng.standard_normal((BATCH, 2)))
    return np.asarray(points[((points >= 0) & (points < 1)).all(axis=1)])


def _check(people: int, clusters: int, sparsity: float, size: int, spread: tuple[float, float]) -> None:
    for name, count in (("people", people), ("clusters", clusters), ("size", size)):
        whole(count, name)
    if not 0 < sparsity <= 1:
        raise InvalidInput(f"sparsity is {sparsity}; give the share of cells that hold a point, above 0 and at most 1.")
    if not 0 < spread[0] <= spread[1]:
        raise InvalidInput(f"spread is {spread}; give two standard deviations above 0, the smaller first.")
