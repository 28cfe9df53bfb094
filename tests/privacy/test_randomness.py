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
