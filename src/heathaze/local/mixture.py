"""Mixture: a public coin sends each report through the disk area mechanism or through local hashing."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.local.channels import Channel, Stacked
from heathaze.local.disk_area import DiskArea, fraction_of_paper_radius, largest_radius, paper_radius
from heathaze.local.local_hashing import SEEDS, LocalHashing
from heathaze.local.mechanism import LocalMechanism, check_below
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

FINEST_SHARE = 2**16
"""The largest denominator of the share of hashed reports."""


@dataclass(frozen=True, init=False)
class Mixture(LocalMechanism):
    """A mixture of :class:`DiskArea` and :class:`LocalHashing` at the same ε; see ``mixture.md``.

        Pr[report | v] = (1 − s) · Pr_disc[report | v] + s · Pr_hash[report | v]

    Here v is the true cell, and s the share of hashed reports. The two kinds of reports can be told apart. Discs show
    where the mass lies roughly, and hashes show single cells.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.
        radius: Radius of the disc, in cells. If left out, chosen by :func:`best_mixture`.
        hashing: The share of hashed reports, from 0 to 1. If left out, chosen by :func:`best_mixture`.
        people: The expected number of people, a public guess. It is used only to choose the radius and the share, if
            they are left out.

    Raises:
        InvalidInput: ε is not positive, or the radius or the share is out of range.
        TooLarge: The grid has too many cells.

    >>> mixture = Mixture(Grid.plane(x=(0, 1), y=(0, 1), size=64), 3.5)
    >>> mixture.radius, mixture.hashing
    (7, Fraction(3, 8))
    """

    radius: int
    hashing: Fraction

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        radius: int | None = None,
        hashing: Number | None = None,
        *,
        people: int | None = None,
    ) -> None:
        super().__init__(grid, epsilon)
        best = best_mixture(grid, self.epsilon, people=people)
        share = best[1] if hashing is None else _parse_share(hashing)
        disc = DiskArea(grid, self.epsilon, radius=best[0] if radius is None else radius)
        assign(self, radius=disc.radius, hashing=share)

    @functools.cached_property
    def disc(self) -> DiskArea:
        """The mechanism of the reports that are not hashed."""
        return DiskArea(self.grid, self.epsilon, radius=self.radius)

    @functools.cached_property
    def hash(self) -> LocalHashing:
        """The mechanism of the hashed reports."""
        return LocalHashing(self.grid, self.epsilon)

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """A report is one number."""
        return 1

    @property
    def limit(self) -> int:
        """Numbers below the disc's outcomes are cells of the frame; further numbers are pairs of seed and bucket."""
        return self.disc.outcomes + SEEDS * self.hash.buckets

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw the coin, and then a report through the mechanism that the coin selects, for each true cell.

        A hashed report with seed h and bucket k is the number  outcomes of the disc + h · buckets + k.

        Args:
            cells: Index of each true cell in the grid.
            randomness: The source of the draws.

        Returns:
            One number for each cell.
        """
        coin = randomness.below(self.hashing.denominator, len(cells)) < np.uint64(self.hashing.numerator)
        reports = np.empty((len(cells), 1), dtype=np.int64)
        reports[~coin] = self.disc.draw(cells[~coin], randomness)
        seed, bucket = self.hash.draw(cells[coin], randomness).T
        reports[coin, 0] = self.disc.outcomes + seed * self.hash.buckets + bucket
        return reports

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """One count for each cell of the disc's frame, then one count for each cell of the grid."""
        return self.disc.outcomes + self.hash.outcomes

    def split(self, reports: Integers) -> tuple[Integers, Integers]:
        """Split reports into the reports of the disc and those of hashing, as each mechanism expects them.

        Args:
            reports: One number for each report.

        Returns:
            The reports of the disc, and those of hashing.

        Raises:
            InvalidInput: A number is out of range, or the coin never selects this kind of report.
        """
        check_below(reports, self.limit)
        ids = reports[:, 0]
        discs, hashed = ids[ids < self.disc.outcomes], ids[ids >= self.disc.outcomes] - self.disc.outcomes
        if (self.hashing == 1 and discs.size) or (self.hashing == 0 and hashed.size):
            raise InvalidInput("A report is of a kind that this mixture never makes; the report is damaged or forged.")
        return discs[:, None], np.column_stack(np.divmod(hashed, self.hash.buckets))

    def tally(self, reports: Integers) -> Integers:
        """Count the reports of each kind by their own mechanism.

        Args:
            reports: One number for each report.

        Returns:
            The counts of the disc's reports, followed by those of the hashed reports.
        """
        discs, hashed = self.split(reports)
        return np.concatenate([self.disc.tally(discs), self.hash.tally(hashed)])

    def channel(self) -> Channel:
        """The two channels, stacked. A hashed report adds several counts, so the share of its channel is larger."""
        own, other = self.hash.support
        shares = np.array([1 - self.hashing, float(self.hashing) * (own + (self.grid.cells - 1) * other)], dtype=float)
        if self.hashing in (0, 1):
            # One kind of report never occurs. A tiny share of this kind keeps the probabilities of its outcomes above
            # zero.
            shares = np.maximum(shares, 1e-12)
        first, second = (shares / shares.sum()).tolist()
        return Stacked((self.disc.channel(), self.hash.channel()), (first, second))

    def transition_matrix(self) -> Floats:
        """Pr[report | true cell] as a matrix, for a few seeds of hashing: reports of the disc, then hashed reports."""
        discs, hashed = self.disc.transition_matrix(), self.hash.transition_matrix()
        return np.hstack([float(1 - self.hashing) * discs, float(self.hashing) * hashed])


