"""What both plans check: whole numbers, and whether anything can be learned through the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.loss import LARGEST_EPSILON

if TYPE_CHECKING:
    from heathaze.marketplace.herding import Herding
    from heathaze.marketplace.private_greedy import Rounds

MOST_POINTS = 10**7


def check_signal(plan: Herding | Rounds, ratio: float, members: int, size: Literal["target_points", "points"]) -> None:
    """Refuse a mean hash whose noise is longer than the hash can be, and say what would do, each on its own.

    Args:
        plan: Whose hash it is.
        ratio: Length of the noise to that of the hash.
        members: Points in the hash.
        size: Which of the plan's numbers gives the hash more members.
    """
    if ratio <= 1:
        return
    of, called = ("target", "points of the target") if size == "target_points" else ("summary", "points bought")
    enough = (
        ", or ".join(_remedies(plan, ratio, members, size, called))
        or "more points, a larger epsilon and fewer frequencies"
    )
    raise InvalidInput(
        f"The noise of the {of}'s mean hash, over {members:,} {called}, is {ratio:.3g} times as long as the hash can "
        f"be, so nobody would learn anything from it; take {enough}. Nothing was charged."
    )


def _remedies(plan: Herding | Rounds, ratio: float, members: int, size: str, called: str) -> Iterator[str]:
    """What alone is enough; each is tried on the plan itself."""

    def carries(**changes: Any) -> bool:
        try:
            return replace(plan, **changes).noise_to_signal <= 1
        except (InvalidInput, TooLarge):
            return False

    # Noise of a sum does not depend on its members, so that of a mean falls with them; a summary is told before the
    # last point is bought, which asks for a few more.
    least = getattr(plan, size) - 1 + math.ceil(members * (ratio - 1))
    some = _smallest(lambda count: carries(**{size: count}), least, least + 2, MOST_POINTS)
    if some is not None:
        yield f"at least {some:,} {called}"
    # In steps of a thousandth of the first guess, which is rounded up to three digits at the end.
    unit = 10.0 ** (math.floor(math.log10(float(plan.epsilon) * ratio)) - 2)
    loss = _smallest(lambda count: carries(epsilon=_short(count * unit)), 0, 10, math.floor(LARGEST_EPSILON / unit))
    if loss is not None:
        yield f"epsilon {_short(loss * unit)} or more"
    fewer = math.floor(plan.features.frequencies / ratio**2 * (1 + 1e-9))
    while fewer >= 1 and not carries(features=replace(plan.features, frequencies=fewer)):
        fewer -= 1
    if fewer >= 1:
        yield f"at most {fewer} {'frequency' if fewer == 1 else 'frequencies'} in the study"


def _short(value: float) -> str:
    """Three digits, as a reader would type them."""
    return f"{float(f'{value:.3g}'):.15g}"


def _smallest(enough: Callable[[int], bool], low: int, high: int, most: int) -> int | None:
    """The smallest whole number above ``low`` that is enough, if all larger ones are; none if not even the most is."""
    low, high = min(low, most), min(high, most)
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(4 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def whole(name: str, value: object) -> int:
    """A positive whole number, in a sentence if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MOST_POINTS:
        raise InvalidInput(f"{name} is {value!r}; give a whole number from 1 to {MOST_POINTS}.")
    return int(value)
