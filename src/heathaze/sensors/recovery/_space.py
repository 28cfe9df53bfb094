"""Data structures of the posterior sampler: the space of possible places, and the particles.

Readings are scaled to noise of standard deviation 1. If sources lie at candidates only, more than 128 readings are also
projected onto the directions that sources can change. A column holds the readings of a unit source at one place, scaled
and projected in the same way.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from dataclasses import field as member
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._prior import Prior
from heathaze.types import Floats, Integers

Places = npt.NDArray[Any]
"""Places of sources: coordinates of shape (…, dimensions), or indices of candidates of shape (…)."""


@dataclass(frozen=True, eq=False)
class Cuboid:
    """Continuous space of places between two corners; the cells of a regular grid are the targets of jumps.

    Args:
        field: The field.
        sigma: Standard deviation of the noise of each reading, by which columns are divided.
        low: Lower corner.
        high: Upper corner.
        cells: Number of cells along each axis.
        table: Columns of the targets that sources can jump to, shape (directions, targets).
        share: Fraction of all places that belong to a target.
        continuous: Whether places have coordinates that can change by any small amount.
    """

    field: Field
    sigma: Floats
    low: Floats
    high: Floats
    cells: tuple[int, ...]
    table: Floats
    share: float = 1.0
    continuous: bool = True

    @classmethod
    def over(cls, field: Field, sigma: Floats, cells: int) -> Cuboid:
        """Make the space of a field, with about ``cells`` nearly cubic cells."""
        assert field.bounds is not None
        low, high = np.asarray(field.bounds, dtype=np.float64)
        side = (np.prod(high - low) / cells) ** (1 / len(low))
        counts = tuple(max(1, round(float(length / side))) for length in high - low)
        middles = np.stack(np.unravel_index(np.arange(int(np.prod(counts))), counts), axis=1) + 0.5
        table = scaled(field.responses(low + middles / counts * (high - low)), sigma)
        return cls(field, sigma, low, high, counts, table)

    def draw(self, count: int, bits: Randomness) -> Places:
        """Draw places uniformly from the space."""
        return self.low + _uniforms(bits, count, len(self.low)) * (self.high - self.low)

    def columns(self, where: Places) -> Floats:
        """Columns of some places, one per row."""
        return scaled(self.field.responses(where), self.sigma).T

    def step(self, where: Places, scale: Floats, bits: Randomness) -> tuple[Places, Floats]:
        """Propose a place near each place; also return the log ratio of the proposals back and forth."""
        # The scale is a fraction of the longest side. Steps that leave the space are reflected, which keeps the
        # proposal symmetric.
        length = self.high - self.low
        moved = where + normals(bits, *where.shape) * scale[:, None] * length.max()
        folded = np.mod((moved - self.low) / length, 2.0)
        return self.low + np.minimum(folded, 2 - folded) * length, np.zeros(len(where))

    def at(self, target: Integers, bits: Randomness) -> Places:
        """Draw a place uniformly within each target."""
        corner = np.stack(np.unravel_index(target, self.cells), axis=1)
        inside = corner + _uniforms(bits, len(target), len(self.low))
        return self.low + inside / self.cells * (self.high - self.low)

    def target_of(self, where: Places) -> Integers:
        """Index of the target to which each place belongs, −1 if none."""
        cell = ((where - self.low) / (self.high - self.low) * self.cells).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.clip(cell, 0, np.array(self.cells) - 1).T), self.cells))

    def field_places(self, where: Places) -> Places:
        """Convert places to the field's coordinates or indices of candidates."""
        return where


