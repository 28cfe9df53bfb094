"""The privacy loss of decoys: exact at every level, composed numerically, with all rounding towards a larger loss.

At one level of a tree with K nodes, the server sees how many messages name each node: the true nodes of all people, and
decoys at uniformly random nodes. Let one person move from node u to node v. Let the server know everything except this
move and the decoys. Let A and B be the numbers of decoys at u and v. The server sees (a, b) = (A + 1, B) before the
move and (A, B + 1) after it. Given the number of all decoys, the counts are multinomial with equal probabilities, so

    Pr[(a − 1, b)] / Pr[(a, b − 1)] = a / b,   and the privacy loss is ln(a / b).

Here S = A + B is a sum of binomial numbers, since every decoy falls on u or v with probability 2/K, and A is binomial
with S draws and probability ½. The levels are independent of each other, so their losses add up. The loss is largest if
the two positions differ at every level. ``shuffle/decoys.md`` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.types import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

    from heathaze.privacy.events import DecoyCounts

_STEP = 2.0**-12
"""Losses are rounded up to multiples of this."""

_WIDE = 11.0
"""Binomial numbers are cut off at this many standard deviations; what is cut off counts as an infinite loss."""

_BLOCKS = 200
"""S is rounded down to one of about this many values. This is safe: fewer decoys are never more private."""

_MARGIN = 1e-12
"""This much of δ is set aside for rounding errors of the transforms, which are below 1e-13 in all."""


def epsilon_of_decoys(levels: Sequence[DecoyCounts], delta: float) -> float:
    """Compute an upper bound on the ε of decoys at several levels together.

    Args:
        levels: The levels, of one or several trees.
        delta: δ, above 1e-11.

    Raises:
        InvalidInput: δ is too small, or there are so few decoys that no ε holds with this δ.
    """
    if delta < 10 * _MARGIN:
        raise InvalidInput(f"delta is {delta:.3g}; decoys are accounted with a delta of at least {10 * _MARGIN:g}.")
    epsilon = float(_composed(levels).get_epsilon_for_delta(delta * (1 - 1e-9) - _MARGIN))
    if not math.isfinite(epsilon):
        raise InvalidInput(
            f"Decoys of {min(level.people for level in levels)} people hide nobody with delta {delta:.3g}; ask more "
            "people, or send more decoys."
        )
    return max(epsilon, 0.0)


def delta_of_decoys(levels: Sequence[DecoyCounts], epsilon: float) -> float:
    """Compute an upper bound on the δ of decoys at several levels together, at an ε of at least 0.

    >>> from fractions import Fraction
    >>> from heathaze.privacy.events import DecoyCounts
    >>> round(delta_of_decoys([DecoyCounts(people=1, nodes=2, decoys=Fraction(2))], 0.5), 3)  # 3/4 − e^½ / 4
    0.338
    """
    return min(1.0, float(_composed(levels).get_delta_for_epsilon(epsilon)) * (1 + 1e-9) + _MARGIN)


def _composed(levels: Sequence[DecoyCounts]) -> PLDPmf:
    first, *others = [_losses(level) for level in levels]
    for other in others:
        first = first.compose(other, tail_mass_truncation=_MARGIN / 100)
    return first


def _losses(level: DecoyCounts) -> PLDPmf:
    """The law of the privacy loss at one level, on the lattice."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    least, masses = _decoys_at_two_nodes(level)
    starts = np.arange(0, len(masses), max(1, len(masses) // _BLOCKS))
    places, weights, infinite = [], [], max(0.0, 1 - float(masses.sum()))
    for s, mass in zip((least + starts).tolist(), np.add.reduceat(masses, starts).tolist(), strict=True):
        first, law = _binomial(s, 0.5)
        a = np.arange(first, first + len(law)) + 1
        b = s + 1 - a
        infinite += mass * (max(0.0, 1 - float(law.sum())) + float(law[b == 0].sum()))
        places.append(np.ceil(np.log(a[b > 0] / b[b > 0]) / _STEP).astype(np.int64))
        weights.append(mass * law[b > 0])
    at = np.concatenate([*places, [0]])
    probabilities = np.bincount(at - at.min(), np.concatenate([*weights, [0.0]]))
    return DensePLDPmf(_STEP, int(at.min()), probabilities, infinite, True)


def _decoys_at_two_nodes(level: DecoyCounts) -> tuple[int, Floats]:
    """The law of S, the number of decoys at two nodes: its least value, and the probabilities from there."""
    each, more = divmod(level.decoys, 1)
    first, surely = _binomial(level.people * int(each), 2 / level.nodes)
    second, perhaps = _binomial(level.people, float(more) * 2 / level.nodes)
    return first + second, np.convolve(surely, perhaps)


def _binomial(draws: int, probability: float) -> tuple[int, Floats]:
    """The binomial law, without its far tails: the least value, and the probabilities from there."""
    from scipy.stats import binom

    middle, wide = draws * probability, _WIDE * math.sqrt(draws * probability) + 60
    least, most = max(0, math.floor(middle - wide)), min(draws, math.ceil(middle + wide))
    return least, np.asarray(binom.pmf(np.arange(least, most + 1), draws, probability))
