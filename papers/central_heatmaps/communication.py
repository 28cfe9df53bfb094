"""Appendix F: what the shuffle protocol sends (figure 12), and the map that comes out of it (figure 13).

Each person scales their distribution by B, rounds it to integers, and sends every node of the pyramid as r shares
modulo q. The sum of all noise shares of a node of level i is discrete Laplace noise of scale B/ε_i (errata E0-12). So
the analyser's map has the same law as the central pyramid on the rounded integers, and figure 13 is measured so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from harness.data import seed_of
from protocol import Trial, compare, visits_of

import heathaze as hz
from heathaze.domain.quadtree import nodes_at
from heathaze.privacy.guarantee import Unit


def nodes(shape: tuple[int, int]) -> int:
    """m, the number of nodes of all levels of a map of rows × columns."""
    grid = hz.Grid.plane(x=(0, shape[1]), y=(0, shape[0]), shape=shape)
    return sum(len(nodes_at(grid, level)) for level in range(grid.depth + 1))


def printed_messages(people: int, epsilon: float, delta: float, m: int, q: int) -> int:
    """The number of messages r for each node, as the paper prints it."""
    return math.ceil(
        (2 * math.log(math.exp(epsilon) + 1) + 2 * math.log(m / delta) + math.log(q)) / math.log(people) + 1
    )


def needed_messages(people: int, epsilon: float, delta: float, m: int, q: int) -> int:
    """The fewest messages r with (1 + e^ε) · m · W_r ≤ δ (errata E0-12 d), for at most some hundred people."""
    r = 3
    while (1 + math.exp(epsilon)) * m * distance_to_uniform(people, q, r) > delta:
        r += 1
    return r


@cache
def distance_to_uniform(people: int, q: int, r: int) -> float:
    """W_r = ½ √(E[q^(C − 1)] − 1), in exact fractions; C is the number of components of a random k-in k-out multigraph.

        E[q^C] = n!/(nk)! · [z^n] (Σ_j (jk)!/j! z^j)^q,   k = r − 1

    The coefficients of the power follow from those of the series by Euler's recurrence.
    """
    k = r - 1
    series = [Fraction(math.factorial(j * k), math.factorial(j)) for j in range(people + 1)]
    power = [Fraction(1)]
    for n in range(1, people + 1):
        power.append(sum((((q + 1) * j - n) * series[j] * power[n - j] for j in range(1, n + 1)), Fraction(0)) / n)
    mean = Fraction(math.factorial(people), math.factorial(people * k)) * power[people] / q
    return math.sqrt(mean - 1) / 2


def megabytes(r: int, m: int, q: int) -> float:
    """What one person sends: r · m messages of ⌈log₂(m q)⌉ bits, in 10^6 bytes, without encryption."""
    return r * m * math.ceil(math.log2(m * q)) / 8e6


@dataclass(frozen=True)
class Rounded:
    """The pyramid on distributions rounded to multiples of 1/B, as in the shuffle protocol; B = 0: not rounded."""

    source: str
    run: int
    epsilon: float
    people: int
    size: int
    sigma: float
    emd_size: int
    scale: int

    def measure(self, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """The four metrics of the heat map, with systematic rounding and with the paper's rounding down."""
        visits = visits_of(Trial(self.source, self.run, 1, self.people, self.size, 0, 0, ()), config)
        grid = visits.grid(self.size)
        seed = seed_of(self.source, self.run)
        exact = visits.counts(grid, self.people, seed)
        sigma = self.sigma * self.size
        truth = hz.Density.from_mass(grid, exact.dense()).smooth(sigma)
        found = {}
        for name in ("central",) if not self.scale else ("systematic", "rounded down"):
            counts = exact if not self.scale else self._rounded(visits, grid, seed, name)
            # The same random bits at every B: the noise of a node is then nearly the same multiple of its scale, and
            # differences between two B have a much smaller error.
            noise = hz.Simulation(seed_of("rounded", self.run))
            heat = hz.publish(hz.central.Pyramid(grid, epsilon=self.epsilon), counts, randomness=noise).smooth(sigma)
            found[name] = compare(truth, heat, self.emd_size)
        return found

    def _rounded(self, visits: Any, grid: hz.Grid, seed: int, name: str) -> hz.Counts:
        """Integer counts in which every person has at most B, and exactly B with systematic rounding."""
        row, col, inside = grid.cell_of(visits.x, visits.y)
        _, who = np.unique(visits.person[inside], return_inverse=True)
        chosen = np.random.default_rng(seed).choice(who.max() + 1, size=self.people, replace=False)
        rng = np.random.default_rng(seed_of("rounding", self.run, self.scale))
        mass = np.zeros(grid.cells, dtype=np.int64)
        for person in chosen:
            cells, visited = np.unique((row * grid.cols + col)[inside][who == person], return_counts=True)
            # Systematic rounding takes the floor of the running sums after one random shift, so the parts add up to B.
            shift = int(rng.integers(visited.sum())) if name == "systematic" else 0
            sums = (self.scale * np.cumsum(visited, dtype=np.int64) + shift) // visited.sum()
            parts = np.diff(sums, prepend=0) if name == "systematic" else self.scale * visited // visited.sum()
            mass[cells] += parts
        held = np.flatnonzero(mass)
        return hz.Counts.from_cells(
            grid, held // grid.cols, held % grid.cols, mass[held], bound=self.scale, one=self.scale, unit=Unit.PERSON
        )