@dataclass(frozen=True, eq=False)
class Nodes:
    """Discrete space of places: finitely many candidates with indices 0, 1, 2, … in this space, and their neighbours.

    Methods and properties without a docstring do the same as those of a :class:`Cuboid`.

    Args:
        candidates: Indices of the candidates in the field.
        every: Columns of all candidates, shape (directions, candidates).
        first: Index at which the neighbours of each candidate begin in ``neighbours``.
        neighbours: Neighbours of all candidates in one list, one candidate after the other.
        targets: Indices of the candidates that are targets of jumps.
        low: Not used in a discrete space, like ``high``.
    """

    candidates: Integers
    every: Floats
    first: Integers
    neighbours: Integers
    targets: Integers
    low: Floats = member(default_factory=lambda: np.zeros(1))
    high: Floats = member(default_factory=lambda: np.ones(1))
    continuous: bool = False

    @functools.cached_property
    def table(self) -> Floats:
        return self.every if len(self.targets) == len(self.candidates) else self.every[:, self.targets]

    @property
    def share(self) -> float:
        return len(self.targets) / len(self.candidates)

    def draw(self, count: int, bits: Randomness) -> Places:
        return bits.below(len(self.candidates), count).astype(np.int64)

    def columns(self, where: Places) -> Floats:
        return self.every[:, where].T

    def step(self, where: Places, scale: Floats, bits: Randomness) -> tuple[Places, Floats]:
        """Propose places by a random walk of one to eight steps, each to a neighbour.

        The probability of a walk over that of its reverse is the degree of the walk's last place over that of its
        first.
        """
        here = where
        steps = np.clip(scale * 8, 1, 8)
        for taken in range(8):
            degree = self.first[here + 1] - self.first[here]
            chosen = (bits.uniforms(len(here)) * degree).astype(np.int64)
            walks = (taken < steps) & (degree > 0)
            edge = np.where(walks, self.first[here] + chosen, 0)
            here = np.where(walks, self.neighbours[edge], here) if len(self.neighbours) else here
            if not (taken + 1 < steps).any():
                break
        ends = [np.maximum(self.first[place + 1] - self.first[place], 1) for place in (where, here)]
        return here, np.log(ends[0]) - np.log(ends[1])

    def at(self, target: Integers, bits: Randomness) -> Places:  # noqa: ARG002 (a Cuboid draws a point of its cell)
        return self.targets[target]

    def target_of(self, where: Places) -> Integers:
        place = np.minimum(np.searchsorted(self.targets, where), len(self.targets) - 1)
        return np.where(self.targets[place] == where, place, -1)

    def field_places(self, where: Places) -> Places:
        return self.candidates[where]


Space = Cuboid | Nodes
"""A space of possible places. A source can jump to a target, which is a cell of a cuboid or one of the candidates."""


def scaled(readings: Floats, sigma: Floats) -> Floats:
    """Scale readings, one vector or the columns of a matrix, to noise of standard deviation 1."""
    return (readings.T / sigma).T


def normals(bits: Randomness, *shape: int) -> Floats:
    """Draw standard normal numbers for the posterior sampler; must not be used as noise."""
    from scipy.special import ndtri

    return np.asarray(ndtri(_uniforms(bits, *shape).clip(2.0**-54, 1 - 2.0**-53)))


def _uniforms(bits: Randomness, *shape: int) -> Floats:
    return bits.uniforms(int(np.prod(shape))).reshape(shape)


@dataclass(eq=False)
class Particles:
    """N particles of the posterior sampler, each a set of at most K sources.

    Attributes:
        number: Number of sources of each particle, shape (N,). In a particle with k sources, strengths and columns
            after the first k are 0.
        places: Places of the sources, shape (N, K, dimensions) or (N, K).
        strengths: Strengths of the sources, shape (N, K).
        centre: Centre of the distribution of strengths, if strengths are unknown, shape (N,).
        spread: Standard deviation of that distribution over its centre, shape (N,).
        columns: Columns of the sources, shape (N, K, directions).
        readings: The readings, shape (directions,), or (N, directions) if each particle has its own.
        residual: Readings minus the contributions of the particle's sources, shape (N, directions).
    """

    number: Integers
    places: Places
    strengths: Floats
    centre: Floats
    spread: Floats
    columns: Floats
    readings: Floats
    residual: Floats

    @classmethod
    def drawn(cls, space: Space, prior: Prior, readings: Floats, count: int, bits: Randomness) -> Particles:
        """Draw particles from the prior."""
        running = np.cumsum(np.exp(prior.number - prior.number.max()))
        number = np.searchsorted(running, bits.uniforms(count) * running[-1], side="right").astype(np.int64)
        places = space.draw(count * prior.most, bits)
        centre, spread, strengths = prior.draw(number, bits.uniforms(count * (prior.most + 2)).reshape(count, -1))
        columns = space.columns(places).reshape(count, prior.most, -1)
        columns[np.arange(prior.most) >= number[:, None]] = 0.0
        shaped = places.reshape(count, prior.most, *places.shape[1:])
        particles = cls(number, shaped, strengths, centre, spread, columns, readings, columns[:, 0])
        particles.settle()
        return particles

    def source(self, which: Integers) -> tuple[Places, Floats, Floats]:
        """Place and column of one source of each particle, and the residual of the particle without this source."""
        rows = np.arange(len(which))
        columns = self.columns[rows, which]
        return self.places[rows, which], columns, self.residual + self.strengths[rows, which][:, None] * columns

    def settle(self) -> None:
        """Compute the residuals of all particles again, to clear the rounding errors of many small changes."""
        self.residual = self.readings - np.einsum("nk,nkr->nr", self.strengths, self.columns)

    def chosen(self, which: Integers) -> Particles:
        """Copy the particles at some indices, in this order; all particles must share the same readings."""
        mine = {each.name: getattr(self, each.name)[which] for each in fields(self) if each.name != "readings"}
        return Particles(readings=self.readings, **mine)

    def misfit(self) -> Floats:
        """Misfit ‖residual‖² of each particle."""
        return np.asarray(np.einsum("nr,nr->n", self.residual, self.residual))
