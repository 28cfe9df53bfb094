"""The posterior over maps given noisy counts: the expected map, its uncertainty, and samples.

The likelihood is the distribution of the noise. The prior is a Pólya tree whose smoothness is learned from the same
noisy counts (prior.py). On a tree, inference is exact up to numerical integration: messages go up once and beliefs come
down once (_messages.py), so the time is linear in the number of nodes. All of this is post-processing: the code sees no
secret data and costs no budget.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from heathaze.domain.density import MAX_DENSE_CELLS, Density, TreeDensity, part_inside, render_deviations
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import children, deinterleave, exists
from heathaze.domain.region import Region
from heathaze.inference import prior
from heathaze.inference._beliefs import BATCHES, Beliefs
from heathaze.inference.noisy_counts import NONE, NoisyCounts, SplitTree
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.types import Booleans, Floats, Integers

MOST_CELLS = 2**20
"""If the grid has at most this many cells, the prior fills in detail (shades) down to single cells."""

MOST_SQUARES = 2**17
"""On a larger grid, leaves are divided and shaded only until the map has this many squares."""

WIDENING = 1.25
"""Deviations are widened by this factor, since real maps differ from the prior: neighbouring divisions are alike, and
the surface has errors. It was fixed on public data."""

INTERVAL_WIDENING = 1.16
"""Intervals are widened by this factor, for the same reason (papers/range_queries shows coverage and widths)."""

NODE_WIDENING = 1.1
"""Intervals of single nodes are widened by this factor. They come from marginal distributions, which are wider than
those of drawn maps, so they need a smaller factor to get about the same widths."""

TOTAL_LOWERED = 0.4
"""The interval of the total reaches this many standard deviations further up. The spikes of the prior get more than
their learned weight (``prior.EMPTIER``), which makes the total of a sparse map too small by about this much."""

OUTLINE = 0.4
"""If the outline of a region cuts squares, this part of their mass counts as deviation of the region. The value was
fixed on districts of New York and San Francisco (docs/decisions/0024)."""

DRAWS = 128
"""The number of samples from which an interval is computed; the error of its ends is about a tenth of its width."""

_MOST_DRAWN = 2**24
"""The most masses that are kept of all samples; a tree of more than 2^17 nodes gets fewer samples."""

_MOST_CUT = 4096
"""If a box cuts more squares than this, they are divided by area: the errors of so many squares cancel out."""

_BY_CHANCE = 0.005
"""The largest probability that some count stands out although there are no people at all (see ``stands_out``)."""


@dataclass(frozen=True, eq=False)
class LevelBelief:
    """Mean and standard deviation of the mass (in people) of nodes of one level.

    Attributes:
        codes: The nodes, ascending.
        mean: Mean of their masses.
        deviation: Standard deviation of their masses.
        leaf: Whether each node is not divided further.
        measured: Whether noisy counts inform about each node; if not, only the prior divides its parent's mass.
        shown: Masses in the published map, if they differ from the mean; else None.
        drawn: Masses in each drawn map, if maps were drawn; else None.
    """

    codes: Integers
    mean: Floats
    deviation: Floats
    leaf: Booleans
    measured: Booleans
    shown: Floats | None = None
    drawn: Floats | None = None


@dataclass(frozen=True, eq=False)
class Posterior:
    """A probability distribution over maps, given noisy counts; see :func:`posterior`.

    ``density`` and ``total`` are the mean of the distribution. ``levels[i]`` has the means and standard deviations of
    the nodes of level i.
    """

    grid: Grid
    levels: list[LevelBelief]
    _beliefs: Beliefs | None

    @property
    def total(self) -> float:
        """Expected number of people on the whole map."""
        return float(self.levels[0].mean[0])

    @functools.cached_property
    def density(self) -> Density | TreeDensity:
        """The expected map."""
        return self._drawn([level.mean for level in self.levels])

    @functools.cached_property
    def squares(self) -> tuple[Integers, Integers, Floats, Floats]:
        """Level, code, mean and standard deviation (in people) of every square of the density."""
        leaves = [belief.leaf for belief in self.levels]
        return (
            np.concatenate([np.full(leaf.sum(), level) for level, leaf in enumerate(leaves)]),
            np.concatenate([belief.codes[belief.leaf] for belief in self.levels]),
            np.concatenate([belief.mean[belief.leaf] for belief in self.levels]),
            np.concatenate([belief.deviation[belief.leaf] for belief in self.levels]),
        )

    def deviations(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Floats:
        """Standard deviation of every cell of the rendered density, as a share of the mass of the whole map.

        Args:
            window: The part of the map to render; all of it if left out.
            shape: Rows and columns of the result; those of the grid if left out.
        """
        levels, codes, _, deviations = self.squares
        return render_deviations(self.grid, levels, codes, deviations / max(self.total, 1e-300), window, shape)

    def unresolved(self, box: Box | Region) -> float:  # noqa: ARG002
        """Return 0: the prior covers every place, so no mass remains that may lie inside or outside of a box."""
        return 0.0

    def interval(self, box: Box | Region, share: float, confidence: float) -> tuple[float, float]:
        """Compute an interval for the share of the mass that lies in a box.

        Neither end is nearer to the share than the standard deviation of the noise of one count in the box, because a
        few people may be in a place that is empty according to the prior.

        The outline of a region often follows what is on the ground, such as a coast or a street. Then the
        whole mass of a square that the outline cuts lies on one side of the outline, and the prior does not know on
        which side. So the interval of a region is widened by a part of this mass (:data:`OUTLINE`).

        Args:
            box: The box or region.
            share: The share in the estimated density. The interval contains it.
            confidence: Probability of the interval, between 0 and 1.
        """
        if self._beliefs is None:
            return share, share
        noise = self._noise_in(box)
        if isinstance(box, Region) and not box.is_box:
            from scipy.special import ndtri

            noise = math.hypot(noise, float(ndtri((1 + confidence) / 2)) * self._cut_mass(box) / math.sqrt(2))
        low, high = _ends(self.shares(box), share, confidence, noise / max(self.total, 1e-300))
        return max(float(low), 0.0), min(float(high), 1.0)

    def intervals(self, confidence: float) -> list[tuple[Floats, Floats]]:
        """Compute an interval for the mass (in people) of every measured node, from its marginal distribution.

        Args:
            confidence: Probability of each interval, between 0 and 1.

        Returns:
            For each level the lower and the upper ends, in the order of the level's measured nodes.
        """
        means = [belief.mean[belief.measured] for belief in self.levels]
        if self._beliefs is None:
            return [(mean, mean) for mean in means]
        tail = (1 - confidence) / 2
        ends: list[tuple[Floats, Floats]] = []
        for place, mean, noise in zip(self._beliefs.tree.place, means, self._node_noise, strict=False):
            quantiles = (self._beliefs.quantile(place, tail), self._beliefs.quantile(place, 1 - tail))
            low, high = _widened(mean, *quantiles, NODE_WIDENING, noise)
            if not ends:
                high = high + TOTAL_LOWERED * self.levels[0].deviation
            ends.append((np.maximum(low, 0), high))
        none = np.zeros(0)
        return ends + [(none, none)] * (len(means) - len(ends))

    def sum_interval(self, nodes: list[Integers], confidence: float) -> tuple[float, float]:
        """Compute an interval for the mass (in people) of some disjoint nodes together, from drawn maps.

        In a large tree, maps are drawn only of the part from which the prior was learned. The interval of the nodes in
        this part is scaled up to all nodes. It is a little too wide, since errors of more nodes cancel out better.

        Args:
            nodes: The nodes of each level, as indices into the level's measured nodes.
            confidence: Probability of the interval, between 0 and 1.
        """
        means = [belief.mean[belief.measured][here] for here, belief in zip(nodes, self.levels, strict=True)]
        mean, known, noise = sum(float(people.sum()) for people in means), 0.0, 0.0
        if self._beliefs is None or mean <= 0:
            return mean, mean
        part, masses = self._drawn_part
        drawn = np.zeros(len(masses))
        for level, (here, people) in enumerate(zip(nodes[: part.depth + 1], means, strict=False)):
            codes, found = self._beliefs.tree.codes[level][here], part.codes[level]
            at = np.minimum(np.searchsorted(found, codes), len(found) - 1)
            there = found[at] == codes
            known += float(people[there].sum())
            drawn += masses[:, part.place[level][at[there]]].sum(axis=1)
            noise = max(noise, float(self._node_noise[level][here].max(initial=0.0)))
        if known <= 0:  # None of these nodes is in a drawn map. Add up their intervals, as if all errors were equal.
            ends = [
                (low[here].sum(), high[here].sum())
                for here, (low, high) in zip(nodes, self.intervals(confidence), strict=True)
            ]
            return float(sum(low for low, _ in ends)), float(sum(high for _, high in ends))
        low, high = map(float, _ends(drawn, known, confidence, noise * known / mean))
        return max(mean - (known - low) * mean / known, 0.0), mean + (high - known) * mean / known

    @functools.cached_property
    def _drawn_part(self) -> tuple[SplitTree, Floats]:
        """The part of the tree from which the prior was learned, and the masses of its nodes in maps drawn of it."""
        assert self._beliefs is not None
        learner = self._beliefs.learner
        if learner is self._beliefs:
            return learner.tree, self._samples[0]
        return learner.tree, learner.draws(DRAWS, Simulation(0))[0]

    @functools.cached_property
    def _node_noise(self) -> list[Floats]:
        """The largest scale of noise, in people, of the counted leaves in every measured node of each level."""
        assert self._beliefs is not None
        tree = self._beliefs.tree
        noise = [np.where(tree.left[place] == NONE, tree.scale[place], 0.0) for place in tree.place]
        noise = [np.where(np.isfinite(here), here, 0.0) for here in noise]
        for level in range(tree.depth, 0, -1):
            parent = np.searchsorted(tree.codes[level - 1], tree.codes[level] >> 2)
            np.maximum.at(noise[level - 1], parent, noise[level])
        return noise

    def _noise_in(self, box: Box | Region) -> float:
        """Find the largest scale of noise, in people, of the counted leaves in a box, in proportion to their area.

        If the noise outside the box is smaller, the result is that noise: for a box with the whole map it is 0.
        """
        assert self._beliefs is not None
        tree, inside, outside = self._beliefs.tree, 0.0, 0.0
        for level, (codes, place) in enumerate(zip(tree.codes, tree.place, strict=True)):
            leaf = (tree.left[place] == NONE) & np.isfinite(tree.scale[place])
            part, scale = part_inside(self.grid, level, codes[leaf], box), tree.scale[place][leaf]
            inside = max(inside, float((part * scale).max(initial=0.0)))
            outside = max(outside, float(((1 - part) * scale).max(initial=0.0)))
        return min(inside, outside)

    def _cut_mass(self, region: Region) -> float:
        """Compute OUTLINE · Σ mass √(p (1 − p)), in people, over the leaves that a region cuts.

        p is the part of a leaf in the region. If the mass of a leaf lay in one place, mass √(p (1 − p)) would be the
        deviation of its part in the region. Neighbouring leaves err in the same direction, so deviations are added.
        """
        assert self._beliefs is not None
        tree, cut = self._beliefs.tree, 0.0
        for level, place in enumerate(tree.place):
            leaf = tree.left[place] == NONE
            part = part_inside(self.grid, level, tree.codes[level][leaf], region)
            mass = self._beliefs.at(level, self._beliefs.first)[leaf]
            cut += float((mass * np.sqrt(part * (1 - part))).sum())
        return OUTLINE * cut

    def shares(self, box: Box | Region) -> Floats:
        """Draw the share of the mass that lies in a box, from the posterior.

        A square that the border of the box cuts is divided at random, as the prior says, down to single cells. The seed
        is fixed, so that an answer can be repeated.

        Args:
            box: The box or region.

        Returns:
            The share in each of the drawn maps.
        """
        if self._beliefs is None:
            return np.full(2, self.density.mass_in(box))
        tree, bits, (masses, priors) = self._beliefs.tree, Simulation(1), self._samples
        inside = np.zeros(len(masses))
        codes, mass = np.zeros(0, np.int64), np.zeros((len(masses), 0))
        for level in range(len(self.levels)):  # on a fine grid, the levels end before single cells
            if level <= tree.depth:
                leaves = tree.left[tree.place[level]] == NONE
                codes = np.concatenate([codes, tree.codes[level][leaves]])
                mass = np.concatenate([mass, masses[:, tree.place[level][leaves]]], axis=1)
            part = part_inside(self.grid, level, codes, box)
            cut = (part > 0) & (part < 1)
            if level == self.grid.depth or level + 1 == len(self.levels) or cut.sum() > _MOST_CUT:
                # Single cells, and squares that are too many to divide, count by the part of their area inside the box.
                inside += mass @ part
                codes, mass = codes[:0], mass[:, :0]
                continue
            inside += mass[:, part == 1].sum(axis=1)
            codes, mass = self._divided(level, codes[cut], mass[:, cut], priors, bits)
        # A drawn map of nobody has no shares, so the other maps count. If all are empty, the share by area counts.
        anybody = masses[:, 0] > 0
        if not anybody.any():
            return np.full(2, self.density.mass_in(box))
        return np.asarray(inside[anybody] / masses[anybody, 0])

    @functools.cached_property
    def _samples(self) -> tuple[Floats, list[prior.SharePrior]]:
        """The masses of all nodes of the tree in maps that are drawn at random from the posterior, with a fixed seed.

        The maps are drawn in batches, each with its own parameters of the prior; the second value lists them.
        """
        assert self._beliefs is not None
        count = min(DRAWS, max(BATCHES, _MOST_DRAWN // len(self._beliefs.tree.left) // BATCHES * BATCHES))
        return self._beliefs.draws(count, Simulation(0))

    @functools.cached_property
    def stands_out(self) -> bool:
        """Whether any noisy count is larger than noise alone makes it, except with a probability of _BY_CHANCE.

        Laplace noise of scale b exceeds b · ln(1 / 2p) with probability p. The total does not count: it says that there
        are people, but not that any place has more of them than others.
        """
        if self._beliefs is None:
            return True
        tree = self._beliefs.tree
        measured = np.isfinite(tree.scale)
        measured[tree.place[0]] = False
        value, scale = tree.value[measured], tree.scale[measured]
        return bool((value > scale * math.log(max(len(value), 1) / (2 * _BY_CHANCE))).any())

    def sample(self, randomness: Randomness) -> Density | TreeDensity:
        """Draw one map from the posterior.

        Args:
            randomness: The source of random bits.
        """
        if self._beliefs is None:
            return self.density
        mass = self._beliefs.draw(randomness)
        drawn: list[Floats] = []
        for level, belief in enumerate(self.levels):
            here = np.zeros(len(belief.codes))
            if level <= self._beliefs.tree.depth:
                here[belief.measured] = self._beliefs.at(level, mass)
            shaded = np.flatnonzero(~belief.measured)
            if len(shaded):
                parents = np.unique(belief.codes[shaded] >> 2)
                above = drawn[-1][np.searchsorted(self.levels[level - 1].codes, parents)]
                codes, divided = self._divided(level - 1, parents, above[None], [self._beliefs.prior], randomness)
                here[shaded] = divided[0, np.searchsorted(codes, belief.codes[shaded])]
            drawn.append(here)
        return self._drawn(drawn)

    def _divided(
        self, level: int, codes: Integers, mass: Floats, priors: list[prior.SharePrior], randomness: Randomness
    ) -> tuple[Integers, Floats]:
        """Divide nodes below the measured leaves at random, as the prior says.

        Args:
            level: The level of the nodes.
            codes: The nodes.
            mass: (draws, nodes) masses.
            priors: The prior of each batch of draws.
            randomness: The source of random bits.

        Returns:
            The children that exist, and their (draws, children) masses.
        """
        assert self._beliefs is not None
        group, finer, below = self._beliefs.group_below(level), self.levels[level + 1], children(codes)
        there = exists(self.grid, level + 1, below)
        place = np.minimum(np.searchsorted(finer.codes, below), len(finer.codes) - 1)
        expected = np.where(there & (finer.codes[place] == below), finer.mean[place] + 1e-300, 0.0).reshape(-1, 4)
        first, north, south = prior.log_odds(expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-300))
        whole = there.reshape(-1, 4)[:, 3]
        pair = there.reshape(-1, 4).sum(axis=1) == 2
        batch = np.concatenate([np.full(len(rows), k) for k, rows in enumerate(np.array_split(mass, len(priors)))])
        drawn, node = np.nonzero(mass)  # at fine levels, most squares of a drawn map are empty
        x, which = mass[drawn, node], batch[drawn]
        uniforms = randomness.uniforms(6 * len(x)).reshape(6, -1)
        upper = prior.halve(priors, which, group, first[node], x, uniforms[:2])
        north_west = prior.halve(priors, which, group + 1, north[node], upper, uniforms[2:4])
        south_west = prior.halve(priors, which, group + 1, south[node], x - upper, uniforms[4:])
        four = np.stack([north_west, upper - north_west, south_west, x - upper - south_west], axis=1)
        # If a node has two children, the first halving divides them. A single child takes all the mass.
        child = there.reshape(-1, 4)[node]
        two, one = np.stack([upper, x - upper, x - upper, 0 * x], axis=1) * child, x[:, None] * child
        found = np.zeros((*mass.shape, 4))
        found[drawn, node] = np.where(whole[node, None], four, np.where(pair[node, None], two, one))
        return below[there], found.reshape(len(mass), -1)[:, there]

    def _drawn(self, masses: list[Floats]) -> Density | TreeDensity:
        mass = np.concatenate([here[belief.leaf] for here, belief in zip(masses, self.levels, strict=True)])
        levels, codes = self.squares[:2]
        if len(codes) == self.grid.cells <= MAX_DENSE_CELLS:
            image = np.zeros(self.grid.shape)
            image[deinterleave(codes)] = mass
            return Density.from_mass(self.grid, image)
        return TreeDensity.from_mass(self.grid, levels, codes, mass)


def _ends(drawn: Floats, value: Floats | float, confidence: float, scale: Floats | float) -> tuple[Floats, Floats]:
    """Compute the ends of intervals around values, from (draws, …) values in drawn maps, widened by INTERVAL_WIDENING.

    No end is nearer to its value than the standard deviation of Laplace noise of the given scale.
    """
    from scipy.special import ndtri

    # Quantiles beyond the outermost samples are extrapolated like those of a normal distribution.
    tail = min(max((1 - confidence) / 2, 4 / len(drawn)), 0.49)
    stretch = INTERVAL_WIDENING * float(ndtri((1 - confidence) / 2) / ndtri(tail))
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return _widened(value, low, high, stretch, scale)


def _widened(
    value: Floats | float, low: Floats, high: Floats, stretch: float, scale: Floats | float
) -> tuple[Floats, Floats]:
    """Widen intervals around values by a factor, and add the standard deviation of Laplace noise, which is √2 · scale.

    The two parts of the width add up like independent errors.
    """
    noise = math.sqrt(2) * scale
    below, above = (np.hypot(stretch * np.maximum(side, 0.0), noise) for side in (value - low, high - value))
    return value - below, value + above


def posterior(noisy: NoisyCounts) -> Posterior:
    """Infer the posterior over maps from noisy counts; the prior's smoothness is learned from the same counts.

    Args:
        noisy: Counts of quadtree nodes with noise of known scale.

    Cost: linear in the number of nodes; about 3.4 s of processor time for a full tree of 256 × 256 cells.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> counts = NoisyCounts(grid, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [100, 61, 22, 12, -2], [5, 1, 1, 1, 1])
    >>> posterior(counts).density.dense().values.round(2).tolist()
    [[0.64, 0.23], [0.13, 0.0]]
    """
    if (noisy.scales == 0).all():
        return _as_given(noisy)
    beliefs = Beliefs.infer(noisy)
    return Posterior(noisy.grid, _shaded(beliefs), beliefs)


def _as_given(noisy: NoisyCounts) -> Posterior:
    """Make the posterior of counts without noise: the counts themselves, with no uncertainty."""
    levels = []
    for level in range(int(noisy.levels.max()) + 1):
        codes, values, _ = noisy.at(level)
        below = noisy.at(level + 1)[0] >> 2 if level < noisy.levels.max() else np.zeros(0, np.int64)
        leaf = ~np.isin(codes, below)
        levels.append(LevelBelief(codes, values, np.zeros(len(codes)), leaf, np.ones(len(codes), np.bool_)))
    return Posterior(noisy.grid, levels, None)


def _shaded(beliefs: Beliefs) -> list[LevelBelief]:
    """Compute means and deviations of the nodes of every level.

    Those of nodes in the tree of counts come from the counts, and those of smaller nodes from the prior.
    """
    grid, tree = beliefs.tree.grid, beliefs.tree
    further = _levels_to_shade(beliefs)
    surface = prior.Surface(grid)
    codes = np.zeros(1, np.int64)
    mean, second = beliefs.at(0, beliefs.first), beliefs.at(0, beliefs.second)
    measured, until = np.ones(1, np.bool_), np.zeros(1, np.int64)
    levels: list[LevelBelief] = []
    for level in range(grid.depth + 1):
        surface.add(codes, mean)
        inner = np.zeros(len(codes), np.bool_)
        if level <= tree.depth:
            inner[measured] = tree.left[tree.place[level]] != NONE
        until = np.where(measured & ~inner, min(level + further, grid.depth), until)
        shading = np.flatnonzero(~inner & (until > level))
        deviation = WIDENING * np.sqrt(np.maximum(second - mean**2, 0))
        leaf = ~inner
        leaf[shading] = False
        levels.append(LevelBelief(codes, mean, deviation, leaf, measured))
        if leaf.all():
            break
        # Below the measured leaves, the prior's surface divides the mass, and each halving adds variance.
        shares = surface.expected_shares(codes[shading])
        ratio = _second_moment_ratio(beliefs, level, shares, mean[shading])
        below = children(codes[shading])
        there = exists(grid, level + 1, below)
        shaded = (
            below[there],
            (mean[shading, None] * shares).ravel()[there],
            (second[shading, None] * shares**2 * ratio).ravel()[there],
            np.repeat(until[shading], 4)[there],
        )
        counted = np.zeros(0, np.int64) if level >= tree.depth else tree.codes[level + 1]
        counted_mean = np.zeros(0) if level >= tree.depth else _consistent(beliefs, level, codes, mean, inner)
        counted_second = np.zeros(0) if level >= tree.depth else beliefs.at(level + 1, beliefs.second)
        codes = np.concatenate([counted, shaded[0]])
        order = np.argsort(codes)
        codes = codes[order]
        mean = np.concatenate([counted_mean, shaded[1]])[order]
        second = np.concatenate([counted_second, shaded[2]])[order]
        until = np.concatenate([np.zeros(len(counted), np.int64), shaded[3]])[order]
        measured = np.concatenate([np.ones(len(counted), np.bool_), np.zeros(there.sum(), np.bool_)])[order]
    return levels


def _second_moment_ratio(beliefs: Beliefs, level: int, shares: Floats, mass: Floats) -> Floats:
    """Compute E[s²] / E[s]² under the prior for the share s of each child of a node below the measured leaves."""
    group = beliefs.group_below(level)
    first, north, south = prior.log_odds(shares)
    upper = 1 / (1 + np.exp(-first))

    def ratios(kind: int, centre: Floats, x: Floats) -> tuple[Floats, Floats]:
        share, variance = 1 / (1 + np.exp(-centre)), beliefs.prior.variance(group + kind, centre, x)
        return 1 + variance / share**2, 1 + variance / (1 - share) ** 2

    rows = ratios(0, first, mass)
    pairs = ratios(1, north, mass * upper), ratios(1, south, mass * (1 - upper))
    whole = shares[:, 3] > 0
    ratio = np.empty(shares.shape)
    for child in range(4):
        within = pairs[child // 2][child % 2]
        ratio[:, child] = np.where(whole, rows[child // 2] * within, rows[min(child, 1)])
    return np.where((shares > 0).sum(axis=1, keepdims=True) == 1, 1.0, ratio)


def _consistent(beliefs: Beliefs, level: int, codes: Integers, mean: Floats, inner: Booleans) -> Floats:
    """Scale the means of the next level's counted nodes so that children sum to their parent exactly.

    Without scaling, the sums would differ by the error of the numerical integration.
    """
    below = beliefs.at(level + 1, beliefs.first)
    parents, parent_mean = codes[inner], mean[inner]
    parent = np.searchsorted(parents, beliefs.tree.codes[level + 1] >> 2)
    sums = np.bincount(parent, weights=below, minlength=len(parents))
    scale = np.divide(parent_mean, sums, out=np.ones(len(parents)), where=sums > 0)
    return below * scale[parent]


def _levels_to_shade(beliefs: Beliefs) -> int:
    """Choose by how many levels the prior divides (shades) the measured leaves of a map."""
    tree = beliefs.tree
    leaves = [int((tree.left[place] == NONE).sum()) for place in tree.place]
    depth = tree.grid.depth
    if tree.grid.cells <= MOST_CELLS:
        return depth
    for further in range(depth, 0, -1):
        if sum(n * 4 ** (min(depth, level + further) - level) for level, n in enumerate(leaves)) <= MOST_SQUARES:
            return further
    return 0
