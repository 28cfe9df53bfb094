"""Every mechanism passes the contract, and the contract rejects mechanisms that break it."""

import itertools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heathaze import central
from heathaze.central.mechanism import Mechanism
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.audit import audit
from heathaze.privacy.events import Composition, DiscreteLaplace, Event
from heathaze.privacy.loss import parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.testing import check_mechanism as check_all
from heathaze.testing import neighbouring_counts, noiseless
from heathaze.testing.check_mechanism import (
    check_event,
    check_noise,
    check_page,
    check_parameters,
    check_purity,
    check_reads,
    check_truth_without_noise,
)

Factory = Callable[[Grid, Any], Mechanism]

MECHANISMS: dict[str, tuple[Factory, int]] = {
    "AdaptiveTree": (central.AdaptiveTree, 2**20),
    "Pyramid": (central.Pyramid, 2**20),
    "Pyramid, narrow": (lambda grid, epsilon: central.Pyramid(grid, epsilon, w=9, gamma=0.5), 2**20),
    "Dawa": (central.Dawa, 2**10),
    "Dense": (lambda grid, epsilon: central.Dense(grid, epsilon, people=1000), 2**11),
    "Flat": (central.Flat, 2**12),
    "FlatTop": (lambda grid, epsilon: central.FlatTop(grid, epsilon, share=1.0), 2**12),
    "PrivTree": (central.PrivTree, 2**20),
    "PrivTree, mostly structure": (lambda grid, epsilon: central.PrivTree(grid, epsilon, share="2/3"), 2**20),
    "UniformGrid": (central.UniformGrid, 2**12),
    "UniformGrid, guessed": (lambda grid, epsilon: central.UniformGrid(grid, epsilon, people=1000), 2**12),
    "AdaptiveGrid": (central.AdaptiveGrid, 2**12),
    "AdaptiveGrid, guessed": (lambda grid, epsilon: central.AdaptiveGrid(grid, epsilon, people=1000), 2**12),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_contract(name: str) -> None:
    factory, resolves = MECHANISMS[name]
    check_all(factory, resolves=resolves)


def test_every_public_mechanism_is_checked() -> None:
    assert set(central.__all__) - {"default"} <= set(MECHANISMS)


# ── the contract itself ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Plain:
    """Laplace noise on every cell, in as few lines as possible: the innocent that the broken ones below are made of."""

    grid: Grid
    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        if self.grid.cells > 2**24:
            raise TooLarge("Too many cells.")

    def event(self, bound: int) -> Event:
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        noise = discrete_laplace(laplace_scale(counts.bound, self.epsilon), self.grid.cells, randomness)
        found = self.wrap(counts, counts.dense() + noise.reshape(self.grid.shape))
        return replace(found, simulated=randomness.simulated)

    def wrap(self, counts: Counts, noisy: np.ndarray) -> Estimate:
        mass = np.maximum(noisy, 0)
        return Estimate(Density.from_mass(self.grid, mass), float(mass.sum()) / counts.one)

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": str(self.epsilon)}


def _broken(**methods: Callable[..., Any]) -> type[Plain]:
    return types.new_class("Broken", (Plain,), exec_body=lambda namespace: namespace.update(methods))


def _half_noise(self: Plain, bound: int) -> Event:
    return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon) / 2)


def _double_noise(self: Plain, bound: int) -> Event:
    return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon) * 2)


