"""Made-up journeys from a model of noisy numbers. Everything here is public; no code here sees a true journey.

    pairs ─► start and end ─► a length for the distance ─► places on the way ─► cheapest paths ─► bent to the length

1. **Start and end.** A pair of squares is drawn by its mass, and inside it the two squares by the map of visits. The
   draws are weighted until their distances have the distribution that the table of shapes says, f(distance), while
   every pair keeps its mass (iterative proportional fitting).
2. **Length.** Given the distance d, a length l has the probability of the shape (l, l / d).
3. **Way.** A journey follows cheapest paths, where a metre costs less in squares that are visited more. A journey that
   is at least 1.25 times as long as its cheapest path is led through further squares. Prices are adjusted, in a few
   rounds, until the made-up journeys visit squares as often as the map of visits says.
4. **Bending.** The path is smoothed or shaken until it has the length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.checks import whole
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.domain.quadtree import interleave
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.frame import DAY, HOURS, LENGTH_RATIO, LENGTHS, STRAIGHTNESS, Frame, split_pairs
from heathaze.types import Floats, Integers

MOST_JOURNEYS = 10**7
"""The most journeys that are made up at once."""

MOST_UNASKED = 100_000
"""The most journeys that are made up if nobody says how many. The noise of a tiny ε alone could make millions."""

FITTED = 4
"""The number of pairs drawn for each journey; one is kept after fitting the distances."""

ROUNDS = ((4, 4), (2, 2), (1, 0))
"""How often prices are adjusted, on squares that are 4 times, twice and once as wide as those of the model."""

RATE = 0.5
"""A square that is visited r times as often as it should is chosen r^RATE times less often as a place on the way."""

PRICED = 0.5
"""A square that is chosen f times less often costs f^PRICED times as much."""

POWER = 0.2
"""At first, a metre in a square that is visited v times as often as the average costs v^−POWER."""

TILT = 0.4
"""Prices of a path differ from the map's by up to a factor of e^TILT, depending on its start, so that paths differ."""

LED_ABOVE = (1.25, 1.7, 2.4, 3.3, 4.5, 6.0, 8.0)
"""For each of these ratios of its length to its cheapest path that a journey reaches, it passes one more place."""

_TILTS = 509
"""The number of different tilts. It is odd, so that the squares of a column do not share one."""
_FLOOR = 0.1
"""The share of visits that is spread evenly over the map, so that no square is infinitely expensive."""

_TRIED = 8000
"""The most journeys with which prices are adjusted."""

_MOST_SHAKEN = 1.5
"""A point is shaken by at most this part of half a square."""

_SHORTER = 2
"""The first class of length begins this many classes below its end, instead of at 0."""

_FINE = 3
"""Each class of length is divided into this many when a length is drawn."""


@dataclass(frozen=True, eq=False)
class JourneyModel:
    """What a mechanism found out about journeys: noisy numbers only. Public.

    Args:
        frame: The public frames.
        count: The noisy number of units.
        visits: Share of visits in each square, an array of the shape of ``frame.squares`` that sums to 1.
        pair_levels: Level of each leaf of the tree of pairs.
        pair_codes: Code of each leaf.
        pair_mass: Share of journeys in each leaf, at least 0.
        shapes: Share of journeys in each class of length (rows) and straightness (columns), at least 0.
        hours: Share of journeys that begin in each hour of the day, or None if it was not measured.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.privacy.randomness import Simulation
    >>> from heathaze.trajectories import LocalJourneys, randomize
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=2, squares=16)
    >>> model = mechanism.estimate(randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)]] * 50)).values)
    >>> model.visits.shape, len(model.sample(5, Simulation(1)))
    ((16, 16), 5)
    """

    frame: Frame
    count: float
    visits: Floats
    pair_levels: Integers
    pair_codes: Integers
    pair_mass: Floats
    shapes: Floats
    hours: Floats | None = None

    def sample(self, number: int, randomness: Randomness) -> Lines:
        """Make up journeys.

        Args:
            number: How many.
            randomness: The source of random bits.

        Returns:
            The made-up journeys.

        Raises:
            InvalidInput: The number is not from 1 to 10^7.
        """
        number = whole(number, "number", "journeys to make up", most=MOST_JOURNEYS)
        start, end, places = _ends(self, number, randomness)
        distance = np.hypot(places[0] - places[2], places[1] - places[3])
        length = _lengths(self, distance, randomness)
        path, offsets = _routes(self, start, end, length, randomness)
        return _bent(self, path, offsets, places, length, randomness)

    def departures(self, number: int, randomness: Randomness) -> Floats | None:
        """Make up the times at which journeys begin, in seconds since midnight; None if hours were not measured.

        Args:
            number: How many.
            randomness: The source of random bits.

        Returns:
            One time for each journey.
        """
        if self.hours is None:
            return None
        seconds = DAY // HOURS
        hour = _evenly(self.hours, number, randomness)
        shuffled = np.argsort(randomness.uniforms(number), kind="stable")
        return np.floor((hour[shuffled] + randomness.uniforms(number)) * seconds)


