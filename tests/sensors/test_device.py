"""A sensor alone: exact noise from the standard library, each time once, whatever happens."""

import json
import math
import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from heathaze.sensors import device
from heathaze.sensors.device import Card, KeyedBits, Refused, Sensor, noise, quantised

ALPHA = 1e-6
NAME = "0123456789abcdef" * 2


def card(scale: int = 40, kind: str = "gaussian", times: int = 5, steps: int = -3) -> Card:
    return Card(steps, scale, kind, times, NAME)


class Zeros:
    """Bits that are all zero: the smallest number every time."""

    def draw(self, count: int) -> bytes:
        return bytes(count)


# ── noise ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 1), ("gaussian", 7), ("laplace", 1), ("laplace", 5)])
def test_the_noise_follows_its_law(kind: str, scale: int) -> None:
    source, count = KeyedBits(b"a fixed key for this test alone."), 20_000
    drawn = Counter(noise(card(scale, kind), source) for _ in range(count))
    values = np.arange(-12 * scale, 12 * scale + 1)
    weight = np.exp(-(values**2) / (2 * scale**2)) if kind == "gaussian" else np.exp(-np.abs(values) / scale)
    expected = count * weight / weight.sum()
    seen = np.array([drawn[value] for value in values.tolist()])
    common = expected >= 10
    found = np.append(seen[common], count - seen[common].sum())
    wanted = np.append(expected[common], count - expected[common].sum())
    found, wanted = found[wanted > 5], wanted[wanted > 5]
    assert ((found - wanted) ** 2 / wanted).sum() < chi2.isf(ALPHA, len(found) - 1)


def test_the_noise_of_a_real_card_is_as_wide_as_it_says() -> None:
    source, scale = KeyedBits(b"another fixed key for this test."), 2**21 + 12345
    drawn = np.array([noise(card(scale), source) for _ in range(4000)], dtype=float) / scale
    assert abs(drawn.mean()) < 5 / math.sqrt(4000)
    assert abs(drawn.var() - 1) < 5 * math.sqrt(2 / 4000)


def test_system_bits_differ() -> None:
    one = Sensor(card(2**21, times=50))
    assert len({one.read(0.0, time) for time in range(50)}) > 45


# ── readings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.floats(-1e6, 1e6), st.integers(-20, 5))
def test_a_reading_is_rounded_to_the_nearest_step(value: float, steps: int) -> None:
    found = quantised(value, steps)
    assert abs(found * 2.0**steps - value) <= 2.0**steps / 2


HUGE = pytest.param(10**400, id="huge")


@pytest.mark.parametrize("value", [math.nan, math.inf, "20", None, True, 1e300, HUGE, 2.0**47])
def test_what_is_no_reading_is_refused(value: Any) -> None:
    sensor = Sensor(card())
    with pytest.raises(Refused, match="The reading"):
        sensor.read(value, 0)
    assert isinstance(sensor.read(1.0, 0), int)  # nothing was lost


@pytest.mark.parametrize("value", ["20,5", "20.5", b"20.5"])
def test_text_is_refused_in_its_own_sentence_and_not_quoted(value: Any) -> None:
    with pytest.raises(Refused, match="The reading is text; give a number") as refusal:
        Sensor(card()).read(value, 0)
    assert "20" not in str(refusal.value).replace("20.5.", "")


def test_readings_stay_below_two_to_the_fifty_steps() -> None:
    """Above, the float itself would be rounded by more than the sensitivity counts."""
    assert quantised(2.0**50 - 1, 0) == 2**50 - 1
    for value in (2.0**50, -(2.0**50), 2**50):
        with pytest.raises(Refused, match=r"has 2\^50 steps of the card or more"):
            quantised(value, 0)


@pytest.mark.parametrize("time", [-1, 5, 1.0, True, "0", None])
def test_times_beyond_the_card_are_refused(time: Any) -> None:
    with pytest.raises(Refused, match="the card covers whole numbers from 0 to 4"):
        Sensor(card()).read(1.0, time)


@pytest.mark.parametrize("memory", [False, True])
def test_each_time_is_answered_once_and_times_go_up(tmp_path: Path, memory: bool) -> None:
    sensor = Sensor(card(), memory=tmp_path / "memory" if memory else None)
    sensor.read(1.0, 0)
    sensor.read(1.0, 2)
    for gone in (0, 1, 2):
        with pytest.raises(Refused, match=f"Time {gone} was already answered or skipped; the next time is 3"):
            sensor.read(1.0, gone)
    assert repr(sensor) == "<Sensor: 2 of 5 readings left>"


def test_a_restarted_sensor_remembers(tmp_path: Path) -> None:
    Sensor(card(), memory=tmp_path / "memory").read(1.0, 3)
    again = Sensor(card(), memory=tmp_path / "memory")
    with pytest.raises(Refused, match="the next time is 4"):
        again.read(1.0, 3)
    assert isinstance(again.read(1.0, 4), int)


def test_what_is_remembered_is_on_the_disk_before_the_answer_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> int:
        raise KeyboardInterrupt

    sensor = Sensor(card(), memory=tmp_path / "memory")
    monkeypatch.setattr(device, "noise", crash)
    with pytest.raises(KeyboardInterrupt):
        sensor.read(1.0, 0)
    monkeypatch.undo()
    with pytest.raises(Refused, match="Time 0 was already answered or skipped"):
        Sensor(card(), memory=tmp_path / "memory").read(1.0, 0)


