"""Noise for the readings of sensors, which hides the exact places of sources but keeps their neighbourhood visible.

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
from heathaze.sensors.physics._base import floats
from heathaze.sensors.physics.field import Field, Snapshots
from heathaze.sensors.sensitivity import Sensitivity, sensitivity
from heathaze.types import Floats

FINENESS = 21
"""The noise has a scale of 2^21 to 2^22 rounding steps, plus a margin for rounding (``readings.md``)."""

ROUNDING = 1.25
"""Largest change, in steps, that rounding makes to the difference of two readings.

Rounding to steps changes each reading by at most half a step. A float below 2^50 steps has a rounding error of at most
an eighth of a step. So rounding adds at most 2 · (1/2 + 1/8) = 1.25 steps to the difference of two readings.
"""

_BITS = 24
"""Largest number of bits in the scale of noise, in steps, that the exact samplers can draw."""

_LEAST, _MOST = Fraction(1, 10**100), Fraction(10**100)
"""Smallest and largest reach and sensitivity; beyond these limits floats could overflow or underflow."""


@dataclass(frozen=True, eq=False, init=False)
class Readings:
    """Mechanism that adds noise to the readings of sensors, with differential privacy for the places of sources.

    The noise hides whether sources moved, as long as the sum of strength times distance is at most ``reach``. The noise
    is calibrated for the whole vector of readings, of all sensors at all times together. A guarantee for single
    readings would not protect the sources, because all sensors see the same sources (errata E4-3).

    Args:
        field: The linear map from sources to readings, for example ``Line(n=100, m=50, T=0.05)``.
        reach: The paper's α, in units of strength times the field's unit of length. A source of strength 1 is hidden
            within this distance, a source of strength 2 within half of this distance.
        epsilon: Privacy loss ε of all readings together.
        delta: The δ of the promise, a small probability by which its bound may be exceeded: positive for Gaussian
            noise, 0 for Laplace noise.

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
        assign(self, field=field, epsilon=parse_epsilon(epsilon), reach=_parse_reach(reach), delta=parse_delta(delta))

    def __repr__(self) -> str:
        rows, loss = self.field.shape[0], PrivacyLoss(self.epsilon, self.delta)
        return f"<Readings: {rows} readings, reach {_exactly(self.reach)}, {loss}>"

    # ── how much noise ──────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the readings: the largest change if sources move by the reach, rounded up.

        Raises:
            InvalidInput: Delta is smaller than the probability that the computed sensitivity is too small.
        """
        found = sensitivity(self.field, math.nextafter(float(self.reach), math.inf))
        if found.failure_probability >= self.delta and found.failure_probability > 0:
            raise InvalidInput(
                "With so many sensors the sensitivity is computed by a random search, which fails with probability "
                f"{found.failure_probability:.2g}, but delta is {decimal(self.delta)}; give a larger delta, such as "
                "1e-9, or read fewer sensors."
            )
        return found

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """Scale of the noise: log₂ of a rounding step, then sensitivity and noise scale, both in steps."""
        ratio = _gaussian_ratio(self.epsilon, self.delta) if self.delta > 0 else 1 / float(self.epsilon)
        steps = math.floor(math.log2(self._change * ratio)) - FINENESS
        counted = self._counted(steps)
        scale = math.ceil(ratio * counted)
        # The smallest increase of the scale doubles in each turn, so that the loop ends soon if the cost hardly falls.
        least = 1
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
        """Sensitivity as a number of steps of size 2^steps, with a margin of ROUNDING steps for each reading."""
        readings = self.field.shape[0]
        rounding = ROUNDING * (math.sqrt(readings) if self.delta > 0 else readings)
        return math.ceil(math.ldexp(self._change, -steps) * (1 + 1e-12) + rounding)

    @property
    def _change(self) -> float:
        """Sensitivity in the unit of a reading: in ‖·‖₂ for Gaussian noise, in ‖·‖₁ for Laplace noise."""
        change = self.sensitivity.l2 if self.delta > 0 else self.sensitivity.l1
        if not _LEAST <= change <= _MOST:
            raise InvalidInput(
                f"The sensitivity of the readings is {change:g}, but must be between 1e-100 and 1e100; check the units "
                "of lengths, times and readings, and whether heat of the sources reaches the sensors."
            )
        return change

    @property
    def _delta(self) -> Fraction:
        """The δ that is left for the noise: δ minus the probability that the computed sensitivity is too small.

        That probability is positive only on large graphs.
        """
        return self.delta - Fraction(self.sensitivity.failure_probability)

    def _event(self, counted: int, scale: int) -> Event:
        if self.delta > 0:
            return FineGaussian(counted, scale, self.field.shape[0])
        return DiscreteLaplace(counted, Fraction(scale))

    @property
    def event(self) -> Event:
        """The privacy event that a ledger charges: sensitivity and scale of the noise, in steps."""
        _, counted, scale = self._noise
        return self._event(counted, scale)

    @property
    def step(self) -> float:
        """Size of the rounding step, a power of two; published readings are multiples of it."""
        return math.ldexp(1.0, self._noise[0])

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of each reading, in the unit of a reading."""
        steps, _, scale = self._noise
        return self._deviation(steps, scale)

    def _deviation(self, steps: int, scale: int) -> float:
        return math.ldexp(scale if self.delta > 0 else scale * math.sqrt(2), steps)

    def guarantee(self, trust: Trust = Trust.CENTRAL) -> Guarantee:
        """The privacy guarantee of the noisy readings.

        Args:
            trust: The party that adds the noise and must be trusted.
        """
        reach = f"{_exactly(self.reach)} {unit_after(self.reach, self.field.unit)}"
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.SOURCE, Adjacency.EARTH_MOVER, trust, reach=reach)

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the readings' noise, as texts."""
        return {"reach": str(self.reach), "epsilon": str(self.epsilon), "delta": str(self.delta)}

    # ── by a curator, or by the sensors ─────────────────────────────────────────────────────────────────────────────

    def protect(
        self, readings: npt.ArrayLike, *, ledger: Ledger | Budget | None = None, randomness: Randomness | None = None
    ) -> NoisyReadings:
        """Add noise to raw readings that one trusted party holds.

        The readings are checked first, then the ledger is charged, then the noise is drawn.

        Args:
            readings: One reading for each row of the field: all sensors at the first time, in the field's order, then
                all sensors at the next time. NaN marks a missing reading.
            ledger: The privacy budget of the sources.
            randomness: Leave this out. ``Simulation(seed)`` is for tests and papers.

        Returns:
            Noisy readings, which may be published.

        Raises:
            InvalidInput: The readings do not fit the field. Nothing was charged.
            BudgetExceeded: The remaining budget is too small. Nothing was charged, and no noise was drawn.
            TooLarge: The noise is too large to be drawn exactly.
        """
        values = self._checked(readings)
        steps, _, scale = self._noise
        there = np.isfinite(values)
        with np.errstate(over="ignore", under="ignore"):
            shifted = np.ldexp(values[there], -steps)
        if (np.abs(shifted) >= MOST_STEPS).any():
            raise InvalidInput(
                f"A reading is larger than 2^50 rounding steps of {self.step:g}; check the unit of the readings."
            )
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
        """Number of readings of each sensor: the number of snapshots if all have equally many readings, else 1."""
        if isinstance(self.field, Snapshots) and len({part.shape[0] for part in self.field.fields}) == 1:
            return len(self.field.fields)
        return 1

    def card(self, *, escrow: bool = False, ledger: Ledger | Budget | None = None) -> Card:
        """Make the card with which sensors add noise to their own readings, once for each of :attr:`times`.

        The privacy loss of the readings is charged here, when the card is made. A second card lets sensors answer
        again, and is charged again.

        Args:
            escrow: Whether sensors draw their noise from a key, so that the holder of the key can remove the noise.
            ledger: The privacy budget of the sources. It is charged before the card is returned.

        Returns:
            The card, which holds no reading and may be public.

        Raises:
            BudgetExceeded: The remaining budget is too small. Nothing was charged, and no card was made.
        """
        warn_if_weak(self.epsilon)
        steps, _, scale = self._noise
        noise = "gaussian" if self.delta > 0 else "laplace"
        card = Card(steps, scale, noise, self.times, fresh_bytes(16).hex(), escrow)
        pay(self._guarantee_of(card), self.event, ledger=ledger)
        return card

    def collected(self, answers: npt.ArrayLike, card: Card) -> NoisyReadings:
        """Collect the answers of sensors that added noise to their own readings.

        Args:
            answers: Whole numbers of steps, one for each row of the field: all sensors at the first time, in the
                field's order, then all sensors at the next time. NaN marks a missing answer.
            card: The card of the sensors. Its privacy loss was charged when the card was made.

        Returns:
            Noisy readings, which may be published.

        Raises:
            InvalidInput: The answers do not fit the field.
            PromiseBroken: The card has too little noise for these readings, or covers another number of times.
        """
        values = self._checked(answers, "answer")
        there = np.isfinite(values)
        if (np.rint(values[there]) != values[there]).any() or (np.abs(values[there]) >= 2.0**53).any():
            raise InvalidInput(
                "An answer is not a whole number below 2^53; give the numbers that Sensor.read returned, and NaN for "
                "missing answers."
            )
        if card.times != self.times:
            raise PromiseBroken(
                f"The sensors' card covers {card.times} times, but the field has {self.times}; "
                "use the Readings object that made the card."
            )
        noise = "gaussian" if self.delta > 0 else "laplace"
        cost = self._price(self._counted(card.steps), card.scale)
        if card.noise != noise or cost > self.epsilon:
            raise PromiseBroken(
                f"The sensors' card has {card.noise} noise that costs ε = {decimal(cost)} here, but {noise} noise of "
                f"ε = {decimal(self.epsilon)} is promised; use the Readings object that made the card."
            )
        deviation = self._deviation(card.steps, card.scale)
        return NoisyReadings(self.field, np.ldexp(values, card.steps), deviation, self._guarantee_of(card))

    def _guarantee_of(self, card: Card) -> Guarantee:
        return self.guarantee(Trust.ESCROW if card.escrow else Trust.SENSORS)

    def _checked(self, readings: npt.ArrayLike, noun: str = "reading") -> Floats:
        values = floats(readings, f"Some {noun}s are not numbers; give numbers, and NaN for missing {noun}s.")
        rows = self.field.shape[0]
        if values.ndim != 1:
            raise InvalidInput(
                f"The {noun}s have the shape {values.shape}, but must have ({rows},); give one {noun} for each row of "
                "the field: all sensors at the first time, then all sensors at the next time."
            )
        if len(values) != rows:
            raise InvalidInput(f"Got {len(values)} {noun}s for a field of {rows} rows; give one {noun} per row.")
        if np.isinf(values).any():
            raise InvalidInput(f"Some {noun}s are infinite; give finite numbers, and NaN for missing {noun}s.")
        if not np.isfinite(values).any():
            raise InvalidInput(f"All {noun}s are missing (NaN); give at least one. Nothing was charged.")
        return values


def _gaussian_ratio(epsilon: Fraction, delta: Fraction) -> float:
    """Standard deviation of the noise over sensitivity, by the analytic Gaussian mechanism (Balle and Wang 2018)."""
    from dp_accounting import get_sigma_gaussian

    return float(get_sigma_gaussian(float(epsilon), float(delta))) * (1 + 1e-9)


def unit_after(count: Fraction, unit: str) -> str:
    """Name of a unit of length after a number, for the guarantee: in the plural unless the number is 1.

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
        number = Fraction(0)
    if number <= 0:
        raise InvalidInput(f"reach is {shown(value)}; give a positive number.")
    if not _LEAST <= number <= _MOST:
        raise InvalidInput(
            f"reach is {'above 1e100' if number > 1 else 'below 1e-100'}; give a number between 1e-100 and 1e100."
        )
    return number


def _exactly(value: Fraction) -> str:
    """Format the reach as an exact text: a decimal if it has finitely many digits, else a fraction.

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
