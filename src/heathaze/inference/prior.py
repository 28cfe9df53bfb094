"""The prior over maps: a Pólya tree whose smoothness is learned from the noisy counts.

**Shape.** A node divides its mass among its children by halvings (see noisy_counts.py). The share of the mass that goes
to the left half has log-logistic odds:

    Pr[share ≤ s] = 1 / (1 + (odds · (1 − s) / s)^sharpness).

This is a Pólya tree. Its splits are similar to Beta distributions, but their distribution function has a closed form.
``odds`` is the median of share / (1 − share). ``sharpness`` says how certain the share is: it is large if neighbouring
places are alike, and small if everyone is in one spot.

**Centre.** The odds come from the level above. The density of this level is interpolated bilinearly between the centres
of its nodes, which gives a surface. The expected share of a child is the share of the volume under the surface that
lies in the child. So the prior is smooth across the borders of nodes, and a leaf that is not divided by counts is
shaded towards its denser neighbours.

**Sharpness.** The sharpness is A/2 for the first halving of a node and A/4 for the second, as if A were the
concentration of a Dirichlet distribution. Splits are uneven for two reasons, whose variances add up:

    1/A = 1/A_level + lump / mass,   log A_level = log 2 + shift + slope · (level − 3).

The first term says how much places differ on a level. The second term says that people are discrete: ten people never
spread evenly over a hundred cells. ``lump`` is 1 if each person is at one place, and less if a person is spread over
several places. The numbers shift, slope and lump are learned from the noisy counts by maximising the evidence. Their
priors are shift ~ N(0, 1); slope ~ N(1/4, 0.3²), since cities get smoother at finer levels; and log lump ~ N(0, 0.7²),
so a person is at one place unless the counts say otherwise. No number in this file was chosen by looking at private
data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, deinterleave, interleave, node_extent
from heathaze.types import Floats, Integers

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


@dataclass(frozen=True)
class Smoothness:
    """The three learned numbers of the prior: shift, slope and log lump; see the top of this file."""

    shift: float = 0.0
    slope: float = 0.25
    log_lump: float = 0.0

    def concentration(self, levels: Integers | int, mass: Floats) -> Floats:
        """Compute the concentration A of some nodes: how evenly the prior expects their mass to be divided.

        Args:
            levels: The levels of the nodes.
            mass: The masses of the nodes, in people.
        """
        smooth = np.exp(math.log(2) + self.shift + self.slope * (np.asarray(levels) - 3.0))
        return np.asarray(1 / (1 / smooth + math.exp(self.log_lump) / np.maximum(mass, 1e-6)))

    def log_prior(self) -> float:
        """Compute the logarithm of the prior density of the three numbers, up to a constant."""
        return -0.5 * (self.shift**2 + ((self.slope - 0.25) / 0.3) ** 2 + (self.log_lump / 0.7) ** 2)

    def moved(self, shift: float, slope: float, log_lump: float) -> Smoothness:
        """Return a smoothness with each number changed by a step."""
        return Smoothness(self.shift + shift, self.slope + slope, self.log_lump + log_lump)


_STEPS = ((0.8, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.7))


def learn(evidence: Callable[[Smoothness], float]) -> Smoothness:
    """Learn the smoothness of the prior: maximise evidence × prior along each axis in turn, then again with half steps.

    Args:
        evidence: Logarithm of the probability of the noisy counts, given a smoothness.
    """
    best = Smoothness()
    value = evidence(best) + best.log_prior()
    for size in (1.0, 0.5):
        for step in _STEPS:
            for sign in (size, -size):
                start = best
                for _ in range(3):
                    tried = best.moved(*(sign * part for part in step))
                    found = evidence(tried) + tried.log_prior()
                    if found <= value:
                        break
                    best, value = tried, found
                if best != start:
                    break
    return best


def squared_share_ratio(odds: Floats, sharpness: Floats) -> Floats:
    """Compute E[s²] / E[s]² for the share s of one half in a halving of the prior.

    Args:
        odds: Logarithm of the odds.
        sharpness: Sharpness of the halving.
    """
    places = (np.arange(16) + 0.5) / 16
    first, second = np.zeros_like(odds), np.zeros_like(odds)
    for logit in np.log(places / (1 - places)):
        share = 1 / (1 + np.exp(-np.clip(logit / sharpness + odds, -700, 700)))
        first += share
        second += share**2
    return 16 * second / np.maximum(first**2, 1e-300)