def _half_sensitivity(self: Plain, bound: int) -> Event:
    return DiscreteLaplace(max(1, bound // 2), laplace_scale(max(1, bound // 2), self.epsilon))


def _read_twice(self: Plain, counts: Counts, randomness: Randomness) -> Estimate:
    counts.at(0, np.array([0]))
    return Plain.run(self, counts, randomness)


def _quietly_half(self: Plain, counts: Counts, randomness: Randomness) -> Estimate:
    heavy = counts.mass.max() > 100 * counts.bound  # honest on light data, and half the noise where it is tempting
    scale = laplace_scale(counts.bound, self.epsilon) / (2 if heavy else 1)
    noise = discrete_laplace(scale, counts.grid.cells, randomness).reshape(counts.grid.shape)
    return self.wrap(counts, counts.dense() + noise)


def _no_noise(self: Plain, counts: Counts, randomness: Randomness) -> Estimate:
    return self.wrap(counts, counts.dense())


def _moved(self: Plain, counts: Counts, noisy: np.ndarray) -> Estimate:
    return Plain.wrap(self, counts, noisy.T.reshape(self.grid.shape))


def _unscaled(self: Plain, counts: Counts, noisy: np.ndarray) -> Estimate:
    return Estimate(Plain.wrap(self, counts, noisy).density, float(noisy.sum()))


def _lossy(self: Plain, counts: Counts, noisy: np.ndarray) -> Estimate:
    return Plain.wrap(self, counts, np.where(noisy == noisy.max(), noisy - 1, noisy))


def _accepting(self: Plain) -> None:
    object.__setattr__(self, "epsilon", Fraction(self.epsilon) if self.epsilon == self.epsilon else Fraction(1))


def _float_epsilon(self: Plain) -> None:
    object.__setattr__(self, "epsilon", float(parse_epsilon(self.epsilon)))


def _secret_parameters(self: Plain) -> dict[str, Any]:
    return {"grid": self.grid}


def _picky(self: Plain) -> None:
    Plain.__post_init__(self)
    if self.grid.cells > 20:
        raise TooLarge("Too many cells.")


_ticks = itertools.count(1)


def _ticking(self: Plain, counts: Counts, randomness: Randomness) -> Estimate:
    estimate = Plain.run(self, counts, randomness)
    return Estimate(estimate.density, estimate.total + next(_ticks))


def _scribbling(self: Plain, counts: Counts, randomness: Randomness) -> Estimate:
    estimate = Plain.run(self, counts, randomness)
    counts.mass[:] += 1
    return estimate


CHECKS = [check_parameters, check_event, check_reads, check_noise, check_truth_without_noise, check_purity]

BROKEN = [
    (check_parameters, _broken(__post_init__=_accepting), "was accepted"),
    (check_parameters, _broken(__post_init__=_float_epsilon), "keep it as 1/10"),
    (check_parameters, _broken(parameters=_secret_parameters), "not a plain value"),
    (check_event, _broken(event=_half_noise), "more than the declared epsilon"),
    (check_event, _broken(event=_double_noise), "wastes a part of the declared"),
    (check_event, _broken(__post_init__=_picky), "refuses 8 × 8 cells, which is not too large"),
    (check_reads, _broken(event=_half_sensitivity), "more than the declared sensitivity"),
    (check_reads, _broken(run=_read_twice), "were read 2 times for an event of 1 parts"),
    (check_noise, _broken(run=_quietly_half), "other scales than it draws"),
    (check_truth_without_noise, _broken(wrap=_moved), "other cells"),
    (check_truth_without_noise, _broken(wrap=_unscaled), "the total is wrong"),
    (check_truth_without_noise, _broken(wrap=_lossy), "masses are wrong|total is wrong"),
    (check_purity, _broken(run=_no_noise), "so there is no noise"),
    (check_purity, _broken(run=_ticking), "keeps a state or reads a clock"),
    (check_purity, _broken(run=_scribbling), "differ|changed the counts"),
    (check_page, Plain, "There is no page test_mechanisms.md"),
]


@pytest.mark.parametrize("check", CHECKS)
def test_an_innocent_mechanism_passes(check: Callable[[Factory], None]) -> None:
    check(Plain)


@pytest.mark.parametrize(("check", "factory", "sentence"), BROKEN, ids=lambda part: getattr(part, "__name__", part))
def test_a_broken_mechanism_is_rejected(check: Callable[[Factory], None], factory: Factory, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check(factory)


def test_a_page_needs_its_sections(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "mine.md"
    monkeypatch.setattr("inspect.getfile", lambda _: str(tmp_path / "mine.py"))
    whole = "# Mine\n" + "".join(
        f"## {title}\nText.\n"
        for title in ("Promise", "Adjacency", "Sensitivity", "Theorem", "Departures from the paper", "Cost", "Status")
    )
    page.write_text(whole)
    check_page(Plain)
    page.write_text(whole.replace("## Theorem\nText.\n", ""))
    with pytest.raises(AssertionError, match="has no section 'Theorem'"):
        check_page(Plain)
    page.write_text(whole.replace("## Cost\nText.\n", "## Cost\n\n"))
    with pytest.raises(AssertionError, match=r"The section 'Cost' of mine\.md is empty"):
        check_page(Plain)


def test_noiseless_leaves_the_mechanism_alone() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    mechanism = Plain(grid, Fraction(1))
    assert noiseless(mechanism).epsilon == math.inf
    assert mechanism.epsilon == 1


# ── attacks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class HalfNoisePyramid(central.Pyramid):
    """The paper's algorithm with half the noise it owes."""

    def _scales(self, bound: int) -> dict[int, Fraction]:
        return {level: scale / 2 for level, scale in super()._scales(bound).items()}


def _corner(estimate: Estimate) -> float:
    """The mass the release puts into the corner where the neighbours differ."""
    down, across, mass = estimate.density.squares()
    return float(mass[(down < 1) & (across < 1)].sum()) * estimate.total


@pytest.mark.parametrize("side", [1, 8])
@pytest.mark.parametrize("case", [0, 3], ids=["alone", "in a crowd"])
def test_pyramid_keeps_its_promise_under_attack(side: int, case: int) -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=side)
    pair = neighbouring_counts(grid)[case]
    found = audit(central.Pyramid(grid, 1), pair.first, pair.second, _corner, runs=3000, randomness=Simulation(1))
    assert not found.violated
    assert found.lower_bound > 0.1  # the attack looks in the right place


@pytest.mark.parametrize(("runs", "least"), [(25_000, 0.8), pytest.param(100_000, 0.9, marks=pytest.mark.slow)])
def test_no_violation_in_many_runs_of_the_real_pyramid(runs: int, least: float) -> None:
    """Worst case: nobody, or one person with all of their mass in the one cell that is measured."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=1)
    pair = neighbouring_counts(grid)[0]
    found = audit(central.Pyramid(grid, 1), pair.first, pair.second, _corner, runs=runs, randomness=Simulation(2))
    assert not found.violated
    assert found.lower_bound > least  # Laplace noise uses its whole budget on this pair


def test_pyramid_with_half_the_noise_is_found_out() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=4)
    pair = neighbouring_counts(grid)[3]
    found = audit(HalfNoisePyramid(grid, 1), pair.first, pair.second, _corner, runs=3000, randomness=Simulation(1))
    assert found.violated
    assert found.lower_bound > 1.2


def test_composition_counts_every_level() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    event = central.Pyramid(grid, 1).event(2**20)
    assert isinstance(event, Composition)
    assert len(event.events) == grid.depth - central.Pyramid(grid, 1).top + 1
