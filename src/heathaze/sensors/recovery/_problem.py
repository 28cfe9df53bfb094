"""Readings and a field made ready for the sampler: scaled to noise 1, with places to draw and columns at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._space import Box, Nodes, Space, View
from heathaze.types import Floats, Integers

FLOOR = 1e-7
"""Noise is never taken to be smaller than this part of the largest reading: no physics is known more exactly."""

_CELLS = 128, 144
"""Targets of jumps on a line, and in more dimensions."""

_TARGETS = 400
"""Targets of jumps among candidates."""

_MAX_TABLE = 2**25
"""Numbers in a table of all columns: 256 MB."""

_FEW = 1000
"""With more readings and more candidates than this, only promising candidates are kept."""

_PROMISING = 160
_BLOCK = 32
_PROBES = 24


@dataclass(frozen=True, eq=False)
class Problem:
    """What the sampler is given."""

    space: Space
    readings: Floats
    rows: int
    unseen: float
    kept: float = 1.0

    def number(self, log: Floats) -> Floats:
        """The prior of the number of sources, where only a part of all candidates is considered.

        Candidates were kept because they resemble the readings. A source is as likely at any of the others, so each
        source costs the part that was kept; else noise would be found at the best of many places and taken for sources.
        """
        return np.asarray(log + np.arange(len(log)) * math.log(self.kept))

    def total(self) -> float:
        """About how strong all sources are together.

        Least squares for sources spread over all places says it well where readings are many times their noise.
        Where not, what a single best source would have is a better guess, and noise bounds both from below.
        """
        table = self.space.table
        even = table.mean(axis=1)
        size = math.sqrt(float(even @ even)) or 1.0
        spread_out, noise = float(even @ self.readings) / size**2, 1 / size
        if spread_out > 2 * noise:
            return spread_out
        lengths = np.sqrt(np.einsum("rc,rc->c", table, table))
        lengths = np.maximum(lengths, lengths.max() * 1e-9 or 1.0)
        fit = self.readings @ table / lengths
        best = int(np.argmax(fit))
        single = max(float(fit[best]), 1.0) / float(lengths[best])
        return min(max(spread_out, noise), single)


def problem(field: Field, readings: Floats, sigma: Floats, bits: Randomness) -> Problem:
    """Make ready. On a large graph that is most of the work: a few hundred products with the field."""
    smallest = FLOOR * float(np.abs(readings).max(initial=0.0))
    view = View(np.maximum(sigma, smallest), None)
    if field.bounds is not None:
        dimensions = np.asarray(field.bounds).shape[1]
        space: Space = Box.over(field, view, _CELLS[min(dimensions, 2) - 1])
        return Problem(space, view.of(readings), len(readings), 0.0)
    candidates, table = _columns(field, view, readings, bits)
    turned = _turned(table)
    seen = view.of(readings)
    if turned is not None:
        table, whole, seen = turned.T @ table, seen, turned.T @ seen
        unseen = max(float(whole @ whole - seen @ seen), 0.0)
    else:
        unseen = 0.0
    first, neighbours = _neighbours(field, candidates)
    targets = np.arange(len(candidates))
    if len(targets) > _TARGETS:
        lengths = np.sqrt(np.einsum("rc,rc->c", table, table))
        fit = seen @ table / np.maximum(lengths, lengths.max() * 1e-9)
        targets = np.sort(np.argsort(-fit, kind="stable")[:_TARGETS])
    return Problem(
        Nodes(candidates, table, first, neighbours, targets),
        seen,
        len(readings),
        unseen,
        len(candidates) / field.shape[1],
    )


def _columns(field: Field, view: View, readings: Floats, bits: Randomness) -> tuple[Integers, Floats]:
    """Numbers of candidates and their scaled columns: all of them, or the promising ones where there are too many."""
    rows, places = field.shape
    if rows * places <= _MAX_TABLE and min(rows, places) <= _FEW:
        if rows < places:
            # A row of M is what its adjoint makes of a unit reading; there are fewer rows than columns.
            table = np.empty((rows, places))
            for start in range(0, rows, _BLOCK):
                some = np.arange(start, min(start + _BLOCK, rows))
                unit = np.zeros((rows, len(some)))
                unit[some, np.arange(len(some))] = 1.0
                table[some] = field.adjoint(unit).T / view.sigma[some, None]
            return np.arange(places), table
        every = np.arange(places)
    else:
        every = _promising(field, view, readings, bits)
    blocks = (every[start : start + _BLOCK] for start in range(0, len(every), _BLOCK))
    return every, np.concatenate([view.of(field.responses(some)) for some in blocks], axis=1)


def _promising(field: Field, view: View, readings: Floats, bits: Randomness) -> Integers:
    """Candidates whose columns resemble the readings most, and then what the best so far leave unexplained.

    Resemblance is Mᵀy over the length of a column. Lengths are estimated: the mean square of Mᵀz for z of random signs
    is the square of each. A source at any other candidate is then found at a neighbour of it, or missed where its
    column resembles the readings less than hundreds of others do.
    """
    rows, places = field.shape
    signs = np.where(bits.uniforms(rows * _PROBES).reshape(rows, _PROBES) < 0.5, 1.0, -1.0) / view.sigma[:, None]
    lengths = np.sqrt((field.adjoint(signs) ** 2).mean(axis=1))
    lengths = np.maximum(lengths, np.median(lengths) / 4)
    left = view.of(readings)
    chosen = np.zeros(0, dtype=np.int64)
    best: list[int] = []
    rounds = 4
    for _ in range(rounds):
        fit = field.adjoint(left / view.sigma) / lengths
        fit[chosen] = -np.inf
        some = np.argsort(-fit, kind="stable")[: min(_PROMISING, places) // rounds]
        best.append(int(some[0]))
        chosen = np.unique(np.concatenate([chosen, some]))
        columns = view.of(field.responses(np.array(best)))
        left = view.of(readings) - columns @ np.linalg.lstsq(columns, view.of(readings), rcond=None)[0]
    return chosen


def _turned(table: Floats) -> Floats | None:
    """Orthonormal directions that hold all columns but a millionth of the noise; nothing if that saves little."""
    rows, places = table.shape
    if rows <= 128:
        return None
    if rows <= places:
        values, vectors = np.linalg.eigh(table @ table.T)
        kept = values > max(values[-1] * 1e-14, 1e-12)
        return np.ascontiguousarray(vectors[:, kept]) if kept.any() else None
    turned, triangle = np.linalg.qr(table)
    left, values, _ = np.linalg.svd(triangle)
    kept = values > max(values[0] * 1e-7, 1e-6)
    return turned @ left[:, kept] if kept.any() else None


def _neighbours(field: Field, candidates: Integers) -> tuple[Integers, Integers]:
    """Where the neighbours of each kept candidate begin in a list of them all, and that list."""
    from scipy.sparse import csr_array

    count = len(candidates)
    if field.network is not None:
        near = csr_array(field.network.adjacency())
        if count < field.shape[1]:
            near = csr_array(near[candidates][:, candidates])
    else:
        from scipy.spatial import cKDTree

        if field.positions is None:
            raise InvalidInput("The field has neither positions nor a network; say where its candidates are.")
        places = np.asarray(field.positions, dtype=np.float64)[candidates]
        ways = min(2 * places.shape[1] + 1, count)
        other = cKDTree(places).query(places, k=np.arange(1, ways + 1))[1]
        here = np.repeat(np.arange(count), ways)
        one = csr_array((np.ones(here.size), (here, other.ravel())), shape=(count, count))
        near = csr_array(one + one.T)
        near.setdiag(0)
        near.eliminate_zeros()
    return near.indptr.astype(np.int64), near.indices.astype(np.int64)
