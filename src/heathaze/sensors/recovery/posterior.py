"""Finding sources from noisy readings: a posterior over the number, the places and the strengths of the sources.

Readings are y = Σⱼ sⱼ g(xⱼ) + noise, for a few sources at places xⱼ with strengths sⱼ. The posterior is sampled by
annealed sequential Monte Carlo with reversible jumps. Everything that is reported is computed from the draws: the
shares with the least expected earth mover's distance, each source with intervals, and the probability of each number
of sources. Where the readings say nothing, the draws are spread over all places, and so is the answer.

Unless the number is given as known, the prior gives "no source" the same probability as "some sources". If no source is
the likeliest number, none is reported, and the shares are spread over all places.

All this is post-processing of readings that are private already. Number and strengths of sources, which the guarantee
does not protect, may be given as known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._answer import Matched, Metric, match_sources, median_shares, nearest_shares
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._problem import prepare
from heathaze.sensors.recovery._sampler import sample
from heathaze.types import Floats, Integers

DRAWS = 1000
"""Draws from the posterior by default: the error of a mean is then a thirtieth of the standard deviation."""

MAX_SOURCES = 20
"""More sources than this are better described by a density, and take long to find."""

_FALL = 0.25
"""Prior probabilities of 1, 2, 3, 4, … sources are in the ratio 1 : 1 : 1/4 : 1/16 : …

