"""The sensor's half: a reading goes in, an integer with noise comes out, and nothing else leaves.

This file needs the standard library and nothing else, not even the rest of Heathaze: copy it onto a sensor. What the
sensor has to know is in its card (:class:`Card`), plain numbers that anybody may see. The noise is the same as on the
other side of the house, exact and in integers (Canonne, Kamath and Steinke 2020, Algorithms 1 to 3).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

VERSION = 1


class Refused(ValueError):
    """The sensor does not answer; nothing left it. Stands in for Heathaze's own errors, which are not here."""


@dataclass(frozen=True)
class Card:
    """What a sensor needs to know. Public.

    Args:
        steps: A reading is counted in steps of 2^steps of its unit, such as degrees.
        scale: Of the noise, in steps: σ for "gaussian", the scale for "laplace".
        noise: "gaussian" or "laplace".
        times: How many readings the promise covers; they are numbered 0 … times − 1.
        name: 32 hexadecimal digits, drawn anew for every plan of readings: no two plans share an escrow key.
    """

    steps: int
    scale: int
    noise: str
    times: int
    name: str
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise Refused(f"The card is of version {self.version}; this sensor knows {VERSION}. Update the older one.")
        if self.noise not in ("gaussian", "laplace"):
            raise Refused(f"The card's noise is {self.noise!r}; expected 'gaussian' or 'laplace'.")
        if type(self.name) is not str or not re.fullmatch("[0-9a-f]{32}", self.name):
            raise Refused("The card's name is not 32 hexadecimal digits; get the card from Readings.card.")
        for name, least in (("scale", 1), ("times", 1), ("steps", -(2**10))):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise Refused(f"The card has {name} {value!r}; expected a whole number, {least} or larger.")

    def to_json(self) -> str:
        """For the sensor's disk."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Card:
        """Undo :meth:`to_json`."""
        try:
            return cls(**json.loads(text))
        except (TypeError, json.JSONDecodeError):
            raise Refused("The card cannot be read; write it with Card.to_json.") from None


class Bits(Protocol):
    """Where random bits come from."""

    def words(self, count: int) -> bytes:
        """The next ``count`` bytes."""


class SystemBits:
    """The operating system's bits: the default."""

    def words(self, count: int) -> bytes:
        """Bytes nobody can predict."""
        return os.urandom(count)


