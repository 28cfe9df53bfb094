"""Noise that one party can take off again: the "backdoor" of the paper (section 2.2). Off unless asked for.

Every sensor draws its noise from a keyed stream instead of its own chance, under a key for each sensor and time:

    key(card, sensor, 0) = HMAC(master, card · sensor)      key(…, t + 1) = HMAC(key(…, t), "next")

Whoever holds the master key makes the same integers again and subtracts them, exactly. For everybody else the promise
is *computational*: it holds as long as HMAC-SHA256 cannot be told from chance. Whoever gets the master key has all raw
readings of all sensors, the past included (errata E4-9); a stolen sensor betrays the times to come alone.
"""

from __future__ import annotations

import hmac
import json
import operator
from collections.abc import Mapping

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import fresh_bytes
from heathaze.privacy.secret import Secret
from heathaze.sensors.device import Card, KeyedBits, next_key, noise

KEY_BYTES = 32


class Escrow(Secret):
    """The key holder's half.

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
        """The master key: keep it where raw readings may be kept, for that is what it is worth."""
        return self._master

    def key_for(self, card: Card, sensor: str) -> bytes:
        """The first key of a sensor under a card, to be given to it once, at its first start, and kept nowhere else."""
        if not card.escrow:
            raise InvalidInput("The card is without escrow; make one with Readings.card(escrow=True).")
        if not isinstance(sensor, str):
            raise InvalidInput(f"The sensor is {sensor!r}; give its name, a text.")
        return hmac.digest(self._master, json.dumps([card.to_json(), sensor]).encode(), "sha256")

    def remove(self, card: Card, sensor: str, readings: Mapping[int, int]) -> dict[int, int]:
        """What a sensor read at each time, in steps, without its noise: exactly what it was given.

        With another name, card or master key other noise is taken off, and nothing shows it.
        """
        key, at, found = self.key_for(card, sensor), 0, {}
        for time, answer in readings.items():
            if type(time) is not int or not 0 <= time < card.times:
                raise InvalidInput(f"The time is {time!r}; the card covers whole numbers from 0 to {card.times - 1}.")
            if isinstance(answer, bool) or not hasattr(answer, "__index__"):
                raise InvalidInput(f"The answer of time {time} is no whole number; give what the sensor answered.")
        for time in sorted(readings):
            while at < time:
                key, at = next_key(key), at + 1
            found[time] = operator.index(readings[time]) - noise(card, KeyedBits(key))
        return found
