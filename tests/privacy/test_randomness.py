"""The bits: uniform, never repeated by a copy, and their key never shown."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from heathaze.privacy.randomness import Randomness, SecureRandomness, Simulation
from heathaze.testing.statistics import chi_square

SOURCES = [SecureRandomness, lambda: Simulation(1)]


@pytest.mark.parametrize("source", SOURCES)
def test_words_are_uniform(source) -> None:
    words = source().words(100_000)
    octets = np.bincount(words.view(np.uint8), minlength=256)
    assert chi_square(octets, np.full(256, octets.sum() / 256)) > 1e-6
    bits = np.unpackbits(words.view(np.uint8))
    assert chi_square(np.bincount(bits), [len(bits) / 2] * 2) > 1e-6
    pairs = np.bincount(2 * bits[:-1:2] + bits[1::2], minlength=4)
    assert chi_square(pairs, [len(bits) / 8] * 4) > 1e-6


def test_the_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole, parts = Simulation(1), Simulation(1)
    pieces = [parts.words(count) for count in (1, 20_000, 0, 3, 40_000)]
    assert (whole.words(60_004) == np.concatenate(pieces)).all()


def test_the_stream_moves_on() -> None:
    source = Simulation(1)
    assert not (source.words(100) == source.words(100)).any()


def test_seeds_differ_and_repeat() -> None:
    assert (Simulation(5).words(10) == Simulation(5).words(10)).all()
    assert not (Simulation(5).words(10) == Simulation(6).words(10)).any()


def test_secure_sources_differ() -> None:
    assert not (SecureRandomness().words(10) == SecureRandomness().words(10)).any()


def test_only_a_simulation_says_so() -> None:
    assert Simulation(1).simulated
    assert not SecureRandomness().simulated


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies(source, clone) -> None:
    with pytest.raises(TypeError, match="would repeat the same noise"):
        clone(source())


def test_the_key_is_not_shown() -> None:
    key = bytes(range(32))
    source = Randomness(key)
    assert repr(source) == "<Randomness>"
    shown = " ".join(f"{name}={value!r}" for name, value in vars(source).items())
    assert key.hex() not in shown
    assert repr(key) not in shown


FORKING = """
import os, sys
from heathaze.privacy.randomness import SecureRandomness
source = SecureRandomness()
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, source.words(4).tobytes())
    os._exit(0)
os.wait()
child, parent = os.read(reader, 32), source.words(4).tobytes()
sys.exit(0 if len(child) == 32 and child != parent else 1)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_a_forked_child_draws_other_noise() -> None:
    assert subprocess.run([sys.executable, "-c", FORKING], check=False).returncode == 0


def test_uniforms_lie_in_the_unit_interval() -> None:
    drawn = Simulation(1).uniforms(100_000)
    assert 0 <= drawn.min() < drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=50, range=(0, 1))
    assert chi_square(counts, [2000] * 50) > 1e-6


# ── uniform integers ────────────────────────────────────────────────────────────────────────────────────────────────


class Given(Randomness):
    """Words that the test chooses, one after the other."""

    def __init__(self, *words: int) -> None:
        super().__init__(bytes(32))
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 256, 1000])
def test_small_bounds_are_even(bound: int) -> None:
    drawn = Simulation(bound).below(bound, 60_000)
    assert drawn.dtype == np.uint64
    assert drawn.max() < bound
    counts = np.bincount(drawn.astype(np.int64), minlength=bound)
    assert bound == 1 or chi_square(counts, np.full(bound, 60_000 / bound)) > 1e-6


@pytest.mark.parametrize("bound", [3, 10, 2**32 + 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63])
def test_words_beyond_the_last_whole_multiple_are_drawn_again(bound: int) -> None:
    """Exactly the words below the largest multiple of the bound are kept, so every remainder has as many of them."""
    last = 2**64 // bound * bound - 1
    assert Given(0, last).below(bound, 2).tolist() == [0, bound - 1]
    if last < 2**64 - 1:
        assert Given(last + 1, 2, 2**64 - 1, last + 1, 1).below(bound, 2).tolist() == [1, 2]
    else:
        assert Given(2**64 - 1).below(bound, 1).tolist() == [bound - 1]


def test_large_bounds_are_even() -> None:
    """Without drawing again, 3 · 2^61 as bound would hit its lower two thirds three times for two."""
    bound = 3 * 2**61
    drawn = Simulation(3).below(bound, 60_000)
    assert int(drawn.max()) < bound
    thirds = np.bincount((drawn // np.uint64(2**61)).astype(np.int64), minlength=3)
    assert chi_square(thirds, [20_000] * 3) > 1e-6
    biased = Simulation(3).words(60_000) % np.uint64(bound)
    assert chi_square(np.bincount((biased // np.uint64(2**61)).astype(np.int64), minlength=3), [20_000] * 3) < 1e-6


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1, 2**64])
def test_bounds_that_cannot_be_are_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 2\\^63"):
        Simulation(1).below(bound, 1)


def test_no_integers_take_no_words() -> None:
    source = Simulation(1)
    assert source.below(5, 0).shape == (0,)
    assert (source.words(3) == Simulation(1).words(3)).all()
