"""Readings of sensors that hide exactly where the sources are and still show the neighbourhood (errata part 5)."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, PromiseBroken, TooLarge
from heathaze.inference.field import Field
from heathaze.mechanisms.sensors.device import Card
from heathaze.mechanisms.sensors.noisy_readings import NoisyReadings
from heathaze.mechanisms.sensors.sensitivity import Sensitivity, sensitivity
from heathaze.privacy.events import DiscreteLaplace, Event, FineGaussian, price
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import Loss, Number, decimal, exact, parse_epsilon
from heathaze.privacy.noise import discrete_gaussian, discrete_laplace
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.privacy.trust import Adjacency, Trust
from heathaze.privacy.unit import Unit

Floats = npt.NDArray[np.float64]

FINENESS = 21
"""Noise is 2^21 to 2^22 steps: what rounding readings to steps may add to their sensitivity is then lost in it."""


@dataclass(frozen=True, eq=False)
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
    delta: Fraction = Fraction(1, 10**5)

    if TYPE_CHECKING:

        def __init__(
            self, field: Field, reach: Number, epsilon: Number, delta: Number = Fraction(1, 10**5)
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        object.__setattr__(self, "reach", _positive("reach", self.reach))
        object.__setattr__(self, "delta", _delta(self.delta))

    def __repr__(self) -> str:
        return (
            f"<Readings: {self.field.shape[0]} readings, reach {decimal(self.reach)}, {Loss(self.epsilon, self.delta)}>"
        )

    # ── how much noise ──────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def sensitivity(self) -> Sensitivity:
        """How much the readings change at most when sources move by the reach, rounded up."""
        found = sensitivity(self.field, math.nextafter(float(self.reach), math.inf))
        if found.failure >= self.delta and found.failure > 0:
            raise InvalidInput(
                f"The sensitivity of so many sensors is known but for a chance of {found.failure:.2g}, "
                f"and delta is {decimal(self.delta)}; give a larger delta, such as 1e-9, or read fewer sensors."
            )
        return found

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """Steps as a power of two, sensitivity in steps, and the scale of the noise in steps."""
        change = self._change
        if not (math.isfinite(change) and change > 0):
            raise InvalidInput(
                f"The sensitivity of the readings is {change}; there is nothing to hide or no end to it."
            )
        ratio = _gaussian_ratio(self.epsilon, self.delta) if self.delta > 0 else 1 / float(self.epsilon)
        steps = math.floor(math.log2(change * ratio)) - FINENESS
        counted = self._counted(steps)
        scale = math.ceil(ratio * counted)
        if scale.bit_length() > 24:
            raise TooLarge(
                f"{self.field.shape[0]} readings are too many beside their rounding; protect fewer at a time."
            )
        while price([self._event(counted, scale)], self._delta).epsilon > self.epsilon:
            scale += 1 + scale // 10**6
        return steps, counted, scale

    def _counted(self, steps: int) -> int:
        """The sensitivity in steps of 2^steps.

        Rounding moves each reading by up to half a step, so two readings come closer or go apart by at most one.
        """
        readings = self.field.shape[0]
        rounding = math.sqrt(readings) if self.delta > 0 else readings
        return math.ceil(math.ldexp(self._change, -steps) * (1 + 1e-12) + rounding)

    @property
    def _change(self) -> float:
        """The sensitivity that the noise asks for, in the unit of a reading."""
        return self.sensitivity.l2 if self.delta > 0 else self.sensitivity.l1

    @property
    def _delta(self) -> Fraction:
        """What is left of δ after what the sensitivity may be wrong with, on large graphs."""
        return self.delta - Fraction(self.sensitivity.failure)

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
        reach = f"{decimal(self.reach)} {_several(self.field.unit, self.reach)}"
        return Guarantee(Loss(self.epsilon, self.delta), Unit.SOURCE, Adjacency.EARTH_MOVER, trust, reach=reach)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"reach": str(self.reach), "epsilon": str(self.epsilon), "delta": str(self.delta)}

    # ── by a curator, or by the sensors ─────────────────────────────────────────────────────────────────────────────

    def protect(
        self, readings: npt.ArrayLike, *, ledger: Ledger | None = None, randomness: Randomness | None = None
    ) -> NoisyReadings:
        """Noise for readings that one party holds: look at them, charge the ledger, draw.

        Args:
            readings: One number for each row of the field; NaN where none was taken.
            ledger: The budget of these sources. Charged before any noise exists; nothing happens if it does not allow.
            randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.
        """
        values = self._checked(readings)
        steps, _, scale = self._noise
        there = np.isfinite(values)
        exactly = np.rint(np.ldexp(values[there], -steps))
        if (np.abs(exactly) >= 2.0**62).any():
            raise InvalidInput(
                f"A reading does not fit into 62 bits of steps of {self.step:g}; see that the unit is right."
            )
        guarantee = self.guarantee()
        if ledger is not None:
            ledger.charge(guarantee, self.event)
        source = SecureRandomness() if randomness is None else randomness
        draw = discrete_gaussian if self.delta > 0 else discrete_laplace
        noisy = np.full(values.shape, np.nan)
        noisy[there] = np.ldexp(
            (exactly.astype(np.int64) + draw(scale, exactly.size, source)).astype(np.float64), steps
        )
        return NoisyReadings(
            self.field, noisy, self.deviation, guarantee, simulated=type(source) is not SecureRandomness
        )

    def card(self, times: int = 1) -> Card:
        """What each sensor needs to add its own noise in the field, ``times`` readings each.

        All of them are covered by the promise: the field has a row for each sensor and time.
        """
        if type(times) is not int or times < 1 or self.field.shape[0] % times:
            raise InvalidInput(
                f"times is {times!r}; the field has {self.field.shape[0]} rows, sensors times readings each."
            )
        steps, _, scale = self._noise
        return Card(steps, scale, "gaussian" if self.delta > 0 else "laplace", times, os.urandom(16).hex())

    def collected(self, answers: npt.ArrayLike, card: Card, *, escrow: bool = False) -> NoisyReadings:
        """The answers of sensors that added their own noise, in steps, as readings; NaN where none came.

        Args:
            answers: One for each row of the field, time by time.
            card: What the sensors were given.
            escrow: Whether they drew their noise from a key.

        Raises:
            PromiseBroken: The card has less noise than these readings owe.
        """
        values = self._checked(answers)
        noise = "gaussian" if self.delta > 0 else "laplace"
        cost = price([self._event(self._counted(card.steps), card.scale)], self._delta).epsilon
        if card.noise != noise or cost > self.epsilon:
            raise PromiseBroken(
                f"The sensors' card has {card.noise} noise that costs ε = {decimal(cost)} here, and {noise} noise of "
                f"ε = {decimal(self.epsilon)} is promised; use the readings that the card was made for."
            )
        guarantee = self.guarantee(Trust.ESCROW if escrow else Trust.SENSORS)
        return NoisyReadings(
            self.field, np.ldexp(values, card.steps), self._deviation(card.steps, card.scale), guarantee
        )

    def _checked(self, readings: npt.ArrayLike) -> Floats:
        try:
            values = np.asarray(readings, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("A reading is not a number; leave it empty (NaN) if none was taken.") from None
        if values.shape != self.field.shape[:1]:
            raise InvalidInput(
                f"There are {values.size} readings, and the field has {self.field.shape[0]} rows: one each."
            )
        if np.isinf(values).any():
            raise InvalidInput("A reading is infinite; leave it empty (NaN) if none was taken.")
        if not np.isfinite(values).any():
            raise InvalidInput("There is no reading at all; nothing was charged.")
        return values


def _gaussian_ratio(epsilon: Fraction, delta: Fraction) -> float:
    """σ over sensitivity of the analytic Gaussian mechanism (Balle and Wang 2018)."""
    from dp_accounting import get_sigma_gaussian

    return float(get_sigma_gaussian(float(epsilon), float(delta))) * (1 + 1e-9)


def _several(unit: str, count: Fraction) -> str:
    """A unit of length after a number.

    >>> _several("metre", Fraction(1, 2)), _several("unit of edge length", Fraction(1))
    ('metres', 'unit of edge length')
    """
    if count == 1:
        return unit
    return unit.replace("unit", "units", 1) if unit.startswith("unit") else f"{unit}s"


def _positive(name: str, value: Number) -> Fraction:
    try:
        number = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"{name} is {value!r}; give a positive number.") from None
    if number <= 0:
        raise InvalidInput(f"{name} is {value}; give a positive number.")
    return number


def _delta(value: Number) -> Fraction:
    try:
        delta = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"delta is {value!r}; give 0 for Laplace noise, or a number below 1 such as 1e-5.") from None
    if delta != 0 and not 2.0**-80 <= delta < 1:
        raise InvalidInput(f"delta is {value}; give 0 for Laplace noise, or a number below 1 such as 1e-5.")
    return delta
