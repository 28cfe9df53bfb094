"""Readings of sensors that hide exactly where the sources are and still show the neighbourhood (errata part 5)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, shown
from heathaze.errors import InvalidInput, PromiseBroken, TooLarge
from heathaze.privacy.accountant import compose
from heathaze.privacy.door import pay
from heathaze.privacy.events import DiscreteLaplace, Event, FineGaussian
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.ledger import Budget, Ledger
from heathaze.privacy.loss import Number, PrivacyLoss, decimal, exact, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.noise import discrete_gaussian, discrete_laplace
from heathaze.privacy.randomness import Randomness, fresh_bytes
from heathaze.sensors.device import MOST_STEPS, Card
from heathaze.sensors.noisy_readings import NoisyReadings
from heathaze.sensors.physics.field import Field
from heathaze.sensors.physics.snapshots import Snapshots
from heathaze.sensors.sensitivity import Sensitivity, sensitivity
from heathaze.types import Floats

FINENESS = 21
"""Noise is 2^21 to 2^22 steps, and more by what rounding adds; how much that is, ``readings.md`` says."""

ROUNDING = 1.25
"""Steps by which rounding may change the difference of two readings.

Rounding to steps moves each by half a step at most. Below 2^50 steps the last place of a float is an eighth of a step
at most, so each may also be an eighth off what it stands for. Twice both is 1.25.
"""

_BITS = 24
"""Of the scale of the noise: what the exact samplers can take."""

_LEAST, _MOST = Fraction(1, 10**100), Fraction(10**100)
"""Of reach and sensitivity: beyond, floats would over- or underflow."""


@dataclass(frozen=True, eq=False, init=False)
class Readings:
    """Every reading gets noise that hides moves of the sources of at most ``reach`` in all, strength times distance.

    The noise is made for the whole vector of readings, all sensors and all times together: a guarantee for each reading
    alone would be none for the field they all see (errata E4-3).

    Args:
        field: The physics: which reading a source adds to how much, for example ``Line(n=100, m=50, T=0.05)``.
        reach: α. A source of strength 1 is hidden within this distance, one of strength 2 within half of it.
        epsilon: Privacy loss of all readings together.
        delta: For Gaussian noise, the default of the field; 0 gives Laplace noise and a pure guarantee.
    """

    field: Field
    reach: Fraction
    epsilon: Fraction
    delta: Fraction

    def __init__(self, field: Field, reach: Number, epsilon: Number, delta: Number = Fraction(1, 10**5)) -> None:
        loss = parse_epsilon(epsilon)
        assign(self, field=field, reach=_parse_reach(reach), epsilon=loss, delta=parse_delta(delta))

    def __repr__(self) -> str:
        rows, loss = self.field.shape[0], PrivacyLoss(self.epsilon, self.delta)
        return f"<Readings: {rows} readings, reach {_exactly(self.reach)}, {loss}>"

    # ── how much noise ──────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def sensitivity(self) -> Sensitivity:
        """How much the readings change at most when sources move by the reach, rounded up."""
        found = sensitivity(self.field, math.nextafter(float(self.reach), math.inf))
        if found.failure_probability >= self.delta and found.failure_probability > 0:
            raise InvalidInput(
                f"The sensitivity of so many sensors is known but for a chance of {found.failure_probability:.2g}, "
                f"and delta is {decimal(self.delta)}; give a larger delta, such as 1e-9, or read fewer sensors."
            )
        return found

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """Steps as a power of two, sensitivity in steps, and the scale of the noise in steps."""
        ratio = _gaussian_ratio(self.epsilon, self.delta) if self.delta > 0 else 1 / float(self.epsilon)
        steps = math.floor(math.log2(self._change * ratio)) - FINENESS
        counted = self._counted(steps)
        scale = math.ceil(ratio * counted)
        least = 1  # doubles: where the price hardly falls, the loop still ends after a few turns, with too many bits
        while scale.bit_length() <= _BITS and (cost := self._price(counted, scale)) > self.epsilon:
            scale = max(scale + least, math.ceil(scale * cost / self.epsilon))
            least *= 2
        if scale.bit_length() > _BITS:
            raise TooLarge(
                f"{self.field.shape[0]} readings at {PrivacyLoss(self.epsilon, self.delta)} need noise of more than "
                f"2^{_BITS} steps, which cannot be drawn exactly; give a larger epsilon, or protect fewer readings."
            )
        return steps, counted, scale

    def _price(self, counted: int, scale: int) -> Fraction:
        return compose([self._event(counted, scale)], self._delta).epsilon

    def _counted(self, steps: int) -> int:
        """The sensitivity in steps of 2^steps, and what rounding adds to it: ROUNDING for each reading."""
        readings = self.field.shape[0]
        rounding = ROUNDING * (math.sqrt(readings) if self.delta > 0 else readings)
        return math.ceil(math.ldexp(self._change, -steps) * (1 + 1e-12) + rounding)

    @property
    def _change(self) -> float:
        """The sensitivity that the noise asks for, in the unit of a reading."""
        change = self.sensitivity.l2 if self.delta > 0 else self.sensitivity.l1
        if not _LEAST <= change <= _MOST:
            raise InvalidInput(
                f"The sensitivity of the readings is {change:g}, and must be from 1e-100 to 1e100; either the sensors "
                "see nothing of the sources, or the units are absurd: see to those of lengths, times and readings."
            )
        return change

    @property
    def _delta(self) -> Fraction:
        """What is left of δ after what the sensitivity may be wrong with, on large graphs."""
        return self.delta - Fraction(self.sensitivity.failure_probability)

    def _event(self, counted: int, scale: int) -> Event:
        if self.delta > 0:
            return FineGaussian(counted, scale, self.field.shape[0])
        return DiscreteLaplace(counted, Fraction(scale))

    @property
    def event(self) -> Event:
        """What happens to the readings."""
        _, counted, scale = self._noise
        return self._event(counted, scale)

    @property
    def step(self) -> float:
        """Readings are published in steps of this, a power of two."""
        return math.ldexp(1.0, self._noise[0])

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of each reading, in the unit of a reading."""
        steps, _, scale = self._noise
        return self._deviation(steps, scale)

    def _deviation(self, steps: int, scale: int) -> float:
        return math.ldexp(scale if self.delta > 0 else scale * math.sqrt(2), steps)

    def guarantee(self, trust: Trust = Trust.CENTRAL) -> Guarantee:
        """What the readings promise: trusting whoever adds the noise."""
        reach = f"{_exactly(self.reach)} {unit_after(self.reach, self.field.unit)}"
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.SOURCE, Adjacency.EARTH_MOVER, trust, reach=reach)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"reach": str(self.reach), "epsilon": str(self.epsilon), "delta": str(self.delta)}

    # ── by a curator, or by the sensors ─────────────────────────────────────────────────────────────────────────────

    def protect(
        self, readings: npt.ArrayLike, *, ledger: Ledger | Budget | None = None, randomness: Randomness | None = None
    ) -> NoisyReadings:
        """Noise for readings that one party holds: look at them, charge the ledger, draw.

        Args:
            readings: One number for each row of the field, time by time and at each time in the field's order of
                sensors; NaN where none was taken.
            ledger: The budget of these sources. Charged before any noise exists; nothing happens if it does not allow.
            randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.
        """
        values = self._checked(readings)
        steps, _, scale = self._noise
        there = np.isfinite(values)
        with np.errstate(over="ignore", under="ignore"):
            shifted = np.ldexp(values[there], -steps)
        if (np.abs(shifted) >= MOST_STEPS).any():
            raise InvalidInput(f"A reading has 2^50 steps of {self.step:g} or more; see that the unit is right.")
        exactly = np.rint(shifted)
        warn_if_weak(self.epsilon)
        receipt = pay(self.guarantee(), self.event, ledger=ledger, randomness=randomness)
        draw = discrete_gaussian if self.delta > 0 else discrete_laplace
        drawn = exactly.astype(np.int64) + draw(scale, exactly.size, receipt.randomness)
        noisy = np.full(values.shape, np.nan)
        noisy[there] = np.ldexp(drawn.astype(np.float64), steps)
        return NoisyReadings(self.field, noisy, self.deviation, receipt.guarantee, simulated=receipt.simulated)

    @property
    def times(self) -> int:
        """How often each sensor reads: the number of snapshots, where all have as many readings; else once."""
        if isinstance(self.field, Snapshots) and len({part.shape[0] for part in self.field.fields}) == 1:
            return len(self.field.fields)
        return 1

    def card(self, *, escrow: bool = False, ledger: Ledger | Budget | None = None) -> Card:
        """What each sensor needs to add its own noise in the field, once for each of :attr:`times`.

        Every card is a promise of its own. Sensors with a second card answer again, and that costs again.

        Args:
            escrow: Whether sensors draw their noise from a key, so that its holder can take it off again.
            ledger: The budget of these sources. Charged before there is a card; none is made if it does not allow.
        """
        warn_if_weak(self.epsilon)
        steps, _, scale = self._noise
        noise = "gaussian" if self.delta > 0 else "laplace"
        card = Card(steps, scale, noise, self.times, fresh_bytes(16).hex(), escrow)
        pay(self._guarantee_of(card), self.event, ledger=ledger)
        return card

    def collected(self, answers: npt.ArrayLike, card: Card) -> NoisyReadings:
        """The answers of sensors that added their own noise, in steps, as readings.

        Args:
            answers: Whole numbers, one for each row of the field, time by time and at each time in the field's order of
                sensors; NaN where none came.
            card: What the sensors were given. It was paid for when it was made.

        Raises:
            PromiseBroken: The card has less noise than these readings owe, or is for another number of times.
        """
        values = self._checked(answers, "answer")
        there = np.isfinite(values)
        if (np.rint(values[there]) != values[there]).any() or (np.abs(values[there]) >= 2.0**53).any():
            raise InvalidInput(
                "An answer is no whole number below 2^53; give what Sensor.read returned, and NaN where nothing came."
            )
        if card.times != self.times:
            raise PromiseBroken(
                f"The sensors' card covers {card.times} times, and the field has {self.times}; "
                "use the readings that the card was made for."
            )
        noise = "gaussian" if self.delta > 0 else "laplace"
        cost = self._price(self._counted(card.steps), card.scale)
        if card.noise != noise or cost > self.epsilon:
            raise PromiseBroken(
                f"The sensors' card has {card.noise} noise that costs ε = {decimal(cost)} here, and {noise} noise of "
                f"ε = {decimal(self.epsilon)} is promised; use the readings that the card was made for."
            )
        return NoisyReadings(
            self.field,
            np.ldexp(values, card.steps),
            self._deviation(card.steps, card.scale),
            self._guarantee_of(card),
        )

    def _guarantee_of(self, card: Card) -> Guarantee:
        return self.guarantee(Trust.ESCROW if card.escrow else Trust.SENSORS)

    def _checked(self, readings: npt.ArrayLike, noun: str = "reading") -> Floats:
        try:
            values = np.asarray(readings, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(f"Some {noun} is not a number; leave it empty (NaN) if there is none.") from None
        rows = self.field.shape[0]
        if values.ndim != 1:
            raise InvalidInput(
                f"The {noun}s have the shape {values.shape}, and must have ({rows},): one for each row of the field, "
                "time by time and at each time in the field's order of sensors."
            )
        if len(values) != rows:
            raise InvalidInput(f"There are {len(values)} {noun}s, and the field has {rows} rows: one each.")
        if np.isinf(values).any():
            raise InvalidInput(f"Some {noun} is infinite; leave it empty (NaN) if there is none.")
        if not np.isfinite(values).any():
            raise InvalidInput(f"There is no {noun} at all; nothing was charged.")
        return values


def _gaussian_ratio(epsilon: Fraction, delta: Fraction) -> float:
    """σ over sensitivity of the analytic Gaussian mechanism (Balle and Wang 2018)."""
    from dp_accounting import get_sigma_gaussian

    return float(get_sigma_gaussian(float(epsilon), float(delta))) * (1 + 1e-9)


def unit_after(count: Fraction, unit: str) -> str:
    """A unit of length as it is written after a number: in the plural unless the number is 1.

    >>> unit_after(Fraction(1, 2), "metre"), unit_after(Fraction(1), "unit of edge length")
    ('metres', 'unit of edge length')
    """
    if count == 1:
        return unit
    return unit.replace("unit", "units", 1) if unit.startswith("unit") else f"{unit}s"


def _parse_reach(value: Number) -> Fraction:
    try:
        number = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"reach is {shown(value)}; give a positive number.") from None
    if number <= 0:
        raise InvalidInput(f"reach is {shown(value)}; give a positive number.")
    if not _LEAST <= number <= _MOST:
        raise InvalidInput(f"reach is {'above 1e100' if number > 1 else 'below 1e-100'}; give a number between them.")
    return number


def _exactly(value: Fraction) -> str:
    """A number as a text that means it and no other: a decimal where it ends, else the fraction.

    >>> _exactly(Fraction("0.9999991")), _exactly(Fraction(1, 3)), _exactly(Fraction(2))
    ('0.9999991', '1/3', '2')
    """
    short = f"{float(value):.6g}"
    if Fraction(short) == value:
        return short
    places, power = 0, 1
    while power % value.denominator and places < 400:
        places, power = places + 1, power * 10
    if power % value.denominator:
        return str(value)
    digits = Decimal(value.numerator * (power // value.denominator)).as_tuple().digits
    return f"{Decimal((0, digits, -places)):f}"
