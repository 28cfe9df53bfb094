"""The only source of random bits.

:class:`SecureRandomness` is the keystream of AES-256 in counter mode under a key from the operating system; every
release uses it. :class:`Simulation` is the same keystream under a key made from a seed, for tests and papers; whatever
is made with it is marked simulated for good. Neither prints its key, and neither can be copied: two copies would give
the same noise twice, and their difference no noise at all.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from typing import NoReturn

import numpy as np

from heathaze.types import Floats, Words

_ZEROS = memoryview(bytes(2**17))


class Randomness:
    """A stream of independent uniform 64-bit words."""

    simulated = False

    def __init__(self, key: bytes) -> None:
        self._rekey(key)

    def words(self, count: int) -> Words:
        """The next ``count`` words of the stream."""
        block = np.empty(count, dtype=np.uint64)
        self.fill(block)
        return block

    def fill(self, block: Words) -> None:
        """Overwrite ``block`` with the next words of the stream: the keystream is the encryption of zeros."""
        room = block.view(np.uint8).data
        for start in range(0, len(room), len(_ZEROS)):
            piece = room[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(piece)], piece)

    def below(self, bound: int, count: int) -> Words:
        """Uniform integers 0 … bound − 1, exactly: a word beyond the last whole multiple of ``bound`` is drawn again.

        >>> sorted(set(Simulation(1).below(3, 100).tolist()))
        [0, 1, 2]
        """
        if not 0 < bound <= 2**63:
            raise ValueError("The bound of uniform integers lies between 1 and 2^63.")
        words = self.words(count)
        limit = np.uint64(2**64 - 1 - 2**64 % bound)
        while (again := np.flatnonzero(words > limit)).size:
            words[again] = self.words(again.size)
        return words % np.uint64(bound)

    def uniforms(self, count: int) -> Floats:
        """Uniform numbers in [0, 1), 53 bits each: for drawing points from a release, never for noise."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _rekey(self, key: bytes) -> None:
        # Imported late: `import heathaze` stays quick.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __copy__(self) -> NoReturn:
        raise TypeError("Randomness cannot be copied: the copy would repeat the same noise.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("Randomness cannot be pickled: the copy would repeat the same noise.")


class SecureRandomness(Randomness):
    """Random bits for releases: AES-256-CTR under 32 bytes from the operating system, and a new key after a fork."""

    def __init__(self) -> None:
        super().__init__(os.urandom(32))
        _living.add(self)


def fresh_bytes(count: int) -> bytes:
    """Bytes from the operating system, for names, nonces and keys."""
    return os.urandom(count)


class Simulation(Randomness):
    """Repeatable bits for tests and papers.

    >>> bool((Simulation(7).words(4) == Simulation(7).words(4)).all())
    True
    """

    simulated = True

    def __init__(self, seed: int) -> None:
        super().__init__(hashlib.sha256(f"heathaze simulation {seed}".encode()).digest())


_living: weakref.WeakSet[SecureRandomness] = weakref.WeakSet()


def _rekey_after_fork() -> None:
    for source in _living:
        source._rekey(os.urandom(32))


if hasattr(os, "register_at_fork"):
    # A forked child would otherwise draw the same noise as its parent.
    os.register_at_fork(after_in_child=_rekey_after_fork)
