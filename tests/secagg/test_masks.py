"""Masks and packing: whole keystreams from whole keys, and numbers that come back as they were."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import keys, masks
from heathaze.testing.statistics import chi_square
from tests.secagg.parties import identities, small_parameters

KEY = bytes(range(32))
Mask = Callable[[bytes], np.ndarray]


def mask_of(key: bytes, length: int = 8) -> np.ndarray:
    """The mask by itself: what is added to zeros."""
    total = np.zeros(length, np.uint32)
    masks.add(total, key)
    return total


def assert_all_of_the_key_matters(mask: Mask) -> None:
    """No byte is ignored, and no words are folded together: words of the key that trade places change the mask."""
    seen = {mask(KEY).tobytes()}
    for place in range(256):
        flipped = bytearray(KEY)
        flipped[place // 8] ^= 1 << place % 8
        seen.add(mask(bytes(flipped)).tobytes())
    assert len(seen) == 257, "bits of the key are ignored or folded together"
    words = np.frombuffer(KEY, np.uint32)
    for first in range(8):
        for second in range(first):
            traded = words.copy()
            traded[[first, second]] = traded[[second, first]]
            seen.add(mask(traded.tobytes()).tobytes())
    assert len(seen) == 257 + 28, "words of the key are folded together"


def test_all_of_the_key_matters() -> None:
    assert_all_of_the_key_matters(mask_of)


def test_a_key_folded_to_32_bits_is_caught() -> None:
    """A known mistake: the words of the key are joined by exclusive or, and a twister is seeded with the result."""

    def folded(key: bytes) -> np.ndarray:
        seed = int(np.bitwise_xor.reduce(np.frombuffer(key, np.uint32)))
        return np.random.RandomState(seed).randint(0, 2**31, 8)

    with pytest.raises(AssertionError, match="folded together"):
        assert_all_of_the_key_matters(folded)


def test_the_mask_is_the_keystream_of_aes() -> None:
    cipher = Cipher(algorithms.AES256(KEY), modes.CTR(bytes(16))).encryptor()
    assert mask_of(KEY, 50_000).tobytes() == cipher.update(bytes(200_000))


@pytest.mark.parametrize("length", [1, 3, 32_767, 32_768, 32_769, 100_001])
def test_a_mask_added_and_taken_away_is_gone(length: int) -> None:
    values = Simulation(1).words(length).astype(np.uint32)
    total = values.copy()
    masks.add(total, KEY)
    assert length < 10 or (total != values).mean() > 0.999
    masks.add(total, KEY, subtract=True)
    assert (total == values).all()


@pytest.mark.parametrize("bits", [1, 7, 8, 17, 32, 64])
def test_masked_zeros_are_uniform(bits: int) -> None:
    """The words of many masks, cut to so many bits: upper and lower octet, and a mask against the next."""
    rows = []
    for index in range(200):
        total = np.zeros(100, masks.word(bits))
        masks.add(total, keys.self_stream_key(bytes(32), bytes(32), index))
        rows.append(masks.reduced(total, bits))
    words = np.array(rows)
    width = min(bits, 8)
    for octet in (words & words.dtype.type(2**width - 1), words >> words.dtype.type(bits - width)):
        counts = np.bincount(octet.ravel().astype(np.int64), minlength=2**width)
        assert chi_square(counts, np.full(2**width, words.size / 2**width)) > 1e-6
    together = (words[1:] - words[:-1]) & words.dtype.type(2**width - 1)
    counts = np.bincount(together.ravel().astype(np.int64), minlength=2**width)
    assert chi_square(counts, np.full(2**width, together.size / 2**width)) > 1e-6


@given(bits=st.integers(1, 64), length=st.integers(1, 70), seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_packing_comes_back(bits: int, length: int, seed: int) -> None:
    values = (Simulation(seed).words(length) >> np.uint64(64 - bits)).astype(masks.word(bits))
    block = masks.pack(values, bits)
    assert len(block) == masks.packed_size(small_parameters(length=length, bits=bits))
    found = masks.unpack(block, length, bits)
    assert found.dtype == values.dtype
    assert (found == values).all()


def test_packing_is_lowest_bit_first() -> None:
    assert masks.pack(np.array([1, 0, 1, 1], np.uint8), 1) == b"\x0d"
    assert masks.pack(np.array([0xABC, 0x123], np.uint16), 12) == bytes.fromhex("bc3a12")


@pytest.mark.parametrize(
    ("vector", "sentence"),
    [
        ([1, 2, 3], r"The vector has the shape \(3,\), expected \(4,\)"),
        ([[1, 2, 3, 4]], r"The vector has the shape \(1, 4\), expected \(4,\)"),
        ([0, 0, 0, 2**16], r"outside 0 … 2\^16 − 1"),
        ([0, 0, 0, -1], r"outside 0 … 2\^16 − 1; write negative numbers modulo 2\^16"),
        ([0.0, 1.0, 2.0, 3.0], "The vector is of float64, expected integers"),
        ([0.5, 1, 2, 3], "The vector is of float64, expected integers"),
        (["a", "b", "c", "d"], "expected integers"),
        ([2**70, 0, 0, 0], "expected integers"),
    ],
)
def test_vectors_that_may_not_be_summed(vector: list[object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        masks.checked(vector, small_parameters())


def test_the_whole_range_may_be_summed() -> None:
    parameters = small_parameters(bits=64, length=2)
    largest = np.array([0, 2**64 - 1], np.uint64)
    assert (masks.checked(largest, parameters) == largest).all()
    assert masks.checked([0, 1], small_parameters(bits=1, length=2)).tolist() == [0, 1]


def test_a_mask_belongs_to_one_pair_of_one_round() -> None:
    """Other parameters, other neighbours, other mask keys: each changes the key of the mask between two clients."""
    source = Simulation(1)
    mine, theirs, other = (keys.MaskKey.draw(source) for _ in range(3))
    parameters, later = small_parameters(), small_parameters(round=bytes(16))

    def key(digest: bytes, own: int, a: keys.MaskKey, near: int, b: keys.MaskKey) -> bytes:
        return keys.mask_stream_key(a.agree(b.public), keys.pair_context(digest, own, a.public, near, b.public))

    same = key(parameters.digest, 0, mine, 1, theirs)
    assert same == key(parameters.digest, 1, theirs, 0, mine)
    different = [
        key(later.digest, 0, mine, 1, theirs),
        key(parameters.digest, 0, mine, 2, theirs),
        key(parameters.digest, 3, mine, 1, theirs),
        key(parameters.digest, 1, mine, 0, theirs),
        key(parameters.digest, 0, mine, 1, other),
    ]
    assert len({same, *different}) == 6


def test_a_self_mask_belongs_to_one_client_of_one_round() -> None:
    seed, digest, later = bytes(32), small_parameters().digest, small_parameters(round=bytes(16)).digest
    found = {keys.self_stream_key(seed, digest, 0), keys.self_stream_key(seed, digest, 1)}
    found |= {keys.self_stream_key(seed, later, 0), keys.self_stream_key(bytes(31) + b"\1", digest, 0)}
    found |= {keys.commitment(seed, digest, 0), keys.commitment(seed, digest, 1), keys.commitment(seed, later, 0)}
    assert len(found) == 7


def test_neighbours_seal_and_vouch_for_each_other_alone() -> None:
    source, digest = Simulation(3), small_parameters().digest
    one, two, three = identities()[:3]
    first, second = keys.MaskKey.draw(source), keys.MaskKey.draw(source)
    context = keys.pair_context(digest, 0, first.public, 1, second.public)
    shared = first.agree(second.public)
    ours = keys.PairKeys(keys.pair_material(one.agree(two.public), shared, context), digest, 0, 1)
    theirs = keys.PairKeys(keys.pair_material(two.agree(one.public), shared, context), digest, 1, 0)
    sealed, tag = ours.seal(b"shares"), ours.vouch(b"survivors")
    assert theirs.open(sealed) == b"shares"
    assert theirs.vouched(tag, b"survivors")
    # Not to be sent back, not to be changed, and no use to one who knows the mask keys but neither identity.
    assert ours.open(sealed) is None
    assert not ours.vouched(tag, b"survivors")
    assert theirs.open(sealed[:-1] + bytes([sealed[-1] ^ 1])) is None
    assert not theirs.vouched(tag, b"other survivors")
    stranger = keys.PairKeys(keys.pair_material(three.agree(one.public), shared, context), digest, 1, 0)
    assert stranger.open(sealed) is None
    assert not stranger.vouched(tag, b"survivors")
    moved = keys.PairKeys(keys.pair_material(two.agree(one.public), shared, context), bytes(32), 1, 0)
    assert moved.open(sealed) is None


def test_nothing_is_agreed_with_a_point_of_small_order() -> None:
    with pytest.raises(InvalidInput, match="No secret can be agreed"):
        keys.MaskKey.draw(Simulation(1)).agree(bytes(32))
