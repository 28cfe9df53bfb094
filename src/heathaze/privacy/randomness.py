"""The source of all random bits: AES-256 in counter mode.

:class:`SecureRandomness` takes its key from the operating system. Every release uses this class. :class:`Simulation`
derives its key from a seed, for tests and papers. Everything made with a simulation is marked as simulated. Neither
class prints its key. Neither can be copied, because two copies would give the same noise, and subtracting two results
would remove the noise.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from typing import NoReturn

import numpy as np

from heathaze.types import Floats, Words


class Secret:
    """Base of objects whose contents must not be printed, copied or pickled by accident."""

    __slots__ = ()

    _why_not_copied = "it holds secrets that are used once"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __copy__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be copied: {self._why_not_copied}.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be pickled: {self._why_not_copied}.")


_ZEROS = memoryview(bytes(2**17))


class Randomness(Secret):
    """A stream of independent uniform 64-bit words: AES-256-CTR under a key.

    Args:
        key: 32 bytes.
    """

    _why_not_copied = "the copy would repeat the same noise"

    def __init__(self, key: bytes) -> None:
        self._rekey(key)

    @property
    def simulated(self) -> bool:
        """Whether the bits can be repeated, so that noise made from them hides nothing.

        Only random bits from the operating system cannot be repeated.
        """
        return type(self) is not SecureRandomness

    def words(self, count: int) -> Words:
        """Return the next ``count`` random 64-bit words of the stream.

        Args:
            count: The number of words.
        """
        block = np.empty(count, dtype=np.uint64)
        self.fill(block)
        return block

    def fill(self, block: Words) -> None:
        """Overwrite ``block`` with the next random words of the stream, which are the encryption of zeros.

        Args:
            block: The array of 64-bit words to overwrite.
        """
        room = block.view(np.uint8).data
        for start in range(0, len(room), len(_ZEROS)):
            piece = room[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(piece)], piece)

    def below(self, bound: int, count: int) -> Words:
        """Draw random integers that are exactly uniform on 0 … bound − 1.

        Each integer is a 64-bit word modulo ``bound``. A word at or above the largest multiple of ``bound`` that is at
        most 2^64 is drawn again, because it would make small integers more likely.

        Args:
            bound: From 1 to 2^63.
            count: The number of integers to draw.

        Returns:
            The integers.

        Raises:
            ValueError: The bound is out of range.

        >>> sorted(set(Simulation(1).below(3, 100).tolist()))
        [0, 1, 2]
        """
        if not 0 < bound <= 2**63:
            raise ValueError(f"The bound of uniform integers is {bound}; give a whole number between 1 and 2^63.")
        words = self.words(count)
        limit = np.uint64(2**64 - 1 - 2**64 % bound)
        while (again := np.flatnonzero(words > limit)).size:
            words[again] = self.words(again.size)
        return words % np.uint64(bound)

    def uniforms(self, count: int) -> Floats:
        """Draw uniform floats in [0, 1) with 53 random bits each, to place points of a release; never use as noise.

        Args:
            count: The number of floats.

        Returns:
            The floats.
        """
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _rekey(self, key: bytes) -> None:
        # Imported here, so that `import heathaze` stays quick.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()


class SecureRandomness(Randomness):
    """Random bits for releases. The key is 32 bytes from the operating system; a forked process gets a new key.

    >>> SecureRandomness().words(3).shape, SecureRandomness()
    ((3,), <SecureRandomness>)
    """

    def __init__(self) -> None:
        super().__init__(os.urandom(32))
        _living.add(self)


def fresh_bytes(count: int) -> bytes:
    """Return ``count`` random bytes from the operating system, for names, nonces and keys."""
    return os.urandom(count)


class Simulation(Randomness):
    """Repeatable random bits for tests and papers. A release made with a simulation cannot be saved.

    Args:
        seed: The same seed gives the same bits.

    >>> bool((Simulation(7).words(4) == Simulation(7).words(4)).all())
    True
    """

    def __init__(self, seed: int) -> None:
        super().__init__(hashlib.sha256(f"heathaze simulation {seed}".encode()).digest())


_living: weakref.WeakSet[SecureRandomness] = weakref.WeakSet()


def _rekey_after_fork() -> None:
    for source in _living:
        source._rekey(os.urandom(32))


if hasattr(os, "register_at_fork"):
    # A forked child would otherwise draw the same noise as its parent.
    os.register_at_fork(after_in_child=_rekey_after_fork)
