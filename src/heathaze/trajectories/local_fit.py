"""The server's half of LocalJourneys: maps of places, a table of shapes and masses of pairs, from counts of reports.

1. **Maps.** Visits, starts and ends are three maps that resemble each other. Their logarithms are one common surface
   plus a smaller surface of each:  log f_k = s + r · s_k.  All surfaces have the prior of
   :class:`heathaze.inference.log_pyramid.LogPyramid`. Counts of all levels are fitted together.
2. **Shapes.** The table of lengths × straightness is fitted in the same way, with one surface.
3. **Pairs.** The mass of a pair of start a and end b is  u_a · v_b · g(distance).  The factors are found by iterative
   proportional fitting: sums over ends are the map of starts, sums over starts the map of ends, and distances have the
   distribution that the table of shapes says.

All of this is post-processing of randomised reports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heathaze.domain.quadtree import interleave
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.inference.smooth_map import HEIGHT, minimise
from heathaze.local.local_hashing import LocalHashing
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.privacy.randomness import Simulation
from heathaze.trajectories.frame import BENDS, LENGTHS, Frame, pair_codes
from heathaze.trajectories.synthesis import JourneyModel, distance_borders, drawn_distances
from heathaze.types import Floats, Integers

FALL = 0.7
"""Ratio of the standard deviations of neighbouring levels of a surface.

Cross-validation chooses this ratio badly, because the held-out part of some thousand reports is mostly noise.
"""

SHAPE_FALL = 0.6
"""The same ratio for the table of shapes, which is smoother than a map."""

OWN = 0.1
"""r: how much the maps of visits, starts and ends differ from each other, compared with their common surface."""

_STEPS = 250
"""The most steps of one minimisation."""

_REPEATS = 2
"""How often the maps are fitted; each fit takes the variances of counts from the fit before it."""

_FITTING = 100
"""Rounds of iterative proportional fitting."""

_WITHIN = 6
"""Distances between two squares are averaged over this many places a side in each."""


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How many of n reports support each class. A report supports its own class and others with known probabilities.

    Args:
        counts: The number of reports that support each class (rows × columns).
        reports: n, the number of reports.
        own: Probability that a report supports its true class.
        other: Probability that a report supports another class.
        rows: The row of classes to which each row of the fine map belongs.
        cols: The column of classes to which each column of the fine map belongs.
    """

    counts: Floats
    reports: int
    own: float
    other: float
    rows: Integers
    cols: Integers

    def expected(self, density: Floats) -> Floats:
        """n (q + (p − q) f): the expected counts if classes have the masses of a density on the fine map."""
        return self.reports * (self.other + (self.own - self.other) * self._merged(density))

    def variances(self, density: Floats) -> Floats:
        """The variances n P (1 − P) of the counts under a density, where n P is the expected count."""
        likely = self.expected(density) / self.reports
        return np.asarray(self.reports * likely * (1 - likely)) + 1e-9

    def misfit(self, density: Floats, variances: Floats) -> tuple[float, Floats]:
        """Half the squared differences in standard deviations, and the gradient with respect to the density."""
        off = self.expected(density) - self.counts
        slope = off / variances * (self.reports * (self.own - self.other))
        return 0.5 * float((off * off / variances).sum()), slope[self.rows[:, None], self.cols[None, :]]

    def _merged(self, density: Floats) -> Floats:
        first, second = (np.flatnonzero(np.diff(side, prepend=-1)) for side in (self.rows, self.cols))
        return np.asarray(np.add.reduceat(np.add.reduceat(density, first, axis=0), second, axis=1))


