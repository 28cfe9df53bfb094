"""Escrow: the key holder takes the noise off exactly, and nobody gets the same noise twice."""

import copy
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest

from heathaze.errors import InvalidInput
from heathaze.sensors.device import Card, KeyedBits, Refused, Sensor, next_key, noise, quantised
from heathaze.sensors.escrow import Escrow

CARD = Card(-10, 2**21, "gaussian", 6, "0f" * 16, escrow=True)
MASTER = bytes(range(32))


def sensor(folder: Path, name: str, card: Card = CARD, escrow: Escrow | None = None) -> Sensor:
    key = (escrow or Escrow(MASTER)).key_for(card, name)
    return Sensor(card, memory=folder / name, key=key)


def test_the_key_holder_gets_exactly_what_was_read(tmp_path: Path) -> None:
    values = {0: 20.5, 1: -3.25, 4: 1000.125}
    for name in ("kitchen", "hall"):
        device = sensor(tmp_path, name)
        noisy = {time: device.read(value, time) for time, value in values.items()}
        exactly = {time: quantised(value, CARD.steps) for time, value in values.items()}
        assert Escrow(MASTER).remove(CARD, name, noisy) == exactly
        assert all(abs(noisy[time] - exactly[time]) > 100 for time in values)


def test_another_key_takes_off_nothing(tmp_path: Path) -> None:
    noisy = {0: sensor(tmp_path, "hall").read(20.5, 0)}
    found = Escrow(bytes(32)).remove(CARD, "hall", noisy)
    assert abs(found[0] - quantised(20.5, CARD.steps)) > 100


def test_after_a_restart_the_noise_goes_on(tmp_path: Path) -> None:
    first = sensor(tmp_path, "hall").read(1.0, 0)
    second = sensor(tmp_path, "hall").read(1.0, 3)
    found = Escrow(MASTER).remove(CARD, "hall", {0: first, 3: second})
    assert found == {0: 1024, 3: 1024}


def test_the_same_time_twice_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    sensor(tmp_path, "hall").read(1.0, 2)
    for time in (0, 1, 2):
        with pytest.raises(Refused, match="was already answered or skipped"):
            sensor(tmp_path, "hall").read(1.0, time)


def test_why_reuse_is_refused(tmp_path: Path) -> None:
    """The bug put back: a memory that was deleted gives the same noise twice, and the difference of two readings."""
    one = sensor(tmp_path, "hall").read(20.0, 0)
    (tmp_path / "hall").unlink()
    two = sensor(tmp_path, "hall").read(25.0, 0)
    assert two - one == 5 * 1024


def test_no_two_of_cards_sensors_and_times_share_their_noise() -> None:
    escrow = Escrow(MASTER)
    other = Card(CARD.steps, CARD.scale, CARD.noise, CARD.times, "f0" * 16, escrow=True)
    keys = [escrow.key_for(card, name) for card in (CARD, other) for name in ("a", "b", 'a", "b')]
    assert len(set(keys)) == 6
    steps = [keys[0]]
    for _ in range(5):
        steps.append(next_key(steps[-1]))
    drawn = [noise(CARD, KeyedBits(key)) for key in [*steps, *keys[1:]]]
    assert len(set(drawn)) == len(drawn)


def test_a_stolen_sensor_does_not_betray_its_past(tmp_path: Path) -> None:
    device = sensor(tmp_path, "hall")
    device.read(1.0, 0)
    held = bytes.fromhex(json.loads((tmp_path / "hall").read_text())["key"])
    first = Escrow(MASTER).key_for(CARD, "hall")
    assert held == next_key(first) != first
    assert first.hex() not in (tmp_path / "hall").read_text()


def test_the_key_of_the_next_time_is_a_one_way_function_of_this_one() -> None:
    """HMAC-SHA256 under the key of this time, computed once more."""
    key = bytes(range(32))
    assert next_key(key) == hmac.new(key, b"next", hashlib.sha256).digest()


def test_escrow_needs_a_memory_and_a_whole_key(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="A sensor with an escrow card needs a memory"):
        Sensor(CARD, key=bytes(32))
    with pytest.raises(Refused, match="must have 32 bytes"):
        Sensor(CARD, key=bytes(16), memory=tmp_path / "hall")
    with pytest.raises(InvalidInput, match="must have 32 bytes"):
        Escrow(b"short")


