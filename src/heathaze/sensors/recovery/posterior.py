"""Finding sources from noisy readings: not one answer but all that the readings allow, and how likely each is.

Readings are y = Σⱼ sⱼ g(xⱼ) + noise, for a few sources at places xⱼ with strengths sⱼ. How many there are, where, and
how strong follows from Bayes' rule; guesses are drawn from that posterior (annealed sequential Monte Carlo with
reversible jumps), and everything reported is read off them: the answer with the least expected earth mover's distance,
each source with error bars, and how many there are. Where readings say nothing, guesses are everywhere, and so is the
answer.

Whether there is a source at all is asked first, at even odds, unless the number is given as known: where none is
likeliest, none is found. Readings that may as well be of nothing do not say where anything is, and the answer is then
spread over all places.

Everything is post-processing of readings that are private already; number and strengths of sources, which their
guarantee does not protect, may be given as known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as member
from typing import Self

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._answer import Named, median_shares, named, nearest_shares
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._problem import problem
from heathaze.sensors.recovery._sampler import sample
from heathaze.types import Floats, Integers

# TODO-merged from sensors.recovery._source_distances: How far places are apart: straight, or along the edges of a network.

_LIKELY = 8
"""The middle of places on a network is sought among so many of the most frequent."""


@dataclass(eq=False)
class Apart:
    """Distances between places of a field; ``line`` has the coordinates of candidates where there is but one axis."""

    field: Field
    line: Floats | None
    pooled: int
    _known: dict[int, Floats] = member(default_factory=dict)

    @classmethod
    def of(cls, field: Field) -> Self:
        """Distances in the space of a field."""
        line = None
        if field.network is None and field.positions is not None and np.shape(field.positions)[1] == 1:
            line = np.asarray(field.positions, dtype=np.float64)[:, 0]
        # A search of a network takes time for each place.
        large = field.network is not None and field.shape[1] > 5000
        return cls(field, line, 60 if large else 240)

    def between(self, ones: npt.NDArray[np.generic], others: npt.NDArray[np.generic]) -> Floats:
        """From each of some places to each of others."""
        if self.field.network is not None:
            self._search(np.unique(ones))
            return np.stack([self._known[int(one)][others] for one in ones])
        here, there = self._coordinates(ones), self._coordinates(others)
        return np.asarray(np.sqrt(((here[:, None, :] - there[None, :, :]) ** 2).sum(axis=2)))

    def middle(self, places: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The mean of coordinates; of candidates, that of the most frequent from which all are nearest on average."""
        if self.field.bounds is not None:
            return np.asarray(places.mean(axis=0))
        distinct, times = np.unique(places, return_counts=True)
        likely = distinct[np.argsort(-times, kind="stable")[:_LIKELY]]
        return np.asarray(likely[np.argmin(self.between(likely, distinct) @ times)])

    def candidate(self, places: npt.NDArray[np.generic]) -> Integers:
        """The candidate nearest to each place."""
        if self.field.bounds is None:
            return np.asarray(places, dtype=np.int64)
        from scipy.spatial import cKDTree

        assert self.field.positions is not None
        return np.asarray(cKDTree(self.field.positions).query(places)[1])

    def _coordinates(self, places: npt.NDArray[np.generic]) -> Floats:
        if self.field.bounds is not None:
            return np.asarray(places, dtype=np.float64)
        assert self.field.positions is not None
        return np.asarray(np.asarray(self.field.positions, dtype=np.float64)[places])

    def _search(self, starts: Integers) -> None:
        from scipy.sparse.csgraph import dijkstra

        assert self.field.network is not None
        new = [int(start) for start in starts if int(start) not in self._known]
        if new:
            rows = dijkstra(self.field.network.adjacency(), directed=False, indices=new)
            self._known.update(zip(new, rows, strict=True))


GUESSES = 1000
"""Drawn from the posterior: the mean of a quantity is then known to a thirtieth of its spread."""

MAX_SOURCES = 20
"""More are a density rather than sources, and take long."""

_FALL = 0.25
"""Probabilities of 1, 2, 3, 4, … sources are as 1, 1, 1/4, 1/16, …: few are likelier than many, and one is not
presumed, since whoever looks for sources in a blur of heat and presumes one will find it in the middle."""


@dataclass(frozen=True)
class Source:
    """A source that was found, with what is not known of it.

    ``position`` is in the field's coordinates, ``node`` the number of a candidate where space is not continuous; either
    may be nothing. With nine parts in ten of probability the source lies within ``position_error`` of there (in units
    of length), and its strength in ``strength_interval``, if there are as many sources as were found. ``probability``
    is that of any source at all lying so near.
    """

    position: tuple[float, ...] | None
    node: int | None
    position_error: float
    strength: float
    strength_interval: tuple[float, float]
    probability: float