def number_of_journeys(number: int | None, units: float) -> int:
    """How many journeys to make up: the given number, or else the number of units, from 1 to 100,000.

    Args:
        number: What the caller asks for, 1 to 10^7; or None.
        units: The noisy number of units, or the number of reports. Public.

    Raises:
        InvalidInput: The number is not from 1 to 10^7.

    >>> number_of_journeys(None, -3.2), number_of_journeys(None, 2_000.4), number_of_journeys(None, 1e7)
    (1, 2000, 100000)
    """
    if number is None:
        return min(max(1, round(units)), MOST_UNASKED)
    return whole(number, "number", "journeys to make up", most=MOST_JOURNEYS)


def _ends(model: JourneyModel, number: int, randomness: Randomness) -> tuple[Integers, Integers, tuple[Floats, ...]]:
    """Draw first and last squares, and a place in each: right and down of the start, then right and down of the end."""
    frame, squares = model.frame, model.frame.squares
    leaf = _evenly(model.pair_mass, FITTED * number, randomness)
    start_level, start_code, end_level, end_code = split_pairs(model.pair_levels[leaf], model.pair_codes[leaf])
    # The squares of a node are next to each other in the order of their codes.
    order = np.argsort(interleave(*np.divmod(np.arange(squares.cells), squares.cols)))
    share = model.visits.ravel()[order] + 1e-3 / squares.cells
    sums = np.concatenate([[0.0], np.cumsum(share)])

    def inside(level: Integers, code: Integers) -> Integers:
        shift = 2 * (frame.depth - level)
        first, last = code << shift, (code + 1) << shift
        at = sums[first] + randomness.uniforms(len(code)) * (sums[last] - sums[first])
        return np.asarray(order[np.clip(np.searchsorted(sums, at, "right") - 1, first, last - 1)])

    height, width = squares.cell_size
    start, end = inside(start_level, start_code), inside(end_level, end_code)
    places: list[Floats] = []
    for square in (start, end):
        row, col = np.divmod(square, squares.cols)
        places.append((col + randomness.uniforms(len(col))) * width)
        places.append((row + randomness.uniforms(len(row))) * height)
    distance = np.hypot(places[0] - places[2], places[1] - places[3])
    kept = _evenly(_fitted(model, leaf, distance, randomness), number, randomness)
    return start[kept], end[kept], tuple(place[kept] for place in places)


def _fitted(model: JourneyModel, leaf: Integers, distance: Floats, randomness: Randomness) -> Floats:
    """Weight pairs so that their distances fit the shapes, and every leaf keeps its mass."""
    borders = distance_borders(model.frame)
    wanted = np.bincount(np.searchsorted(borders, drawn_distances(model, randomness)), minlength=len(borders) + 1)
    wanted = wanted / wanted.sum()
    goal = model.pair_mass / model.pair_mass.sum()
    near, weight = np.searchsorted(borders, distance), np.ones(len(leaf))
    for _ in range(20):
        found = np.bincount(near, weights=weight, minlength=len(wanted)) / weight.sum()
        weight *= np.clip(wanted / np.maximum(found, 1e-12), 0.2, 5)[near]
        found = np.bincount(leaf, weights=weight, minlength=len(goal)) / weight.sum()
        weight *= (goal / np.maximum(found, 1e-12))[leaf]
    return weight


def distance_borders(frame: Frame) -> Floats:
    """Return the inner borders of the classes of distance: those of length, and six shorter ones."""
    borders = frame.length_borders
    return np.concatenate([borders[0] * LENGTH_RATIO ** -np.arange(6.0, 0, -1), borders])


def _class_ends(model: JourneyModel) -> tuple[Floats, Floats]:
    """Return where each class of length begins and ends, in metres."""
    borders = model.frame.length_borders
    first, last = borders[0] * LENGTH_RATIO**-_SHORTER, borders[-1] * LENGTH_RATIO
    return np.concatenate([[first], borders]), np.concatenate([borders, [last]])


