"""Escrow: noise on readings that the holder of a key can remove, the paper's "backdoor" (section 2.2). Off by default.

With escrow, a sensor draws its noise from a keyed stream instead of the operating system. There is a key for each
sensor and time t:

    key(card, sensor, 0) = HMAC(master, card · sensor)      key(…, t + 1) = HMAC(key(…, t), "next")

The holder of the master key can compute the same noise and subtract it exactly. Towards everybody else the guarantee is
*computational*: it holds as long as nobody can distinguish HMAC-SHA256 from random bits. A stolen master key reveals
all raw readings of all sensors, past ones included (errata E4-9). A stolen sensor reveals only future readings.
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
    """The holder of the master key, who makes the keys of sensors and can remove the noise from their readings.

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
            raise InvalidInput(f"The master key of an escrow must have {KEY_BYTES} bytes; Escrow.new() generates one.")
        self._master = master

    def __repr__(self) -> str:
        return "<Escrow>"

    @classmethod
    def new(cls) -> Escrow:
        """Make an escrow with a new random master key from the operating system.

        Returns:
            The escrow.
        """
        return cls(fresh_bytes(KEY_BYTES))

    def to_bytes(self) -> bytes:
        """The master key of the escrow. The master key reveals all raw readings, so protect it like raw readings."""
        return self._master

    def key_for(self, card: Card, sensor: str) -> bytes:
        """Make the first escrow key of a sensor. Give it to the sensor at its first start; do not store it there.

        Args:
            card: The sensor's card, made with ``escrow=True``.
            sensor: The sensor's name.

        Returns:
            The key, 32 bytes.

        Raises:
            InvalidInput: The card is without escrow, or the name is not a text.
        """
        if not card.escrow:
            raise InvalidInput("The card has no escrow; make a card with Readings.card(escrow=True).")
        if not isinstance(sensor, str):
            raise InvalidInput(f"The sensor is {sensor!r}; give its name, a text.")
        return hmac.digest(self._master, json.dumps([card.to_json(), sensor]).encode(), "sha256")

    def remove(self, card: Card, sensor: str, readings: Mapping[int, int]) -> dict[int, int]:
        """Remove the noise from a sensor's answers, exactly.

        A wrong name, card or master key cannot be detected; the results are then wrong, because other noise is
        subtracted.

        Args:
            card: The sensor's card.
            sensor: The sensor's name.
            readings: The sensor's answers by index of time, in steps.

        Returns:
            The raw readings by index of time, in steps.

        Raises:
            InvalidInput: A time is not covered by the card, or an answer is not a whole number.
        """
        key, at, found = self.key_for(card, sensor), 0, {}
        for time, answer in readings.items():
            if type(time) is not int or not 0 <= time < card.times:
                raise InvalidInput(f"The time is {time!r}; the card covers whole numbers from 0 to {card.times - 1}.")
            if isinstance(answer, bool) or not hasattr(answer, "__index__"):
                raise InvalidInput(
                    f"The answer of time {time} is not a whole number; give the number that Sensor.read returned."
                )
        for time in sorted(readings):
            while at < time:
                key, at = next_key(key), at + 1
            found[time] = operator.index(readings[time]) - noise(card, KeyedBits(key))
        return found
