"""Finding sources from noisy readings: a posterior over the number, the places and the strengths of the sources.

Readings are y = Σⱼ sⱼ g(xⱼ) + noise, for a few sources at places xⱼ with strengths sⱼ, where g(x) are the readings of a
unit source at x. All results are computed from draws of the posterior: the shares with the least expected earth mover's
distance, each source with intervals, and the probability of each number of sources. If the readings carry no
information, the draws and the shares are spread over all places.

The posterior is sampled by annealed sequential Monte Carlo (Del Moral, Doucet and Jasra 2006) with reversible jumps. A
particle is one set of sources. Particles begin as draws from the prior. The likelihood is then raised to a power β that
grows from 0 to 1. Each stage increases β until the effective sample size is half the number of particles, resamples the
particles by their weights, and moves the particles so that copies differ.

If the number of sources is unknown, the prior gives "no source" the same probability as "some sources". If "no source"
is the likeliest answer, no source is reported, and the shares are spread over all places.

Finding sources is post-processing of noisy readings, so it costs no privacy. The guarantee does not protect the number
and the strengths of sources, so callers may pass the true number and strengths.
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
from heathaze.sensors.recovery._answer import Matched, Metric, Places, match_sources, median_shares, nearest_shares
from heathaze.sensors.recovery._moves import Moves
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._problem import Problem, prepare
from heathaze.sensors.recovery._space import Particles
from heathaze.types import Floats, Integers

DRAWS = 1000
"""Default number of draws from the posterior; the error of a mean is then a thirtieth of the standard deviation."""

MAX_SOURCES = 20
"""Largest number of sources; more sources take long to find and are better described by a density."""

_FALL = 0.25
"""Prior probabilities of 1, 2, 3, 4, … sources are in the ratio 1 : 1 : 1/4 : 1/16 : …

One source is as likely as two, because a prior that favours one source would report one source between several."""

_LEAST_EFFECTIVE = 0.5
"""Smallest effective sample size after a stage, as a fraction of the number of particles."""

_SURPRISE = 6.0
"""Number of standard deviations by which the best particle's misfit may exceed the misfit that noise explains."""

_SWEEPS, _LAST_SWEEPS = 2, 6
"""Number of rounds of moves in each stage, and at the end."""


@dataclass(frozen=True)
class Source:
    """A source that was found, with intervals of probability 0.9.

    The intervals assume that the number of sources found is correct.

    Attributes:
        position: Position in the field's coordinates; None on a graph.
        node: Index of the candidate; None in a continuous space.
        position_error: With probability 0.9, the source lies within this distance of the position, in units of length.
        strength: Median of the strength.
        strength_interval: Interval that contains the strength with probability 0.9.
        probability: Probability that there is any source within ``position_error`` of the position.
    """

    position: tuple[float, ...] | None
    node: int | None
    position_error: float
    strength: float
    strength_interval: tuple[float, float]
    probability: float