def test_a_crash_while_writing_gives_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    sensor = Sensor(card(), memory=tmp_path / "memory")
    sensor.read(1.0, 0)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="no space left on device; nothing left the sensor"):
        sensor.read(1.0, 1)
    monkeypatch.undo()
    assert json.loads((tmp_path / "memory").read_text())["next"] == 1


def test_two_processes_on_one_memory_never_both_answer(tmp_path: Path) -> None:
    sensors = [Sensor(card(times=1), memory=tmp_path / "memory") for _ in range(8)]

    def ask(sensor: Sensor) -> str:
        try:
            sensor.read(1.0, 0)
        except Refused as refusal:
            return str(refusal)
        return "answered"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(ask, sensors))
    assert said.count("answered") == 1
    assert sum("Another process answers for this sensor" in words for words in said) == 7


@pytest.mark.parametrize("memory", [False, True])
def test_two_threads_never_both_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: bool) -> None:
    def slow(value: float, steps: int) -> int:
        time.sleep(0.02)
        return quantised(value, steps)

    monkeypatch.setattr(device, "quantised", slow)
    sensor = Sensor(card(times=1), memory=tmp_path / "memory" if memory else None)

    def ask(_: int) -> str:
        try:
            sensor.read(1.0, 0)
        except Refused as refusal:
            return str(refusal)
        return "answered"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(ask, range(8)))
    assert said.count("answered") == 1
    assert sum("Time 0 was already answered" in words for words in said) == 7


def test_the_memory_is_the_same_file_whatever_the_folder_is_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    sensor = Sensor(card(), memory="memory")
    monkeypatch.chdir(tmp_path / "two")
    sensor.read(1.0, 0)
    assert (tmp_path / "one/memory").exists()
    assert not (tmp_path / "two/memory").exists()


def test_a_symbolic_link_leads_to_one_memory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "memory")
    Sensor(card(), memory=tmp_path / "link").read(1.0, 0)
    assert (tmp_path / "link").is_symlink()
    with pytest.raises(Refused, match="Time 0 was already answered"):
        Sensor(card(), memory=tmp_path / "memory").read(1.0, 0)


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(Refused, match=r"leads nowhere|is not the memory"):
        Sensor(card(), memory=tmp_path / "one")


def test_a_memory_with_a_second_name_is_refused(tmp_path: Path) -> None:
    sensor = Sensor(card(), memory=tmp_path / "memory")
    sensor.read(1.0, 0)
    os.link(tmp_path / "memory", tmp_path / "again")
    for name in ("memory", "again"):
        with pytest.raises(Refused, match="has a second name"):
            Sensor(card(), memory=tmp_path / name)
    with pytest.raises(Refused, match="has a second name"):
        sensor.read(1.0, 1)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_memory_is_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / ".memory.part").write_text("left by a crash")
    (tmp_path / ".memory.part").chmod(0o644)
    Sensor(card(), memory=tmp_path / "memory").read(1.0, 0)
    assert (tmp_path / "memory").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"next": -1, "key": null, "card": ""}', "\x00"])
def test_a_damaged_memory_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "memory").write_text(content)
    with pytest.raises(Refused, match="is not the memory of a sensor"):
        Sensor(card(), memory=tmp_path / "memory")


def test_a_memory_belongs_to_its_card(tmp_path: Path) -> None:
    Sensor(card(), memory=tmp_path / "memory").read(1.0, 0)
    with pytest.raises(Refused, match="belongs to another card"):
        Sensor(card(scale=41), memory=tmp_path / "memory")


def test_a_sensor_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="A Sensor cannot be copied"):
        pickle.dumps(Sensor(card()))


# ── cards ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_card_comes_back_from_its_text() -> None:
    assert Card.from_json(card().to_json()) == card()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": 2}, "has version 2, but this sensor reads version 1"),
        ({"noise": "none"}, "expected 'gaussian' or 'laplace'"),
        ({"scale": 0}, "scale 0; expected a whole number, 1 or larger"),
        ({"scale": 1.5}, "scale 1.5"),
        ({"times": 0}, "times 0"),
        ({"name": "short"}, "32 hexadecimal digits"),
        ({"escrow": 1}, "escrow 1; expected true or false"),
        ({"extra": 1}, "cannot be read"),
    ],
)
def test_a_card_that_promises_nothing_is_refused(changed: dict[str, Any], words: str) -> None:
    text = json.dumps(json.loads(card().to_json()) | changed)
    with pytest.raises(Refused, match=words):
        Card.from_json(text)


def test_the_file_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    """Copied alone, without packages, without the rest of Heathaze."""
    alone = tmp_path / "sensor_device.py"
    alone.write_text(Path(device.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sensor_device import Card, Sensor;"
        f"print(type(Sensor(Card(-3, 40, 'gaussian', 1, '{NAME}')).read(20.5, 0)).__name__)"
    )
    run = [sys.executable, "-I", "-S", "-c", script, str(tmp_path)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "int\n"


def test_zeros_are_a_number_too() -> None:
    """No draw hangs on the smallest number of every draw."""
    assert noise(card(1, "laplace"), KeyedBits(bytes(32))) in range(-100, 100)
    assert device._below(1, Zeros()) == 0
    assert device._below(1000, Zeros()) == 0