One source is no likelier than two: a prior that favours one finds a single source in the middle of several."""


@dataclass(frozen=True)
class Source:
    """A source that was found, with intervals of probability 0.9.

    The intervals assume that there are as many sources as were found.

    Attributes:
        position: In the field's coordinates; None on a graph.
        node: The number of the candidate; None where space is continuous.
        position_error: The source lies within this distance of the position, in units of length, with probability 0.9.
        strength: The median strength.
        strength_interval: Contains the strength with probability 0.9.
        probability: Of any source within ``position_error`` of the position.
    """

    position: tuple[float, ...] | None
    node: int | None
    position_error: float
    strength: float
    strength_interval: tuple[float, float]
    probability: float


@dataclass(frozen=True, eq=False)
class Sources:
    """The posterior of the sources behind some readings.

    Attributes:
        found: As many sources as are likeliest, the strongest first; empty if no source is likeliest.
        number: Probability of 0, 1, 2, … sources.
        shares: The share of all strength at each candidate, with the least expected earth mover's distance to the
            truth.
        total: Median of the strength of all sources together.
        total_interval: Contains the total with probability 0.9.
        widened: The factor, 1 or larger, by which the noise was increased because no sources explain the readings.
        draws: Number, places and strengths of all draws. Places and strengths beyond the number of a draw mean nothing.
    """

    found: tuple[Source, ...]
    number: Floats
    shares: Floats
    total: float
    total_interval: tuple[float, float]
    widened: float
    draws: tuple[Integers, npt.NDArray[np.generic], Floats]

    def __repr__(self) -> str:
        chances = ", ".join(f"{count}: {chance:.0%}" for count, chance in enumerate(self.number) if chance > 0.005)
        return f"<Sources: {len(self.found)} found; how many there are: {chances}; total strength {self.total:.3g}>"

    @property
    def strengths(self) -> Floats:
        """Strengths of the candidates: their shares of the total."""
        return self.shares * self.total

    def density(self, field: Field) -> Floats:
        """The mean of all draws: the expected share of the strength at each candidate.

        Args:
            field: The field that the sources were found in.
        """
        number, places, strengths = self.draws
        there = np.arange(places.shape[1]) < number[:, None]
        shares = strengths / strengths.sum(axis=1, keepdims=True)
        candidates = Metric.of(field).candidate(places[there])
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
    draws: int = DRAWS,
) -> Sources:
    """The posterior of the sources: how many there are, where, how strong, and how certain that is.

    It takes one or two seconds on a line and a few seconds in the plane. On a graph of 100,000 nodes it takes a few
    hundred products with the heat kernel; with more than 1,000 sensors only 160 promising nodes are considered there.

    Args:
        field: How sources reach sensors.
        readings: One for each row of the field; leave out the rows of missing readings first (``field.only``).
        sigma: Standard deviation of the noise, one number or one for each reading.
        at_most: The largest number of sources, 1 to 20.
        number: The number of sources, if it is known.
        strengths: The strength of each source, if it is known: a number, or the two ends of a range.
        randomness: Random bits for the draws. Without it the same readings give the same answer.
        draws: The number of draws from the posterior, 100 or more.

    Returns:
        Sources with intervals, shares of all candidates, and the draws.

    Raises:
        InvalidInput: An argument cannot be used; the sentence says which.

    >>> from heathaze.sensors.physics import Line
    >>> line = Line(50, 25, 0.01)
    >>> found = find_sources(line, 3 * line.responses([[0.4]])[:, 0], 0.1, number=1, draws=100)
    >>> round(found.found[0].position[0], 1), round(found.total)
    (0.4, 3)
    """
    shape = field.shape
    values = _parse_readings(readings, shape[0])
    noise = _parse_sigma(sigma, shape[0])
    numbers = _parse_number(at_most, number)
    low, high = _parse_strengths(strengths)
    count = whole(draws, "draws", least=100)
    bits = Simulation(0) if randomness is None else randomness
    posed = prepare(field, values, noise, bits)
    weighed = posed.number(numbers)
    prior = Prior(weighed, low, high, posed.total())
    drawn = sample(posed.space, prior, posed.readings, bits, count=count, unseen=posed.unseen, rows=posed.rows)
    held = drawn.particles
    places = held.places if field.bounds is not None else posed.space.field_places(held.places)
    # The candidates that are considered have only a part of the prior probability.
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
    """All that is reported, from the draws and the probability that there is no source."""
    totals = strengths.sum(axis=1)
    metric = Metric.of(field)
    likely = np.bincount(number, minlength=strengths.shape[1] + 1) / len(number) * (1 - none)
    likely[0] = none
    most = int(np.argmax(likely))
    sources = [] if most == 0 else _named(number, places, strengths, misfit, most, metric)
    found = [_source(field, one, number, places, metric) for one in sources]
    return Sources(
        tuple(sorted(found, key=lambda source: -source.strength)),
        likely,
        _spread(_shares(field, number, places, strengths / totals[:, None], metric), none),
        float(np.median(totals)),
        _interval(totals),
        widened,
        (number, places, strengths),
    )


def _named(
    number: Integers, places: npt.NDArray[np.generic], strengths: Floats, misfit: Floats, most: int, metric: Metric
) -> list[Matched]:
    """The sources of all draws with the likeliest number, matched with each other."""
    same = np.flatnonzero(number == most)
    # 400 draws suffice for the intervals, and matching takes time for each.
    same = same[np.unique(np.linspace(0, len(same) - 1, 400).astype(np.int64))]
    first = int(np.argmin(misfit[same]))
    return list(match_sources(places[same, :most], strengths[same, :most], first, metric.between, metric.middle))


def _source(field: Field, one: Matched, number: Integers, places: npt.NDArray[np.generic], metric: Metric) -> Source:
    radius = float(np.quantile(metric.between(one.middle[None], one.places)[0], 0.9))
    flat = places.reshape(-1, *places.shape[2:])
    away = metric.between(one.middle[None], flat)[0].reshape(places.shape[:2])
    there = (away <= radius) & (np.arange(places.shape[1]) < number[:, None])
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
        radius,
        float(np.median(one.strengths)),
        _interval(one.strengths),
        float(there.any(axis=1).mean()),
    )


def _shares(field: Field, number: Integers, places: npt.NDArray[np.generic], shares: Floats, metric: Metric) -> Floats:
    """The shares of the candidates with the least mean distance to the draws."""
    if metric.line is not None:
        points = places[..., 0] if field.bounds is not None else metric.line[places]
        return median_shares(metric.line, np.asarray(points, dtype=np.float64), shares)
    anchored = nearest_shares(number, places, shares, metric.between, metric.pooled)
    answer = np.zeros(field.shape[1])
    np.add.at(answer, metric.candidate(anchored.places), anchored.shares)
    return np.asarray(answer / answer.sum())


def _spread(shares: Floats, none: float) -> Floats:
    """Shares, mixed with the uniform distribution: wholly uniform where "no source" has probability 1/2 or more."""
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
    whole(at_most, "at_most", "the largest number of sources", most=MAX_SOURCES)
    if number is not None:
        whole(number, "number", "how many sources there are", most=MAX_SOURCES)
        if number > at_most:
            raise InvalidInput(f"number is {number}, more than at_most, which is {at_most}; raise at_most.")
        log = np.full(number + 1, -np.inf)
        log[number] = 0.0
        return log
    weights = np.concatenate([[0.0, 1.0], _FALL ** np.arange(at_most - 1)])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum()))


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