def drawn_distances(model: JourneyModel, randomness: Randomness, number: int = 100_000) -> Floats:
    """Draw distances from the table of shapes: a length divided by a straightness, both log-uniform in their class.

    Beyond its lower border 4, the logarithm of the last class of straightness is exponential with mean 1.
    """
    low, high = _class_ends(model)
    length, bend = np.divmod(_evenly(model.shapes.ravel(), number, randomness), model.shapes.shape[1])
    edges = np.log([1.0, *STRAIGHTNESS])
    uniform = randomness.uniforms(number)
    inner = edges[bend] + np.append(np.diff(edges), 0.0)[bend] * uniform
    bent = np.where(bend == len(STRAIGHTNESS), edges[-1] - np.log1p(-uniform), inner)
    return np.asarray(low[length] * (high[length] / low[length]) ** randomness.uniforms(number) / np.exp(bent))


def _lengths(model: JourneyModel, distance: Floats, randomness: Randomness) -> Floats:
    """Draw a length for each distance: the probability of l given d is that of the shape (l, l / d)."""
    low, high = _class_ends(model)
    span = np.log(high / low)
    middles = (low[:, None] * np.exp(span[:, None] * (np.arange(_FINE) + 0.5) / _FINE)).ravel()
    which = np.repeat(np.arange(LENGTHS), _FINE)
    spans = span[which] / _FINE
    wide = np.append(np.diff(np.log([1.0, *STRAIGHTNESS])), 1.0)
    density = model.shapes / (span[:, None] * wide)
    length = np.empty(len(distance))
    for first in range(0, len(distance), 20_000):
        far = distance[first : first + 20_000, None]
        ratio = middles / np.maximum(far, 1e-9)
        weight = density[which, np.searchsorted(STRAIGHTNESS, ratio, "right")] * spans
        weight *= (ratio >= 0.97) * np.minimum(1.0, STRAIGHTNESS[-1] / ratio)
        sums = np.cumsum(weight, axis=1)
        uniform = randomness.uniforms(len(far))[:, None] * sums[:, -1:]
        chosen = np.minimum((sums <= uniform).sum(axis=1), len(middles) - 1)
        drawn = middles[chosen] * np.exp((randomness.uniforms(len(far)) - 0.5) * spans[chosen])
        drawn = np.where(sums[:, -1] > 0, drawn, 1.2 * far[:, 0])
        length[first : first + len(far)] = np.maximum(drawn, far[:, 0])
    return length


