"""How far mixed shares are from uniform: enumerated exactly for few people, and the bound is never below."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import DiscreteLaplace, MixedShares
from heathaze.privacy.split_and_mix_loss import distance_to_uniform, messages_needed
from heathaze.types import Floats, Integers


def mixed_law(inputs: Floats, messages: int) -> dict[tuple[int, ...], float]:
    """The exact law of mixed messages, as how often each residue occurs; inputs[i, z] is Pr[person i has z]."""
    order = inputs.shape[1]
    alone = [dict[tuple[int, ...], float]() for _ in range(order)]
    for free in itertools.product(range(order), repeat=messages - 1):
        for z in range(order):
            counts = [0] * order
            for message in (*free, (z - sum(free)) % order):
                counts[message] += 1
            alone[z][tuple(counts)] = alone[z].get(tuple(counts), 0.0) + order ** (1.0 - messages)
    base = (len(inputs) * messages + 1) ** np.arange(order)
    codes: Integers = np.zeros(1, np.int64)
    weights: Floats = np.ones(1)
    for person in inputs:
        own: dict[tuple[int, ...], float] = {}
        for z in np.flatnonzero(person).tolist():
            for counts, weight in alone[z].items():
                own[counts] = own.get(counts, 0.0) + float(person[z]) * weight
        more, parts = np.array(list(own)) @ base, np.array(list(own.values()))
        sums, place = np.unique((codes[:, None] + more).ravel(), return_inverse=True)
        weights = np.asarray(np.bincount(place, (weights[:, None] * parts).ravel()), np.float64)
        codes = sums
    law = {}
    for code, weight in zip(codes.tolist(), weights.tolist(), strict=True):
        law[tuple(code // int(b) % (len(inputs) * messages + 1) for b in base)] = weight
    return law


def uniform_law(total: int, order: int, drawn: int) -> dict[tuple[int, ...], float]:
    """The law of uniform messages with a given sum."""
    law = {}
    for counts in itertools.product(range(drawn + 1), repeat=order - 1):
        rest = drawn - sum(counts)
        full = (*counts, rest)
        if rest >= 0 and sum(z * c for z, c in enumerate(full)) % order == total % order:
            ways = math.factorial(drawn)
            for c in full:
                ways //= math.factorial(c)
            law[full] = ways / order ** (drawn - 1)
    return law


def distance(one: dict[tuple[int, ...], float], two: dict[tuple[int, ...], float]) -> float:
    return sum(abs(one.get(key, 0.0) - two.get(key, 0.0)) for key in one.keys() | two.keys()) / 2


@pytest.mark.parametrize(
    ("people", "order", "messages", "largest"),
    [(2, 5, 4, 0.1135), (3, 5, 4, 0.0786), (3, 3, 5, 0.0170), (4, 3, 4, 0.0321), (4, 2, 5, 0.0093)],
)
def test_the_bound_is_never_below_the_exact_distance(people: int, order: int, messages: int, largest: float) -> None:
    found = 0.0
    for inputs in itertools.combinations_with_replacement(range(order), people):
        law = mixed_law(np.eye(order)[list(inputs)], messages)
        found = max(found, distance(law, uniform_law(sum(inputs), order, people * messages)))
    assert found == pytest.approx(largest, abs=6e-5)
    assert distance_to_uniform(people, order, messages) >= found


@pytest.mark.parametrize(("people", "order", "messages"), [(3, 5, 4), (10, 12, 6), (40, 12_800, 16), (60, 2**40, 20)])
def test_the_bound_is_close_to_its_formula(people: int, order: int, messages: int) -> None:
    """W_r of the page, in exact rationals: E[q^C] = n!/(nk)! · [z^n] (Σ_j (jk)!/j! z^j)^q."""
    k = messages - 1
    series = [Fraction(math.factorial(j * k), math.factorial(j)) for j in range(people + 1)]
    power = [Fraction(1)]
    for m in range(1, people + 1):
        terms = (((order + 1) * j - m) * series[j] * power[m - j] for j in range(1, m + 1))
        power.append(sum(terms, Fraction(0)) / m)
    mean = power[people] * Fraction(math.factorial(people), math.factorial(people * k)) / order
    exact = math.sqrt(mean - 1) / 2
    assert exact <= distance_to_uniform(people, order, messages) <= (1.3 if order < 20 else 1.03) * exact


def test_the_bound_for_many_people_continues_that_for_few() -> None:
    """From some number of people on, a shorter sum is used; it is hardly above the long one."""
    values = [distance_to_uniform(n, 10**6, 12) for n in (30, 31, 32, 33, 34, 63, 64, 65, 66, 128, 500, 5000)]
    assert values == sorted(values, reverse=True)
    slopes = np.diff(np.log(values[:5]))
    assert (np.abs(slopes - slopes.mean()) < 0.02).all()


def test_the_messages_that_are_needed() -> None:
    allowed = 1e-5 / (1 + math.exp(5)) / 102_409
    assert [messages_needed(n, 256 * n, allowed) for n in (50, 10**4, 10**5)] == [16, 9, 8]


def test_the_printed_number_of_messages_falls_short() -> None:
    """Errata E0-12 d: at n = 10^4, m = 576, B = 1 the printed formula gives 7, and 8 are needed."""
    n, m, q, epsilon, delta = 10**4, 576, 10_405, 1.0, 1e-6
    printed = math.ceil((2 * math.log(math.exp(epsilon) + 1) + 2 * math.log(m / delta) + math.log(q)) / math.log(n) + 1)
    needed = messages_needed(n, q, delta / (1 + math.exp(epsilon)) / m)
    assert (printed, needed) == (7, 8)
    assert (1 + math.exp(epsilon)) * m * distance_to_uniform(n, q, printed) > delta


def test_delta_covers_all_shares_together() -> None:
    noise, shares = DiscreteLaplace(1, Fraction(1)), MixedShares(10**4, 14, 8, 576)
    assert compose([noise, shares], Fraction(1, 10**6)).epsilon == 1
    with pytest.raises(InvalidInput, match="larger delta"):
        compose([noise, MixedShares(10**4, 14, 7, 576)], Fraction(1, 10**6))
    with pytest.raises(InvalidInput, match="larger delta"):
        compose([noise, *[shares] * 1000], Fraction(1, 10**6))
    with pytest.raises(InvalidInput, match="delta"):
        compose([noise, shares])


def test_wrong_numbers_are_refused() -> None:
    for call in (
        lambda: messages_needed(2, 10**300, 1e-30),
        lambda: messages_needed(10, 5, 0.0),
        lambda: MixedShares(10**10, 14, 8, 5),
    ):
        with pytest.raises(InvalidInput):
            call()
