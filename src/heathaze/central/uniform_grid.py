"""UniformGrid: noisy counts on a grid as coarse as the number of people asks for (UG of Qardaji, Yang, Li 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heathaze.central.flat import check_every_cell
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Composition, DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

UNITS_A_BLOCK = 10
"""The paper's c: a block should hold about c/ε units, where noise and unevenness inside a block err alike."""

TOTAL_SHARE = Fraction(1, 50)
"""Part of ε that counts all units, when the caller gives no guess of their number."""


@dataclass(frozen=True)
class UniformGrid:
    """Discrete Laplace noise on m × m blocks of cells, m = √(N ε / 10), spread evenly; see ``uniform_grid.md``.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release.
        people: About how many units are expected: a public guess made before the data are seen. Without it, 2 % of ε
            counts them. A wrong guess costs accuracy, never privacy.
    """

    grid: Grid
    epsilon: Fraction
    people: int | None = None

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number, people: int | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_every_cell(self.grid)
        check_people(self.people)

    def event(self, bound: int) -> Composition:
        """The total, if nobody guessed it, and the blocks; each is a partition."""
        total, rest = budgets(self.epsilon, self.people)
        return Composition(
            tuple(DiscreteLaplace(bound, laplace_scale(bound, epsilon)) for epsilon in (total, rest) if epsilon)
        )

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Every block plus noise, cut at zero, spread evenly over its cells."""
        total, rest = budgets(self.epsilon, self.people)
        sums = running_sums(counts)
        units = noisy_units(sums, counts.bound, total, randomness) if total else float(self.people or 0)
        blocks = float(blocks_a_side(units, rest, UNITS_A_BLOCK))
        down, across = borders(self.grid.rows, blocks), borders(self.grid.cols, blocks)
        exact = masses(sums, down[:-1, None], down[1:, None], across[:-1], across[1:])
        noise = discrete_laplace(laplace_scale(counts.bound, rest), exact.size, randomness).reshape(exact.shape)
        mass = np.maximum(exact + noise, 0)
        heights, widths = np.diff(down), np.diff(across)
        even = mass / (heights[:, None] * widths)
        density = Density.from_mass(self.grid, np.repeat(np.repeat(even, heights, axis=0), widths, axis=1))
        return Estimate(density, total=float(mass.sum(dtype=np.float64)) / counts.one)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "people": self.people}


def check_people(people: int | None) -> None:
    """Refuse a guess that is no number of people."""
    if people is not None and (isinstance(people, bool) or not isinstance(people, int) or people < 1):
        raise InvalidInput(f"people is {people!r}; give about how many people you expect, at least 1, or leave it out.")


def budgets(epsilon: Fraction, people: int | None) -> tuple[Fraction, Fraction]:
    """ε of the total, 0 where a guess is given, and ε of everything else."""
    return (epsilon * TOTAL_SHARE, epsilon * (1 - TOTAL_SHARE)) if people is None else (Fraction(0), epsilon)


def noisy_units(sums: Integers, bound: int, epsilon: Fraction, randomness: Randomness) -> float:
    """About how many units there are: the noisy mass by the most that a unit weighs, at least 0."""
    noise = discrete_laplace(laplace_scale(bound, epsilon), 1, randomness)
    return max(0.0, float(sums[-1, -1] + noise[0]) / bound)


def blocks_a_side(units: npt.ArrayLike, epsilon: Fraction | float, units_a_block: float) -> Floats:
    """m = √(N ε / c), at least 1 and not yet rounded; without noise there is no reason to stop.

    >>> float(blocks_a_side(1000, Fraction(1), 10))
    10.0
    """
    held = np.maximum(np.asarray(units, dtype=np.float64), 0)
    if epsilon == math.inf:
        return np.full_like(held, math.inf)
    return np.maximum(1, np.sqrt(held * float(epsilon) / units_a_block))


def borders(length: int, parts: float) -> Integers:
    """Where a side of so many cells is cut: into ⌈parts⌉ parts, or single cells, nearly equal, at whole cells.

    >>> borders(10, 3.0).tolist(), borders(2, 3.0).tolist()
    ([0, 3, 7, 10], [0, 1, 2])
    """
    count = math.ceil(min(parts, length))
    return border(np.arange(count + 1), np.int64(length), np.int64(count))


def border(k: Integers, length: Integers | np.int64, parts: Integers | np.int64) -> Integers:
    """Where part k begins: k · length / parts, rounded to the nearest cell; no part is empty if parts ≤ length."""
    return np.asarray((2 * k * length + parts) // (2 * parts), dtype=np.int64)


def running_sums(counts: Counts) -> Integers:
    """Mass above and left of each corner of the cells: any rectangle's mass is then four look-ups."""
    sums = np.zeros((counts.grid.rows + 1, counts.grid.cols + 1), dtype=np.int64)
    np.cumsum(counts.dense(), axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    return sums


def masses(sums: Integers, top: Integers, bottom: Integers, left: Integers, right: Integers) -> Integers:
    """Mass of each rectangle of cells."""
    return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
