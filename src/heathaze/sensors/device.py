"""The program on a sensor: it adds noise to each reading, and only the noisy integer leaves the sensor.

This file needs only the standard library, so it can be copied onto a sensor without the rest of Heathaze. The public
parameters of the noise are in the sensor's card (:class:`Card`). The noise is exact, in integers, and has the same
distribution as the noise of a curator (:mod:`heathaze.privacy.noise`; Canonne, Kamath and Steinke 2020, Algorithms 1 to
3).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn, Protocol

VERSION = 1

MOST_STEPS = 2**50
"""Readings must be below this many steps, so that the rounding error of their floats is at most an eighth of a step."""


class Refused(ValueError):
    """Raised when the sensor does not answer; no value left the sensor. (This file cannot import Heathaze's errors.)"""


@dataclass(frozen=True)
class Card:
    """The card of a sensor: the public parameters of its noise.

    Args:
        steps: log₂ of the size of a step; readings are rounded to multiples of 2^steps of their unit, such as degrees.
        scale: Scale of the noise in steps: the standard deviation for "gaussian", the scale for "laplace".
        noise: "gaussian" or "laplace".
        times: Number of readings that the guarantee covers; they have the indices 0 … times − 1.
        name: 32 random hexadecimal digits, so that no two cards share an escrow key.
        escrow: Whether sensors draw their noise from a key, so that the holder of the key can remove the noise.
        version: Version of the card's format.

    Raises:
        Refused: A field is out of range, or the card has another version.

    >>> Card.from_json(Card(-4, 100, "gaussian", 1, "0" * 32).to_json()).scale
    100
    """

    steps: int
    scale: int
    noise: str
    times: int
    name: str
    escrow: bool = False
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise Refused(
                f"The card has version {self.version}, but this sensor reads version {VERSION}; update the older one."
            )
        if self.noise not in ("gaussian", "laplace"):
            raise Refused(f"The card's noise is {self.noise!r}; expected 'gaussian' or 'laplace'.")
        if type(self.name) is not str or not re.fullmatch("[0-9a-f]{32}", self.name):
            raise Refused("The card's name is not 32 hexadecimal digits; get the card from Readings.card.")
        if type(self.escrow) is not bool:
            raise Refused(f"The card has escrow {self.escrow!r}; expected true or false.")
        for name, least in (("scale", 1), ("times", 1), ("steps", -(2**10))):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise Refused(f"The card has {name} {value!r}; expected a whole number, {least} or larger.")

    def to_json(self) -> str:
        """The card as a JSON text, to store on the sensor."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Card:
        """Read a card from its JSON text.

        Args:
            text: The text that ``to_json`` made.

        Returns:
            The card.

        Raises:
            Refused: The text is not a card.
        """
        try:
            return cls(**json.loads(text))
        except (TypeError, json.JSONDecodeError):
            raise Refused("The card cannot be read; write it with Card.to_json.") from None


class Bits(Protocol):
    """Source of random bytes for a sensor's noise."""

    def draw(self, count: int) -> bytes:
        """The next ``count`` random bytes."""


class SystemBits:
    """Random bytes of the operating system, the default for a sensor's noise."""

    def draw(self, count: int) -> bytes:
        """The next ``count`` random bytes of the operating system."""
        return os.urandom(count)


class KeyedBits:
    """Random bytes for noise under escrow: HMAC-SHA256 of a counter, which the holder of the key can compute too."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0
        self._left = b""

    def draw(self, count: int) -> bytes:
        """The next ``count`` bytes of the keyed stream."""
        while len(self._left) < count:
            block = self._counter.to_bytes(8, "big")
            self._left += hmac.digest(self._key, b"noise" + block, "sha256")
            self._counter += 1
        out, self._left = self._left[:count], self._left[count:]
        return out


@dataclass(frozen=True, repr=False)
class _State:
    """State that a sensor stores: index of its next time, key of that time, and SHA-256 of its first key."""

    next: int = 0
    key: bytes | None = None
    first: str | None = None


class Sensor:
    """A sensor that adds noise to its own readings and answers once for each time.

    Two answers for the same time could be averaged or, under escrow, subtracted from each other. So times only
    increase, and the index of the next time is on the disk before an answer leaves the sensor. A crash may lose an
    answer, but never leads to two answers.

    Args:
        card: The parameters of the noise.
        memory: A file for the sensor's state, which only its owner can read. Without a memory, the sensor needs a new
            card after each restart.
        key: 32 bytes from ``Escrow.key_for(card, sensor)``, for the first start with an escrow card. Afterwards the
            memory holds only the key of the next time. Each answer replaces the key, so a stolen sensor does not reveal
            past readings. Do not store the first key on the sensor.
        bits: Leave this out. Tests use other sources of random bytes.

    Raises:
        Refused: Key, memory and card do not fit together.

    >>> sensor = Sensor(Card(-4, 100, "gaussian", 2, "0" * 32))
    >>> type(sensor.read(20.5, time=0)), sensor
    (<class 'int'>, <Sensor: 1 of 2 readings left>)
    """

    def __init__(
        self, card: Card, *, memory: str | Path | None = None, key: bytes | None = None, bits: Bits | None = None
    ) -> None:
        if key is not None and (type(key) is not bytes or len(key) != 32):
            raise Refused("The escrow key of a sensor must have 32 bytes; get it from Escrow.key_for(card, sensor).")
        if key is not None and not card.escrow:
            raise Refused("A key is given, but the card has no escrow; leave the key out, or get a card with escrow.")
        if card.escrow and memory is None:
            raise Refused(
                "A sensor with an escrow card needs a memory, because after a restart it would use the same noise "
                "again; give memory, the path of a file."
            )
        self.card = card
        self._lock = threading.Lock()
        self._memory = None if memory is None else _resolved(memory)
        self._state = self._begun(key)
        self._bits = SystemBits() if bits is None else bits

    def __repr__(self) -> str:
        return f"<Sensor: {self.card.times - self._state.next} of {self.card.times} readings left>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Sensor cannot be copied: the copy would answer for the same times again.")

    def read(self, value: float, time: int) -> int:
        """Answer with the noisy reading of one time. Only one thread at a time can answer.

        Args:
            value: The raw reading, in its unit.
            time: Index of the time, 0 … times − 1.

        Returns:
            The noisy reading as a whole number of steps.

        Raises:
            Refused: The time was answered or skipped, the card does not cover the time, or the value is not a number.
                No value left the sensor.
        """
        if type(time) is not int or not 0 <= time < self.card.times:
            raise Refused(f"The time is {time!r}; the card covers whole numbers from 0 to {self.card.times - 1}.")
        with self._lock:
            start = self._state
            if time < start.next:
                raise Refused(f"Time {time} was already answered or skipped; the next time is {start.next}.")
            exactly = quantised(value, self.card.steps)
            bits, key = self._bits, start.key
            if key is not None:
                for _ in range(time - start.next):
                    key = next_key(key)
                bits, key = KeyedBits(key), next_key(key)
            self._remember(start, _State(time + 1, key, start.first))
            return exactly + noise(self.card, bits)

    def _begun(self, key: bytes | None) -> _State:
        """Load the sensor's state from its memory. Under escrow, the first key is stored at once."""
        if self._memory is None or not self.card.escrow:
            return self._stored() or _State()
        with _held(self._memory):
            found = self._stored()
            if found is None and key is None:
                raise Refused(
                    f"The card has escrow, but there is neither a key nor a memory at {self._memory}; "
                    "give the key from Escrow.key_for(card, sensor) once."
                )
            if found is None and key is not None:
                found = _State(0, key, _digest(key))
                self._write(self._memory, found)
        if found is None or (key is not None and _digest(key) != found.first):
            raise Refused(f"{self._memory} was begun with another key; leave the key out, because the memory holds it.")
        return found

    def _stored(self) -> _State | None:
        """Read and check the sensor's state on the disk; None if there is no memory yet."""
        path = self._memory
        if path is None:
            return None
        try:
            links = path.stat().st_nlink
            found = json.loads(path.read_text(encoding="utf-8"))
            gone, held, first, card = found["next"], found["key"], found["first"], found["card"]
            kept = None if held is None else bytes.fromhex(held)
            if type(gone) is not int or gone < 0 or type(card) is not str or (kept is None) != (first is None):
                raise ValueError
            if kept is not None and (len(kept) != 32 or not re.fullmatch("[0-9a-f]{64}", first)):
                raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError):
            raise Refused(f"{path} is not the memory of a sensor; name the right file.") from None
        if links > 1:  # a write replaces the file under one name only; the other name would keep the old state
            raise Refused(f"The memory {path} has a second name (a hard link); remove it, or make it a symbolic link.")
        if card != self.card.to_json():
            raise Refused(f"{path} belongs to another card; a new card needs a new memory.")
        if (kept is not None) != self.card.escrow:
            raise Refused(f"{path} is not the memory of a sensor; name the right file.")
        return _State(gone, kept, first)

    def _remember(self, start: _State, then: _State) -> None:
        if self._memory is not None:
            with _held(self._memory):
                if (self._stored() or _State()) != start:
                    raise Refused(
                        f"Another process answers for this sensor, or its memory {self._memory} is gone; stop the "
                        "other process, or get a new card. No value left the sensor."
                    )
                self._write(self._memory, then)
        self._state = then

    def _write(self, path: Path, state: _State) -> None:
        key = None if state.key is None else state.key.hex()
        known = {"next": state.next, "key": key, "first": state.first, "card": self.card.to_json()}
        _replace(path, json.dumps(known))


