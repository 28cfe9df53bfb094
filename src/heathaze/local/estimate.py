"""The server's half of the local model: reports go in, a release comes out. It cannot be given a position.

Everything here is post-processing of reports that are private already. It costs no privacy and may be repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.domain.density import Density
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.estimate import Estimate
from heathaze.inference.linear_map import Cost, MapProblem, SmoothMap, learn_prior, refine
from heathaze.local.channels import Channel, Convolution
from heathaze.local.expectation_maximisation import expectation_maximisation
from heathaze.local.mechanism import promise, warn_if_weak_report
from heathaze.local.reports import Reports
from heathaze.local.tally import Tally
from heathaze.privacy.events import event_to_dict
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.release.release import Release
from heathaze.types import Floats

DRAWS = 24
"""Maps drawn beside the estimate to say how sure it is: a standard deviation is then known to about a seventh."""

COARSE = 64
"""Cells a side on which the roughness is learned and maps are drawn; finer detail comes from the prior alone."""

POLISH = 30
"""EM steps at the end."""

KEPT = 0.7
"""Part of the tallies that a map is fitted to while the roughness is learned; the rest scores it."""

_FALLS = (0.35, 0.45, 0.55, 0.65)
"""How quickly detail loses height: from gentle hills to the streets of a city. The best of these is learned."""

_MANY = 1e8
"""From here on a count is normal to all digits that matter, and scipy's inverse of its law begins to fail."""


