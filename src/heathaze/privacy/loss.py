"""Privacy loss (ε, δ), kept in exact rationals: what is added up must not be rounded in anyone's favour."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from heathaze.errors import InvalidInput

Number = int | float | str | Decimal | Fraction

SMALLEST_EPSILON = Fraction(1, 10**6)
"""Below this the noise of any mechanism here drowns every map, and integer noise would leave 64 bits."""

LARGEST_EPSILON = 1000
"""Above this the promise is empty: a factor beyond e^1000."""


def exact(value: Number) -> Fraction:
    """The rational number the caller wrote: 0.1 means one tenth, not the nearest binary fraction.

    >>> exact(0.1), exact("1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    return Fraction(repr(float(value)) if isinstance(value, float) else value)


def parse_epsilon(value: Number, name: str = "epsilon") -> Fraction:
    """A usable ε: finite, positive, and not so small that nothing but noise is left."""
    if isinstance(value, float | Decimal) and math.isnan(value):
        raise InvalidInput(f"{name} is not a number; give a positive number such as 1.")
    if isinstance(value, float | Decimal) and math.isinf(value):
        raise InvalidInput(f"{name} is infinite, which promises nothing; give a positive number such as 1.")
    try:
        if isinstance(value, bool):
            raise TypeError
        epsilon = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"{name} is {value!r}; give a positive number such as 1.") from None
    if epsilon <= 0:
        raise InvalidInput(f"{name} is {value}; give a positive number such as 1 (smaller is more private).")
    if epsilon > LARGEST_EPSILON:
        raise InvalidInput(f"{name} is above {LARGEST_EPSILON}, which promises nothing; 1 is a common choice.")
    if epsilon < SMALLEST_EPSILON:
        raise InvalidInput(f"{name} is {value}; below {float(SMALLEST_EPSILON):g} nothing but noise is left.")
    return epsilon


@dataclass(frozen=True, order=True)
class Loss:
    """Privacy loss (ε, δ).

    >>> Loss(Fraction(1, 10)) + Loss(Fraction(2, 10))
    Loss(epsilon=Fraction(3, 10), delta=Fraction(0, 1))
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise InvalidInput(f"A privacy loss has epsilon ≥ 0 and 0 ≤ delta < 1; found {self}.")

    def __add__(self, other: Loss) -> Loss:
        """Basic composition: both losses together."""
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __str__(self) -> str:
        text = f"ε = {decimal(self.epsilon)}"
        return text if self.delta == 0 else f"{text}, δ = {decimal(self.delta)}"


def decimal(value: Fraction) -> str:
    """A rational for the reader: exact where it is a short decimal, else rounded up to six digits.

    >>> decimal(Fraction(1, 10)), decimal(Fraction(1, 3)), decimal(Fraction(2))
    ('0.1', '0.333334', '2')
    """
    return decimal_up(value, 6)


def decimal_up(value: Fraction | float, digits: int) -> str:
    """A number for the reader with at most so many digits, rounded up.

    >>> decimal_up(2.01375, 3), decimal_up(1.0010005, 3)
    ('2.02', '1.01')
    """
    exactly = Fraction(value)
    short = f"{float(exactly):.{digits}g}"
    if Fraction(short) == exactly:
        return short
    step = Fraction(10) ** (math.floor(math.log10(exactly)) - digits + 1)
    return f"{float(math.ceil(exactly / step) * step):.{digits}g}"