class KeyedBits:
    """HMAC-SHA256 of a counter under a key: who has the key can make the same bits again, and nobody else can."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0
        self._left = b""

    def words(self, count: int) -> bytes:
        """The next bytes of the stream."""
        while len(self._left) < count:
            block = self._counter.to_bytes(8, "big")
            self._left += hmac.digest(self._key, b"noise" + block, "sha256")
            self._counter += 1
        out, self._left = self._left[:count], self._left[count:]
        return out


class Sensor:
    """One sensor: adds its own noise to each reading, once for each time, and remembers which times are gone.

    A second answer for the same time could be averaged with the first, or, under escrow, subtracted from it. So times
    only go up, and what is remembered is on the disk before the answer leaves: a crash may lose an answer, never give
    two.

    Args:
        card: What the sensor needs to know.
        memory: A file to remember in. Without one a sensor that restarts forgets, and must get a new card.
        key: 32 bytes for escrow, from ``Escrow.key_for(name)``; only with a memory. The memory then holds the key of
            the next time alone: it is replaced after each answer, so a stolen sensor does not betray what it said.
        bits: Leave it out; tests give others.
    """

    def __init__(
        self, card: Card, *, memory: str | Path | None = None, key: bytes | None = None, bits: Bits | None = None
    ) -> None:
        if key is not None and (type(key) is not bytes or len(key) != 32):
            raise Refused("A sensor's escrow key has 32 bytes; get it from Escrow.key_for.")
        if key is not None and memory is None:
            raise Refused("Under escrow a sensor needs a memory: after a restart it would use the same noise again.")
        self.card = card
        self._memory = None if memory is None else Path(memory)
        self._next, self._key = self._remembered(key)
        self._bits = SystemBits() if bits is None else bits

    def __repr__(self) -> str:
        return f"<Sensor: {self.card.times - self._next} of {self.card.times} readings left>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Sensor cannot be copied: the copy would answer for the same times again.")

    def read(self, value: float, time: int) -> int:
        """The reading of one time with noise, in steps.

        Raises:
            Refused: The time is gone or beyond the card, or the value is no number; nothing left.
        """
        if type(time) is not int or not 0 <= time < self.card.times:
            raise Refused(f"The time is {time!r}; the card covers whole numbers from 0 to {self.card.times - 1}.")
        if time < self._next:
            raise Refused(f"Time {time} was answered already, or passed; the next is {self._next}.")
        exactly = quantised(value, self.card.steps)
        bits = self._bits
        key = self._key
        if key is not None:
            for _ in range(time - self._next):
                key = next_key(key)
            bits, key = KeyedBits(key), next_key(key)
        self._remember(time + 1, key)
        return exactly + noise(self.card, bits)

    def _remembered(self, key: bytes | None) -> tuple[int, bytes | None]:
        if self._memory is None or not self._memory.exists():
            return 0, key
        try:
            found = json.loads(self._memory.read_text(encoding="utf-8"))
            gone, held, card = found["next"], found["key"], found["card"]
            kept = None if held is None else bytes.fromhex(held)
            if type(gone) is not int or gone < 0 or (kept is not None and len(kept) != 32):
                raise ValueError
        except (OSError, ValueError, LookupError, TypeError):
            raise Refused(f"{self._memory} is not the memory of a sensor; name the right file.") from None
        if card != self.card.to_json():
            raise Refused(f"{self._memory} belongs to another card; a new card needs a new memory.")
        if (key is None) != (kept is None):
            raise Refused(
                f"{self._memory} was begun {'without' if kept is None else 'with'} escrow; go on in that way."
            )
        return gone, kept

    def _remember(self, gone: int, key: bytes | None) -> None:
        if self._memory is not None:
            with _held(self._memory):
                if self._remembered(self._key)[0] != self._next:
                    raise Refused(f"Another process answers for this sensor ({self._memory}); nothing left this one.")
                known: dict[str, Any] = {"next": gone, "key": None if key is None else key.hex()}
                _replace(self._memory, json.dumps(known | {"card": self.card.to_json()}))
        self._next, self._key = gone, key


def quantised(value: float, steps: int) -> int:
    """A number in steps of 2^steps, rounded to the nearest: exact, since it is a shift of the binary point.

    >>> quantised(20.3, -2), quantised(-0.125, -2)
    (81, 0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Refused("The reading is not a finite number; leave out what was not measured.")
    try:
        shifted = math.ldexp(value, -steps)
    except OverflowError:
        shifted = math.inf
    if abs(shifted) >= 2**62:
        raise Refused("The reading does not fit into 62 bits of the card's steps; see that the unit is the right one.")
    return round(shifted)


def next_key(key: bytes) -> bytes:
    """The key of the time after this one; there is no way back."""
    return hmac.digest(key, b"next", hashlib.sha256)


# ── exact noise ─────────────────────────────────────────────────────────────────────────────────────────────────────


def noise(card: Card, bits: Bits) -> int:
    """One draw of the card's noise, in steps."""
    return _gaussian(card.scale, bits) if card.noise == "gaussian" else _laplace(card.scale, bits)


def _below(bound: int, bits: Bits) -> int:
    """A uniform integer 0 … bound − 1: as many bits as it has, drawn again if they are too many."""
    size = (bound - 1).bit_length()
    count = (size + 7) // 8
    while True:
        drawn = int.from_bytes(bits.words(count), "big") >> (8 * count - size)
        if drawn < bound:
            return drawn


def _bernoulli_exp(numerator: int, denominator: int, bits: Bits) -> bool:
    """True with probability exp(−numerator / denominator) (Algorithm 1)."""
    while numerator > denominator:
        if not _bernoulli_exp(1, 1, bits):
            return False
        numerator -= denominator
    k = 1
    while _below(denominator * k, bits) < numerator:
        k += 1
    return k % 2 == 1


def _laplace(scale: int, bits: Bits) -> int:
    """Pr[x] ∝ exp(−|x| / scale) (Algorithm 2)."""
    while True:
        part = _below(scale, bits)
        if not _bernoulli_exp(part, scale, bits):
            continue
        whole = 0
        while _bernoulli_exp(1, 1, bits):
            whole += 1
        magnitude = part + scale * whole
        negative = _below(2, bits) == 1
        if not (negative and magnitude == 0):  # zero must not count twice
            return -magnitude if negative else magnitude


def _gaussian(sigma: int, bits: Bits) -> int:
    """Pr[x] ∝ exp(−x² / 2σ²) (Algorithm 3)."""
    while True:
        proposed = _laplace(sigma, bits)
        distance = abs(proposed) - sigma
        if _bernoulli_exp(distance**2, 2 * sigma**2, bits):
            return proposed


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Only one process at a time, where the operating system can see to it; a crash lets go."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on Windows, nor on the smallest systems
        yield
        return
    try:
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as problem:
        reason = (problem.strerror or "refused").lower()
        raise Refused(f"Cannot write beside the memory {path}: {reason}; nothing left the sensor.") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, text: str) -> None:
    """Write beside the file and put it in its place: there is always the old one or the new one, on the disk."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        if os.name == "posix":
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as problem:
        reason = (problem.strerror or "refused").lower()
        raise Refused(f"Cannot write the memory {path}: {reason}; nothing left the sensor.") from None
