"""The prior over maps: a Pólya tree of spikes and slabs, whose parameters are learned from the noisy counts.

**Division.** A node divides its mass among its children by halvings (see noisy_counts.py). The share s of the mass x
that goes to the first half has a mixture distribution with two kinds of parts.

- *Slabs.* The log-odds of the share are logistic around a centre μ:  Pr[share ≤ s] = logistic(σ · (logit(s) − μ)).
  This is similar to a Beta distribution, but the distribution function has a closed form. A slab with concentration A
  has the sharpness

      σ = f / (1/A + lump/x),   f = 1/2 for the first halving of a node, and 1/4 for the second,

  as if A were the concentration of a Dirichlet distribution. Splits are uneven for two reasons, whose variances add up:
  places differ (1/A), and people are discrete (lump/x). The five slabs of :data:`SLABS` go from "nearly everything is
  in one half" to "both halves are almost equal".
- *Spikes.* One half is empty: sea, forest, or a value that nobody has. A spike at s = 0 has the part 1 − logistic(μ) of
  the weight, and a spike at s = 1 the rest.

**Whole people.** A half with less than half a lump is empty. So nobody is spread thinly over thousands of empty cells.
``lump`` is 1 if each person is at one place, less if a person is spread over several places, and more if records are
copies of each other.

**Centre.** The density of a level is interpolated bilinearly between the centres of its nodes, which gives a surface.
Let b be the log-odds of the halves of a node under this surface. The centre is

    μ = slope · clip(b, ±5) + shift,

with one slope for each level, and one shift for each group. A group is a level and a direction (north–south or
west–east). A slope above 1 says that the map has more contrast than the surface; a shift says that one side tends to
hold more.

**Learning.** Weights, slopes and shifts are learned by a few steps of the EM algorithm and of Fisher scoring
(:func:`improve`), and the lump by comparing the evidence. The weights of a group are pulled towards those of
neighbouring levels and of the other direction; slopes and shifts are pulled towards those of neighbouring levels. The
typical values at the top of this file were chosen on public maps: check-ins, taxis, accidents, crimes. No number was
chosen by looking at private data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, deinterleave, interleave, node_extent
from heathaze.types import Floats, Integers

SLABS = (0.12, 0.5, 2.0, 10.0, 60.0)
"""The concentrations of the slabs."""

_TYPICAL = np.array([0.03, 0.1, 0.42, 0.33, 0.08, 0.04])
"""Typical weights of the slabs, and of the spikes (last)."""

_TYPICAL_SLOPE = 1.2
"""The typical slope of the centre: maps have more contrast than their bilinear surface."""

_PSEUDO_COUNTS = 4.0
"""The weights of a group are pulled towards its neighbours as if by this many halvings."""

_OVER_RELAXATION = 1.6
"""A step of the EM algorithm is extended by this factor, because EM is slow where the counts say little."""

_MOST_SURFACE_ODDS = 5.0

EMPTIER = 1.5
"""After learning, the weight of the spikes is multiplied by e to this power. The noise hides the difference between an
empty half and one with few people, so a few steps of the EM algorithm give too much weight to the slabs. The value was
fixed on public data (docs/decisions/0024)."""

EMPTIER_DRAWN = 0.5, 1.5
"""Mean and deviation of this exponent (see EMPTIER) in drawn parameters, since its best value differs between maps."""

TEMPERATURE = 4.0
"""Parameters are drawn as if they had been learned from this many times fewer halvings, because neighbouring halvings
are alike on real maps."""

COMMON = np.array([1.5, 0.3, 0.7, 0.35])
"""Prior deviations of four changes of the whole prior (see :meth:`SharePrior.changed`), about which counts say little:
emptiness (logarithm of the spikes' weight), contrast (logarithm of the slopes), roughness, and the logarithm of the
lump."""

_SHARES_OF_SURFACE = (9 / 16, 3 / 16, 3 / 16, 1 / 16)
"""Weights of the bilinear interpolation at the centre of a child: its parent, two neighbours, and the diagonal one."""

_MOST_LOG_ODDS = math.log(1e6)


class Surface:
    """The surface on which the prior over maps is centred: the density (mass per cell) of the levels added so far.

    Where a level has no node, the density of the coarser level is used.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._levels: list[tuple[Integers, Floats]] = []

    def add(self, codes: Integers, mass: Floats) -> None:
        """Add the next finer level to the surface.

        Args:
            codes: The Morton codes of its nodes, ascending.
            mass: The masses of the nodes.
        """
        level = len(self._levels)
        self._levels.append((codes, mass / areas(self.grid, level, codes)))

    def expected_shares(self, codes: Integers) -> Floats:
        """Compute the expected shares of the four children of nodes of the finest level; 0 where there is no child.

        Args:
            codes: The nodes.

        Returns:
            (nodes, 4) shares, each row summing to 1.
        """
        level = len(self._levels) - 1
        own = self._at(level, codes)
        row, col = deinterleave(codes)
        around = {
            (down, across): self._neighbour(level, row + down, col + across, own)
            for down in (-1, 0, 1)
            for across in (-1, 0, 1)
        }
        part, beside, above, corner = _SHARES_OF_SURFACE
        heights = np.empty((len(codes), 4))
        for child, (down, across) in enumerate(((-1, -1), (-1, 1), (1, -1), (1, 1))):
            heights[:, child] = (
                part * own + beside * around[0, across] + above * around[down, 0] + corner * around[down, across]
            )
        mass = (heights + 1e-300) * areas(self.grid, level + 1, children(codes)).reshape(-1, 4)
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def _neighbour(self, level: int, row: Integers, col: Integers, own: Floats) -> Floats:
        """Look up the density of a neighbour of each node; beyond the border of the grid, the node's own density."""
        size = 1 << (self.grid.depth - level)
        inside = (row >= 0) & (col >= 0) & (row * size < self.grid.rows) & (col * size < self.grid.cols)
        density = own.copy()
        density[inside] = self._at(level, interleave(row[inside], col[inside]))
        return density

    def _at(self, level: int, codes: Integers) -> Floats:
        known, densities = self._levels[level]
        if len(known) == 4**level:  # all nodes of the level exist, so a node's code is its index
            return densities[codes]
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        found = known[place] == codes
        density = densities[place]
        if not found.all():
            density[~found] = self._at(level - 1, codes[~found] >> 2)
        return density


def areas(grid: Grid, level: int, codes: Integers) -> Floats:
    """Count the cells of the grid in each quadtree node; 0 in the padding."""
    top, bottom, left, right = node_extent(grid, level, codes)
    return np.asarray(np.maximum(bottom - top, 0) * np.maximum(right - left, 0), dtype=np.float64)


def log_odds(shares: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute the log-odds of the three halvings of a node: north against south, and west against east in each half.

    If only two children exist, the first halving divides them.

    Args:
        shares: (nodes, 4) shares of the children.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        north_west, north_east, south_west, south_east = shares.T
        whole = south_east > 0
        first = np.where(
            whole, (north_west + north_east) / (south_west + south_east), north_west / (north_east + south_west)
        )
        odds = np.log(np.stack([first, north_west / north_east, south_west / south_east]))
    odds = np.clip(np.nan_to_num(odds), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    return odds[0], odds[1], odds[2]


@dataclass(frozen=True, eq=False)
class SharePrior:
    """The learned parameters of the prior; see the top of this file. Group 2 · level + d is a level and a direction.

    Attributes:
        weights: (groups, slabs) weights of the slabs.
        spikes: The weight of both spikes of each group; the weights of a group sum to 1.
        slope: The slope of the centre on each level.
        shift: The shift of the centre of each group.
        lump: The mass of one person at one place.
    """

    weights: Floats
    spikes: Floats
    slope: Floats
    shift: Floats
    lump: float = 1.0

    @classmethod
    def typical(cls, depth: int) -> SharePrior:
        """Return the prior before anything was learned, for a tree of some depth."""
        groups = 2 * (depth + 1)
        weights, spikes = np.tile(_TYPICAL[:-1], (groups, 1)), np.full(groups, _TYPICAL[-1])
        return cls(weights, spikes, np.full(depth + 1, _TYPICAL_SLOPE), np.zeros(groups))

    def centre(self, groups: Integers, surface_odds: Floats) -> Floats:
        """Compute the centre μ of halvings from the log-odds of the surface."""
        odds = np.clip(surface_odds, -_MOST_SURFACE_ODDS, _MOST_SURFACE_ODDS)
        return np.asarray(self.slope[groups // 2] * odds + self.shift[groups])

    def changed(self, emptiness: float, contrast: float, roughness: float, log_lump: float) -> SharePrior:
        """Change the whole prior: more empty halves, more contrast, less even slabs, larger lumps; 0 is no change."""
        spikes = self.spikes * math.exp(emptiness)
        weights = self.weights * np.exp(roughness * np.linspace(1, -1, len(SLABS)))
        total = spikes + weights.sum(axis=1)
        slope, lump = self.slope * math.exp(contrast), self.lump * math.exp(log_lump)
        return SharePrior(weights / total[:, None], spikes / total, slope, self.shift, lump)

    def variance(self, group: int, centre: Floats, mass: Floats) -> Floats:
        """Compute the mean square of the distance between the share of a half and the centre.

        Args:
            group: The group of all halvings.
            centre: The centre μ of each.
            mass: The mass that each divides.
        """
        places = (np.arange(16) + 0.5) / 16
        logits, share = np.log(places / (1 - places))[:, None], _logistic(centre)
        total = self.spikes[group] * share * (1 - share)
        for weight, concentration in zip(self.weights[group], SLABS, strict=True):
            drawn = _logistic(logits / _sharpness(group, concentration, self.lump, mass) + centre)
            total = total + weight * np.square(drawn - share).mean(axis=0)
        return np.asarray(total)


def _sharpness(group: int, concentration: Floats | float, lump: Floats | float, mass: Floats) -> Floats:
    first = 0.25 if group % 2 else 0.5
    return np.asarray(first / (1 / concentration + lump / np.maximum(mass, 1e-9)))


def halve(
    priors: list[SharePrior], which: Integers, group: int, centre: Floats, mass: Floats, uniforms: Floats
) -> Floats:
    """Draw the mass of the first half of some nodes, each from one of several priors.

    Args:
        priors: The priors.
        which: The index of each node's prior.
        group: The group of all halvings.
        centre: The centre μ of each node.
        mass: The mass of each node.
        uniforms: (2, nodes) uniform random numbers.
    """
    until = np.cumsum([prior.weights[group] for prior in priors], axis=1)
    chosen = (until[which] < uniforms[0][:, None]).sum(axis=1)
    lump = np.array([prior.lump for prior in priors])[which]
    place = np.clip(uniforms[1], 1e-15, 1 - 1e-15)
    sharp = _sharpness(group, np.array([*SLABS, 1.0])[chosen], lump, mass)
    slab = _logistic(np.log(place / (1 - place)) / sharp + centre)
    first = mass * np.where(chosen < len(SLABS), slab, place < _logistic(centre))
    least = 0.5 * np.minimum(lump, mass)
    return np.asarray(np.where(first < least, 0.0, np.where(mass - first < least, mass, first)))


@dataclass(frozen=True, eq=False)
class Learned:
    """A learned prior, and how much the counts said about its parameters.

    Attributes:
        prior: The prior.
        counts: (groups, slabs + 1) counts of halvings that used each slab and the spikes (last), pseudo-counts added.
        precision: Precision matrix (inverse covariance) of the slopes and shifts, in this order.
    """

    prior: SharePrior
    counts: Floats
    precision: Floats

    def drawn(self, uniforms: Floats, change: Floats) -> SharePrior:
        """Draw the parameters: weights from Dirichlet distributions, slopes and shifts from a normal distribution.

        Both distributions are wider than the counts say, by :data:`TEMPERATURE`.

        Args:
            uniforms: Uniform random numbers, as many as there are weights, slopes and shifts.
            change: A change of the whole prior, as in :meth:`SharePrior.changed`.
        """
        from scipy.special import gammaincinv, ndtri

        size, depth = self.counts.size, len(self.prior.slope) - 1
        gammas = gammaincinv(self.counts / TEMPERATURE, uniforms[:size].reshape(self.counts.shape)) + 1e-9
        weights = gammas / gammas.sum(axis=1, keepdims=True)
        normal = ndtri(np.clip(uniforms[size:], 1e-12, 1 - 1e-12))
        # If the precision is L Lᵀ, the covariance of L⁻ᵀ z is its inverse.
        step = np.linalg.solve(np.linalg.cholesky(self.precision / TEMPERATURE).T, normal)
        slope, shift = self.prior.slope + step[: depth + 1], self.prior.shift + step[depth + 1 :]
        return SharePrior(weights[:, :-1], weights[:, -1], slope, shift, self.prior.lump).changed(*change)


def improve(
    prior: SharePrior, groups: Integers, surface_odds: Floats, used: Floats, gradient: Floats, over_relax: bool = True
) -> Learned:
    """Improve a prior by one step of the EM algorithm (weights) and one of Fisher scoring (slopes and shifts).

    Args:
        prior: The prior so far.
        groups: The group of each halving.
        surface_odds: Log-odds of each halving under the surface.
        used: (halvings, slabs + 1) posterior probability that a halving used each slab, or a spike.
        gradient: Derivative of the log-evidence with respect to the centre of each halving.
        over_relax: Whether to extend the step of the EM algorithm.
    """
    counts = np.zeros((len(prior.spikes), len(SLABS) + 1))
    np.add.at(counts, groups, used)
    level = np.arange(len(counts)) // 2
    pooled = 0.5 ** np.abs(level[:, None] - level) @ counts + _TYPICAL
    counts += _PSEUDO_COUNTS * pooled / pooled.sum(axis=1, keepdims=True)
    before = np.column_stack([prior.weights, prior.spikes])
    weights = counts / counts.sum(axis=1, keepdims=True)
    if over_relax:
        weights = before * (weights / before) ** _OVER_RELAXATION
        weights /= weights.sum(axis=1, keepdims=True)
    levels = len(prior.slope)
    features = np.zeros((len(groups), levels + len(counts)))
    each = np.arange(len(groups))
    features[each, groups // 2] = np.clip(surface_odds, -_MOST_SURFACE_ODDS, _MOST_SURFACE_ODDS)
    features[each, levels + groups] = 1
    # The Fisher information is estimated by the squares of the gradients.
    scores = features * gradient[:, None]
    parameters = np.concatenate([prior.slope, prior.shift])
    typical = np.concatenate([np.full(levels, _TYPICAL_SLOPE), np.zeros(len(counts))])
    pull = _precision(levels)
    precision = scores.T @ scores + pull
    step = np.linalg.solve(precision, scores.sum(axis=0) + pull @ (typical - parameters))
    parameters = parameters + np.clip(step, -0.5, 0.5)
    found = SharePrior(weights[:, :-1], weights[:, -1], parameters[:levels], parameters[levels:], prior.lump)
    return Learned(found, counts, precision)


def _precision(levels: int) -> Floats:
    """Compute the prior precision of slopes and shifts: each is near its typical value and near the next level's."""

    def chain(deviation: float, step: float) -> Floats:
        steps = np.diff(np.eye(levels), axis=0)
        return np.asarray(np.eye(levels) / (levels * deviation**2) + steps.T @ steps / step**2)

    precision = np.zeros((3 * levels, 3 * levels))
    precision[:levels, :levels] = chain(0.5, 0.2)
    for direction in range(2):
        shifts = levels + direction + 2 * np.arange(levels)
        precision[np.ix_(shifts, shifts)] = chain(0.4, 0.3)
    return precision


def _logistic(numbers: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(numbers, -700, 700))))
