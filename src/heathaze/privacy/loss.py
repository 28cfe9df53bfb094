"""Privacy loss (ε, δ), kept in exact rationals: what is added up must not be rounded in anyone's favour."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from heathaze.errors import InvalidInput, WeakPrivacy

Number = int | float | str | Decimal | Fraction

SMALLEST_EPSILON = Fraction(1, 10**6)
"""Below this the noise of any mechanism here drowns every map, and integer noise would leave 64 bits."""

SMALLEST_DELTA = Fraction(1, 2**80)
"""Below this floats no longer tell a δ from 0."""

LARGEST_EPSILON = 1000
"""Above this the promise is empty: a factor beyond e^1000."""


WEAK_EPSILON = 10
"""Above this a promise still means something to a proof, and hardly anything to a person: a factor beyond e^10."""


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


def parse_delta(value: Number, *, zero: bool = True, most: Fraction = Fraction(1)) -> Fraction:
    """A usable δ: 0, or from 2^-80 up to below 1.

    Args:
        value: What the caller gave.
        zero: Whether δ = 0, a pure guarantee, is possible here.
        most: The largest δ that is allowed; 1 itself never is.

    >>> parse_delta(1e-6)
    Fraction(1, 1000000)
    """
    range_ = f"{'0, or a number' if zero else 'a number'} from 1e-24 to {'below 1' if most == 1 else float(most)}"
    try:
        if isinstance(value, bool):
            raise TypeError
        delta = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"delta is {value!r}; give {range_}, such as 1e-6.") from None
    if not (delta == 0 and zero) and not (SMALLEST_DELTA <= delta <= most and delta < 1):
        raise InvalidInput(
            f"delta is {value}; give {range_}, such as 1e-6. It is the probability with which the promise may fail."
        )
    return delta


def warn_if_weak(epsilon: Fraction | float, name: str = "epsilon") -> None:
    """One warning where an ε above 10 is promised or budgeted, before anything is paid.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_if_weak(10), warn_if_weak(20)
    (None, None)
    >>> print(told[0].message)  # doctest: +ELLIPSIS
    epsilon is 20, above 10: one protected unit may make any outcome e^20 ≈ 4.86e+08 times as likely, ...
    """
    if WEAK_EPSILON < epsilon < math.inf:
        shown = decimal(Fraction(epsilon))
        factor = f" ≈ {decimal_up(math.exp(epsilon), 3)}" if epsilon < 100 else ""
        warnings.warn(
            f"{name} is {shown}, above {WEAK_EPSILON}: one protected unit may make any outcome e^{shown}{factor} times "
            "as likely, which is hardly a protection; 1 is a common choice.",
            WeakPrivacy,
            stacklevel=_outside(),
        )


def _outside() -> int:
    """How far up the caller's own code is, so that a warning points there."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "heathaze":
        level, frame = level + 1, frame.f_back
    return level


@dataclass(frozen=True, order=True)
class PrivacyLoss:
    """Privacy loss (ε, δ).

    >>> PrivacyLoss(Fraction(1, 10)) + PrivacyLoss(Fraction(2, 10))
    PrivacyLoss(epsilon=Fraction(3, 10), delta=Fraction(0, 1))
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise InvalidInput(f"A privacy loss has epsilon ≥ 0 and 0 ≤ delta < 1; found {self}.")

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Basic composition: both losses together."""
        return PrivacyLoss(self.epsilon + other.epsilon, self.delta + other.delta)

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