@dataclass(frozen=True, eq=False)
class Sources:
    """What readings say about sources.

    Attributes:
        found: As many sources as there most likely are, the strongest first; none if that is likeliest.
        number: Probability of 0, 1, 2, … sources.
        shares: Of all strength, one for each candidate: the answer that is nearest to the truth on average.
        total: Strength of all sources together, the median.
        total_interval: In which it lies with nine parts in ten of probability.
        widened: By which factor the noise had to be taken larger than said for sources to explain the readings; from 1.
        guesses: The draws themselves, (number, places, strengths), for whoever wants to know more. Places and
            strengths beyond the number of a draw mean nothing.
    """

    found: tuple[Source, ...]
    number: Floats
    shares: Floats
    total: float
    total_interval: tuple[float, float]
    widened: float
    guesses: tuple[Integers, npt.NDArray[np.generic], Floats]

    def __repr__(self) -> str:
        chances = ", ".join(f"{count}: {chance:.0%}" for count, chance in enumerate(self.number) if chance > 0.005)
        return f"<Sources: {len(self.found)} found; how many there are: {chances}; total strength {self.total:.3g}>"

    @property
    def strengths(self) -> Floats:
        """The answer in units of strength, one for each candidate."""
        return self.shares * self.total

    def density(self, field: Field) -> Floats:
        """Where strength is likely to be: the mean of all guesses, a share for each candidate of the field."""
        number, places, strengths = self.guesses
        there = np.arange(places.shape[1]) < number[:, None]
        shares = strengths / strengths.sum(axis=1, keepdims=True)
        candidates = Apart.of(field).candidate(places[there])
        return np.asarray(np.bincount(candidates, shares[there], minlength=field.shape[1]) / len(number))


def find_sources(
    field: Field,
    readings: npt.ArrayLike,
    sigma: npt.ArrayLike,
    *,
    at_most: int = 5,
    number: int | None = None,
    strengths: float | Sequence[float] | None = None,
    randomness: Randomness | None = None,
    guesses: int = GUESSES,
) -> Sources:
    """Where the sources are, how strong, and how surely.

    Args:
        field: How sources reach sensors.
        readings: One for each row of the field; drop the rows of missing ones first.
        sigma: Standard deviation of the noise of every reading, or one for each.
        at_most: The largest number of sources that is considered.
        number: How many sources there are, if that is known.
        strengths: How strong each is, if that is known: a number, or the ends of a range.
        randomness: Where random bits come from; the same readings give the same answer unless this is given.
        guesses: How many to draw from the posterior.

    Raises:
        InvalidInput: An argument cannot be used; the sentence says which.

    Cost: a second or two on a line, a few in the plane; on a graph of 100,000 nodes a few hundred products with its
    heat kernel. There, with more than a thousand sensors, only some hundred promising nodes are considered.
    """
    shape = field.shape
    values = _parse_readings(readings, shape[0])
    noise = _parse_sigma(sigma, shape[0])
    numbers = _parse_number(at_most, number)
    low, high = _parse_strengths(strengths)
    if isinstance(guesses, bool) or not isinstance(guesses, int | np.integer) or guesses < 100:
        raise InvalidInput(f"guesses is {guesses!r}; give a whole number from 100.")
    bits = Simulation(0) if randomness is None else randomness
    posed = problem(field, values, noise, bits)
    weighed = posed.number(numbers)
    prior = Prior(weighed, low, high, posed.total())
    drawn = sample(posed.space, prior, posed.readings, bits, guesses=int(guesses), unseen=posed.unseen, rows=posed.rows)
    held = drawn.guesses
    places = held.places if field.bounds is not None else posed.space.named(held.places)
    # Of the prior, only so much lies on the candidates that are considered.
    for_some = drawn.evidence + math.log(np.exp(weighed).sum() / np.exp(numbers).sum())
    none = 0.0 if number is not None else 1 / (1 + math.exp(min(for_some, 700.0)))
    return _summary(field, held.number, places, held.strengths, held.misfit(), drawn.widened, none)


def _summary(
    field: Field,
    number: Integers,
    places: npt.NDArray[np.generic],
    strengths: Floats,
    misfit: Floats,
    widened: float,
    none: float,
) -> Sources:
    """Everything that is told, from guesses and the probability that there is no source at all."""
    totals = strengths.sum(axis=1)
    apart = Apart.of(field)
    likely = np.bincount(number, minlength=strengths.shape[1] + 1) / len(number) * (1 - none)
    likely[0] = none
    most = int(np.argmax(likely))
    sources = [] if most == 0 else _named(number, places, strengths, misfit, most, apart)
    found = [_source(field, one, number, places, apart) for one in sources]
    return Sources(
        tuple(sorted(found, key=lambda source: -source.strength)),
        likely,
        _spread(_shares(field, number, places, strengths / totals[:, None], apart), none),
        float(np.median(totals)),
        _interval(totals),
        widened,
        (number, places, strengths),
    )


