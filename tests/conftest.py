"""What all tests share."""

from __future__ import annotations

import sys
import time
from collections import Counter

import pytest
from hypothesis import settings

# The same examples on every machine, and no clock: a test fails for what it found, never for a slow minute.
settings.register_profile("heathaze", deadline=None, derandomize=True, database=None)
settings.load_profile("heathaze")

MEASURED = 2
"""Cases of a parametrised test during which lines are counted, where counting is slow."""

_BEGUN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, help="Skip tests that would begin later than this (`make check`).")
    parser.addoption("--release", action="store_true", help="Check that the version can be tagged.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count lines during a part of the tests only.

    Before Python 3.12 counting lines slows Python code down by a quarter. There the papers' runs are not measured, nor
    the third and later cases of a parametrised test, which run the same lines nearly always.
    """
    if sys.version_info >= (3, 12) or not config.pluginmanager.hasplugin("_cov"):
        return
    cases: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.split("[")[0]
        cases[name] += 1
        if cases[name] > MEASURED or name.startswith("tests/papers/"):
            item.add_marker("no_cover")


def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - _BEGUN > seconds:
        pytest.skip(f"not begun within {seconds:g} seconds; `make test` runs it")
