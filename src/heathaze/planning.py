"""Predict the accuracy of a map before any data is touched: the default mechanism runs on synthetic cities."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from heathaze import central
from heathaze.checks import whole
from heathaze.datasets.city import draw_people, synthetic_city
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, kind_of
from heathaze.ingest.counts import Counts
from heathaze.metrics.cellwise import similarity
from heathaze.metrics.emd import emd
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.loss import LARGEST_EPSILON, SMALLEST_EPSILON, Number, exact, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import Simulation
from heathaze.types import Floats

TIMES = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""The epsilons of a plan's rows, as multiples of the requested epsilon."""

MOST_PEOPLE = 10**9
MOST_CITIES = 100

FINEST_DEPTH = 8
"""The depth of the finest grid on which cities are simulated: 2^8 cells along a side."""

SIGMA = 4 / 256
"""Width of the Gaussian with which maps are smoothed before they are compared, as a fraction of the longer side.

The value is that of the paper's protocol.
"""

EMD_SIDE = 64
"""Heat maps are resampled to this many cells along the longer side for EMD, so that a cell is as wide as SIGMA."""

EMD_TOLERANCE = 2e-3
"""The largest gap between the lower and the upper bound on EMD; in practice the gap is much smaller."""

SIGNAL = 0.25
"""A level carries signal if at most this share of the mass lies in the wrong node."""

ONE = 2**20
"""Integer mass of one person, as in a count with weight "share"."""

VISITS = 4
"""The number of visits of a synthetic person; each has a weight of one quarter."""


@dataclass(frozen=True)
class PlanRow:
    """The expected accuracy at one epsilon: means over the cities, and the 10 % and 90 % quantiles (low and high).

    ``emd`` is in units of the map's longer side, and ``sim`` goes from 0 (disjoint) to 1 (equal). Both compare heat
    maps, which are smoothed with a Gaussian as wide as 4/256 of the longer side. ``level`` is the finest level of the
    quadtree that carries signal (see :func:`plan`). ``side`` is the side of the squares of this level, in metres on the
    globe and in the units of a plane. ``finest`` is true if no finer level was simulated.
    """

    people: int
    epsilon: float
    emd: float
    emd_low: float
    emd_high: float
    sim: float
    sim_low: float
    sim_high: float
    level: int
    side: float
    finest: bool
    geographic: bool

    @property
    def signal(self) -> str:
        """The side of the smallest squares that carry signal, as text."""
        length = _length(self.side, self.geographic)
        return f"{length} or smaller" if self.finest else length

    def sentence(self, units: str = "people") -> str:
        """Describe the expected accuracy in one sentence; ``units`` names the people or things that are counted."""
        squares = f"down to squares of about {self.signal}" if self.level else "for the map as a whole only"
        return (
            f"For about {self.people:,} {units} at ε = {self.epsilon:g} expect: "
            f"EMD {self.emd:.2g} of the side ({self.emd_low:.2g} to {self.emd_high:.2g}), "
            f"SIM {self.sim:.2f} ({self.sim_low:.2f} to {self.sim_high:.2f}), signal {squares}."
        )

    def __str__(self) -> str:
        return self.sentence()

    def to_dict(self) -> dict[str, Any]:
        """Return the row of the plan as plain numbers, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """The expected accuracy at the requested epsilon and at multiples of it; ``rows`` are sorted by epsilon."""

    grid: Grid
    epsilon: float
    people: int
    cities: int
    rows: tuple[PlanRow, ...]

    @property
    def row(self) -> PlanRow:
        """The row of the requested epsilon."""
        return next(row for row in self.rows if row.epsilon == self.epsilon)

    @property
    def words(self) -> str:
        """A sentence about how the error changes from half to twice the epsilon; empty if a plan lacks these rows.

        The factor of one doubling is √(EMD at ε/2 divided by EMD at 2ε). It is an average over both doublings, because
        with so few cities the factors of single doublings would differ by chance.
        """
        near = {row.epsilon / self.epsilon: row.emd for row in self.rows}
        if not (0.5 in near and 2 in near and min(near.values()) > 0):
            return ""
        factor = math.sqrt(near[0.5] / near[2])
        if factor < 1.05:
            return f"Around ε = {self.epsilon:g} the error hardly depends on ε."
        return (
            f"From ε = {self.epsilon / 2:g} to {2 * self.epsilon:g}, each doubling of ε divides the error (EMD) "
            f"by about {factor:.1f}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain numbers and texts, for JSON."""
        return {
            "grid": self.grid.to_dict(),
            "epsilon": self.epsilon,
            "people": self.people,
            "cities": self.cities,
            "rows": [row.to_dict() for row in self.rows],
            "row": self.row.to_dict(),
            "sentence": str(self.row),
            "words": self.words,
        }