def _named(
    number: Integers, places: npt.NDArray[np.generic], strengths: Floats, misfit: Floats, most: int, apart: Apart
) -> list[Named]:
    """The sources of all guesses of so many, each with its likes in the other guesses."""
    same = np.flatnonzero(number == most)
    # As many as settle the intervals; matching takes time for each.
    same = same[np.unique(np.linspace(0, len(same) - 1, 400).astype(np.int64))]
    first = int(np.argmin(misfit[same]))
    return list(named(places[same, :most], strengths[same, :most], first, apart.between, apart.middle))


def _source(field: Field, one: Named, number: Integers, places: npt.NDArray[np.generic], apart: Apart) -> Source:
    reach = float(np.quantile(apart.between(one.middle[None], one.places)[0], 0.9))
    flat = places.reshape(-1, *places.shape[2:])
    away = apart.between(one.middle[None], flat)[0].reshape(places.shape[:2])
    there = (away <= reach) & (np.arange(places.shape[1]) < number[:, None])
    position, node = None, None
    if field.bounds is not None:
        position = tuple(float(x) for x in one.middle)
    else:
        node = int(one.middle)
        if field.positions is not None:
            position = tuple(float(x) for x in np.atleast_1d(field.positions[node]))
    return Source(
        position,
        node,
        reach,
        float(np.median(one.strengths)),
        _interval(one.strengths),
        float(there.any(axis=1).mean()),
    )


def _shares(field: Field, number: Integers, places: npt.NDArray[np.generic], shares: Floats, apart: Apart) -> Floats:
    """The answer nearest to all guesses, on the candidates."""
    if apart.line is not None:
        points = places[..., 0] if field.bounds is not None else apart.line[places]
        return median_shares(apart.line, np.asarray(points, dtype=np.float64), shares)
    anchored = nearest_shares(number, places, shares, apart.between, apart.pooled)
    answer = np.zeros(field.shape[1])
    np.add.at(answer, apart.candidate(anchored.places), anchored.shares)
    return np.asarray(answer / answer.sum())


def _spread(shares: Floats, none: float) -> Floats:
    """The answer, spread over all places as far as there may be no source at all: wholly where that is even odds."""
    if none < 1e-3:
        return shares
    evenly = min(1.0, 2 * none)
    return np.asarray((1 - evenly) * shares + evenly / len(shares))


def _interval(values: Floats) -> tuple[float, float]:
    low, high = np.quantile(values, (0.05, 0.95))
    return float(low), float(high)


# ── what callers may give ───────────────────────────────────────────────────────────────────────────────────────────


def _parse_readings(readings: npt.ArrayLike, rows: int) -> Floats:
    values = np.asarray(readings, dtype=np.float64)
    if values.shape != (rows,):
        raise InvalidInput(f"There are readings of shape {values.shape}; the field has {rows}, give one for each.")
    missing = ~np.isfinite(values)
    if missing.any():
        raise InvalidInput(
            f"{int(missing.sum())} of {rows} readings are missing or infinite; drop those rows from the field first."
        )
    return values


def _parse_sigma(sigma: npt.ArrayLike, rows: int) -> Floats:
    noise = np.asarray(sigma, dtype=np.float64)
    if noise.shape not in ((), (rows,)):
        raise InvalidInput(f"sigma has shape {noise.shape}; give one number, or one for each of {rows} readings.")
    if not (np.isfinite(noise).all() and (noise > 0).all()):
        shown = f"is {float(noise)!r}" if noise.ndim == 0 else "holds a number that is not positive and finite"
        raise InvalidInput(f"sigma {shown}; give the standard deviation of the noise, above zero.")
    return np.broadcast_to(noise, (rows,)).copy()


def _parse_number(at_most: int, number: int | None) -> Floats:
    """The logarithm of the prior of 0, 1, 2, … sources."""
    for name, value in (("at_most", at_most), ("number", number)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (whole and 1 <= value <= MAX_SOURCES):
            raise InvalidInput(f"{name} is {value!r}; give a whole number of sources from 1 to {MAX_SOURCES}.")
    if number is not None:
        if number > at_most:
            raise InvalidInput(f"number is {number}, more than at_most, which is {at_most}; raise at_most.")
        log = np.full(number + 1, -np.inf)
        log[number] = 0.0
        return log
    odds = np.concatenate([[0.0, 1.0], _FALL ** np.arange(at_most - 1)])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(odds / odds.sum()))


def _parse_strengths(strengths: float | Sequence[float] | None) -> tuple[float, float]:
    """The ends of the range of strengths; they are equal if strengths are known."""
    if strengths is None:
        return 0.0, math.inf
    given = np.asarray(strengths, dtype=np.float64)
    if given.shape not in ((), (2,)):
        raise InvalidInput(f"strengths have shape {given.shape}; give one number, or the two ends of a range.")
    low, high = (float(x) for x in np.broadcast_to(given, (2,)))
    if not (math.isfinite(low) and math.isfinite(high)) or low < 0 or high <= 0:
        raise InvalidInput(f"strengths are {strengths!r}; sources add heat, so give positive numbers.")
    if low > high:
        raise InvalidInput(f"strengths range from {low:g} to {high:g}; give the lower end first.")
    return low, high
