"""The privacy loss (ε, δ) in exact rationals, so that no sum of losses is rounded."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

from heathaze.checks import shown
from heathaze.errors import InvalidInput, WeakPrivacy

Number = int | float | str | Decimal | Fraction
"""A number as a caller may write it: 1, 0.1, "0.1", "1/3", Decimal("0.1") or Fraction(1, 3)."""

SMALLEST_EPSILON = Fraction(1, 10**6)
"""A smaller ε is refused: the noise of every mechanism would hide the whole map and not fit into 64 bits."""

SMALLEST_DELTA = Fraction(1, 2**80)
"""A positive δ below this is refused, because the accountant's floats cannot distinguish it from 0."""

MOST_DELTA = Fraction(1, 100)
"""The largest δ of a purchase in the marketplace; δ should be well below 1 divided by the number of records."""

LARGEST_EPSILON = 1000
MOST_BITS = 4096
"""A larger ε is refused: a factor of e^1000 guarantees nothing."""

WEAK_EPSILON = 10
"""A larger ε raises a warning: a factor of e^10 protects a person hardly at all."""


@dataclass(frozen=True, order=True)
class PrivacyLoss:
    """A privacy loss (ε, δ): one unit changes the probability p of any outcome to at most e^ε · p + δ.

    Args:
        epsilon: ε, at least 0.
        delta: δ, at least 0 and below 1. With δ = 0 the loss is called pure.

    Raises:
        InvalidInput: A value is out of range.

    >>> PrivacyLoss(Fraction(1, 10)) + PrivacyLoss(Fraction(2, 10))
    PrivacyLoss(epsilon=Fraction(3, 10), delta=Fraction(0, 1))
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise InvalidInput(
                f"A privacy loss has epsilon {shown(self.epsilon)} and delta {shown(self.delta)}; give epsilon ≥ 0 and "
                "0 ≤ delta < 1."
            )

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the privacy loss of two releases together, by basic composition: both ε and both δ add."""
        return PrivacyLoss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __str__(self) -> str:
        text = f"ε = {decimal(self.epsilon)}"
        return text if self.delta == 0 else f"{text}, δ = {decimal(self.delta)}"


# ── from a caller's number ──────────────────────────────────────────────────────────────────────────────────────────


