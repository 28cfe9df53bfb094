"""Draws a second: our discrete Laplace noise against OpenDP's, in one run.

python benchmarks/noise.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

from heathaze.privacy.noise import discrete_laplace
from heathaze.privacy.randomness import SecureRandomness

SCALE = Fraction(2**20) / Fraction(3, 10)
OURS, THEIRS = 1_000_000, 50_000
REPEATS = 5
WANTED_RATIO = 50


def main() -> None:
    """Print a table and the verdict."""
    randomness = SecureRandomness()
    theirs = _opendp()
    discrete_laplace(SCALE, 1000, randomness)  # compile, or load what was compiled
    theirs(1000)
    # Taken in turns, so that a busy machine slows both alike; the best of each counts.
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
