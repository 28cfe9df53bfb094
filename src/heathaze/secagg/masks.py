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
from heathaze.secagg.parameters import Parameters

Words = npt.NDArray[Any]
"""A vector of unsigned machine words."""

_ZEROS = memoryview(bytes(2**17))


def word(bits: int) -> np.dtype[Any]:
    """The smallest unsigned machine word of at least ``bits`` bits.

    >>> word(17)
    dtype('uint32')
    """
    return np.dtype(next(f"<u{size}" for size in (1, 2, 4, 8) if bits <= 8 * size))


def add(total: Words, key: bytes, *, subtract: bool = False) -> None:
    """Add a mask to ``total`` in place, or subtract it.

    A key masks one vector of one round, so the counter begins at 0. The keystream is made and used in blocks that stay
    in the processor's cache.

    Args:
        total: The vector that is changed.
        key: 32 bytes that the mask is made from.
        subtract: Subtract the mask instead.
    """
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    block = len(_ZEROS) // total.itemsize
    for start in range(0, len(total), block):
        part = total[start : start + block]
        mask = np.frombuffer(encryptor.update(_ZEROS[: part.nbytes]), total.dtype)
        if subtract:
            part -= mask
        else:
            part += mask


def checked(vector: npt.ArrayLike, parameters: Parameters) -> Words:
    """The vector as machine words.

    Args:
        vector: What the client wants to send.
        parameters: The parameters of the round.

    Raises:
        InvalidInput: It is not ``length`` integers from 0 to 2^bits − 1. The sentence does not say which they are.
    """
    values = np.asarray(vector)
    if values.shape != (parameters.length,):
        raise InvalidInput(
            f"The vector has the shape {values.shape}, expected ({parameters.length},); give it as planned."
        )
    if values.dtype.kind not in "iu":
        raise InvalidInput(f"The vector is of {values.dtype}, expected integers; round it before it is masked.")
    # Compared as Python integers: 2^64 fits into no machine word.
    if int(values.min()) < 0 or int(values.max()) >= 2**parameters.bits:
        raise InvalidInput(
            f"The vector holds a number outside 0 … 2^{parameters.bits} − 1; write negative numbers modulo "
            f"2^{parameters.bits}."
        )
    return values.astype(word(parameters.bits))


def reduced(values: Words, bits: int) -> Words:
    """The values modulo 2^bits."""
    cut: Words = values & values.dtype.type(2**bits - 1)
    return cut


def packed_size(parameters: Parameters) -> int:
    """Bytes of a packed vector."""
    return (parameters.length * parameters.bits + 7) // 8


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
    """Read what :func:`pack` wrote: ``length`` numbers of ``bits`` bits each."""
    kind = word(bits)
    if bits == 8 * kind.itemsize:
        return np.frombuffer(block, kind)
    flat = np.unpackbits(np.frombuffer(block, np.uint8), bitorder="little", count=length * bits)
    rows = np.zeros((length, 8 * kind.itemsize), np.uint8)
    rows[:, :bits] = flat.reshape(length, bits)
    return np.packbits(rows, axis=1, bitorder="little").reshape(-1).view(kind)
