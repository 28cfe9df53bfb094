"""Server of the local model: it estimates a map from randomised reports, and never receives a position.

The reports are already private, so the estimate is post-processing: it costs no privacy and may be repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.domain.density import Density
from heathaze.errors import InvalidInput, kind_of
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.estimate import Estimate
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.inference.smooth_map import HEIGHT, MEMORY, Cost, MapProblem, SmoothMap, learn_prior, refine
from heathaze.local.channels import Channel, Convolution, Stacked
from heathaze.local.expectation_maximisation import expectation_maximisation
from heathaze.local.mechanism import promise, warn_if_weak_report
from heathaze.local.reports import Reports
from heathaze.local.tally import Tally
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.release.release import Release
from heathaze.types import Floats

DRAWS = 24
"""Number of maps drawn for error bars. From 24 maps a standard deviation is known to about one seventh of itself."""

COARSE = 64
"""Cells on a side of the coarse grid on which the prior is learned and maps are drawn.

Detail of the drawn maps that is finer than this grid comes only from the prior.
"""

_MEMORY = 24
"""How many past steps the minimisations for mixtures and drawn maps use. With 8, they stop far from the minimum.

For the map itself, stopping early hardly matters: a fit to reports of discs that stops early even has slightly less
noise.
"""

_STEPS_OF_A_DRAW = 250
"""The most steps for one drawn map.

With too few steps a drawn map keeps noise of the prior that the reports rule out, and dense cells look two to three
times as uncertain as they are.
"""

ROUGHER = 0.2
"""Maps are drawn under a prior whose fall is larger than the learned one by this number, if reports show single cells.

The learned fall makes the best map, which understates peaks: a cell that holds ten times as much as its neighbours is
moved towards them unless the reports are sure of it. Under a rougher prior the drawn maps keep such peaks. Their
distance from the estimate then includes its smoothing error, and not only its noise. With the learned fall, 90 %
intervals of the densest cells of accidents held in 70 to 80 % of cases (64 × 64 cells, ε = 3.5).
"""

ROUGHEST_DRAWN = 0.95
"""The largest fall under which maps are drawn. From 1 on, detail would grow from level to level."""

WIDENING = 1.3
"""The factor of the deviations of drawn maps from the estimate, if reports (as those of discs) show no single cells.

For such reports a rougher prior does not help, because the reports do not contradict its fine detail.
"""

NARROWING = 0.92
"""The factor of the deviations from the estimate of maps that are drawn under a rougher prior.

The error bars of all drawn maps are later widened by the factor 1.2, because the maps ignore that the roughness of the
prior is uncertain (:data:`heathaze.inference.drawn_maps.INFLATION`). A rougher prior already covers a part of this
uncertainty, so a total factor of 1.1 is enough.
"""

POLISH = 30
"""Number of expectation maximisation (EM) steps after the fit with the prior."""

KEPT = 0.7
"""Share of the reports to which trial maps are fitted while the prior is learned; the other reports score the fit."""

_FALLS = (0.35, 0.45, 0.55, 0.65)
"""Candidates for the factor by which detail shrinks from one level of the prior to the next finer level.

