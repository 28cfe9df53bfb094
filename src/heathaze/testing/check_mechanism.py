"""Checks of the contract of a central mechanism, which you can run on your own mechanism.

    from heathaze.testing import check_mechanism

    def test_mine():
        check_mechanism(lambda grid, epsilon: Mine(grid, epsilon, sharpness=3))

Each check raises AssertionError with a sentence that says what is wrong. The checks cannot show that the theorem on the
mechanism's page is true. :mod:`heathaze.privacy.audit` looks for violations of the theorem.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import numpy.typing as npt

from heathaze.central.mechanism import Mechanism
from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import InvalidInput, TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import DiscreteGaussian, DiscreteLaplace, PureSteps, RandomizedReport, Shuffled, flatten
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from heathaze.testing.neighbours import neighbouring_counts
from heathaze.types import Floats, Integers

Factory = Callable[[Grid, Any], Mechanism]
M = TypeVar("M", bound=Mechanism)

SECTIONS = ("Promise", "Adjacency", "Sensitivity", "Theorem", "Departures", "Cost", "Status")
BOUNDS = (1, 7, 1000, 2**20)
_BOUND = 2**20


def check_mechanism(factory: Factory, *, resolves: int = 2**20) -> None:
    """Run all checks of the contract of a central mechanism.

    Args:
        factory: A function that makes the mechanism for a grid and an ε. It may raise TooLarge for a grid of more than
            2^20 cells.
        resolves: The largest number of cells a side that the mechanism resolves. On finer grids the result is compared
            in blocks of cells.

    Raises:
        AssertionError: The mechanism breaks the contract; the sentence says how.

    >>> from heathaze.central import Flat
    >>> check_parameters(Flat)  # check_mechanism(Flat) runs all of them, in some seconds
    """
    check_parameters(factory)
    check_event(factory)
    check_reads(factory)
    check_noise(factory)
    check_truth_without_noise(factory, resolves)
    check_purity(factory)
    check_page(factory)


def noiseless(mechanism: M) -> M:
    """Return a copy of the mechanism with an infinite ε, so that all noise has scale 0.

    Tests use the copy to check exactly that everything except the noise is right. The constructor of a mechanism and
    :func:`heathaze.publish` refuse an infinite ε.

    Args:
        mechanism: The mechanism.

    Returns:
        The copy.

    >>> from heathaze.central import Flat
    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> counts = Counts.from_cells(grid, [0], [1], [3], bound=1, one=1, unit=Unit.VISIT)
    >>> noiseless(Flat(grid, 1)).run(counts, Simulation(1)).total
    3.0
    """
    twin = copy.copy(mechanism)
    object.__setattr__(twin, "epsilon", math.inf)
    return twin


def grids() -> list[Grid]:
    """Return the grids of the checks: a square, a single cell, a rectangle with padding, and the largest grid."""
    shapes = [(8, 8), (1, 1), (5, 3), (2**20, 2**20)]
    return [Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols)) for rows, cols in shapes]


def check_parameters(factory: Factory) -> None:
    """Check that a mechanism refuses an invalid ε, keeps a valid ε exactly, and has parameters of plain values."""
    grid = grids()[0]
    for bad in (0, -1, -0.5, math.nan, math.inf, -math.inf, "text", None):
        try:
            factory(grid, bad)
        except InvalidInput:
            continue
        raise AssertionError(f"An epsilon of {bad!r} was accepted; refuse it with InvalidInput (see parse_epsilon).")
    mechanism = factory(grid, 0.1)
    assert mechanism.epsilon == Fraction(1, 10), f"Epsilon 0.1 became {mechanism.epsilon!r}; keep it as 1/10."
    assert mechanism.grid == grid, "The mechanism has another grid than the one it was given."
    for name, value in mechanism.parameters().items():
        assert isinstance(value, str | int | float | bool | None), f"Parameter {name} is not a plain value: {value!r}."


def check_event(factory: Factory) -> None:
    """Check that the mechanism's event costs at most the declared ε, and at most a millionth less than that."""
    for grid in grids():
        for epsilon in (Fraction(1), Fraction(1, 10), Fraction(1, 3), Fraction(20)):
            with _unless_too_large(grid):
                mechanism = factory(grid, epsilon)
                for bound in BOUNDS:
                    _check_cost(mechanism, bound)


def _check_cost(mechanism: Mechanism, bound: int) -> None:
    event = mechanism.event(bound)
    cost, declared = compose([event]).epsilon, Fraction(mechanism.epsilon)
    assert cost <= declared, f"The event costs {float(cost)}, more than the declared epsilon {float(declared)}."
    # Rounding the noise up lowers ε by far less than a millionth. A larger difference would waste accuracy.
    least = declared * (1 - Fraction(1, 10**6))
    assert cost >= least, f"The event costs {float(cost)}, which wastes a part of the declared {float(declared)}."
    assert mechanism.event(bound) == event, "Two calls of event with the same bound return different events."


