"""Metrics that compare made-up journeys with true ones.

The formulas are those of LDPTrace (Du et al., VLDB 2023, section 6) and PrivTrace (Wang et al., USENIX Security 2023,
section 6). They are made independent of the sampling rate: a journey is the straight lines between its points
(:class:`heathaze.domain.lines.Lines`), and its *visits* are the cells that the lines cross, in order and without
repeats in a row.

JS is the Jensen–Shannon divergence with the natural logarithm, from 0 (equal) to ln 2 = 0.693 (disjoint):

    JS(p, q) = ½ Σ p_i ln(2 p_i / (p_i + q_i)) + ½ Σ q_i ln(2 q_i / (p_i + q_i))

The values of these metrics are not private, because they depend on the true journeys.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, expect
from heathaze.types import Floats, Integers

BUCKETS = 20
"""The number of equal buckets of the histograms of lengths and diameters."""

LEAST_SHARE = 0.01
"""The error of a range query is divided by at least this share of all true visits."""

HOTTEST = 5
"""The number of hot spots that are compared."""

_RUNS = range(2, 9)
"""Numbers of cells of a pattern."""


def jensen_shannon(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """Compute the Jensen–Shannon divergence of two histograms, which are divided by their sums first.

    Args:
        p: Numbers of at least 0.
        q: As many other numbers of at least 0.

    Returns:
        From 0 (equal) to ln 2 = 0.693 (disjoint).

    Raises:
        InvalidInput: The histograms have different shapes, or one has no mass.

    >>> round(jensen_shannon([1, 0], [0, 1]), 3), jensen_shannon([1, 3], [2, 6])
    (0.693, 0.0)
    """
    a, b = np.asarray(p, np.float64).ravel(), np.asarray(q, np.float64).ravel()
    if a.shape != b.shape or not (a.sum() > 0 and b.sum() > 0) or min(a.min(), b.min()) < 0:
        raise InvalidInput("Two histograms are compared that have no mass, negative mass, or different sizes.")
    a, b = a / a.sum(), b / b.sum()
    middle = (a + b) / 2
    halves = (float(np.sum(side[side > 0] * np.log(side[side > 0] / middle[side > 0]))) for side in (a, b))
    return max(0.0, math.fsum(halves) / 2)


def density_divergence(truth: Lines, made_up: Lines, grid: Grid) -> float:
    """Compare where journeys go: JS between the shares of all visits in each cell.

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The public frame.

    Returns:
        From 0 (equal) to ln 2 = 0.693 (disjoint).

    >>> plane = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> here, there = Lines.from_points([[(0.5, 0.5)]]), Lines.from_points([[(1.5, 0.5)]])
    >>> density_divergence(here, here, plane), round(density_divergence(here, there, plane), 3)
    (0.0, 0.693)
    """
    true, made = _pair(truth, made_up)
    return jensen_shannon(_per_cell(true, grid), _per_cell(made, grid))


def trip_divergence(truth: Lines, made_up: Lines, grid: Grid) -> float:
    """Compare from where to where journeys go: JS between the shares of journeys with each (first cell, last cell).

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The grid whose cells are compared.

    Returns:
        The divergence, from 0 (same shares) to ln 2.

    >>> plane = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> there, back = Lines.from_points([[(0.5, 0.5), (1.5, 0.5)]]), Lines.from_points([[(1.5, 0.5), (0.5, 0.5)]])
    >>> density_divergence(there, back, plane), round(trip_divergence(there, back, plane), 3)
    (0.0, 0.693)
    """
    true, made = (_first_to_last(lines, grid) for lines in _pair(truth, made_up))
    places, where = np.unique(np.concatenate([true, made]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(places)) for part in np.split(where, [len(true)])]
    return jensen_shannon(*counts)


def length_divergence(truth: Lines, made_up: Lines, grid: Grid) -> float:
    """Compare how far people travel: JS between histograms of travelled length.

    There are 20 equal buckets from 0 to the longest true journey; the last bucket also counts all longer journeys.

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The grid on which they lie.

    Returns:
        The divergence, from 0 (same histograms) to ln 2.

    >>> plane = Grid.plane(x=(0, 9), y=(0, 9), size=9)
    >>> short, long = Lines.from_points([[(0, 0), (1, 0)]]), Lines.from_points([[(0, 0), (9, 0)]])
    >>> length_divergence(long, long, plane), round(length_divergence(long, short, plane), 3)
    (0.0, 0.693)
    """
    true, made = _pair(truth, made_up)
    return _histograms(true.lengths(grid), made.lengths(grid))


def diameter_divergence(truth: Lines, made_up: Lines, grid: Grid) -> float:
    """Compare how far apart the points of a journey are: JS between histograms of diameters.

    The diameter of a journey is the largest distance between two of its points. The buckets are those of
    :func:`length_divergence`; the arguments and the range are those of :func:`density_divergence`.

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The grid on which they lie.

    Returns:
        The divergence, from 0 (same histograms) to ln 2.

    >>> plane = Grid.plane(x=(0, 9), y=(0, 9), size=9)
    >>> loop, line = Lines.from_points([[(0, 0), (4, 0), (0, 0)]]), Lines.from_points([[(0, 0), (8, 0)]])
    >>> length_divergence(line, loop, plane), round(diameter_divergence(line, loop, plane), 3)
    (0.0, 0.693)
    """
    true, made = _pair(truth, made_up)
    return _histograms(true.diameters(grid), made.diameters(grid))


def query_error(truth: Lines, made_up: Lines, grid: Grid, queries: int = 200) -> float:
    """Compute the mean relative error of range queries: how many visits a journey makes in a square.

        mean over squares of |s − t| / max(t, 1 % of all true visits)

    t and s are the visits in the square per true and per made-up journey. Each square has a ninth of the map's area.
    The centres are the points of a Kronecker sequence, which is spread evenly over the map and equal in every call.

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The grid whose cells are visited; 48 × 48 cells are usual. A cell counts if its centre lies in the square.
        queries: The number of squares.

    Returns:
        From 0 (equal); there is no largest error.

    >>> plane = Grid.plane(x=(0, 1), y=(0, 1), size=1)
    >>> one, two = Lines.from_points([[(0.5, 0.5)]]), Lines.from_points([[(0.5, 0.5)], [(0.1, 0.5)]])
    >>> query_error(one, two, plane)
    0.0
    """
    true, made = _pair(truth, made_up)
    numbers = np.arange(1, whole(queries, "queries") + 1)
    # Steps 1/g and 1/g² for the root g of g³ = g + 1 fill the plane most evenly (Roberts 2018).
    golden = 1.32471795724474602596
    height, width = grid.cell_size
    side = math.sqrt(grid.rows * height * grid.cols * width / 9)
    down, across = (numbers / golden) % 1 * grid.rows, (numbers / golden**2) % 1 * grid.cols
    rows = np.abs(np.arange(grid.rows) + 0.5 - down[:, None]) <= side / height / 2
    cols = np.abs(np.arange(grid.cols) + 0.5 - across[:, None]) <= side / width / 2
    per_journey = [_per_cell(lines, grid).reshape(grid.shape) / len(lines) for lines in (true, made)]
    t, s = (np.einsum("qi,ij,qj->q", rows.astype(float), visits, cols.astype(float)) for visits in per_journey)
    return float(np.mean(np.abs(s - t) / np.maximum(t, LEAST_SHARE * per_journey[0].sum())))


def hot_spot_ndcg(truth: Lines, made_up: Lines, grid: Grid) -> float:
    """Compare the five most visited cells by their normalised discounted cumulative gain (NDCG).

        NDCG = Σ_i r_i / log2(i + 1)   divided by its value for the truth,   i = 1 … 5

    r_i is 1 / (true rank of the cell that ranks i-th in the made-up journeys), or 0 if its true rank is above 5.

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The public frame.

    Returns:
        From 0 (no common hot spot) to 1 (the same five in the same order).

    >>> plane = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> hot_spot_ndcg(Lines.from_points([[(0.5, 0.5)]]), Lines.from_points([[(0.5, 0.5)], [(0.2, 0.5)]]), plane)
    1.0
    """
    true, made = (_per_cell(lines, grid) for lines in _pair(truth, made_up))
    best, found = (np.argsort(-visits, kind="stable")[:HOTTEST].tolist() for visits in (true, made))
    discounts = 1 / np.log2(np.arange(2, len(best) + 2))
    gains = [1 / (best.index(cell) + 1) if cell in best else 0.0 for cell in found]
    return float(np.dot(gains, discounts) / np.dot(1 / np.arange(1, len(best) + 1), discounts))


def kendall_tau(truth: Lines, made_up: Lines, grid: Grid) -> float:
    """Compare the order of cells by the number of journeys that pass them: Kendall's τ.

        τ = (concordant pairs − discordant pairs) / all pairs of cells

    A pair of cells is concordant if in both sets the same one of the two cells is passed by more journeys. Pairs that
    are tied in the truth are neither concordant nor discordant. Pairs that are tied in the made-up journeys but not in
    the truth are discordant.

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The public frame, of at least 2 and at most 4096 cells.

    Returns:
        From −1 (reversed) to 1 (the same order, without ties).

    Raises:
        InvalidInput: The grid has too few or too many cells.

    >>> plane = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> left, right = Lines.from_points([[(0.5, 0.5)]]), Lines.from_points([[(1.5, 0.5)]])
    >>> kendall_tau(left, left, plane), kendall_tau(left, right, plane)
    (1.0, -1.0)
    """
    if not 2 <= grid.cells <= 4096:
        raise InvalidInput(f"Kendall's τ compares all pairs of {grid.cells} cells; give a grid of 2 to 4096 cells.")
    passed = []
    for lines in _pair(truth, made_up):
        whose, cell = lines.visits(grid)
        passed.append(np.bincount(np.unique(whose * grid.cells + cell) % grid.cells, minlength=grid.cells))
    upper = np.triu_indices(grid.cells, 1)
    true, made = (np.sign(counts[upper[0]] - counts[upper[1]]) for counts in passed)
    known = true != 0
    return float((np.sum(known & (true == made)) - np.sum(known & (true != made))) / len(true))


def pattern_f1(truth: Lines, made_up: Lines, grid: Grid, most: int = 100) -> float:
    """Compare the most frequent patterns (runs of 2 to 8 visits): F1 of the made-up patterns against the true ones.

        F1 = 2 · |common patterns| / (|true patterns| + |made-up patterns|)

    Args:
        truth: The true journeys.
        made_up: The made-up journeys.
        grid: The public frame, of at most 128 cells, so that a run of 8 cells fits into 64 bits.
        most: The number of patterns of each set.

    Returns:
        From 0 (no common pattern) to 1 (the same patterns).

    Raises:
        InvalidInput: The grid has too many cells.

    >>> plane = Grid.plane(x=(0, 3), y=(0, 1), shape=(1, 3))
    >>> there, back = Lines.from_points([[(0.5, 0.5), (2.5, 0.5)]]), Lines.from_points([[(2.5, 0.5), (0.5, 0.5)]])
    >>> pattern_f1(there, there, plane), pattern_f1(there, back, plane)
    (1.0, 0.0)
    """
    if grid.cells > 128:
        raise InvalidInput(f"Patterns of {grid.cells} cells do not fit into 64 bits; give a grid of at most 128 cells.")
    number = whole(most, "most", "the number of patterns")
    true, made = (_patterns(*lines.visits(grid), grid.cells, number) for lines in _pair(truth, made_up))
    if not true and not made:
        return 1.0
    return 2 * len(true & made) / (len(true) + len(made))


def _patterns(whose: Integers, cell: Integers, cells: int, most: int) -> set[tuple[int, int]]:
    """Find the most frequent runs of cells, as (number of cells, cells as digits); ties go to shorter, lower runs."""
    keys, sizes, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for size in _RUNS:
        if len(cell) < size:
            break
        last = len(cell) - size + 1
        key = np.zeros(last, np.int64)
        for k in range(size):
            key = key * cells + cell[k : last + k]
        found, times = np.unique(key[whose[size - 1 :] == whose[:last]], return_counts=True)
        keys.append(found)
        counts.append(times)
        sizes.append(np.full(len(found), size))
    key, size_of, times = np.concatenate(keys), np.concatenate(sizes), np.concatenate(counts)
    best = np.lexsort((key, size_of, -times))[:most]
    return set(zip(size_of[best].tolist(), key[best].tolist(), strict=True))


def _pair(truth: Lines, made_up: Lines) -> tuple[Lines, Lines]:
    for lines, name in ((truth, "true"), (made_up, "made-up")):
        expect(Lines, lines, f"The set of {name} journeys")
        if not len(lines):
            raise InvalidInput(f"There are no {name} journeys; there is nothing to compare.")
    return truth, made_up


def _per_cell(lines: Lines, grid: Grid) -> Floats:
    return np.bincount(lines.visits(grid)[1], minlength=grid.cells).astype(np.float64)


def _first_to_last(lines: Lines, grid: Grid) -> Integers:
    """Number the pair of first and last cell of each journey."""
    first, last = lines.offsets[:-1], lines.offsets[1:] - 1
    row, col = grid.nearest_cell(lines.x, lines.y)
    cell = row * grid.cols + col
    return cell[first] * grid.cells + cell[last]


def _histograms(true: Floats, made: Floats) -> float:
    top = float(true.max()) * (1 + 1e-9) or 1.0
    buckets = (np.minimum(values / top * BUCKETS, BUCKETS - 1).astype(np.int64) for values in (true, made))
    return jensen_shannon(*(np.bincount(bucket, minlength=BUCKETS) for bucket in buckets))
