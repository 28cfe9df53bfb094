"""Noise for the readings of sensors: it hides the exact places of sources and keeps their neighbourhood visible.

The page ``readings.md`` has the theorem and its proof.
"""

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
"""The noise is 2^21 to 2^22 steps, plus a margin for rounding (``readings.md``)."""

ROUNDING = 1.25
"""Steps by which rounding may change the difference of two readings.

Rounding to steps changes each reading by at most half a step. Below 2^50 steps the last place of a float is at most an
eighth of a step, so each float may be an eighth of a step away from its number. Twice both is 1.25.
"""

_BITS = 24
"""The most bits in the scale of the noise that the exact samplers can draw."""

_LEAST, _MOST = Fraction(1, 10**100), Fraction(10**100)
"""Limits of reach and sensitivity, beyond which floats overflow or underflow."""


@dataclass(frozen=True, eq=False, init=False)
class Readings:
    """Differential privacy for the readings of sensors.

    The noise hides whether sources moved by at most ``reach`` in all, strength times distance. It is calibrated for the
    whole vector of readings, all sensors and all times together. A guarantee for each reading alone would not protect
    the sources, because all sensors see the same sources (errata E4-3).

    Args:
        field: What sensors read of sources, for example ``Line(n=100, m=50, T=0.05)``.
        reach: α. A source of strength 1 is hidden within this distance, one of strength 2 within half of it; in units
            of strength times the field's unit of length.
        epsilon: Privacy loss of all readings together.
        delta: Positive for Gaussian noise; 0 for Laplace noise and a pure guarantee.

    Raises:
        InvalidInput: The reach, epsilon or delta is out of range.

    >>> from heathaze.privacy.randomness import Simulation
    >>> from heathaze.sensors.physics import Line
    >>> line = Line(n=100, m=50, T=0.05)
    >>> readings = Readings(line, reach=0.01, epsilon=1)
    >>> readings
    <Readings: 50 readings, reach 0.01, ε = 1, δ = 1e-05>
    >>> readings.protect(line.responses([[0.3]])[:, 0], randomness=Simulation(1)).values.shape
    (50,)
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
        """The largest change of the readings if sources move by the reach, rounded up.

        Raises:
            InvalidInput: Delta is smaller than the probability that the sensitivity is too small.
        """
        found = sensitivity(self.field, math.nextafter(float(self.reach), math.inf))
        if found.failure_probability >= self.delta and found.failure_probability > 0:
            raise InvalidInput(
                f"The sensitivity of so many sensors is too small with probability {found.failure_probability:.2g}, "
                f"and delta is {decimal(self.delta)}; give a larger delta, such as 1e-9, or read fewer sensors."
            )
        return found

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """The exponent of a step (a power of two), the sensitivity in steps, and the scale of the noise in steps."""
        ratio = _gaussian_ratio(self.epsilon, self.delta) if self.delta > 0 else 1 / float(self.epsilon)
        steps = math.floor(math.log2(self._change * ratio)) - FINENESS
        counted = self._counted(steps)
        scale = math.ceil(ratio * counted)
        least = 1  # Doubles, so that the loop ends after a few turns even where the cost hardly falls.
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
        """The sensitivity in steps of 2^steps, with ROUNDING for each reading."""
        readings = self.field.shape[0]
        rounding = ROUNDING * (math.sqrt(readings) if self.delta > 0 else readings)
        return math.ceil(math.ldexp(self._change, -steps) * (1 + 1e-12) + rounding)

    @property
    def _change(self) -> float:
        """The sensitivity in the norm of the noise, in the unit of a reading."""
        change = self.sensitivity.l2 if self.delta > 0 else self.sensitivity.l1
        if not _LEAST <= change <= _MOST:
            raise InvalidInput(
                f"The sensitivity of the readings is {change:g}, and must be from 1e-100 to 1e100; check the units of "
                "lengths, times and readings, and whether the sensors see the sources at all."
            )
        return change

    @property
    def _delta(self) -> Fraction:
        """δ minus the probability that the sensitivity is too small, which is positive on large graphs."""
        return self.delta - Fraction(self.sensitivity.failure_probability)

    def _event(self, counted: int, scale: int) -> Event:
        if self.delta > 0:
            return FineGaussian(counted, scale, self.field.shape[0])
        return DiscreteLaplace(counted, Fraction(scale))

    @property
    def event(self) -> Event:
        """The event that the accountant composes: sensitivity and scale of the noise, in steps."""
        _, counted, scale = self._noise
        return self._event(counted, scale)

    @property
    def step(self) -> float:
        """The unit of published readings, a power of two."""
        return math.ldexp(1.0, self._noise[0])

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of each reading, in the unit of a reading."""
        steps, _, scale = self._noise
        return self._deviation(steps, scale)

    def _deviation(self, steps: int, scale: int) -> float:
        return math.ldexp(scale if self.delta > 0 else scale * math.sqrt(2), steps)

    def guarantee(self, trust: Trust = Trust.CENTRAL) -> Guarantee:
        """The guarantee of the readings.

        Args:
            trust: Who adds the noise.
        """
        reach = f"{_exactly(self.reach)} {unit_after(self.reach, self.field.unit)}"
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.SOURCE, Adjacency.EARTH_MOVER, trust, reach=reach)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, as texts."""
        return {"reach": str(self.reach), "epsilon": str(self.epsilon), "delta": str(self.delta)}

    # ── by a curator, or by the sensors ─────────────────────────────────────────────────────────────────────────────

    def protect(
        self, readings: npt.ArrayLike, *, ledger: Ledger | Budget | None = None, randomness: Randomness | None = None
    ) -> NoisyReadings:
        """Add noise to raw readings that one party holds.

        The readings are checked first, then the ledger is charged, then the noise is drawn.

        Args:
            readings: One number for each row of the field, time by time and at each time in the field's order of
                sensors; NaN where no reading was taken.
            ledger: The budget of these sources.
            randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.

        Returns:
            Readings that may be published.

        Raises:
            InvalidInput: The readings do not fit the field; nothing was charged.
            BudgetExceeded: The ledger has too little left; nothing was charged and no noise was drawn.
            TooLarge: The noise is too large to be drawn exactly.
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
        """How often each sensor reads: the number of snapshots if all have the same number of readings, else 1."""
        if isinstance(self.field, Snapshots) and len({part.shape[0] for part in self.field.fields}) == 1:
            return len(self.field.fields)
        return 1

    def card(self, *, escrow: bool = False, ledger: Ledger | Budget | None = None) -> Card:
        """The card that each sensor needs to add its own noise, once for each of :attr:`times`.

        Making a card is the release: it is paid here. A second card lets sensors answer again, and costs again.

        Args:
            escrow: Whether sensors draw their noise from a key, so that the key's holder can remove it.
            ledger: The budget of these sources. It is charged before the card is returned.

        Raises:
            BudgetExceeded: The ledger has too little left; nothing was charged and there is no card.
        """
        warn_if_weak(self.epsilon)
        steps, _, scale = self._noise
        noise = "gaussian" if self.delta > 0 else "laplace"
        card = Card(steps, scale, noise, self.times, fresh_bytes(16).hex(), escrow)
        pay(self._guarantee_of(card), self.event, ledger=ledger)
        return card

    def collected(self, answers: npt.ArrayLike, card: Card) -> NoisyReadings:
        """Readings from the answers of sensors that added their own noise.

        Args:
            answers: Whole numbers of steps, one for each row of the field, time by time and at each time in the field's
                order of sensors; NaN where no answer came.
            card: The card of the sensors. It was paid when it was made.

        Returns:
            Readings that may be published.

        Raises:
            InvalidInput: The answers do not fit the field.
            PromiseBroken: The card has too little noise for these readings, or is for another number of times.
        """
        values = self._checked(answers, "answer")
        there = np.isfinite(values)
        if (np.rint(values[there]) != values[there]).any() or (np.abs(values[there]) >= 2.0**53).any():
            raise InvalidInput(
                "An answer is not a whole number below 2^53; give what Sensor.read returned, and NaN where none came."
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
    """A number as an exact text: a decimal if it has finitely many digits, else a fraction.

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