def _routes(
    model: JourneyModel, start: Integers, end: Integers, length: Floats, randomness: Randomness
) -> tuple[Integers, Integers]:
    """Lead each journey from its start to its end: the squares of all journeys, and the offset of each journey.

    Prices are adjusted on coarse squares first, where paths cost little. The result is the starting point on the next
    finer squares.
    """
    few = np.arange(0, len(start), max(1, len(start) // _TRIED))
    factor: Floats = np.ones((1, 1))
    for part, rounds in ROUNDS:
        coarse = _Routes(model, part, start, end, length, randomness)
        finer = coarse.squares.rows // len(factor), coarse.squares.cols // len(factor)
        factor = np.asarray(np.kron(factor, np.ones(finer)), np.float64)
        for _ in range(rounds):
            factor = factor * coarse.excess(few, factor) ** RATE
    return coarse.lead(np.arange(len(start)), factor)


@dataclass(eq=False, repr=False)
class _Routes:
    """Paths of journeys on squares that are ``part`` times as wide as those of the model."""

    model: JourneyModel
    part: int
    start: Integers
    end: Integers
    length: Floats
    randomness: Randomness

    def __post_init__(self) -> None:
        fine = self.model.frame.squares
        self.squares = squares = fine.resized((fine.rows // self.part, fine.cols // self.part))
        self.even = _FLOOR / squares.cells
        self.visits = self.model.visits.reshape(squares.rows, self.part, squares.cols, self.part).sum(axis=(1, 3))
        (self.first, self.last) = (
            row // self.part * squares.cols + col // self.part
            for row, col in (np.divmod(place, fine.cols) for place in (self.start, self.end))
        )
        self.led = np.asarray(LED_ABOVE)
        self.tilt = np.exp(TILT * (2 * self.randomness.uniforms(_TILTS * squares.cells) - 1)).reshape(_TILTS, -1)
        self.uniforms = self.randomness.uniforms(len(self.led) * len(self.start)).reshape(len(self.start), -1)

    def lead(self, some: Integers, factor: Floats) -> tuple[Integers, Integers]:
        """Lead some journeys, if each square is chosen ``factor`` times less often than its visits say."""
        from heathaze.trajectories._paths import follow, next_places

        squares = self.squares
        price = ((self.visits + self.even) * squares.cells) ** -POWER * factor**PRICED
        paths = _Paths(squares, price.ravel(), self.tilt)
        first, last, rest = self.first[some], self.last[some], self.length[some].copy()
        paths.begin_at(np.concatenate([first, last]))
        direct = np.maximum(paths.metres[first, last], 1e-9)
        left = np.searchsorted(self.led, rest / direct, "right")
        liking = (self.visits / factor).ravel()
        via, here = np.full((len(some), len(self.led)), -1), first.copy()
        for k in range(len(self.led)):
            going = np.flatnonzero(left > 0)
            paths.begin_at(here[going])
            at = here[going], last[going], rest[going], left[going]
            chosen = next_places(*at, paths.metres, liking, self.uniforms[some[going], k])
            left[going] = np.where(chosen < 0, 0, left[going] - 1)
            going, chosen = going[chosen >= 0], chosen[chosen >= 0]
            rest[going] -= paths.metres[here[going], chosen]
            via[going, k] = here[going] = chosen
        paths.begin_at(here)
        squares_of_all, offsets = follow(first, last, via, paths.step, squares.cols)
        return squares_of_all, offsets

    def excess(self, some: Integers, factor: Floats) -> Floats:
        """Return how many times as often as wanted some journeys visit each square and its neighbours."""
        from scipy.ndimage import uniform_filter  # imported late: `import heathaze` stays quick

        path, offsets = self.lead(some, factor)
        number = np.diff(offsets)
        made = np.bincount(path, weights=np.repeat(1 / number, number), minlength=self.squares.cells) / len(some)
        found, wanted = (
            uniform_filter(visits.reshape(self.squares.shape), 3, mode="nearest") + self.even
            for visits in (made, self.visits)
        )
        return np.asarray(np.clip(found / wanted, 0.1, 10))


class _Paths:
    """Cheapest paths from the squares in which legs of journeys begin, which are found when they are needed.

    The tables have a row for each square, but the system gives memory only to rows that are written. So memory grows
    with the squares in use times all squares.

    Args:
        squares: The squares.
        price: The price of a metre in each square.
        tilt: Rows of factors of the prices.
    """

    def __init__(self, squares: Grid, price: Floats, tilt: Floats) -> None:
        self._squares, self._price, self._tilt = squares, price, tilt
        self.step = np.empty((squares.cells, squares.cells), np.uint8)
        self.metres = np.empty((squares.cells, squares.cells), np.float32)
        self._known = np.zeros(squares.cells, np.bool_)

    def begin_at(self, roots: Integers) -> None:
        """Find the paths that begin in these squares, unless they are known."""
        from heathaze.trajectories._paths import cheapest_paths

        new = np.unique(roots)
        new = new[~self._known[new]]
        self._known[new] = True
        squares = self._squares
        where = squares.rows, squares.cols, *squares.cell_size
        cheapest_paths(new, self._price, self._tilt, *where, self.step, self.metres)


def _bent(
    model: JourneyModel,
    path: Integers,
    offsets: Integers,
    places: tuple[Floats, ...],
    length: Floats,
    randomness: Randomness,
) -> Lines:
    """Turn squares into points, and bend each journey to its length."""
    from heathaze.trajectories._paths import bend

    squares = model.frame.squares
    height, width = squares.cell_size
    row, col = np.divmod(path, squares.cols)
    # A journey inside one square gets two points: its start and its end.
    alone = np.diff(offsets) == 1
    right = np.insert((col + 0.5) * width, offsets[1:][alone], 0.0)
    down = np.insert((row + 0.5) * height, offsets[1:][alone], 0.0)
    offsets = np.concatenate([[0], np.cumsum(np.diff(offsets) + alone)])
    right[offsets[:-1]], down[offsets[:-1]] = places[0], places[1]
    right[offsets[1:] - 1], down[offsets[1:] - 1] = places[2], places[3]
    shakes = ((randomness.uniforms(len(right)) - 0.5) * side for side in (width, height))
    bend(right, down, offsets, length, *shakes, _MOST_SHAKEN)
    across, below = np.clip(right / width, 0, squares.cols), np.clip(down / height, 0, squares.rows)
    return Lines(np.clip(squares.x_at(across), *squares.x), np.clip(squares.y_at(below), *squares.y), offsets)


def _evenly(weights: Floats, number: int, randomness: Randomness) -> Integers:
    """Draw indices in proportion to weights, at evenly spaced values of their cumulative sums (systematic sampling)."""
    sums = np.cumsum(weights)
    at = (np.arange(number) + randomness.uniforms(1)) / number * sums[-1]
    return np.asarray(np.minimum(np.searchsorted(sums, at, "right"), len(sums) - 1))