PLAIN = Card(-10, 2**21, "gaussian", 6, "0f" * 16)


def test_escrow_is_on_the_card(tmp_path: Path) -> None:
    assert json.loads(CARD.to_json())["escrow"] is True
    with pytest.raises(Refused, match="The card has escrow, but there is neither a key nor a memory"):
        Sensor(CARD, memory=tmp_path / "hall")
    assert not (tmp_path / "hall").exists()
    with pytest.raises(Refused, match="A key is given, but the card has no escrow"):
        Sensor(PLAIN, memory=tmp_path / "hall", key=bytes(32))
    with pytest.raises(InvalidInput, match="The card has no escrow"):
        Escrow(MASTER).key_for(PLAIN, "hall")


def test_escrow_is_not_taken_up_or_dropped_on_the_way(tmp_path: Path) -> None:
    Sensor(PLAIN, memory=tmp_path / "plain").read(1.0, 0)
    with pytest.raises(Refused, match="belongs to another card"):
        Sensor(CARD, memory=tmp_path / "plain", key=bytes(32))
    sensor(tmp_path, "hall").read(1.0, 0)
    with pytest.raises(Refused, match="belongs to another card"):
        Sensor(PLAIN, memory=tmp_path / "hall")
    known = json.loads((tmp_path / "hall").read_text())
    (tmp_path / "hall").write_text(json.dumps(known | {"key": None, "first": None}))
    with pytest.raises(Refused, match="is not the memory of a sensor"):
        Sensor(CARD, memory=tmp_path / "hall")


def test_the_first_key_is_needed_once(tmp_path: Path) -> None:
    sensor(tmp_path, "hall")  # nothing read yet
    first = Sensor(CARD, memory=tmp_path / "hall").read(1.0, 0)
    second = Sensor(CARD, memory=tmp_path / "hall").read(1.0, 3)
    assert Escrow(MASTER).remove(CARD, "hall", {0: first, 3: second}) == {0: 1024, 3: 1024}


def test_another_key_is_refused_on_reopening(tmp_path: Path) -> None:
    sensor(tmp_path, "hall").read(1.0, 0)
    with pytest.raises(Refused, match="was begun with another key"):
        Sensor(CARD, memory=tmp_path / "hall", key=bytes(32))
    assert isinstance(sensor(tmp_path, "hall").read(1.0, 1), int)  # the right one may be given


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_the_memory_is_written_at_once_for_the_owner_alone(tmp_path: Path) -> None:
    sensor(tmp_path, "hall")
    assert (tmp_path / "hall").stat().st_mode & 0o777 == 0o600


def test_a_memory_that_vanishes_ends_the_answers(tmp_path: Path) -> None:
    running = sensor(tmp_path, "hall")
    (tmp_path / "hall").unlink()
    with pytest.raises(Refused, match=r"its memory .* is gone; stop the other process"):
        running.read(1.0, 0)


def test_the_master_key_neither_prints_nor_is_copied() -> None:
    escrow = Escrow(MASTER)
    assert repr(escrow) == str(escrow) == "<Escrow>"
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(escrow)
    assert Escrow(escrow.to_bytes()).key_for(CARD, "a") == escrow.key_for(CARD, "a")
    assert Escrow.new().to_bytes() != Escrow.new().to_bytes()


def test_times_beyond_the_card_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the card covers whole numbers from 0 to 5"):
        Escrow(MASTER).remove(CARD, "hall", {6: 0})


@pytest.mark.parametrize("readings", [{"0": 1}, {"0": 1, 0: 1}, {None: 1, 0: 1}, {1.0: 1}, {True: 1}])
def test_times_that_are_no_whole_numbers_are_refused(readings: Any) -> None:
    with pytest.raises(InvalidInput, match="the card covers whole numbers from 0 to 5"):
        Escrow(MASTER).remove(CARD, "hall", readings)


@pytest.mark.parametrize("answer", [1.5, "1", None, True])
def test_answers_that_are_no_whole_numbers_are_refused(answer: Any) -> None:
    with pytest.raises(InvalidInput, match="The answer of time 0 is not a whole number"):
        Escrow(MASTER).remove(CARD, "hall", {0: answer})


def test_a_sensor_has_a_name() -> None:
    with pytest.raises(InvalidInput, match="give its name, a text"):
        Escrow(MASTER).key_for(CARD, 7)  # type: ignore[arg-type]
