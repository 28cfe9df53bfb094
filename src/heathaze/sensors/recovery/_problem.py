"""Preparation of readings and field for the posterior sampler.

Readings are scaled to noise of standard deviation 1. If sources lie at candidates only, more than 128 readings are also
projected onto the directions that sources can change. A column holds the readings of a unit source at one place, scaled
and projected in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness
from heathaze.sensors.physics._base import units
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._space import Cuboid, Nodes, Space, scaled
from heathaze.types import Floats, Integers

FLOOR = 1e-7
"""Smallest noise that is assumed, as a fraction of the largest reading, because no physics is known more exactly."""

_CELLS = 128, 144
"""Number of cells that sources can jump to: on a line, and in more dimensions."""

_TARGETS = 400
"""Largest number of candidates that sources can jump to."""

_MAX_TABLE = 2**25
"""Largest number of entries in the table of all columns: 256 MB."""

_FEW = 1000
"""If there are more readings and more candidates than this, only promising candidates are kept."""

_PROMISING = 160
_BLOCK = 32
_PROBES = 24


@dataclass(frozen=True, eq=False)
class Problem:
    """Input of the posterior sampler.

    Attributes:
        space: The space of possible places of sources.
        readings: The readings, scaled and projected.
        rows: Number of readings before the projection.
        unseen: Squared length of the part of the scaled readings that the projection removes.
        kept: Fraction of all candidates that is considered.
    """

    space: Space
    readings: Floats
    rows: int
    unseen: float
    kept: float = 1.0

    def number(self, log: Floats) -> Floats:
        """Correct the log prior of the number of sources if only a fraction of all candidates is considered.

        A source is equally likely at every candidate, kept or not. So the prior of k sources is multiplied by the k-th
        power of the fraction that was kept. Without this factor, noise at the best of many candidates would be taken
        for sources.
        """
        return np.asarray(log + np.arange(len(log)) * math.log(self.kept))

    def total(self) -> float:
        """Estimate the total strength of all sources roughly, for the prior.

        The estimate is the least-squares strength of sources spread evenly over all places, if this exceeds twice its
        standard error. Otherwise the estimate is at least the standard error, and at most the strength of the best
        single source.
        """
        table = self.space.table
        even = table.mean(axis=1)
        size = math.sqrt(float(even @ even)) or 1.0
        spread_out, noise = float(even @ self.readings) / size**2, 1 / size
        if spread_out > 2 * noise:
            return spread_out
        fit, lengths = _fits(table, self.readings)
        best = int(np.argmax(fit))
        single = max(float(fit[best]), 1.0) / float(lengths[best])
        return min(max(spread_out, noise), single)


def prepare(field: Field, readings: Floats, sigma: Floats, bits: Randomness) -> Problem:
    """Prepare readings and field for the posterior sampler.

    On a large graph this is most of the work: a few hundred products with the field.

    Args:
        field: The linear map from sources to readings.
        readings: One reading for each row of the field.
        sigma: Standard deviation of the noise of each reading.
        bits: Source of random numbers, for the search for promising candidates.
    """
    sigma = np.maximum(sigma, FLOOR * float(np.abs(readings).max(initial=0.0)))
    seen, unseen = scaled(readings, sigma), 0.0
    if field.bounds is not None:
        dimensions = np.asarray(field.bounds).shape[1]
        return Problem(Cuboid.over(field, sigma, _CELLS[min(dimensions, 2) - 1]), seen, len(readings), unseen)
    candidates, table = _columns(field, sigma, seen, bits)
    basis = _principal_directions(table)
    if basis is not None:
        table, whole, seen = basis.T @ table, seen, basis.T @ seen
        unseen = max(float(whole @ whole - seen @ seen), 0.0)
    first, neighbours = _neighbours(field, candidates)
    targets = np.arange(len(candidates))
    if len(targets) > _TARGETS:
        targets = np.sort(np.argsort(-_fits(table, seen)[0], kind="stable")[:_TARGETS])
    space = Nodes(candidates, table, first, neighbours, targets)
    return Problem(space, seen, len(readings), unseen, len(candidates) / field.shape[1])


def _columns(field: Field, sigma: Floats, wanted: Floats, bits: Randomness) -> tuple[Integers, Floats]:
    """Indices and scaled columns of all candidates, or of promising candidates if there are too many.

    ``wanted`` are the scaled readings.
    """
    rows, places = field.shape
    if rows * places <= _MAX_TABLE and min(rows, places) <= _FEW:
        if rows < places:
            # There are fewer rows than columns, so M is computed by rows: the adjoint of a unit vector is a row of M.
            table = np.empty((rows, places))
            for start in range(0, rows, _BLOCK):
                some = np.arange(start, min(start + _BLOCK, rows))
                table[some] = field.adjoint(units(some, rows)).T / sigma[some, None]
            return np.arange(places), table
        every = np.arange(places)
    else:
        every = _promising(field, sigma, wanted, bits)
    blocks = (every[start : start + _BLOCK] for start in range(0, len(every), _BLOCK))
    return every, np.concatenate([scaled(field.responses(some), sigma) for some in blocks], axis=1)


def _fits(table: Floats, readings: Floats) -> tuple[Floats, Floats]:
    """Fit of each column to the readings, which is their product over the column's length; and the lengths."""
    lengths = np.sqrt(np.einsum("rc,rc->c", table, table))
    lengths = np.maximum(lengths, lengths.max() * 1e-9 or 1.0)
    return readings @ table / lengths, lengths


