"""Compare the speed of discrete Laplace noise with OpenDP's, and of noise shares with numpy's floats.

python benchmarks/noise.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from heathaze.privacy.noise import discrete_laplace
from heathaze.privacy.noise_shares import noise_share
from heathaze.privacy.randomness import SecureRandomness

SCALE = Fraction(2**20) / Fraction(3, 10)
OURS, THEIRS = 1_000_000, 50_000
REPEATS = 5
WANTED_RATIO = 50

SHARE_SCALE, SHARE_SIZE = 2, 1254
SHARES = {"a device": (Fraction(1, 9500), 2000), "a shard": (Fraction(21, 20), 500)}
"""For each kind of share: the shape of its noise, and the number of vectors that are drawn."""

WANTED_OF_FLOATS = 0.5
"""The smallest wanted ratio: exact, secure noise may take twice as long as numpy's inexact, predictable noise."""


def main() -> None:
    """Print two tables, and whether the goals are reached."""
    laplace()
    shares()


def laplace() -> None:
    """Compare the speed of discrete Laplace draws with OpenDP's."""
    randomness = SecureRandomness()
    theirs = _opendp()
    discrete_laplace(SCALE, 1000, randomness)  # compile, or load what was compiled
    theirs(1000)
    # Both are timed in turns, so that other work on the machine slows both; the best time of each counts.
    times = [
        (_seconds(lambda: discrete_laplace(SCALE, OURS, randomness)), _seconds(lambda: theirs(THEIRS)))
        for _ in range(REPEATS)
    ]
    ours_rate, theirs_rate = OURS / min(ours for ours, _ in times), THEIRS / min(other for _, other in times)
    ratio = ours_rate / theirs_rate
    print(f"discrete Laplace noise of scale 2^20/0.3, best of {REPEATS}")
    print(f"{'':10} {'draws':>10} {'draws a second':>16} {'seconds a million':>18}")
    for name, draws, rate in (("heathaze", OURS, ours_rate), ("opendp", THEIRS, theirs_rate)):
        print(f"{name:10} {draws:>10,} {rate:>16,.0f} {1e6 / rate:>18.3f}")
    verdict = "holds" if ratio >= WANTED_RATIO else "FAILS"
    print(f"ratio {ratio:.0f}, wanted at least {WANTED_RATIO}: {verdict}")


def shares() -> None:
    """Compare the speed of noise shares with numpy's: the difference of two Poisson numbers with Gamma means."""
    randomness, generator = SecureRandomness(), np.random.default_rng()
    odds = 1 / math.expm1(1 / SHARE_SCALE)

    def peer(shape: float) -> object:
        first, second = (generator.poisson(generator.gamma(shape, odds, SHARE_SIZE)) for _ in range(2))
        return first - second

    print(f"noise shares of scale {SHARE_SCALE}, {SHARE_SIZE:,} numbers each, best of {REPEATS}")
    print(f"{'':10} {'shape':>8} {'heathaze a second':>18} {'numpy a second':>16} {'ratio':>7}")
    for name, (shape, count) in SHARES.items():
        noise_share(SHARE_SCALE, shape, SHARE_SIZE, randomness)
        times = [
            (
                _seconds(
                    lambda n=count, a=shape: [noise_share(SHARE_SCALE, a, SHARE_SIZE, randomness) for _ in range(n)]
                ),
                _seconds(lambda n=count, a=float(shape): [peer(a) for _ in range(n)]),
            )
            for _ in range(REPEATS)
        ]
        ours, theirs = (count / min(column) for column in zip(*times, strict=True))
        verdict = "holds" if ours >= WANTED_OF_FLOATS * theirs else "FAILS"
        print(f"{name:10} {shape!s:>8} {ours:>18,.0f} {theirs:>16,.0f} {ours / theirs:>7.2f}", end="")
        print(f"   wanted at least {WANTED_OF_FLOATS}: {verdict}")


def _opendp() -> Callable[[int], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(SCALE))
    return lambda size: mechanism([0] * size)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
