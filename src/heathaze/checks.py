"""Checks of arguments that several modules share. Each raises one sentence: the argument, its value, what to give."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.errors import InvalidInput


def shown(value: object) -> str:
    """A value as an error sentence quotes it, cut off after 80 characters.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (102 characters)"
    """
    try:
        text = str(value) if isinstance(value, Fraction) else repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits.
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:40]}… ({len(text)} characters)"


def whole(value: object, name: str, meaning: str = "", *, least: int = 1, most: int | None = None) -> int:
    """A whole number in a range; booleans and floats are refused.

    Args:
        value: What the caller gave.
        name: Name of the argument, for the sentence.
        meaning: What the number stands for, for the sentence.
        least: The smallest value that is allowed.
        most: The largest value that is allowed; unlimited if left out.

    Returns:
        The value as a Python integer.

    Raises:
        InvalidInput: The value is not a whole number in the range.

    >>> whole(0, "size", "cells a side", most=1024)
    Traceback (most recent call last):
        ...
    heathaze.errors.InvalidInput: size is 0; give cells a side, a whole number from 1 to 1,024.
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        wanted = f"{meaning}, a whole number" if meaning else "a whole number"
        limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InvalidInput(f"{name} is {shown(value)}; give {wanted} {limits}.")
    return int(value)  # type: ignore[call-overload, no-any-return]


def positive(value: float, name: str, meaning: str) -> float:
    """A positive finite number.

    Raises:
        InvalidInput: The value is not one.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise InvalidInput(f"{name} is {shown(value)}; give {meaning}, a positive number.")
    return number


def assign(target: object, **fields: Any) -> None:
    """Set the fields of a frozen dataclass in its own ``__init__``."""
    for name, value in fields.items():
        object.__setattr__(target, name, value)