def check_reads(factory: Factory) -> None:
    """Check that one unit changes the numbers that ``run`` reads by at most the declared sensitivity (errata X6).

    Reads through :meth:`Counts.at` and :meth:`Counts.dense` are recorded on the pairs of :func:`neighbouring_counts`.
    Each read covers every cell at most once, and one part of the event pays for the read. An adaptive event has a
    single part for all reads; the mechanism's own tests must then check the cost of each read.
    """
    for grid in grids():
        with _unless_too_large(grid):
            mechanism = factory(grid, 1)
            parts = flatten(mechanism.event(_BOUND))
            for pair in neighbouring_counts(grid, bound=_BOUND):
                watched = _Watched.over(pair.first, pair.second)
                mechanism.run(watched, Simulation(1))
                assert watched.changes, "The run never read the counts."
                adaptive = not isinstance(parts[0], DiscreteLaplace | DiscreteGaussian)
                paying = parts[:1] * len(watched.changes) if adaptive else parts
                assert len(watched.changes) <= len(paying), (
                    f"The counts were read {len(watched.changes)} times for an event of {len(parts)} parts."
                )
                for (l1, l2), part in zip(watched.changes, paying, strict=False):
                    assert not isinstance(part, RandomizedReport), "A report is drawn on a device, not from counts."
                    assert not isinstance(part, PureSteps), "PureSteps declare no sensitivity of counts."
                    assert not isinstance(part, Shuffled), "Shuffled messages are drawn on devices, not from counts."
                    change = l2 if isinstance(part, DiscreteGaussian) else l1
                    assert change <= part.sensitivity, (
                        f"One unit ({pair.name}) changes what is read by more than the declared sensitivity."
                    )


def check_noise(factory: Factory) -> None:
    """Check that the noise of a mechanism has exactly the scales that its event declares, with little and much data.

    An adaptive event declares no scales. In this case no single draw may cost more than the whole event.
    """
    grid = grids()[0]
    for scale in (1, 1000):
        counts = Counts.from_cells(
            grid, [0, 5], [0, 6], [_BOUND, scale * _BOUND], bound=_BOUND, one=_BOUND, unit=Unit.PERSON
        )
        mechanism = factory(grid, 1)
        event = mechanism.event(_BOUND)
        declared = {part.scale for part in flatten(event) if isinstance(part, DiscreteLaplace)}
        with _watched_noise() as drawn:
            mechanism.run(counts, Simulation(1))
        adaptive = not all(isinstance(part, DiscreteLaplace | DiscreteGaussian) for part in flatten(event))
        if adaptive:
            assert drawn, f"{type(mechanism).__name__} draws no noise."
            declared = {scale for scale in drawn if _BOUND / scale <= compose([event]).epsilon} | declared
        assert drawn == declared, f"{type(mechanism).__name__} declares noise of other scales than it draws."


@contextmanager
def _watched_noise() -> Iterator[set[Fraction]]:
    """Record the scales of all discrete Laplace noise that is drawn inside the ``with`` block."""
    from heathaze.privacy import _samplers

    drawn: set[Fraction] = set()
    fill = _samplers.fill_laplace

    def watch(words: Any, out: Any, t: Any, s: Any) -> Any:
        drawn.add(Fraction(int(t), int(s)))
        return fill(words, out, t, s)

    with mock.patch.object(_samplers, "fill_laplace", watch):
        yield drawn


