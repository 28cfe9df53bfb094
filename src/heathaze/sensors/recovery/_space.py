"""What the sampler works on: the space of places, and the particles.

Readings are scaled to noise of standard deviation 1 and projected onto the directions in which sources change them. A
column is what a unit source adds to the projected readings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._prior import Prior
from heathaze.types import Floats, Integers

Places = npt.NDArray[Any]
"""Coordinates, shape (…, dimensions), or numbers of candidates, shape (…)."""


class Space(Protocol):
    """Where sources may be: :class:`Cuboid` or :class:`Nodes`."""

    @property
    def table(self) -> Floats:
        """Columns of the targets of jumps, shape (directions, targets)."""

    @property
    def share(self) -> float:
        """The part of all places that the targets stand for."""

    @property
    def continuous(self) -> bool:
        """Whether a place can be moved by any small amount."""

    @property
    def low(self) -> Floats:
        """Lower corner of a continuous space."""

    @property
    def high(self) -> Floats:
        """Upper corner of a continuous space."""

    def draw(self, count: int, bits: Randomness) -> Places:
        """Uniform places."""

    def columns(self, where: Places) -> Floats:
        """A row for each place."""

    def step(self, where: Places, scale: Floats, bits: Randomness) -> tuple[Places, Floats]:
        """A place near each, and the logarithm of the proposal ratio: step back over step there."""

    def at(self, target: Integers, bits: Randomness) -> Places:
        """A uniform place of each target."""

    def target_of(self, where: Places) -> Integers:
        """The target that each place belongs to, −1 if none."""

    def field_places(self, where: Places) -> Places:
        """Places in the field's coordinates or numbers."""


@dataclass(frozen=True, eq=False)
class View:
    """Scaling of readings by ``sigma``, one for each, and projection onto ``basis`` if there is one."""

    sigma: Floats
    basis: Floats | None

    def of(self, readings: Floats) -> Floats:
        """Readings, one vector or columns, scaled and projected: shape (directions, …)."""
        scaled = (readings.T / self.sigma).T
        return scaled if self.basis is None else self.basis.T @ scaled


@dataclass(frozen=True, eq=False)
class Cuboid:
    """Any point between two corners, in any number of dimensions. Targets of jumps are the cells of a regular grid."""

    field: Field
    view: View
    low: Floats
    high: Floats
    cells: tuple[int, ...]
    table: Floats
    share: float = 1.0
    continuous: bool = True

    @classmethod
    def over(cls, field: Field, view: View, cells: int) -> Cuboid:
        """The space of a field, with about so many nearly cubic cells."""
        assert field.bounds is not None
        low, high = np.asarray(field.bounds, dtype=np.float64)
        side = (np.prod(high - low) / cells) ** (1 / len(low))
        counts = tuple(max(1, round(float(length / side))) for length in high - low)
        middles = np.stack(np.unravel_index(np.arange(int(np.prod(counts))), counts), axis=1) + 0.5
        return cls(field, view, low, high, counts, view.of(field.responses(low + middles / counts * (high - low))))

    def draw(self, count: int, bits: Randomness) -> Places:
        return self.low + _uniforms(bits, count, len(self.low)) * (self.high - self.low)

    def columns(self, where: Places) -> Floats:
        return self.view.of(self.field.responses(where)).T

    def step(self, where: Places, scale: Floats, bits: Randomness) -> tuple[Places, Floats]:
        # The scale is a part of the longest side. Steps that leave the space are reflected, so they stay symmetric.
        length = self.high - self.low
        moved = where + normals(bits, *where.shape) * scale[:, None] * length.max()
        folded = np.mod((moved - self.low) / length, 2.0)
        return self.low + np.minimum(folded, 2 - folded) * length, np.zeros(len(where))

    def at(self, target: Integers, bits: Randomness) -> Places:
        corner = np.stack(np.unravel_index(target, self.cells), axis=1)
        inside = corner + _uniforms(bits, len(target), len(self.low))
        return self.low + inside / self.cells * (self.high - self.low)

    def target_of(self, where: Places) -> Integers:
        cell = ((where - self.low) / (self.high - self.low) * self.cells).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.clip(cell, 0, np.array(self.cells) - 1).T), self.cells))

    def field_places(self, where: Places) -> Places:
        return where


@dataclass(frozen=True, eq=False)
class Nodes:
    """Finitely many candidates, numbered 0, 1, 2, … here, each with its neighbours.

    Args:
        candidates: Their numbers in the field.
        every: Columns of all candidates, shape (directions, candidates).
        first: Where the neighbours of each candidate begin in ``neighbours``.
        neighbours: Neighbours of all candidates, one after the other.
        targets: Candidates that are targets of jumps.
    """

    candidates: Integers
    every: Floats
    first: Integers
    neighbours: Integers
    targets: Integers
    continuous: bool = False

    @property
    def low(self) -> Floats:
        return np.zeros(1)

    @property
    def high(self) -> Floats:
        return np.ones(1)

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
        """A random walk of one to eight steps, each to a neighbour.

        The probabilities of a walk and of its reverse are in the inverse ratio of the degrees of their starts.
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


def normals(bits: Randomness, *shape: int) -> Floats:
    """Independent standard normal numbers for sampling; never for noise."""
    from scipy.special import ndtri

    return np.asarray(ndtri(_uniforms(bits, *shape).clip(2.0**-54, 1 - 2.0**-53)))


def _uniforms(bits: Randomness, *shape: int) -> Floats:
    return bits.uniforms(int(np.prod(shape))).reshape(shape)


@dataclass(eq=False)
class Particles:
    """N particles, each a set of at most K sources.

    Attributes:
        number: The number of sources, (N,). Strengths and columns beyond it are 0.
        places: (N, K, dimensions) or (N, K).
        strengths: (N, K).
        centre: Where strengths are unknown, the centre of their distribution, (N,).
        spread: The standard deviation of that distribution as a part of the centre, (N,).
        columns: (N, K, directions).
        readings: (directions,), or (N, directions) if each particle has its own.
        residual: Readings minus what the sources add, (N, directions).
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
        """Particles from the prior."""
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

    def settle(self) -> None:
        """Compute the residual again, since many small changes leave rounding behind."""
        self.residual = self.readings - np.einsum("nk,nkr->nr", self.strengths, self.columns)

    def chosen(self, which: Integers) -> Particles:
        """Copies of some particles, in order; readings must be common to all."""
        return Particles(
            self.number[which],
            self.places[which],
            self.strengths[which],
            self.centre[which],
            self.spread[which],
            self.columns[which],
            self.readings,
            self.residual[which],
        )

    def misfit(self) -> Floats:
        """‖residual‖² of each particle."""
        return np.asarray(np.einsum("nr,nr->n", self.residual, self.residual))
