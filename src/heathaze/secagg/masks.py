"""Masks of a secure sum: AES-256 keystreams that are added to vectors modulo 2^bits, and the packing of vectors.

All arithmetic uses the smallest machine word that holds ``bits`` bits. The modulus of the word is a multiple of 2^bits.
So it suffices to cut off the upper bits once, at the end, to get the sum modulo 2^bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from heathaze.errors import InvalidInput
from heathaze.secagg.parameters import Parameters

Words = npt.NDArray[Any]
"""A vector (numpy array) of unsigned machine words."""

_ZEROS = memoryview(bytes(2**17))


def word(bits: int) -> np.dtype[Any]:
    """The smallest unsigned machine word for masked vectors with ``bits`` bits per number.

    >>> word(17)
    dtype('uint32')
    """
    return np.dtype(next(f"<u{size}" for size in (1, 2, 4, 8) if bits <= 8 * size))


def add(total: Words, key: bytes, *, subtract: bool = False) -> None:
    """Add a mask to a vector in place, or subtract the mask.

    A key is used for one vector of one round only, so the counter of AES may begin at 0. The keystream is computed in
    blocks that fit into the processor's cache.

    Args:
        total: The vector to change.
        key: The 32 bytes from which the mask is computed.
        subtract: Whether to subtract the mask instead of adding it.
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
    """Check a vector before masks are added to it, and convert it to machine words.

    Args:
        vector: The vector that the client wants to send.
        parameters: The parameters of the round.

    Raises:
        InvalidInput: The vector is not ``length`` integers from 0 to 2^bits − 1. The error does not reveal any of them.
    """
    values = np.asarray(vector)
    if values.shape != (parameters.length,):
        raise InvalidInput(
            f"The vector has the shape {values.shape}, expected ({parameters.length},); give it as planned."
        )
    if values.dtype.kind not in "iu":
        raise InvalidInput(f"The vector is of {values.dtype}, expected integers; round it before it is masked.")
    # The comparison uses Python integers, because 2^64 does not fit into a machine word.
    if int(values.min()) < 0 or int(values.max()) >= 2**parameters.bits:
        raise InvalidInput(
            f"The vector holds a number outside 0 … 2^{parameters.bits} − 1; write negative numbers modulo "
            f"2^{parameters.bits}."
        )
    return values.astype(word(parameters.bits))


def reduced(values: Words, bits: int) -> Words:
    """Reduce masked values modulo 2^bits."""
    cut: Words = values & values.dtype.type(2**bits - 1)
    return cut


def packed_size(parameters: Parameters) -> int:
    """The number of bytes of a packed masked vector."""
    return (parameters.length * parameters.bits + 7) // 8


def pack(values: Words, bits: int) -> bytes:
    """Pack a masked vector for sending: ``bits`` bits for each number, lowest bit first.

    >>> pack(np.array([1, 2, 3], dtype=np.uint8), 2).hex()
    '39'
    """
    if bits == 8 * values.itemsize:
        return values.tobytes()
    rows = np.unpackbits(values.view(np.uint8).reshape(len(values), -1), axis=1, bitorder="little")
    return np.packbits(rows[:, :bits].ravel(), bitorder="little").tobytes()


def unpack(block: bytes, length: int, bits: int) -> Words:
    """Unpack a masked vector of ``length`` numbers with ``bits`` bits each; the inverse of :func:`pack`."""
    kind = word(bits)
    if bits == 8 * kind.itemsize:
        return np.frombuffer(block, kind)
    flat = np.unpackbits(np.frombuffer(block, np.uint8), bitorder="little", count=length * bits)
    rows = np.zeros((length, 8 * kind.itemsize), np.uint8)
    rows[:, :bits] = flat.reshape(length, bits)
    return np.packbits(rows, axis=1, bitorder="little").reshape(-1).view(kind)
