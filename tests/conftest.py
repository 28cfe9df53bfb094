"""What all tests share."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator

import pytest
from hypothesis import settings

# The same examples on every machine, and no clock: a test fails for what it found, never for a slow minute.
settings.register_profile("heathaze", deadline=None, derandomize=True, database=None)
settings.load_profile("heathaze")

MEASURED = 0.5
"""Seconds of computing time of each test in which lines are counted, where counting is slow."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--release", action="store_true", help="Check that the version can be tagged.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Stop counting lines after the first half second of a test, before Python 3.12.

    There counting slows Python code down by a quarter. Lines that run later in a test and in no other test count as
    not covered, so the coverage that is printed is a lower bound.
    """
    plugin = item.config.pluginmanager.getplugin("_cov")
    counter = getattr(plugin, "cov_controller", None)
    if counter is None or sys.version_info >= (3, 12) or threading.current_thread() is not threading.main_thread():
        return (yield)
    paused = False

    def pause(*_: object) -> None:
        nonlocal paused
        paused = True
        counter.pause()

    before = signal.signal(signal.SIGVTALRM, pause)
    signal.setitimer(signal.ITIMER_VIRTUAL, MEASURED)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        if paused:
            counter.resume()
