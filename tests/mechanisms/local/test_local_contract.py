"""What every local mechanism keeps to, and that a device needs nothing but numpy and cryptography."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.mechanisms.local.disk_area import DiskArea
from heathaze.mechanisms.local.hybrid_uniform_exponential import HybridUniformExponential
from heathaze.mechanisms.local.local_hashing import LocalHashing
from heathaze.mechanisms.local.planar_laplace import PlanarLaplace
from heathaze.mechanisms.local.randomized_response import RandomizedResponse
from heathaze.mechanisms.local.square_wave import SquareWave2D
from heathaze.mechanisms.local.subset_exponential import SubsetExponential
from heathaze.mechanisms.local.unary_encoding import UnaryEncoding
from heathaze.mechanisms.protocols import Estimator
from heathaze.privacy.events import RandomizedReport
from heathaze.privacy.randomness import Simulation
from tests.mechanisms.local.enumeration import plane

MECHANISMS: list[Callable[..., Estimator]] = [
    RandomizedResponse,
    DiskArea,
    HybridUniformExponential,
    PlanarLaplace,
    SquareWave2D,
    SubsetExponential,
    UnaryEncoding,
    LocalHashing,
]


@pytest.mark.parametrize("make", MECHANISMS)
def test_reports_keep_to_their_form(make: Callable[..., Estimator]) -> None:
    mechanism = make(plane(5, 7), 0.5)
    cells = np.arange(35).repeat(20)
    reports = mechanism.draw(cells, Simulation(1))
    assert reports.dtype == np.int64
    assert reports.shape == (700, mechanism.numbers)
    assert reports.min() >= 0
    assert reports.max() < mechanism.limit
    assert (mechanism.draw(cells, Simulation(1)) == reports).all()
    tallies = mechanism.tally(reports)
    assert tallies.dtype == np.int64
    assert tallies.shape == (mechanism.outcomes,)
    assert (mechanism.tally(reports[:300]) + mechanism.tally(reports[300:]) == tallies).all()
    assert mechanism.draw(cells[:0], Simulation(1)).shape == (0, mechanism.numbers)


@pytest.mark.parametrize("make", MECHANISMS)
def test_parameters_are_plain_and_make_the_same_mechanism_again(make: Callable[..., Estimator]) -> None:
    mechanism = make(plane(5, 7), 0.3)
    assert mechanism.epsilon == Fraction(3, 10)
    assert mechanism.event == RandomizedReport(Fraction(3, 10))
    fields = json.loads(json.dumps(mechanism.parameters()))
    fields.pop("buckets", None)  # follows from epsilon
    assert make(plane(5, 7), **fields) == mechanism
    with pytest.raises(FrozenInstanceError):
        mechanism.epsilon = Fraction(1)  # type: ignore[misc]


@pytest.mark.parametrize("make", MECHANISMS)
def test_bad_parameters_get_a_sentence(make: Callable[..., Estimator]) -> None:
    for epsilon in (0, -1, 1e-7, 1001, float("nan"), float("inf"), "much", None, True):
        with pytest.raises(InvalidInput, match="epsilon"):
            make(plane(3, 3), epsilon)
    with pytest.raises(TooLarge, match="use a coarser grid"):
        make(Grid.plane(x=(0, 1), y=(0, 1), size=2**13), 1)


def test_every_mechanism_has_its_page() -> None:
    modules = [Path(inspect.getfile(make)) for make in MECHANISMS]
    sections = ["Promise", "Adjacency", "Sensitivity", "Theorem", "Departures from the paper", "Cost", "Status"]
    for module in modules:
        page = module.with_suffix(".md").read_text(encoding="utf-8")
        assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == sections, module.name
        assert f"**Code:** `{module.name}`" in " ".join(page.split())


DEVICE = """
import sys
from heathaze.domain.grid import Grid
from heathaze.privacy.randomness import SecureRandomness
import numpy as np
grid = Grid.plane(x=(0, 8), y=(0, 8), size=8)
for module, name in [line.split() for line in sys.argv[1:]]:
    mechanism = getattr(__import__(module, fromlist=[name]), name)(grid, 1)
    mechanism.draw(np.arange(64), SecureRandomness())
print(sorted({"scipy", "numba", "duckdb", "matplotlib", "dp_accounting", "pandas"} & set(sys.modules)))
"""


def test_a_device_needs_numpy_and_cryptography_alone() -> None:
    names = [f"{make.__module__} {make.__name__}" for make in MECHANISMS]
    done = subprocess.run([sys.executable, "-c", DEVICE, *names], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