def quantised(value: float, steps: int) -> int:
    """Round a raw reading to a whole number of steps of size 2^steps. Error messages do not quote the raw value.

    Args:
        value: The raw reading.
        steps: log₂ of the size of a step.

    Raises:
        Refused: The value is not a finite number, or is 2^50 steps or more.

    >>> quantised(20.3, -2), quantised(-0.125, -2)
    (81, 0)
    """
    if isinstance(value, str | bytes):
        raise Refused("The reading is text; give a number, such as 20.5.")
    known = type(value) is not bool and isinstance(value, int | float)
    if not known or (isinstance(value, float) and not math.isfinite(value)):
        raise Refused("The reading is not a finite number; do not call read for a missing reading.")
    try:
        shifted = math.ldexp(value, -steps)
    except OverflowError:  # also for a whole number that is too large for a float
        shifted = math.inf
    if abs(shifted) >= MOST_STEPS:
        raise Refused("The reading has 2^50 steps of the card or more; check the unit of the reading.")
    return round(shifted)


def next_key(key: bytes) -> bytes:
    """Escrow key of the sensor's next time, a one-way function of the current key."""
    return hmac.digest(key, b"next", hashlib.sha256)


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


# ── exact noise ─────────────────────────────────────────────────────────────────────────────────────────────────────