Small factors suit smooth maps, and large factors suit maps with fine detail such as streets. The tallies choose one.
"""

_ROUGHEST = 0.75
"""A further candidate for reports of a mixture, which show single cells. Reports of discs do not support it."""

_NEVER = 1e-6
"""If one kind of reports of a mixture has a smaller share than this, all reports count as the other kind."""

_MANY = 1e8
"""Above this count a normal distribution replaces the Poisson and binomial ones, whose inverses fail in scipy."""


def estimate(reports: Reports | Tally, *, draws: int = DRAWS, polish: int = POLISH) -> Release:
    """Estimate the density of true positions from randomised reports; :func:`smooth_map` describes the method.

    Args:
        reports: Reports or a tally of reports, never positions.
        draws: How many maps to draw for the error bars: at least 2, or 0 for no error bars, which is quicker.
        polish: As in :func:`smooth_map`.

    Returns:
        The release. Its total is the number of reports, which is not private: the server counts them.

    Raises:
        InvalidInput: There are no reports, the argument is neither reports nor a tally, or ``draws`` is 1 or negative.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.local import DiskArea, randomize
    >>> mechanism = DiskArea(Grid.plane(x=(0, 1), y=(0, 1), size=4), epsilon=3.5)
    >>> reports = randomize(mechanism, [(0.1, 0.1)] * 1000)
    >>> release = estimate(reports, draws=0)
    >>> release.total, int(release.density.values.argmax())
    (1000.0, 0)
    """
    tally = Tally.of(reports) if isinstance(reports, Reports) else reports
    if not isinstance(tally, Tally):
        raise InvalidInput(
            f"estimate takes Reports or a Tally of them (Tally.load reads files), not {kind_of(reports)}; "
            "positions are randomised on the device and never reach the server."
        )
    if tally.reports == 0:
        raise InvalidInput("There are no reports to estimate a map from; collect at least one report.")
    if whole(draws, "draws", "0, or at least 2 maps", least=0) == 1:
        raise InvalidInput("draws is 1; give 0, or at least 2 maps, because one map has no spread.")
    mechanism, grid = tally.mechanism, tally.mechanism.grid
    warn_if_weak_report(mechanism)
    fitted = smooth_map(mechanism.channel(), tally.counts, whole(polish, "polish", "steps of EM", least=0))
    provenance = Provenance.of_devices(mechanism, mechanism.event, tally.simulated)
    density = Density.from_mass(grid, fitted.density)
    drawn = DrawnMaps.of(grid, widened(fitted, draws), fitted.prior) if draws else None
    found = Estimate(density, float(tally.reports), drawn=drawn)
    return Release(found, promise(mechanism, tally.unit), provenance)


def widened(fitted: SmoothMap[Floats], draws: int) -> Floats:
    """Draw maps from the posterior of local reports.

    The deviation of a map from the estimate is multiplied by :data:`WIDENING` if the map is drawn under the learned
    prior, and by :data:`NARROWING` if it is drawn under a rougher prior (:data:`ROUGHER`).

    Args:
        fitted: The fitted map.
        draws: The number of maps.

    Returns:
        The maps (count × rows × columns of the coarse grid), each summing to 1.
    """
    shares = np.stack(list(fitted.draws(draws)))
    moving = WIDENING if fitted.problem.prior.fall == fitted.prior.fall else NARROWING
    factor = 2 ** round(math.log2(max(fitted.density.shape) / max(shares.shape[1:])))
    rows, cols = (np.arange(0, side, factor) for side in fitted.density.shape)
    centre = np.add.reduceat(np.add.reduceat(fitted.density, rows, axis=0), cols, axis=1)
    moved = np.maximum(centre + moving * (shares - centre), 0.0)
    return np.asarray(moved / moved.sum(axis=(1, 2), keepdims=True))


def smooth_map(channel: Channel, tallies: npt.ArrayLike, polish: int = POLISH) -> SmoothMap[Floats]:
    """Estimate a density from tallies of reports, with a prior that keeps only detail which the reports support.

    A density fitted by expectation maximisation (EM) until convergence overfits. Windows of neighbouring cells differ
    only at their rims, so on a fine grid the most likely density is a field of spikes. Here the logarithm of the
    density has a prior, and the roughness of the prior is learned from the tallies
    (:mod:`heathaze.inference.smooth_map`). A few EM steps follow. These steps improve the detail that the reports
    determine well, and hardly change all other detail.

    Args:
        channel: The probability of each outcome for each true cell.
        tallies: How often each outcome was reported.
        polish: The number of EM steps after the fit with the prior.

    Returns:
        The density (rows × columns, sum 1). The maps drawn from it have at most :data:`COARSE` cells on a side.

    >>> from heathaze.local.channels import Matrix
    >>> coin = Matrix((1, 2), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> smooth_map(coin, [70_000, 30_000]).density.round(2).tolist()
    [[0.75, 0.25]]
    """
    counts = np.asarray(tallies, dtype=np.float64).ravel()
    coarse, *finer = _from_coarse_to_fine(Tallies(channel, counts))
    shape = coarse.channel.shape
    halves = [coarse.divided(Simulation(seed)) for seed in (0, 1)]
    trials = [([kept], rest.log_likelihood) for kept, rest in halves]
    mixed = isinstance(channel, Stacked) and min(channel.shares) > _NEVER
    falls, memory = ((*_FALLS, _ROUGHEST), _MEMORY) if mixed else (_FALLS, MEMORY)
    learned = learn_prior(shape, falls, trials, steps=150, memory=memory)
    knots = MapProblem([coarse], learned, memory).solve(np.zeros(learned.size), steps=300)
    prior, sharp = refine(learned, knots, ((view.channel.shape, [view], _steps(view.channel.shape)) for view in finer))
    polished = expectation_maximisation(
        channel, counts, start=prior.density(sharp), steps=polish, tolerance=0.0, accelerate=False
    )
    problem = MapProblem([coarse], learned, _MEMORY)
    if mixed:
        rougher = LogPyramid(shape, HEIGHT, min(learned.fall + ROUGHER, ROUGHEST_DRAWN))
        problem = MapProblem([coarse], rougher, _MEMORY)
        knots = problem.solve(rougher.lifted(knots, learned), steps=_STEPS_OF_A_DRAW)
    return SmoothMap(polished.density, prior, problem, knots, _normals, steps=_STEPS_OF_A_DRAW)


@dataclass(frozen=True, eq=False)
class Tallies:
    """How often each outcome of a channel was reported: Poisson counts, with means proportional to probabilities."""

    channel: Channel
    counts: Floats

    def misfit(self, likely: Floats | None) -> Cost:  # noqa: ARG002
        """The negative log-likelihood of a density f, and its gradient in f.

        The negative log-likelihood is −Σ n log(fᵀM), where n are the counts and M is the matrix of the channel.
        """
        found = np.flatnonzero(self.counts)
        seen = self.counts[found]
        ratio = np.zeros(self.channel.outcomes)

        def cost(density: Floats) -> tuple[float, Floats]:
            expected = self.channel.forward(density)[found]
            ratio[found] = seen / expected
            return -float((seen * np.log(expected)).sum()), -self.channel.backward(ratio)

        return cost

    def log_likelihood(self, density: Floats) -> float:
        """The log-likelihood Σ n log(fᵀM) of a density f; n are the counts, M the channel."""
        found = np.flatnonzero(self.counts)
        return float((self.counts[found] * np.log(self.channel.forward(density)[found])).sum())

    def repeated(self, density: Floats, randomness: Randomness) -> Tallies:  # noqa: ARG002
        """Draw new tallies: Poisson counts with these tallies as means, by the inverse distribution function."""
        from scipy.special import ndtri, pdtrik

        found = np.flatnonzero(self.counts)
        counts = np.zeros_like(self.counts)
        uniforms, tallied = _inner(randomness, found.size), self.counts[found]
        few = np.ceil(np.maximum(pdtrik(uniforms, np.minimum(tallied, _MANY)), 0.0))
        counts[found] = np.where(tallied < _MANY, few, tallied + np.sqrt(tallied) * ndtri(uniforms))
        return Tallies(self.channel, counts)

    def divided(self, randomness: Randomness) -> tuple[Tallies, Tallies]:
        """Divide the reports at random into two tallies; a report goes to the first with probability :data:`KEPT`."""
        from scipy.special import bdtrik, ndtri

        found = np.flatnonzero(self.counts)
        kept = np.zeros_like(self.counts)
        uniforms, tallied = _inner(randomness, found.size), self.counts[found]
        few = np.ceil(bdtrik(uniforms, np.minimum(tallied, _MANY), KEPT))
        many = np.round(KEPT * tallied + np.sqrt(KEPT * (1 - KEPT) * tallied) * ndtri(uniforms))
        kept[found] = np.clip(np.where(tallied < _MANY, few, many), 0.0, tallied)
        return Tallies(self.channel, kept), Tallies(self.channel, self.counts - kept)


def _from_coarse_to_fine(tallies: Tallies) -> list[Tallies]:
    """The same tallies on ever finer grids: at most :data:`COARSE` cells on a side, then twice as many, and so on."""
    channel, views = tallies.channel, [tallies]
    if isinstance(channel, Convolution | Stacked):
        for power in range(1, max(0, math.ceil(math.log2(max(channel.shape) / COARSE))) + 1):
            merged, outcome = channel.merged(2**power)
            counts = np.bincount(outcome, tallies.counts, merged.outcomes)
            views.append(Tallies(merged, np.asarray(counts, dtype=np.float64)))
    return views[::-1]


def _steps(shape: tuple[int, int]) -> int:
    """How many optimisation steps to take on a grid. Fine grids get fewer: a step costs more there and changes less."""
    return max(20, min(200, round(200 * (2 * COARSE / max(shape)) ** 2)))


def _inner(randomness: Randomness, count: int) -> Floats:
    """Uniform random numbers strictly between 0 and 1, for inverse distribution functions."""
    return np.maximum(randomness.uniforms(count), 2.0**-53)


def _normals(randomness: Randomness, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(_inner(randomness, count)))