def plan(
    grid: Grid,
    epsilon: Number,
    people: int,
    *,
    cities: int | None = None,
    times: Sequence[Number] = TIMES,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Predict the accuracy of a map. The plan uses no data, so nothing is charged and nothing can leak.

    The default mechanism runs on synthetic cities of five kinds (:mod:`heathaze.datasets.city`), with as many people
    as given and four visits for each person. A row compares the release with the truth as heat maps: EMD and SIM, with
    their mean and their 10 % and 90 % quantiles over the cities. All rows use the same cities. The noise is simulated
    from fixed seeds, so a plan can be repeated. Real places differ from the synthetic cities, but the error of a real
    map should seldom lie far outside the range of the plan.

    The finest level that carries signal is the largest ℓ such that on every level up to ℓ, in the mean over the cities,

        ½ Σ_v |released share of node v − true share of node v| ≤ ¼,   v the nodes of the level

    A grid of more than 256 cells along a side is simulated with 256 cells, in the same quadtree. This is fine enough,
    since the Gaussian of the heat maps is four such cells wide. Levels finer than the eighth are then not simulated.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the release.
        people: About how many people are expected, 1 to 10^9: a public guess.
        cities: The number of cities to simulate, 1 to 100. The default is 5, or 3 if people · ε is above 100,000, where
            a city takes seconds and cities differ little.
        times: The epsilons of the rows, as multiples of ``epsilon``, which always has a row. Multiples outside the
            range that mechanisms accept are left out.
        progress: Called before each city with the index of the city, from 1, and the number of cities.

    Returns:
        The rows of the plan, one for each epsilon; ``row`` is the one of ``epsilon``.

    Raises:
        InvalidInput: A value is out of range.

    Cost: 0.1 to 3 s for each city and epsilon on two processors; the time grows with people · ε up to a limit.

    >>> expected = plan(Grid.plane(x=(0, 1000), y=(0, 1000), size=32), epsilon=1, people=300, cities=2, times=[4])
    >>> [row.epsilon for row in expected.rows], expected.row.emd > expected.rows[1].emd
    ([1.0, 4.0], True)
    """
    asked = parse_epsilon(epsilon)
    warn_if_weak(asked)
    _check(grid, people, cities)
    if cities is None:
        cities = 3 if people * asked > 100_000 else 5
    wanted = sorted({asked, *(asked * _factor(time) for time in times)})
    epsilons = [value for value in wanted if SMALLEST_EPSILON <= value <= LARGEST_EPSILON]
    coarse = _simulated(grid)
    outcomes: list[list[_Outcome]] = []  # by city, then by epsilon
    threads = ThreadPoolExecutor(os.cpu_count() or 1)  # enough, because the slowest code does not block other threads
    try:
        waiting = [[threads.submit(_rehearse, coarse, people, k, value) for value in epsilons] for k in range(cities)]
        for k, city in enumerate(waiting):
            if progress is not None:
                progress(k + 1, cities)
            outcomes.append([found.result() for found in city])
    finally:
        threads.shutdown(cancel_futures=True)  # on an error, cities that have not begun are not simulated
    rows = (_row(grid, people, *value) for value in zip(epsilons, zip(*outcomes, strict=True), strict=True))
    return Plan(grid, float(asked), people, cities, tuple(rows))


class _Outcome(NamedTuple):
    """The accuracy for one city at one epsilon; ``wrong`` is the share of mass in wrong nodes, for each level."""

    emd: float
    sim: float
    wrong: Floats


def _rehearse(grid: Grid, people: int, city: int, epsilon: Fraction) -> _Outcome:
    """Draw the people of a synthetic city, make a release of them, and compare the release with the truth."""
    visits = draw_people(synthetic_city(grid.shape, city), people, VISITS, city)
    rows, cols = np.nonzero(visits)
    mass = visits[rows, cols] * (ONE // VISITS)
    counts = Counts.from_cells(grid, rows, cols, mass, bound=ONE, one=ONE, unit=Unit.PERSON)
    found = central.default(grid, epsilon).run(counts, Simulation(city)).density.dense()
    truth = Density.from_mass(grid, visits)
    side = max(grid.shape)
    hot, true = found.smooth(SIGMA * side), truth.smooth(SIGMA * side)
    # A map of at most EMD_SIDE cells along a side keeps its shape.
    high, wide = (math.ceil(length * EMD_SIDE / max(side, EMD_SIDE)) for length in grid.shape)
    distance = emd(true.resample((high, wide)), hot.resample((high, wide)), tolerance=EMD_TOLERANCE)
    return _Outcome(float(distance), similarity(true, hot), _wrong_by_level(grid, truth.values - found.values))


def _wrong_by_level(grid: Grid, difference: Floats) -> Floats:
    """Compute the total variation distance of two maps on every level of the quadtree, from their difference."""
    size = 1 << grid.depth
    level = np.zeros((size, size))
    level[: grid.rows, : grid.cols] = difference
    wrong = [np.abs(level).sum() / 2]
    while len(level) > 1:
        half = len(level) // 2
        level = level.reshape(half, 2, half, 2).sum(axis=(1, 3))
        wrong.append(np.abs(level).sum() / 2)
    return np.array(wrong[::-1])


def _row(grid: Grid, people: int, epsilon: Fraction, outcomes: Sequence[_Outcome]) -> PlanRow:
    emds, sims = np.array([found.emd for found in outcomes]), np.array([found.sim for found in outcomes])
    wrong = np.mean([found.wrong for found in outcomes], axis=0)
    unclear = np.flatnonzero(wrong[1:] > SIGNAL)
    level = int(unclear[0]) if len(unclear) else len(wrong) - 1
    return PlanRow(
        people=people,
        epsilon=float(epsilon),
        emd=float(emds.mean()),
        emd_low=float(np.quantile(emds, 0.1)),
        emd_high=float(np.quantile(emds, 0.9)),
        sim=float(sims.mean()),
        sim_low=float(np.quantile(sims, 0.1)),
        sim_high=float(np.quantile(sims, 0.9)),
        level=level,
        side=max(grid.cell_size) * 2 ** (grid.depth - level),
        finest=level == len(wrong) - 1 < grid.depth,
        geographic=grid.projection.is_geographic,
    )


def _simulated(grid: Grid) -> Grid:
    """Make the grid on which cities are simulated: cells are merged four by four until a side has at most 256 cells.

    The quadtree stays the same.
    """
    shift = max(0, grid.depth - FINEST_DEPTH)
    return grid if shift == 0 else grid.resized((-(-grid.rows >> shift), -(-grid.cols >> shift)))


def _check(grid: Grid, people: int, cities: int | None) -> None:
    if not isinstance(grid, Grid):
        raise InvalidInput(f"plan takes a Grid first, not {kind_of(grid)}; make one with Grid.over or Grid.plane.")
    whole(people, "people", most=MOST_PEOPLE)
    if cities is not None:
        whole(cities, "cities", most=MOST_CITIES)


def _factor(time: Number) -> Fraction:
    try:
        factor = exact(time)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        factor = Fraction(0)
    if factor <= 0:
        raise InvalidInput(f"times holds {time!r}; give multiples of epsilon above 0, such as 1/2 and 2.")
    return factor


def _length(length: float, geographic: bool) -> str:
    """Format the side of a square for a plan's sentence, with two digits, since a plan is not more accurate.

    >>> _length(312.7, True), _length(15_480.0, True), _length(0.0314, False)
    ('310 m', '15 km', '0.031')
    """
    rounded = float(f"{length:.2g}")
    if not geographic:
        return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
    return f"{rounded / 1000:g} km" if rounded >= 1000 else f"{rounded:g} m"