@dataclass(frozen=True, eq=False)
class Sources:
    """The posterior of the sources behind noisy readings.

    Attributes:
        found: The sources, strongest first; their number is the likeliest one. Empty if "no source" is likeliest.
        number: Probabilities of 0, 1, 2, … sources.
        shares: Share of the total strength at each candidate, with the least expected earth mover's distance to the
            true shares.
        total: Median of the total strength of all sources.
        total_interval: Interval that contains the total strength with probability 0.9.
        widened: Factor, 1 or larger, by which the noise was assumed larger because no sources explain the readings.
        draws: Number, places and strengths of the sources in each draw. In a draw of k sources, only the first k places
            and strengths are valid.
    """

    found: tuple[Source, ...]
    number: Floats
    shares: Floats
    total: float
    total_interval: tuple[float, float]
    widened: float
    draws: tuple[Integers, Places, Floats]

    def __repr__(self) -> str:
        chances = ", ".join(f"{count}: {chance:.0%}" for count, chance in enumerate(self.number) if chance > 0.005)
        return f"<Sources: {len(self.found)} found; how many there are: {chances}; total strength {self.total:.3g}>"

    @property
    def strengths(self) -> Floats:
        """Strength at each candidate: its share times the total strength."""
        return self.shares * self.total

    def density(self, field: Field) -> Floats:
        """Expected share of the strength at each candidate: the mean over all draws of the posterior.

        Args:
            field: The field in which the sources were found.
        """
        number, places, strengths = self.draws
        there = np.arange(places.shape[1]) < number[:, None]
        shares = strengths / strengths.sum(axis=1, keepdims=True)
        candidates = Metric(field).candidate(places[there])
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
    """Find sources from noisy readings: their number, places and strengths, each with its uncertainty.

    The search takes one or two seconds on a line and a few seconds in the plane. On a graph of 100,000 nodes it
    takes up to two minutes. If sources lie at candidates only, and there are more than 1,000 readings and 1,000
    candidates or more than 33 million pairs of both, sources are looked for at 160 candidates only, which fit the
    readings best.

    Args:
        field: The linear map from sources to readings.
        readings: One reading for each row of the field; drop the rows of missing readings first (``field.only``).
        sigma: Standard deviation of the noise, one number or one for each reading.
        at_most: Largest number of sources, 1 to 20.
        number: Number of sources, if it is known.
        strengths: Strength of each source, if it is known: a number, or the two ends of a range.
        randomness: Source of random numbers for the draws. By default the same readings give the same answer.
        draws: Number of draws from the posterior, 100 or more.

    Returns:
        The sources with intervals, the shares of all candidates, and the draws.

    Raises:
        InvalidInput: An argument is out of range; the sentence says which.

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
    held, widened, evidence = _sample(posed, prior, bits, count)
    places = posed.space.field_places(held.places)
    # If only promising candidates are considered, the prior gives them less probability than all candidates have.
    for_some = evidence + math.log(np.exp(weighed).sum() / np.exp(numbers).sum())
    none = 0.0 if number is not None else 1 / (1 + math.exp(min(for_some, 700.0)))
    return _summary(field, held, places, widened, none)


# ── the sampler ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _sample(posed: Problem, prior: Prior, bits: Randomness, count: int) -> tuple[Particles, float, float]:
    """Draw particles from the posterior of sources.

    Sometimes no sources explain the readings, because the physics is not exact or there are more sources than allowed.
    Then the noise is assumed to be larger, so that intervals are not too narrow: annealing ends at a β < 1 with

        β · (misfit of the best particle) = m + 6·√(2m) + 36   for m readings.

    Args:
        posed: The space of possible places, and the scaled and projected readings.
        prior: The prior of the number and the strengths of sources.
        bits: Source of random numbers.
        count: Number of particles.

    Returns:
        The particles; the factor, 1 or larger, by which the noise was assumed larger; and the logarithm of the Bayes
        factor of "some sources" against "no source".
    """
    found = Particles.drawn(posed.space, prior, posed.readings, count, bits)
    moves = Moves(posed.space, prior, bits, beta=0.0)
    silent = float(posed.readings @ posed.readings)
    # Upper limit of a chi-square variable with one degree of freedom for each reading.
    allowed = posed.rows + _SURPRISE * math.sqrt(2 * posed.rows) + _SURPRISE**2
    evidence = 0.0
    while moves.beta < 1:
        misfit = found.misfit()
        least = float(misfit.min()) + posed.unseen
        if moves.beta * least > allowed:
            break
        next_beta = _next_beta(misfit, moves.beta, min(1.0, allowed / least * 1.01 if least > allowed else 1.0))
        weights = (moves.beta - next_beta) / 2 * (misfit - misfit.min())
        # Without sources the misfit is ‖readings‖².
        evidence += float(np.log(np.exp(weights).mean()) + (next_beta - moves.beta) / 2 * (silent - misfit.min()))
        found = found.chosen(_resampled(weights, bits))
        moves.beta = next_beta
        found.settle()
        for _ in range(_SWEEPS):
            moves.sweep(found)
    for _ in range(_LAST_SWEEPS):
        moves.sweep(found)
    found.settle()
    return found, 1 / math.sqrt(moves.beta), evidence


def _next_beta(misfit: Floats, beta: float, most: float) -> float:
    """Find the largest next β, up to ``most``, that keeps the effective sample size of the particles."""
    above = misfit - misfit.min()

    def effective(step: float) -> float:
        weights = np.exp(-step / 2 * above)
        return float(weights.sum() ** 2 / (weights**2).sum() / len(above))

    if effective(most - beta) >= _LEAST_EFFECTIVE:
        return most
    # Bisection on the logarithm of the step, because steps may be many orders of magnitude smaller than 1.
    big = math.log(most - beta)
    small = big - 80
    for _ in range(60):
        middle = (small + big) / 2
        small, big = (middle, big) if effective(math.exp(middle)) >= _LEAST_EFFECTIVE else (small, middle)
    return min(most, beta + math.exp(small))


def _resampled(log_weights: Floats, bits: Randomness) -> Integers:
    """Resample particles by their weights (systematic resampling: evenly spaced points of the running sum)."""
    running = np.cumsum(np.exp(log_weights - log_weights.max()))
    count = len(running)
    marks = (np.arange(count) + bits.uniforms(1)[0]) / count * running[-1]
    return np.asarray(np.minimum(np.searchsorted(running, marks, side="right"), count - 1))


# ── the summary of the draws ────────────────────────────────────────────────────────────────────────────────────────


def _summary(field: Field, held: Particles, places: Places, widened: float, none: float) -> Sources:
    """Summarise the draws of the posterior.

    Args:
        field: The field.
        held: The particles.
        places: Places of the particles' sources, as coordinates or candidates of the field.
        widened: Factor by which the noise was assumed larger.
        none: Probability that there is no source.
    """
    number, strengths, metric = held.number, held.strengths, Metric(field)
    totals = strengths.sum(axis=1)
    likely = np.bincount(number, minlength=strengths.shape[1] + 1) / len(number) * (1 - none)
    likely[0] = none
    most = int(np.argmax(likely))
    sources = [] if most == 0 else _named(held, places, most, metric)
    found = [_source(one, number, places, metric) for one in sources]
    strongest_first = tuple(sorted(found, key=lambda source: -source.strength))
    shares = _spread(_shares(number, places, strengths / totals[:, None], metric), none)
    draws, total = (number, places, strengths), float(np.median(totals))
    return Sources(strongest_first, likely, shares, total, _interval(totals), widened, draws)


def _named(held: Particles, places: Places, most: int, metric: Metric) -> list[Matched]:
    """Match the sources of those draws that have the likeliest number of sources."""
    same = np.flatnonzero(held.number == most)
    # 400 draws suffice for the intervals, and the matching takes time for each draw.
    same = same[np.unique(np.linspace(0, len(same) - 1, 400).astype(np.int64))]
    first = int(np.argmin(held.misfit()[same]))
    return match_sources(places[same, :most], held.strengths[same, :most], first, metric)


def _source(one: Matched, number: Integers, places: Places, metric: Metric) -> Source:
    field = metric.field
    radius = float(np.quantile(metric.between(one.middle[None], one.places)[0], 0.9))
    flat = places.reshape(-1, *places.shape[2:])
    away = metric.between(one.middle[None], flat)[0].reshape(places.shape[:2])
    there = (away <= radius) & (np.arange(places.shape[1]) < number[:, None])
    node = int(one.middle) if field.bounds is None else None
    where = one.middle if node is None else None if field.positions is None else np.atleast_1d(field.positions[node])
    position = None if where is None else tuple(float(x) for x in where)
    strength, probability = float(np.median(one.strengths)), float(there.any(axis=1).mean())
    return Source(position, node, radius, strength, _interval(one.strengths), probability)


def _shares(number: Integers, places: Places, shares: Floats, metric: Metric) -> Floats:
    """Shares of the candidates with the least mean earth mover's distance to the draws of the posterior."""
    if metric.line is not None:
        points = places[..., 0] if metric.field.bounds is not None else metric.line[places]
        return median_shares(metric.line, np.asarray(points, dtype=np.float64), shares)
    anchored = nearest_shares(number, places, shares, metric.between, metric.pooled)
    answer = np.zeros(metric.field.shape[1])
    np.add.at(answer, metric.candidate(anchored.places), anchored.shares)
    return np.asarray(answer / answer.sum())


def _spread(shares: Floats, none: float) -> Floats:
    """Mix the shares with the uniform distribution; they become uniform if "no source" has probability 1/2 or more."""
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
        raise InvalidInput(f"The readings have shape {values.shape}; give one for each of the field's {rows} rows.")
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
    """Logarithm of the prior probability of 0, 1, 2, … sources."""
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
    """Smallest and largest strength of a source; they are equal if strengths are known."""
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