def default(grid: Grid, epsilon: Number, *, people: int | None = None) -> Mixture:
    """Make the default local mechanism: a :class:`Mixture` with the best known radius and share.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.
        people: The expected number of people, a public guess; 100,000 if left out.

    Returns:
        The mechanism.

    >>> default(Grid.plane(x=(0, 1), y=(0, 1), size=64), 5).radius
    4
    """
    return Mixture(grid, epsilon, people=people)


HALF = 0.5
"""The best radius of the disc in a mixture, as a fraction of the paper's radius."""

WEAK, WIDE = 0.1, 0.2
"""Reports are mixed only if the strength of the signal is at least WEAK, and at least WIDE times the part of the map
that a disc of the paper's radius covers; see :func:`best_mixture`."""

FEWEST = 3_000
"""With fewer people, reports are not mixed."""

MOST_SQUARES = 64 * 64
"""If a grid has more cells than this, the strength of the signal is computed for a grid of this many squares. Maps of
larger grids are first fitted to 64 × 64 squares (``estimate.py``), so a finer grid of the same map needs hardly more
people."""

SHARES = ((0.02, Fraction(0)), (0.1, Fraction(1, 8)), (1.0, Fraction(3, 8)), (math.inf, Fraction(1, 2)))
"""The best share of hashed reports for a strength of the signal below each bound; see :func:`best_mixture`."""

USUAL_PEOPLE = 100_000
"""The number of people that is assumed if none is given."""


def best_mixture(grid: Grid, epsilon: Number, *, people: int | None = None) -> tuple[int, Fraction]:
    """Choose the radius of the disc and the share of hashed reports that make the best estimated map.

    The choice depends on how well hashed reports show a single cell: on the mean number of people in a cell, divided by
    the standard error of this number if all N people send hashed reports,

        strength = √N · e^(ε/2) / (2 · cells).

    If there are few people, all reports are discs with the paper's radius b, rounded down. People are few if N <
    :data:`FEWEST` or

        √N · e^(ε/2) / (2 · min(cells, MOST_SQUARES)) < max(WEAK, WIDE · πb² / cells).

    Otherwise the radius is half of the paper's, and the share depends on the strength. If half of the paper's radius is
    rounded to 0, because the map has few cells or ε is large, all reports are randomised response. ``mixture.md`` says
    on which data the constants were chosen.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.
        people: The expected number of people, a public guess; :data:`USUAL_PEOPLE` if left out.

    Returns:
        The radius in cells, and the share.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=15)
    >>> best_mixture(grid, 3.5, people=1_000_000)
    (2, Fraction(1, 2))
    >>> best_mixture(grid, 1, people=10_000)
    (12, Fraction(0, 1))
    """
    expected = USUAL_PEOPLE if people is None else whole(people, "people", "expected people")
    radius = fraction_of_paper_radius(grid, epsilon, HALF)
    if radius == 0:
        return 0, Fraction(0)
    signal = math.sqrt(expected) * math.exp(min(float(parse_epsilon(epsilon)), 50.0) / 2) / 2
    widest = paper_radius(grid, epsilon)
    enough = max(WEAK, WIDE * math.pi * widest**2 / grid.cells)
    if expected < FEWEST or signal / min(grid.cells, MOST_SQUARES) < enough:
        return min(largest_radius(grid.shape), math.floor(widest)), Fraction(0)
    return radius, next(share for bound, share in SHARES if signal / grid.cells < bound)


def _parse_share(share: Number) -> Fraction:
    try:
        parsed = Fraction(str(share))
    except (ValueError, ZeroDivisionError):
        raise InvalidInput(f"hashing is {share!r}; give the share of hashed reports, from 0 to 1.") from None
    if not 0 <= parsed <= 1:
        raise InvalidInput(f"hashing is {share}; give the share of hashed reports, from 0 to 1.")
    return parsed.limit_denominator(FINEST_SHARE)