def count_classes(
    randomizer: RandomizedResponse | LocalHashing, reports: Integers, fine: tuple[int, int]
) -> ClassCounts:
    """Count how many reports support each class.

    Args:
        randomizer: How the reports were randomised; its grid has the classes.
        reports: The reports.
        fine: Rows and columns of the map that is fitted.
    """
    shape = randomizer.grid.shape
    rows, cols = (np.arange(n) * k // n for n, k in zip(fine, shape, strict=True))
    counts = randomizer.tally(reports).reshape(shape).astype(np.float64)
    return ClassCounts(counts, len(reports), *_support(randomizer), rows, cols)


def fit_model(frame: Frame, counted: Mapping[str, Sequence[ClassCounts]], count: int) -> JourneyModel:
    """Infer a model of journeys from counts of reports.

    Args:
        frame: The public frames.
        counted: The counts for the facts "visit", "start", "end" and "shape".
        count: The number of reports.
    """
    visits, start, end = fit_maps(frame.squares.shape, [counted[fact] for fact in ("visit", "start", "end")])
    (shapes,) = fit_maps((LENGTHS, BENDS), [counted["shape"]], SHAPE_FALL)
    levels, codes = _all_pairs(frame)
    model = JourneyModel(frame, float(count), visits, levels, codes, np.ones(len(codes)), shapes)
    pairs = fit_pairs(model, _coarse(start, frame), _coarse(end, frame))
    return dataclasses.replace(model, pair_mass=pairs.ravel())


def _support(randomizer: RandomizedResponse | LocalHashing) -> tuple[float, float]:
    """The probabilities with which a report supports its true class, and another class."""
    if isinstance(randomizer, LocalHashing):
        return randomizer.support
    window = randomizer.window
    return float((window.low + window.excess.max()) / window.total), float(window.low / window.total)


# ── maps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit_maps(shape: tuple[int, int], groups: Sequence[Sequence[ClassCounts]], fall: float = FALL) -> list[Floats]:
    """Fit one map to each group of counts; several maps share a surface.

    Args:
        shape: Rows and columns of the maps.
        groups: The counts that belong to each map.
        fall: Ratio of the standard deviations of neighbouring levels of a surface.

    Returns:
        The maps, each summing to 1.
    """
    prior = LogPyramid(shape, HEIGHT, fall)
    size = prior.size
    own = OWN if len(groups) > 1 else 0.0
    knots = np.zeros(size * (1 + len(groups)))

    def maps(knots: Floats) -> list[Floats]:
        common, *each = knots.reshape(-1, size)
        return [prior.density(common + own * one) for one in each]

    def cost(knots: Floats) -> tuple[float, Floats]:
        value, slope = 0.5 * float((knots * knots).sum()), knots.copy().reshape(-1, size)
        for number, (density, group) in enumerate(zip(maps(knots), groups, strict=True)):
            pull = np.zeros(shape)
            for part, spread in zip(group, variances[number], strict=True):
                more, steep = part.misfit(density, spread)
                value += more
                pull += steep
            back = prior.adjoint(density * (pull - (density * pull).sum()))
            slope[0] += back
            slope[1 + number] += own * back
        return value, slope.ravel()

    for _ in range(_REPEATS):
        found = maps(knots)
        variances = [[part.variances(density) for part in group] for density, group in zip(found, groups, strict=True)]
        knots = minimise(cost, knots, steps=_STEPS, memory=16)
    return maps(knots)


# ── pairs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit_pairs(model: JourneyModel, start: Floats, end: Floats) -> Floats:
    """Join starts, ends and distances by iterative proportional fitting.

    Args:
        model: The model whose table of shapes says how far ends are from starts.
        start: Mass of each square in which journeys start, in the order of their numbers.
        end: Mass of each square in which journeys end.

    Returns:
        The mass of each start (rows) and end (columns); the sum is 1.
    """
    ends = model.frame.ends
    borders = distance_borders(model.frame)
    classes = len(borders) + 1
    near = np.bincount(np.searchsorted(borders, drawn_distances(model, Simulation(0))), minlength=classes)
    wanted = near / near.sum()
    row, col = np.divmod(np.arange(ends.cells), ends.cols)
    apart = np.abs(row[:, None] - row) * ends.cols + np.abs(col[:, None] - col)
    shares = _distance_shares(model.frame, borders)  # of each class, for each offset of two squares
    first, last, likes = start.copy(), end.copy(), np.ones(classes)
    for _ in range(_FITTING):
        mass = first[:, None] * last * (shares @ likes)[apart]
        by_offset = np.bincount(apart.ravel(), (first[:, None] * last).ravel(), minlength=len(shares))
        found = likes * (by_offset @ shares) / mass.sum()
        likes = likes * np.clip(wanted / np.maximum(found, 1e-12), 0.2, 5.0)
        mass = first[:, None] * last * (shares @ likes)[apart]
        first = first * start / np.maximum(mass.sum(axis=1), 1e-300)
        mass = first[:, None] * last * (shares @ likes)[apart]
        last = last * end / np.maximum(mass.sum(axis=0), 1e-300)
    mass = first[:, None] * last * (shares @ likes)[apart]
    return np.asarray(mass / mass.sum())


def _distance_shares(frame: Frame, borders: Floats) -> Floats:
    """The share of each class of distance between places in two squares, for each offset of two squares."""
    ends = frame.ends
    height, width = ends.cell_size
    place = (np.arange(_WITHIN) + 0.5) / _WITHIN
    shift = (place[:, None] - place).ravel()
    shares = np.empty((ends.cells, len(borders) + 1))
    for number in range(ends.cells):
        row, col = divmod(number, ends.cols)
        far = np.hypot(((row + shift) * height)[:, None], (col + shift) * width).ravel()
        shares[number] = np.bincount(np.searchsorted(borders, far), minlength=len(borders) + 1) / len(far)
    return shares


def _coarse(density: Floats, frame: Frame) -> Floats:
    """The mass of a map in each square in which journeys start and end."""
    side = frame.ends.rows
    return np.asarray(density.reshape(side, density.shape[0] // side, side, -1).sum(axis=(1, 3)).ravel())


def _all_pairs(frame: Frame) -> tuple[Integers, Integers]:
    """Level and code of every pair of squares, all ends of the first start first."""
    ends = frame.ends
    code = interleave(*np.divmod(np.arange(ends.cells), ends.cols))
    codes = pair_codes(np.repeat(code, ends.cells), np.tile(code, ends.cells))
    return np.full(len(codes), 2 * frame.pair_depth), codes
