"""AdaptiveGrid: count people in coarse blocks, then in pieces of the blocks (AG of Qardaji, Yang, Li 2013)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from heathaze.checks import assign, positive, whole
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Mesh
from heathaze.distributed.mechanism import NextQuestion, Round, divide_budget, people_in, public_parameters
from heathaze.distributed.question import LONGEST, Part, check_mass
from heathaze.domain.density import MAX_DENSE_CELLS, Density
from heathaze.domain.grid import Grid
from heathaze.domain.partition import cell_codes
from heathaze.errors import InvalidInput, TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.noise_shares import share_deviation
from heathaze.types import Floats


@dataclass(frozen=True, eq=False, init=False)
class AdaptiveGrid:
    """Count people in blocks, then in pieces of blocks, with more pieces where people are; see ``adaptive_grid.md``.

    Args:
        grid: The public grid, of at most 2^24 cells.
        epsilon: Privacy loss of one person over both rounds.
        blocks: Number of blocks on a side of the map in the first round, 1 to 1024. The paper has 10.
        alpha: Share of ε for the first round, between 0 and 1 (the paper's α).
        people_a_piece: About how many people a piece of a block holds at ε = 1 (the paper's c2).
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place.

    Raises:
        InvalidInput: An argument is out of range.
        TooLarge: The grid has more than 2^24 cells.

    >>> AdaptiveGrid(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=1).ask(Cohort(people=1000), ()).final
    False
    """

    grid: Grid
    epsilon: Fraction
    blocks: int = 10
    alpha: float = 0.5
    people_a_piece: float = 10.0
    mass: int = 1

    disjoint: ClassVar[bool] = False

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        blocks: int = 10,
        alpha: float = 0.5,
        people_a_piece: float = 10.0,
        mass: int = 1,
    ) -> None:
        assign(
            self,
            grid=grid,
            epsilon=parse_epsilon(epsilon),
            blocks=whole(blocks, "blocks", "how many blocks a side", most=1024),
            alpha=alpha,
            people_a_piece=positive(people_a_piece, "people_a_piece", "how many people a piece holds"),
            mass=check_mass(mass),
        )
        if not 0 < alpha < 1:
            raise InvalidInput(f"alpha is {alpha}; give a share of the budget between 0 and 1.")
        if self.grid.cells > MAX_DENSE_CELLS:
            raise TooLarge(
                f"{self.grid.rows} × {self.grid.cols} cells are too many, because AdaptiveGrid stores one number per "
                "cell; use AdaptiveQuadtree or a coarser grid."
            )
        self._budgets()

    def _budgets(self) -> list[Fraction]:
        return divide_budget(self.epsilon, [self.alpha, 1 - self.alpha])

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:
        """Ask about the blocks in the first round, and about the pieces of the blocks in the second.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds that were answered so far.

        Returns:
            The next question, or None when the survey is complete.
        """
        first, second = self._budgets()
        if not rounds:
            rows, cols = min(self.blocks, self.grid.rows), min(self.blocks, self.grid.cols)
            mesh = Mesh(self.grid, rows, cols, np.ones(rows * cols, dtype=np.int64))
            return NextQuestion((Part(mesh, first),), False, self.mass)
        if len(rounds) > 1:
            return None
        return NextQuestion((Part(self._cut(rounds[0], cohort, second), second),), True, self.mass)

    def _cut(self, found: Round, cohort: Cohort, epsilon: Fraction) -> Mesh:
        """Cut every block into n × n pieces for the second round, n = √(N' · (√2 / σ) / c2).

        N' is the noisy count of the block, σ the standard deviation of the noise of a piece, and c2 is
        ``people_a_piece``. The paper has (1 − α) ε instead of √2 / σ, which holds for a single shard.
        """
        noise = math.sqrt(cohort.people * cohort.shape) * share_deviation(laplace_scale(self.mass, epsilon)) / self.mass
        # Counts are scaled up to all people who were asked. Without noise every piece may be one cell.
        counts = np.maximum(found.counts(), 0.0) * (cohort.people / found.people)
        quiet = math.sqrt(2) / max(noise, 1e-9)
        wanted = np.sqrt(counts * quiet / self.people_a_piece)
        before = _mesh(found)
        longest = max(self.grid.shape)
        while True:
            parts = np.clip(np.ceil(np.minimum(wanted, longest)), 1, longest).astype(np.int64)
            mesh = Mesh(self.grid, before.rows, before.cols, parts)
            if mesh.length <= LONGEST:
                return mesh
            wanted = wanted / 2

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """The map of the reconciled pieces: negative counts become 0, and the density is constant within each piece.

        Args:
            rounds: All rounds of the survey.
            draws: Not used; this mechanism draws no maps.
        """
        values = self.reconciled(rounds)
        mesh = _mesh(rounds[-1])
        even = np.maximum(values, 0.0) / mesh.areas
        entries = mesh.entries(cell_codes(self.grid))[:, 0]
        density = Density.from_mass(self.grid, even[entries].reshape(self.grid.shape))
        return Estimate(density, people_in(values.sum(), rounds[-1].people))

    def reconciled(self, rounds: Sequence[Round]) -> Floats:
        """Reconcile the counts of the pieces with those of their blocks, scaled to the people of the second round.

        A block of k pieces has two estimates: its own count, of variance σ1², and the sum of its pieces, of variance
        k σ2². The best estimate is the mean of both, weighted by inverse variances. The difference between this mean
        and the sum of the pieces is divided evenly among the pieces.

        Args:
            rounds: The first round, or both.

        Returns:
            One number of people for each piece.
        """
        if len(rounds) == 1:
            return rounds[0].counts()
        first, second = rounds
        blocks = _mesh(second).blocks
        scale = second.people / first.people
        fine, coarse = second.counts(), scale * first.counts()
        pieces = np.bincount(blocks)
        # Weight of the block's own count: k σ2² / (σ1² + k σ2²). Without any noise, the counts of the pieces are exact.
        variance = pieces * second.deviation() ** 2
        together = (scale * first.deviation()) ** 2 + variance
        weight = np.divide(variance, together, out=np.zeros(len(pieces)), where=together > 0)
        missing = weight * (coarse - np.bincount(blocks, fine)) / pieces
        return np.asarray(fine + missing[blocks], dtype=np.float64)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return public_parameters(self)


def _mesh(found: Round) -> Mesh:
    encoding = found.question.parts[0].encoding
    assert isinstance(encoding, Mesh)
    return encoding