def noise(card: Card, bits: Bits) -> int:
    """Draw the noise of one reading, in steps, with the parameters of the card."""
    return _gaussian(card.scale, bits) if card.noise == "gaussian" else _laplace(card.scale, bits)


def _below(bound: int, bits: Bits) -> int:
    """Draw a uniform integer from 0 to bound − 1, by rejection."""
    size = (bound - 1).bit_length()
    count = (size + 7) // 8
    while True:
        drawn = int.from_bytes(bits.draw(count), "big") >> (8 * count - size)
        if drawn < bound:
            return drawn


def _bernoulli_exp(numerator: int, denominator: int, bits: Bits) -> bool:
    """Draw a coin for exact noise: True with probability exp(−numerator / denominator) (Algorithm 1)."""
    while numerator > denominator:
        if not _bernoulli_exp(1, 1, bits):
            return False
        numerator -= denominator
    k = 1
    while _below(denominator * k, bits) < numerator:
        k += 1
    return k % 2 == 1


def _laplace(scale: int, bits: Bits) -> int:
    """Draw discrete Laplace noise: Pr[x] ∝ exp(−|x| / scale) (Algorithm 2)."""
    while True:
        part = _below(scale, bits)
        if not _bernoulli_exp(part, scale, bits):
            continue
        whole = 0
        while _bernoulli_exp(1, 1, bits):
            whole += 1
        magnitude = part + scale * whole
        negative = _below(2, bits) == 1
        if not (negative and magnitude == 0):  # +0 and −0 are the same number, so one of them is drawn again
            return -magnitude if negative else magnitude


def _gaussian(sigma: int, bits: Bits) -> int:
    """Draw discrete Gaussian noise: Pr[x] ∝ exp(−x² / 2σ²) (Algorithm 3)."""
    while True:
        proposed = _laplace(sigma, bits)
        distance = abs(proposed) - sigma
        if _bernoulli_exp(distance**2, 2 * sigma**2, bits):
            return proposed


# ── the memory ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _resolved(path: str | Path) -> Path:
    """Absolute path of a sensor's memory without links, so that changing a link or folder later has no effect."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError):  # links that form a circle
        raise Refused(f"The memory {path} is a link that leads nowhere; name a file.") from None


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock a sensor's memory for one process, if the operating system has file locks; a crash releases the lock."""
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
    """Replace a sensor's memory by writing a draft and renaming it, so that the disk always has a complete file."""
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.unlink(missing_ok=True)  # a crash may have left a draft
        # Only the owner may read the memory, because it holds a key under escrow.
        with open(draft, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
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
