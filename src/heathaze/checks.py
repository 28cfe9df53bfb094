"""Checks of arguments, shared by several modules. An error sentence names the argument, its value and the remedy."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import Any

from heathaze.errors import InvalidInput


def shown(value: object) -> str:
    """Format a value for quotation in an error sentence: one short line, a fraction as numerator/denominator.

    Args:
        value: Any object. It may come from a file of unknown origin.

    Returns:
        The value's text, cut after 40 characters if it has more than 80.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (102 characters)"
    """
    try:
        text = str(value) if isinstance(value, Fraction) else repr(value)
    except ValueError:  # Python refuses to print a number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:40]}… ({len(text)} characters)"


def whole(value: object, name: str, meaning: str = "", *, least: int = 1, most: int | None = None) -> int:
    """Check that an argument is a whole number in a range, and return it. Booleans and floats are refused.

    Args:
        value: The argument that the caller gave. Integers of numpy are allowed.
        name: Name of the argument, for the error sentence.
        meaning: What the number counts, for the error sentence.
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
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < least or (most is not None and number > most):
        wanted = f"{meaning}, a whole number" if meaning else "a whole number"
        limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InvalidInput(f"{name} is {shown(value)}; give {wanted} {limits}.")
    return number


def positive(value: float, name: str, meaning: str) -> float:
    """Check that an argument is a positive finite number, and return it as a float.

    Args:
        value: The argument that the caller gave.
        name: Name of the argument, for the error sentence.
        meaning: What the number measures, for the error sentence.

    Raises:
        InvalidInput: The value is not a positive finite number.

    >>> positive(2, "width", "the width of a room in metres")
    2.0
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise InvalidInput(f"{name} is {shown(value)}; give {meaning}, a positive number.")
    return number


def assign(target: object, **fields: Any) -> None:
    """Set fields of a frozen dataclass from its own ``__init__`` or ``__post_init__``, where assignment is refused.

    Args:
        target: The object under construction.
        fields: The values of its fields by name. A field ``grid`` must be a Grid.

    Raises:
        InvalidInput: The value of ``grid`` is not a Grid.
    """
    for name, value in fields.items():
        if name == "grid" and not hasattr(type(value), "cell_of"):  # Grid itself belongs to a higher layer
            raise InvalidInput(f"The grid has the type {type(value).__name__}; make it with Grid.over or Grid.plane.")
        object.__setattr__(target, name, value)


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is not between 0 and 1.

    Raises:
        InvalidInput: The confidence is not between 0 and 1.
    """
    try:
        inside = 0 < float(confidence) < 1 and not isinstance(confidence, str)
    except (TypeError, ValueError, OverflowError):
        inside = False
    if not inside:
        raise InvalidInput(f"The confidence is {shown(confidence)}; give a number between 0 and 1, for example 0.9.")