def estimate(reports: Reports | Tally, *, draws: int = DRAWS) -> Release:
    """Estimate the map that reports come from; see :func:`smooth_map` for the method.

    Args:
        reports: Reports, or a tally of them; never positions.
        draws: How many maps to draw beside the estimate for its error bars: at least 2, or 0 for none, which is
            quicker.

    Returns:
        The release. Its total is the number of reports, which the server knows exactly.

    Raises:
        InvalidInput: There are no reports, something else than reports was given, or ``draws`` is out of range.

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
            f"estimate takes Reports or a Tally of them (Tally.load reads files), not a {type(reports).__name__}; "
            "positions are randomised on the device and never reach the server."
        )
    if tally.reports == 0:
        raise InvalidInput("There are no reports to estimate a map from.")
    if whole(draws, "draws", "0, or at least 2 maps", least=0) == 1:
        raise InvalidInput("draws is 1; give 0, or at least 2 maps, so that their spread is known.")
    mechanism, grid = tally.mechanism, tally.mechanism.grid
    warn_if_weak_report(mechanism)
    fitted = smooth_map(mechanism.channel(), tally.counts)
    provenance = Provenance(
        mechanism=type(mechanism).__name__,
        parameters=mechanism.parameters(),
        weight="share",
        at_most=None,
        event=event_to_dict(mechanism.event),
        simulated=tally.simulated,
    )
    density = Density.from_mass(grid, fitted.density)
    drawn = DrawnMaps.of(grid, np.stack(list(fitted.draws(draws))), fitted.prior) if draws else None
    found = Estimate(density, float(tally.reports), drawn=drawn)
    return Release(found, promise(mechanism, tally.unit), provenance)


def smooth_map(channel: Channel, tallies: npt.ArrayLike) -> SmoothMap[Floats]:
    """Fit a map to tallies: as detailed as they can show and no more.

    Expectation maximisation (EM) until convergence overfits. Reports of a window tell neighbouring cells apart only by
    the window's rim, so on a fine grid the most likely density is a field of spikes. Here the logarithm of the density
    has a prior whose roughness is learned from the tallies (:mod:`heathaze.inference.linear_map`). A few EM steps
    follow: they settle what the reports determine well and leave the rest as it is.

    Args:
        channel: The probability of each outcome for each cell.
        tallies: How often each outcome was found.

    Returns:
        The density (rows × columns, sum 1). Its draws have at most :data:`COARSE` cells a side.

    >>> from heathaze.local.channels import Matrix
    >>> coin = Matrix((1, 2), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> smooth_map(coin, [70_000, 30_000]).density.round(2).tolist()
    [[0.75, 0.25]]
    """
    counts = np.asarray(tallies, dtype=np.float64).ravel()
    coarse, *finer = _from_coarse_to_fine(_Tallies(channel, counts))
    shape = coarse.channel.shape
    halves = [coarse.divided(Simulation(seed)) for seed in (0, 1)]
    trials = [([kept], rest.log_likelihood) for kept, rest in halves]
    problem = MapProblem([coarse], learn_prior(shape, _FALLS, trials, steps=150))
    knots = problem.solve(np.zeros(problem.prior.size), steps=300)
    prior, sharp = refine(
        problem.prior, knots, ((view.channel.shape, [view], _steps(view.channel.shape)) for view in finer)
    )
    polished = expectation_maximisation(
        channel, counts, start=prior.density(sharp), steps=POLISH, tolerance=0.0, accelerate=False
    )
    return SmoothMap(polished.density, prior, problem, knots, _normals, steps=100)


@dataclass(frozen=True, eq=False)
class _Tallies:
    """How often each outcome of a channel was found: a Poisson number of mean proportional to its probability."""

    channel: Channel
    counts: Floats

    def misfit(self, likely: Floats | None) -> Cost:  # noqa: ARG002
        """−Σ n log(fᵀM), and its gradient by the density f."""
        found = np.flatnonzero(self.counts)
        seen = self.counts[found]
        ratio = np.zeros(self.channel.outcomes)

        def cost(density: Floats) -> tuple[float, Floats]:
            expected = self.channel.forward(density)[found]
            ratio[found] = seen / expected
            return -float((seen * np.log(expected)).sum()), -self.channel.backward(ratio)

        return cost

    def log_likelihood(self, density: Floats) -> float:
        """Σ n log(fᵀM)."""
        found = np.flatnonzero(self.counts)
        return float((self.counts[found] * np.log(self.channel.forward(density)[found])).sum())

    def repeated(self, density: Floats, randomness: Randomness) -> _Tallies:  # noqa: ARG002
        """A Poisson number for each tally, by the inverse distribution function."""
        from scipy.special import ndtri, pdtrik

        found = np.flatnonzero(self.counts)
        counts = np.zeros_like(self.counts)
        uniforms, tallied = _inner(randomness, found.size), self.counts[found]
        few = np.ceil(np.maximum(pdtrik(uniforms, np.minimum(tallied, _MANY)), 0.0))
        counts[found] = np.where(tallied < _MANY, few, tallied + np.sqrt(tallied) * ndtri(uniforms))
        return _Tallies(self.channel, counts)

    def divided(self, randomness: Randomness) -> tuple[_Tallies, _Tallies]:
        """A binomial part of each tally, by the inverse distribution function, and the rest of it."""
        from scipy.special import bdtrik, ndtri

        found = np.flatnonzero(self.counts)
        kept = np.zeros_like(self.counts)
        uniforms, tallied = _inner(randomness, found.size), self.counts[found]
        few = np.ceil(bdtrik(uniforms, np.minimum(tallied, _MANY), KEPT))
        many = np.round(KEPT * tallied + np.sqrt(KEPT * (1 - KEPT) * tallied) * ndtri(uniforms))
        kept[found] = np.clip(np.where(tallied < _MANY, few, many), 0.0, tallied)
        return _Tallies(self.channel, kept), _Tallies(self.channel, self.counts - kept)


def _from_coarse_to_fine(tallies: _Tallies) -> list[_Tallies]:
    """The same tallies on at most :data:`COARSE` cells a side, on twice as many, and so on up to the grid itself."""
    channel, views = tallies.channel, [tallies]
    if isinstance(channel, Convolution):
        for power in range(1, max(0, math.ceil(math.log2(max(channel.shape) / COARSE))) + 1):
            merged, outcome = channel.merged(2**power)
            counts = np.bincount(outcome, tallies.counts, merged.outcomes)
            views.append(_Tallies(merged, np.asarray(counts, dtype=np.float64)))
    return views[::-1]


def _steps(shape: tuple[int, int]) -> int:
    """How many steps to take on a grid: fewer on fine ones, where a step is costly and little is left to do."""
    return max(20, min(200, round(200 * (2 * COARSE / max(shape)) ** 2)))


def _inner(randomness: Randomness, count: int) -> Floats:
    """Uniform numbers strictly between 0 and 1."""
    return np.maximum(randomness.uniforms(count), 2.0**-53)


def _normals(randomness: Randomness, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(_inner(randomness, count)))
