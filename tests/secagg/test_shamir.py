"""Shamir's shares: any t give the secret back, t − 1 fit every secret equally well."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.privacy.randomness import Simulation
from heathaze.secagg import shamir as shares
from heathaze.testing.statistics import chi_square


def strong_probable_prime(number: int, base: int) -> bool:
    """Miller and Rabin's test."""
    odd, halvings = number - 1, 0
    while odd % 2 == 0:
        odd, halvings = odd // 2, halvings + 1
    power = pow(base, odd, number)
    return power in (1, number - 1) or any(pow(power, 2**k, number) == number - 1 for k in range(1, halvings))


def test_the_modulus_is_prime() -> None:
    """64 random bases: a composite passes with probability below 2^-128. Its composite neighbours do not."""
    bases = [2 + k for k in shares.uniform(64, Simulation(1))]
    assert all(strong_probable_prime(shares.PRIME, base % shares.PRIME) for base in bases)
    for composite in (shares.PRIME - 2, shares.PRIME + 2, 2**256 + 1):
        assert not all(strong_probable_prime(composite, base % composite) for base in bases[:8])


@given(secret=st.integers(0, 2**256 - 1), needed=st.integers(1, 8), extra=st.integers(0, 6), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_any_so_many_shares_give_the_secret_back(secret: int, needed: int, extra: int, seed: int) -> None:
    found = shares.split(secret, needed, needed + extra, Simulation(seed))
    order = np.argsort(Simulation(seed + 1).words(len(found)))[:needed]
    assert shares.combine({int(place) + 1: found[place] for place in order}) == secret
    assert shares.combine(dict(enumerate(found, 1))) == secret
    if needed > 1:
        # One share fewer leads elsewhere; by chance to the secret once in 2^256 cases.
        assert shares.combine({int(place) + 1: found[place] for place in order[:-1]}) != secret


def test_one_wrong_share_gives_another_secret() -> None:
    found = dict(enumerate(shares.split(12345, 3, 3, Simulation(1)), 1))
    found[2] = (found[2] + 1) % shares.PRIME
    assert shares.combine(found) != 12345


@pytest.mark.parametrize(("prime", "needed", "count"), [(5, 2, 3), (5, 3, 4), (7, 2, 5), (7, 3, 4)])
def test_fewer_shares_say_nothing(prime: int, needed: int, count: int) -> None:
    """Every polynomial of a tiny field: whatever t − 1 shares are seen, each secret explains them equally often."""
    for places in itertools.combinations(range(count), needed - 1):
        seen: dict[tuple[int, ...], collections.Counter[int]] = collections.defaultdict(collections.Counter)
        for polynomial in itertools.product(range(prime), repeat=needed):
            found = shares.evaluate(polynomial, count, prime)
            seen[tuple(found[place] for place in places)][polynomial[0]] += 1
        assert len(seen) == prime ** (needed - 1)
        assert all(set(counts.values()) == {1} and len(counts) == prime for counts in seen.values())


def test_enough_shares_say_all() -> None:
    """The same enumeration sees a leak where there is one."""
    seen: dict[tuple[int, ...], set[int]] = collections.defaultdict(set)
    for polynomial in itertools.product(range(5), repeat=2):
        seen[tuple(shares.evaluate(polynomial, 2, 5))].add(polynomial[0])
    assert all(len(secrets) == 1 for secrets in seen.values())


@given(true=st.integers(0, 2**256 - 1), claimed=st.integers(0, 2**256 - 1), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_in_the_real_field_too_every_secret_fits(true: int, claimed: int, seed: int) -> None:
    """The t − 1 shares of one secret, and a polynomial that gives exactly these shares of another."""
    needed = 5
    held = shares.split(true, needed, needed - 1, Simulation(seed))
    # Through (0, claimed) and the four shares: what it is at 5 makes the fifth share, and all five give it back.
    points = {0: claimed, **dict(enumerate(held, 1))}
    fifth = interpolate(points, needed)
    assert shares.combine({**dict(enumerate(held, 1)), needed: fifth}) == claimed


def interpolate(points: dict[int, int], where: int) -> int:
    """Lagrange's formula, once more and plainly."""
    total = 0
    for here, value in points.items():
        for there in points:
            if there != here:
                value = value * (where - there) * pow(here - there, -1, shares.PRIME)
        total += value
    return total % shares.PRIME


def test_elements_are_uniform() -> None:
    found = shares.uniform(20_000, Simulation(1))
    assert max(found) < shares.PRIME
    sixteenths = np.bincount([number * 16 // shares.PRIME for number in found], minlength=16)
    assert chi_square(sixteenths, np.full(16, 1250)) > 1e-6
    low = np.bincount([number % 16 for number in found], minlength=16)
    assert chi_square(low, np.full(16, 1250)) > 1e-6
