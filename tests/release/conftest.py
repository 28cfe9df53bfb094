"""Releases made by hand, one of each kind a file must carry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import nodes_at
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.provenance import Provenance
from heathaze.release.release import Release

Wrap = Callable[..., Release]


def _wrap(density: Density | TreeDensity | Estimate, *, simulated: bool = False, total: float = 20_013.4375) -> Release:
    provenance = Provenance(
        mechanism="Pyramid",
        parameters={"epsilon": "1/3", "w": 20, "gamma": 0.7071067811865476, "name": 'it\'s ε "quoted" </script>'},
        weight="share",
        at_most=20,
        event={
            "kind": "composition",
            "events": [{"kind": "discrete-laplace", "sensitivity": 1048576, "scale": "3145728"}],
        },
        day="2026-01-31",
        ledger_entry={"number": 1, "hash": "00ff"},
        simulated=simulated,
    )
    estimate = density if isinstance(density, Estimate) else Estimate(density, total)
    return Release(estimate, Guarantee(PrivacyLoss(Fraction(1, 3)), Unit.PERSON), provenance)


def noisy_counts(grid: Grid, depth: int) -> NoisyCounts:
    """Counts of all nodes down to a level, most people in one corner, with noise that is large for small counts."""
    rng = np.random.default_rng(7)
    levels = np.concatenate([np.full(len(nodes_at(grid, level)), level) for level in range(depth + 1)])
    codes = np.concatenate([nodes_at(grid, level) for level in range(depth + 1)])
    values = np.where(codes == 0, 900.0, 0.3) + rng.laplace(0, 1.5, len(codes))
    return NoisyCounts(grid, levels, codes, values, np.where(levels == 0, 3.0, 1.5))


def _inferred(grid: Grid, depth: int) -> Release:
    return _wrap(Estimate.infer(noisy_counts(grid, depth)))


def with_estimate(release: Release, **changes: Any) -> Release:
    """The same release with some fields of its estimate changed."""
    return dataclasses.replace(release, estimate=dataclasses.replace(release.estimate, **changes))


def _rough(grid: Grid, seed: int) -> Density:
    """Many zeros, and values over several powers of ten."""
    rng = np.random.default_rng(seed)
    mass = np.exp(rng.normal(0, 4, grid.shape)) * (rng.random(grid.shape) < 0.3)
    mass[-1, 0] = 3.0
    return Density.from_mass(grid, mass)


def _some_squares(grid: Grid) -> TreeDensity:
    """Squares of two levels: one coarse node is left whole, another is cut to single cells at its corner."""
    coarse = nodes_at(grid, 2)
    leaf = grid.depth
    first = int(coarse[0]) << (2 * (leaf - 2))
    levels = [2] * (len(coarse) - 1) + [leaf, leaf]
    codes = [*coarse[1:].tolist(), first, first + 3]
    return TreeDensity.from_mass(grid, levels, codes, np.arange(1, len(codes) + 1) / 7)


_KINDS: dict[str, Callable[[], Density | TreeDensity]] = {
    "dense": lambda: _rough(Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=64), 1),
    "rectangle": lambda: _rough(Grid.over(lon=(-0.3, 0.4), lat=(-0.2, 0.1), shape=(240, 320)), 2),
    "plane": lambda: _rough(Grid.plane(x=(0, 32), y=(-5, 19), shape=(24, 32)), 3),
    "pixels": lambda: _rough(Grid.plane(x=(0, 20), y=(0, 10), shape=(10, 20)), 3),
    "web-mercator": lambda: _rough(Grid.over(lon=(10, 30), lat=(40, 70), shape=(50, 40), projection="web-mercator"), 4),
    "one-cell": lambda: Density.uniform(Grid.over(lon=(0, 1), lat=(0, 1), size=1)),
    "tree": lambda: _some_squares(Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), shape=(48, 80))),
    "tree-on-a-plane": lambda: _some_squares(Grid.plane(x=(0, 1e6), y=(0, 5e5), shape=(64, 128))),
}


@pytest.fixture
def wrap() -> Wrap:
    return _wrap


@pytest.fixture(params=list(_KINDS))
def release(request: pytest.FixtureRequest) -> Release:
    return _wrap(_KINDS[request.param]())


@pytest.fixture
def small() -> Release:
    return _wrap(_KINDS["plane"]())


@pytest.fixture
def tree() -> Release:
    return _wrap(_KINDS["tree"]())


@pytest.fixture
def huge_tree() -> Release:
    """2^20 cells a side: to be rendered, never to be made dense."""
    return _wrap(_some_squares(Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=2**20)))


@pytest.fixture
def sure() -> Release:
    """Dense, on a rectangle, and it knows how sure it is."""
    return _inferred(Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), shape=(12, 20)), 3)


@pytest.fixture
def sure_tree(monkeypatch: pytest.MonkeyPatch) -> Release:
    """The same as a tree of few squares, on a grid too fine to be drawn cell by cell."""
    monkeypatch.setattr("heathaze.inference.posterior.MOST_SQUARES", 300)
    return _inferred(Grid.plane(x=(0, 8), y=(0, 6), shape=(6_000, 8_000)), 3)