def _promising(field: Field, sigma: Floats, wanted: Floats, bits: Randomness) -> Integers:
    """Choose promising candidates: those whose columns fit the readings best, in several rounds.

    Each round fits the residual of the scaled readings ``wanted`` that the best candidates of earlier rounds leave. The
    fit is Mᵀy divided by the length of a column. Squared lengths are estimated by the mean of (Mᵀz)² over random signs
    z. A source at a candidate that is not chosen is found at a neighbour, or missed.
    """
    rows, places = field.shape
    signs = np.where(bits.uniforms(rows * _PROBES).reshape(rows, _PROBES) < 0.5, 1.0, -1.0) / sigma[:, None]
    lengths = np.sqrt((field.adjoint(signs) ** 2).mean(axis=1))
    lengths = np.maximum(lengths, np.median(lengths) / 4)
    left = wanted
    chosen = np.zeros(0, dtype=np.int64)
    best: list[int] = []
    rounds = 4
    for _ in range(rounds):
        fit = field.adjoint(left / sigma) / lengths
        fit[chosen] = -np.inf
        some = np.argsort(-fit, kind="stable")[: min(_PROMISING, places) // rounds]
        best.append(int(some[0]))
        chosen = np.unique(np.concatenate([chosen, some]))
        columns = scaled(field.responses(np.array(best)), sigma)
        left = wanted - columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0]
    return chosen


def _principal_directions(table: Floats) -> Floats | None:
    """Orthonormal basis for the projection of readings; it contains all columns up to a millionth of the noise.

    Returns None for up to 128 readings, which are not projected.
    """
    rows, places = table.shape
    if rows <= 128:
        return None
    if rows <= places:
        values, vectors = np.linalg.eigh(table @ table.T)
        kept = values > max(values[-1] * 1e-14, 1e-12)
        return np.ascontiguousarray(vectors[:, kept]) if kept.any() else None
    basis, triangle = np.linalg.qr(table)
    left, values, _ = np.linalg.svd(triangle)
    kept = values > max(values[0] * 1e-7, 1e-6)
    return basis @ left[:, kept] if kept.any() else None


def _neighbours(field: Field, candidates: Integers) -> tuple[Integers, Integers]:
    """Neighbours of all candidates, for steps of the sampler, in one list.

    Returns the index at which the neighbours of each candidate begin in the list, and the list.
    """
    from scipy.sparse import csr_array

    count = len(candidates)
    if field.network is not None:
        near = csr_array(field.network.adjacency())
        if count < field.shape[1]:
            near = csr_array(near[candidates][:, candidates])
    else:
        from scipy.spatial import cKDTree

        if field.positions is None:
            raise InvalidInput("The field has neither positions nor a network; give it one of them.")
        places = np.asarray(field.positions, dtype=np.float64)[candidates]
        nearest = min(2 * places.shape[1] + 1, count)
        other = cKDTree(places).query(places, k=np.arange(1, nearest + 1))[1]
        here = np.repeat(np.arange(count), nearest)
        one = csr_array((np.ones(here.size), (here, other.ravel())), shape=(count, count))
        near = csr_array(one + one.T)
        near.setdiag(0)
        near.eliminate_zeros()
    return near.indptr.astype(np.int64), near.indices.astype(np.int64)
