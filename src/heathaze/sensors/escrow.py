"""Escrow: noise that the holder of a key can remove again, the "backdoor" of the paper (section 2.2). Off by default.

Every sensor draws its noise from a keyed stream instead of the operating system, with a key for each sensor and time:

    key(card, sensor, 0) = HMAC(master, card · sensor)      key(…, t + 1) = HMAC(key(…, t), "next")

The holder of the master key computes the same integers and subtracts them, exactly. Towards everybody else the
guarantee is *computational*: it holds as long as HMAC-SHA256 cannot be distinguished from random bits. A stolen master
key reveals all raw readings of all sensors, also past ones (errata E4-9). A stolen sensor reveals future readings only.
"""

from __future__ import annotations

import hmac
import json
import operator
from collections.abc import Mapping

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Secret, fresh_bytes
from heathaze.sensors.device import Card, KeyedBits, next_key, noise

KEY_BYTES = 32


class Escrow(Secret):
    """The key holder's half: makes the keys of sensors, and removes their noise.

    Args:
        master: The master key, 32 bytes.

    Raises:
        InvalidInput: The key is not 32 bytes.

    >>> escrow = Escrow(bytes(32))
    >>> escrow
    <Escrow>
    """

    def __init__(self, master: bytes) -> None:
        if type(master) is not bytes or len(master) != KEY_BYTES:
            raise InvalidInput(f"The master key of an escrow has {KEY_BYTES} bytes; Escrow.new() draws one.")
        self._master = master

    def __repr__(self) -> str:
        return "<Escrow>"

    @classmethod
    def new(cls) -> Escrow:
        """A new master key, from the operating system."""
        return cls(fresh_bytes(KEY_BYTES))

    def to_bytes(self) -> bytes:
        """The master key. Protect it like the raw readings: it reveals them."""
        return self._master

    def key_for(self, card: Card, sensor: str) -> bytes:
        """The first key of a sensor under a card. Give it to the sensor at its first start, and do not store it.

        Args:
            card: The sensor's card, made with ``escrow=True``.
            sensor: The sensor's name.

        Raises:
            InvalidInput: The card is without escrow, or the name is not a text.
        """
        if not card.escrow:
            raise InvalidInput("The card is without escrow; make one with Readings.card(escrow=True).")
        if not isinstance(sensor, str):
            raise InvalidInput(f"The sensor is {sensor!r}; give its name, a text.")
        return hmac.digest(self._master, json.dumps([card.to_json(), sensor]).encode(), "sha256")

    def remove(self, card: Card, sensor: str, readings: Mapping[int, int]) -> dict[int, int]:
        """Remove the noise from a sensor's answers, exactly.

        A wrong name, card or master key cannot be noticed: other noise is subtracted.

        Args:
            card: The sensor's card.
            sensor: The sensor's name.
            readings: The sensor's answers by time, in steps.

        Returns:
            The readings by time, in steps.

        Raises:
            InvalidInput: A time is not covered by the card, or an answer is not a whole number.
        """
        key, at, found = self.key_for(card, sensor), 0, {}
        for time, answer in readings.items():
            if type(time) is not int or not 0 <= time < card.times:
                raise InvalidInput(f"The time is {time!r}; the card covers whole numbers from 0 to {card.times - 1}.")
            if isinstance(answer, bool) or not hasattr(answer, "__index__"):
                raise InvalidInput(f"The answer of time {time} is not a whole number; give what Sensor.read returned.")
        for time in sorted(readings):
            while at < time:
                key, at = next_key(key), at + 1
            found[time] = operator.index(readings[time]) - noise(card, KeyedBits(key))
        return found