def check_truth_without_noise(factory: Factory, resolves: int = 2**20) -> None:
    """Check that a mechanism without noise returns a small sparse dataset exactly: no mass is lost, moved or scaled."""
    for grid in grids():
        with _unless_too_large(grid):
            # Some mechanisms need seconds on a huge grid, so only the case with the most cells runs on such a grid.
            for pair in neighbouring_counts(grid, bound=12, one=4)[-1 if grid.cells > 2**20 else 0 :]:
                estimate = noiseless(factory(grid, 1)).run(pair.second, Simulation(1))
                _check_equals(estimate, pair.second, max(1, 2**grid.depth // resolves), pair.name)


def _check_equals(estimate: Estimate, truth: Counts, block: int, name: str) -> None:
    rows, cols = deinterleave(truth.codes)
    total = int(truth.mass.sum())
    wanted, wanted_mass = _by_block(rows, cols, truth.mass / total, block)
    found, found_mass = _by_block(*estimate.density.squares(), block)
    where = f"on {truth.grid.rows} × {truth.grid.cols} cells ({name})"
    assert np.array_equal(found, wanted), f"Without noise the mass lies in other cells than the truth {where}."
    assert np.allclose(found_mass, wanted_mass, rtol=1e-12, atol=0), f"Without noise the masses are wrong {where}."
    assert math.isclose(estimate.total, total / truth.one, rel_tol=1e-12), f"Without noise the total is wrong {where}."


def _by_block(down: npt.NDArray[Any], across: npt.NDArray[Any], mass: Floats, block: int) -> tuple[Integers, Floats]:
    """Return the blocks of cells that hold mass, in order, and their masses."""
    held = mass > 0
    places = np.floor(np.column_stack([down[held], across[held]]) / block).astype(np.int64)
    blocks, which = np.unique(places, axis=0, return_inverse=True)
    sums = np.zeros(len(blocks))
    np.add.at(sums, which.ravel(), mass[held])
    return blocks, sums


def check_purity(factory: Factory) -> None:
    """Check that ``run`` depends on counts and random bits only, changes nothing, and marks simulated noise."""
    for grid in grids():
        with _unless_too_large(grid):
            mechanism = factory(grid, 1)
            counts = neighbouring_counts(grid)[3].second
            before = counts.mass.copy()
            first, again, other = (mechanism.run(counts, Simulation(seed)) for seed in (1, 1, 2))
            assert _same(first, again), (
                "Two runs on the same random bits differ, so run keeps a state or reads a clock."
            )
            assert not _same(first, other), "Runs on different random bits are equal, so there is no noise."
            assert first.simulated, (
                "run does not mark its estimate; give Estimate(…, simulated=randomness.simulated), so that it cannot "
                "be saved as a release by mistake."
            )
            assert (counts.mass == before).all(), "The run changed the counts."
            assert factory(grid, 1).parameters() == mechanism.parameters(), "The run changed the mechanism."


def check_page(factory: Factory) -> None:
    """Check that a mechanism ``mine.py`` has a page ``mine.md`` beside it, with all sections and no empty section."""
    source = Path(inspect.getfile(type(factory(grids()[0], 1))))
    page = source.with_suffix(".md")
    assert page.is_file(), (
        f"There is no page {page.name} beside {source.name}; write the guarantee and its proof there."
    )
    sections = _sections(page.read_text(encoding="utf-8"))
    for wanted in SECTIONS:
        texts = [text for title, text in sections.items() if title.startswith(wanted)]
        assert texts, f"{page.name} has no section '{wanted}'."
        assert texts[0], f"The section '{wanted}' of {page.name} is empty."


def _sections(page: str) -> dict[str, str]:
    """Return the title and the text of each section of a mechanism's page."""
    found: dict[str, str] = {}
    title = ""
    for line in page.splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip()
            found[title] = ""
        elif title:
            found[title] += line.strip()
    return found


def _same(a: Estimate, b: Estimate) -> bool:
    pairs = zip(a.density.squares(), b.density.squares(), strict=True)
    return a.total == b.total and all(np.array_equal(x, y) for x, y in pairs)


@contextmanager
def _unless_too_large(grid: Grid) -> Iterator[None]:
    """Allow a mechanism to raise TooLarge for a grid of more than 2^20 cells, but not for a smaller grid."""
    try:
        yield
    except TooLarge:
        assert grid.cells > 2**20, f"The mechanism refuses {grid.rows} × {grid.cols} cells, which is not too large."


class _Watched(Counts):
    """Counts that record by how much each read differs from the same read of a neighbouring dataset, in ℓ1 and ℓ2."""

    neighbour: Counts
    changes: list[tuple[float, float]]

    @classmethod
    def over(cls, counts: Counts, neighbour: Counts) -> _Watched:
        watched = cls(
            counts.grid, counts.codes, counts.mass, counts.bound, counts.one, counts.unit, counts.at_most, counts.weight
        )
        assign(watched, neighbour=neighbour, changes=[])
        return watched

    def at(self, level: int, nodes: Integers) -> Integers:
        answer = super().at(level, nodes)
        assert len(np.unique(nodes)) == len(nodes), "One read asks for the same node twice."
        self._note(answer, self.neighbour.at(level, nodes))
        return answer

    def dense(self) -> Integers:
        answer = super().dense()
        self._note(answer, self.neighbour.dense())
        return answer

    def _note(self, here: Integers, there: Integers) -> None:
        change = (there - here).ravel().astype(np.float64)
        self.changes.append((float(np.abs(change).sum()), float(np.sqrt((change**2).sum()))))