def exact(value: Number) -> Fraction:
    """Convert a caller's number to an exact rational; 0.1 means one tenth, not the nearest binary fraction.

    Raises:
        ValueError: The value is not a number, or has an exponent of five digits, which would fill the memory.

    >>> exact(0.1), exact("1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    if isinstance(value, Integral):
        return Fraction(int(value))  # an integer of numpy would overflow later
    if isinstance(value, str | Decimal) and re.search("e[+-]?[0-9_]{5}", str(value), re.IGNORECASE):
        raise ValueError("The exponent is too large.")
    return Fraction(repr(float(value)) if isinstance(value, float) else value)


def _parse(value: Number, wanted: str) -> Fraction:
    try:
        if isinstance(value, bool):
            raise TypeError
        return exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(wanted) from None


def parse_epsilon(value: Number, name: str = "epsilon") -> Fraction:
    """Check ε and return it as an exact fraction.

    Args:
        value: ε, from 1e-6 to 1000.
        name: Name of the argument, for the error sentence.

    Raises:
        InvalidInput: The value is not a number in that range.

    >>> parse_epsilon(0.5)
    Fraction(1, 2)
    """
    text = str(value).lower() if isinstance(value, float | Decimal) else ""
    if "nan" in text:  # also the signaling NaN of Decimal, which cannot be converted to a float
        raise InvalidInput(f"{name} is not a number; give a positive number such as 1.")
    if "inf" in text:
        raise InvalidInput(f"{name} is infinite, which promises nothing; give a positive number such as 1.")
    epsilon = _parse(value, f"{name} is {shown(value)}; give a positive number such as 1.")
    if epsilon <= 0:
        raise InvalidInput(f"{name} is {shown(value)}; give a positive number such as 1 (smaller is more private).")
    if epsilon > LARGEST_EPSILON:
        raise InvalidInput(f"{name} is above {LARGEST_EPSILON}, which promises nothing; 1 is a common choice.")
    if epsilon < SMALLEST_EPSILON:
        raise InvalidInput(
            f"{name} is {shown(value)}; below {float(SMALLEST_EPSILON):g} nothing but noise is left, so give more."
        )
    if epsilon.denominator.bit_length() > MOST_BITS:
        raise InvalidInput(
            f"{name} is {shown(value)}, a fraction of thousands of bits; give a shorter number such as 1."
        )
    return epsilon


def parse_delta(value: Number, *, zero: bool = True, most: Fraction = Fraction(1)) -> Fraction:
    """Check δ and return it as an exact fraction.

    Args:
        value: δ, the small probability by which the bound of the guarantee may be exceeded: 0, or from 2^-80 up to
            below 1.
        zero: Whether δ = 0, a pure guarantee, is allowed.
        most: The largest δ that is allowed. δ = 1 is never allowed.

    Raises:
        InvalidInput: The value is not a number in that range.

    >>> parse_delta(1e-6)
    Fraction(1, 1000000)
    """
    range_ = f"{'0, or a number' if zero else 'a number'} from 1e-24 to {'below 1' if most == 1 else float(most)}"
    wanted = f"delta is {shown(value)}; give {range_}, such as 1e-6."
    delta = _parse(value, wanted)
    if not (delta == 0 and zero) and not (SMALLEST_DELTA <= delta <= most and delta < 1):
        raise InvalidInput(f"{wanted} It is a small probability by which the bound of the guarantee may be exceeded.")
    return delta


def warn_if_weak(epsilon: Fraction | float, name: str = "epsilon") -> None:
    """Warn if an ε above 10 is about to be promised or budgeted. Callers warn before they charge a ledger.

    Args:
        epsilon: ε. An infinite ε, which tests use, raises no warning.
        name: Name of the argument, for the warning.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_weak(10), warn_if_weak(20)
    (None, None)
    >>> print(caught[0].message)  # doctest: +ELLIPSIS
    epsilon is 20, above 10: one protected unit may make any outcome e^20 ≈ 4.86e+08 times as likely, ...
    """
    if WEAK_EPSILON < epsilon < math.inf:
        written = decimal(Fraction(epsilon))
        factor = f" ≈ {decimal_up(math.exp(epsilon), 3)}" if epsilon < 100 else ""
        warnings.warn(
            f"{name} is {written}, above {WEAK_EPSILON}: one protected unit may make any outcome e^{written}{factor} "
            "times as likely, which is hardly a protection; 1 is a common choice.",
            WeakPrivacy,
            stacklevel=_levels_to_caller(),
        )


def _levels_to_caller() -> int:
    """Count the stack frames up to the first code outside Heathaze, so that a warning points to the caller's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "heathaze":
        level, frame = level + 1, frame.f_back
    return level


# ── for the reader ──────────────────────────────────────────────────────────────────────────────────────────────────


def decimal(value: Fraction) -> str:
    """Write an ε or δ as a decimal: exactly if it has at most six digits, otherwise rounded up to six digits.

    >>> decimal(Fraction(1, 10)), decimal(Fraction(1, 3)), decimal(Fraction(2))
    ('0.1', '0.333334', '2')
    """
    return decimal_up(value, 6)


def decimal_up(value: Fraction | float, digits: int) -> str:
    """Write a number of at least 0 with at most ``digits`` digits, rounded up.

    Args:
        value: A number of at least 0.
        digits: The largest number of significant digits.

    >>> decimal_up(2.01375, 3), decimal_up(1.0010005, 3)
    ('2.02', '1.01')
    """
    return _rounded(Fraction(value), digits, math.ceil)


def decimal_down(value: Fraction) -> str:
    """Write a privacy loss that remains as a decimal of at most six digits, rounded down.

    >>> decimal_down(Fraction(2, 3)), decimal_down(Fraction(2))
    ('0.666666', '2')
    """
    return _rounded(value, 6, math.floor)


def _rounded(value: Fraction, digits: int, whole: Callable[[Fraction], int]) -> str:
    if value > 10**300:
        return "more than 1e+300"
    if 0 < value < Fraction(1, 10**300):
        return "1e-300" if whole is math.ceil else "0"
    short = f"{float(value):.{digits}g}"
    if Fraction(short) == value:
        return short
    step = Fraction(10) ** (math.floor(math.log10(value)) - digits + 1)
    return f"{float(whole(value / step) * step):.{digits}g}"


def read_rational(text: Any) -> Any:
    """Parse a rational that a file holds as text, such as "1/3". Any other value is returned as it is, to be refused.

    ``Fraction`` alone would also accept the text 1e999999999, and compute for years.
    """
    if isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,4300}(/[0-9]{1,4300})?", text, re.ASCII):
        numerator, _, denominator = text.partition("/")
        return Fraction(int(numerator), int(denominator or 1)) if int(denominator or 1) else text
    return text
