"""LocalHashing: report a random hash function and a bucket, most likely the bucket of the true cell."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heathaze.errors import TooLarge
from heathaze.local._window import MAX_MATRIX, check_true_cells
from heathaze.local.channels import Channel, membership_channel
from heathaze.local.mechanism import LocalMechanism, check_below
from heathaze.local.weights import finest_low, floor_exp, largest_exponent
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers, Words

SEEDS = 2**32
"""The number of seeds; each seed stands for one hash function."""

MAX_BUCKETS = 2**16
"""The largest number of buckets. More buckets would be less evenly filled, and add almost no information."""

PRIME = 2**31 - 1


@dataclass(frozen=True, init=False)
class LocalHashing(LocalMechanism):
    """Optimised local hashing (OLH) on the cells of a grid; see ``local_hashing.md``.

        Pr[bucket of the true cell | seed] = e^ε / (e^ε + g − 1),   Pr[any other bucket | seed] = 1 / (e^ε + g − 1)

    Here g is the number of :attr:`buckets`, and the seed selects the hash function.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.

    Raises:
        InvalidInput: ε is not positive.
        TooLarge: The grid has too many cells.

    >>> from heathaze.domain.grid import Grid
    >>> LocalHashing(Grid.plane(x=(0, 1), y=(0, 1), size=64), 2).buckets
    8
    """

    @functools.cached_property
    def buckets(self) -> int:
        """The number of buckets: g = e^ε + 1, with e^ε rounded to a whole number, and at most :data:`MAX_BUCKETS`."""
        return min(MAX_BUCKETS, (floor_exp(2, self.epsilon) + 1) // 2 + 1)

    @functools.cached_property
    def weights(self) -> tuple[int, int]:
        """Whole-number weights (low, high): high ≤ low · e^ε for the bucket of the true cell, low for any other."""
        exponent = largest_exponent(1, self.buckets, self.epsilon)
        low = finest_low(self.buckets, 1, exponent)
        return low, floor_exp(low, exponent)

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """A report is a seed and a bucket."""
        return 2

    @property
    def limit(self) -> int:
        """Both numbers of a report are below the number of seeds."""
        return SEEDS

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw a report, a seed and a bucket, for each true cell.

        Args:
            cells: Index of each true cell in the grid.
            randomness: The source of the draws.

        Returns:
            One row for each report: its seed and its bucket.
        """
        check_true_cells(cells, self.grid.cells)
        low, high = self.weights
        seeds = randomness.below(SEEDS, len(cells))
        ticket = randomness.below(low * (self.buckets - 1) + high, len(cells)).astype(np.int64)
        # Tickets below (g − 1) · low select another bucket: the first after the true cell's bucket, the second, and so
        # on.
        further = np.where(ticket < low * (self.buckets - 1), ticket // low + 1, 0)
        bucket = (self._hash(seeds, cells.astype(np.uint64)).astype(np.int64) + further) % self.buckets
        return np.column_stack([seeds.astype(np.int64), bucket])

    def _hash(self, seeds: Words, cells: Words) -> Words:
        """Hash each cell to its bucket by the hash function of each seed.

            h(x) = ⌊g · ((a·x + c) mod (2^31 − 1)) / 2^31⌋

        Here x is the index of the cell, g the number of buckets, and a and c come from the mixed seed.
        """
        a, c = _factors(seeds)
        # x is below 2^24, so a·x + c is below 2^56. Since 2^31 = 1 modulo 2^31 − 1, the upper bits are added to the
        # lower.
        value = a * cells + c
        value = (value & np.uint64(PRIME)) + (value >> np.uint64(31))
        value = np.where(value >= np.uint64(PRIME), value - np.uint64(PRIME), value)
        return np.asarray((value * np.uint64(self.buckets)) >> np.uint64(31))

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """One count for each cell."""
        return self.grid.cells

    def tally(self, reports: Integers) -> Integers:
        """Count for each cell how many reports hold its bucket.

        A device has no numba. The only report that a device tallies is its own, by hashing every cell.

        Args:
            reports: One row for each report: its seed and its bucket.

        Returns:
            One count for each cell of the grid.
        """
        check_below(reports[:, 0], SEEDS)
        check_below(reports[:, 1], self.buckets)
        try:
            from heathaze.local._hash_counts import add_hits
        except ImportError:
            return self._tally_by_hashing(reports)
        a, c = (part.astype(np.int64) for part in _factors(reports[:, 0].astype(np.uint64)))
        # Bucket k holds the values from ⌈k · 2^31 / g⌉ to below ⌈(k + 1) · 2^31 / g⌉ that are less than 2^31 − 1.
        low, high = (np.minimum(-((-(reports[:, 1] + k) * 2**31) // self.buckets), PRIME) for k in (0, 1))
        counts = np.zeros(self.grid.cells, dtype=np.int64)
        add_hits(a, (c - low) % PRIME, high - low, PRIME, counts)
        return counts

    def _tally_by_hashing(self, reports: Integers) -> Integers:
        """The same counts as :meth:`tally`, by hashing every cell for every report."""
        everywhere = np.arange(self.grid.cells, dtype=np.uint64)
        counts = np.zeros(self.grid.cells, dtype=np.int64)
        for seed, bucket in reports.astype(np.uint64)[:, :, None]:
            counts += self._hash(seed, everywhere) == bucket
        return counts

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities with which a report supports the true cell, and any other cell."""
        low, high = self.weights
        return high / (low * (self.buckets - 1) + high), 1 / self.buckets

    def channel(self) -> Channel:
        """The expected share of each cell in all counts.

        A cell other than the true cell is counted with probability 1/g.
        """
        return membership_channel(self.grid.shape, *self.support)

    def transition_matrix(self, seeds: Sequence[int] = range(16)) -> Floats:
        """Pr[report | true cell] as a matrix, for a few seeds; a matrix for all 2^32 seeds does not fit into memory.

        The seed does not depend on the cell, so the mechanism keeps its promise for each seed separately.

        Args:
            seeds: The seeds, each equally likely.

        Returns:
            One row for each cell; one column for each bucket of the first seed, then of the second, and so on.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """
        if self.grid.cells * self.buckets * len(seeds) > MAX_MATRIX:
            raise TooLarge(
                f"{self.buckets} buckets of {self.grid.cells} cells do not fit into memory; ask for fewer seeds."
            )
        low, high = self.weights
        cells = np.arange(self.grid.cells)
        matrix = np.full((self.grid.cells, len(seeds), self.buckets), float(low))
        for place, seed in enumerate(seeds):
            matrix[cells, place, self._hash(np.array([seed], dtype=np.uint64), cells.astype(np.uint64))] = high
        return matrix.reshape(self.grid.cells, -1) / (len(seeds) * (low * (self.buckets - 1) + high))


def _factors(seeds: Words) -> tuple[Words, Words]:
    """The factor a and the summand c of the hash function of each seed, modulo the prime."""
    mixed = _mixed(seeds)
    return (mixed >> np.uint64(32)) % np.uint64(PRIME), (mixed & np.uint64(2**32 - 1)) % np.uint64(PRIME)


def _mixed(seeds: Words) -> Words:
    """Mix the seeds of hash functions to 64 independent-looking bits, by the finaliser of SplitMix64 (a bijection)."""
    word = (seeds + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
