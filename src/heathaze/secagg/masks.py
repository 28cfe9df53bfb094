"""Masks: the keystream of AES-256 in counter mode, read as integers modulo 2^bits; and vectors packed for the wire.

All arithmetic is in the smallest machine word that holds ``bits`` bits. Its modulus is a multiple of 2^bits, so cutting
off the upper bits once, at the end, gives the sum modulo 2^bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from heathaze.errors import InvalidInput
from heathaze.secagg.parameters import Terms

Words = npt.NDArray[Any]
"""A vector of unsigned machine words."""

_ZEROS = memoryview(bytes(2**17))


def word(bits: int) -> np.dtype[Any]:
    """The smallest unsigned word of at least so many bits.

    >>> word(17)
    dtype('uint32')
    """
    return np.dtype(next(f"<u{size}" for size in (1, 2, 4, 8) if bits <= 8 * size))


def add(total: Words, key: bytes, *, subtract: bool = False) -> None:
    """Add to ``total``, in place, the mask that a key of 32 bytes stands for, or take it away.

    A key masks one vector of one round, so the counter begins at 0. The keystream is made and used in pieces that stay
    in the processor's cache.
    """
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    step = len(_ZEROS) // total.itemsize
    for start in range(0, len(total), step):
        part = total[start : start + step]
        mask = np.frombuffer(encryptor.update(_ZEROS[: part.nbytes]), total.dtype)
        if subtract:
            part -= mask
        else:
            part += mask


def checked(vector: npt.ArrayLike, terms: Terms) -> Words:
    """The vector as machine words, if it is one that may be summed.

    Raises:
        InvalidInput: if it is not ``length`` integers from 0 to 2^bits − 1. No message says what they are.
    """
    values = np.asarray(vector)
    if values.shape != (terms.length,):
        raise InvalidInput(f"The vector has the shape {values.shape}, expected ({terms.length},); give it as planned.")
    if values.dtype.kind not in "iu":
        raise InvalidInput(f"The vector is of {values.dtype}, expected integers; round it before it is masked.")
    # Compared as Python integers: 2^64 fits into no machine word.
    if int(values.min()) < 0 or int(values.max()) >= 2**terms.bits:
        raise InvalidInput(
            f"The vector holds a number outside 0 … 2^{terms.bits} − 1; write negative numbers modulo 2^{terms.bits}."
        )
    return values.astype(word(terms.bits))


def reduced(values: Words, bits: int) -> Words:
    """Modulo 2^bits."""
    cut: Words = values & values.dtype.type(2**bits - 1)
    return cut


def packed_size(terms: Terms) -> int:
    """Bytes of a packed vector."""
    return (terms.length * terms.bits + 7) // 8


def pack(values: Words, bits: int) -> bytes:
    """Reduced words in ``bits`` bits each, lowest bit first.

    >>> pack(np.array([1, 2, 3], dtype=np.uint8), 2).hex()
    '39'
    """
    if bits == 8 * values.itemsize:
        return values.tobytes()
    rows = np.unpackbits(values.view(np.uint8).reshape(len(values), -1), axis=1, bitorder="little")
    return np.packbits(rows[:, :bits].ravel(), bitorder="little").tobytes()


def unpack(block: bytes, length: int, bits: int) -> Words:
    """Undo :func:`pack`."""
    kind = word(bits)
    if bits == 8 * kind.itemsize:
        return np.frombuffer(block, kind)
    flat = np.unpackbits(np.frombuffer(block, np.uint8), bitorder="little", count=length * bits)
    rows = np.zeros((length, 8 * kind.itemsize), np.uint8)
    rows[:, :bits] = flat.reshape(length, bits)
    return np.packbits(rows, axis=1, bitorder="little").reshape(-1).view(kind)
