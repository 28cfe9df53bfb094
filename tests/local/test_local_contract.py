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
from heathaze.local.catalogue import mechanism_from_dict
from heathaze.local.disk_area import DiskArea
from heathaze.local.hybrid_uniform_exponential import HybridUniformExponential
from heathaze.local.local_hashing import LocalHashing
from heathaze.local.mechanism import Estimator, fingerprint, mechanism_to_dict
from heathaze.local.mixture import Mixture
from heathaze.local.planar_laplace import PlanarLaplace
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.local.square_wave import SquareWave2D
from heathaze.local.subset_exponential import SubsetExponential
from heathaze.local.unary_encoding import UnaryEncoding
from heathaze.privacy.events import RandomizedReport
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import (
    assert_channel_is,
    assert_follows,
    corners,
    distances,
    draws,
    every_report,
    expected_tallies,
    losses,
    plane,
)

MECHANISMS: list[Callable[..., Estimator]] = [
    RandomizedResponse,
    DiskArea,
    HybridUniformExponential,
    PlanarLaplace,
    SquareWave2D,
    SubsetExponential,
    UnaryEncoding,
    LocalHashing,
    Mixture,
]

GRIDS = [plane(3, 4), plane(1, 5), plane(2, 3, height=0.5, width=2), plane(1, 1)]
LOSSES = ["1/10", 1, "7/2", 9]

SETTINGS: dict[str, Callable[[Grid, object], Estimator]] = {
    "response": RandomizedResponse,
    "disk": DiskArea,
    "disk of radius 0": lambda grid, epsilon: DiskArea(grid, epsilon, radius=0),
    "disk of radius 2": lambda grid, epsilon: DiskArea(grid, epsilon, radius=2),
    "disk without shrinking": lambda grid, epsilon: DiskArea(grid, epsilon, radius=2, shrink=False),
    "rings": HybridUniformExponential,
    "rings of radius 2": lambda grid, epsilon: HybridUniformExponential(grid, epsilon, radius=2),
    "laplace": PlanarLaplace,
    "laplace of cutoff 2": lambda grid, epsilon: PlanarLaplace(grid, epsilon, cutoff=2),
    "wave": SquareWave2D,
    "wave of users": lambda grid, epsilon: SquareWave2D(grid, epsilon, "users"),
    "subset": SubsetExponential,
    "subset of 2": lambda grid, epsilon: SubsetExponential(grid, epsilon, size=min(2, max(1, grid.cells // 2))),
    "bits": UnaryEncoding,
    "hashing": LocalHashing,
    "mixture": Mixture,
    "mixture of radius 2": lambda grid, epsilon: Mixture(grid, epsilon, radius=2, hashing="1/3"),
    "mixture without hashing": lambda grid, epsilon: Mixture(grid, epsilon, radius=1, hashing=0),
    "mixture of hashing alone": lambda grid, epsilon: Mixture(grid, epsilon, radius=1, hashing=1),
}


def made(name: str) -> list[Estimator]:
    """A mechanism with these settings on every small grid, for every loss."""
    return [SETTINGS[name](grid, epsilon) for grid in GRIDS for epsilon in LOSSES]


# ── the promise ─────────────────────────────────────────────────────────────────────────────────────────────────────


def assert_promise_is_kept(mechanism: Estimator, matrix: np.ndarray) -> None:
    """No report is more than e^ε (or e^(ε · distance)) times as likely for one cell as for another."""
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-12)
    allowed = float(mechanism.epsilon)
    if mechanism.adjacency is not Adjacency.ANY_TWO:
        allowed = allowed * distances(mechanism.grid)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert (losses(matrix) <= allowed + 1e-12).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_the_promise_is_kept(name: str) -> None:
    for mechanism in made(name):
        assert_promise_is_kept(mechanism, mechanism.transition_matrix())


@pytest.mark.parametrize("make", [PlanarLaplace, SubsetExponential])
def test_on_the_globe_the_price_is_per_metre(make: Callable[..., Estimator]) -> None:
    """Great circles between the middles of cells, near the pole and on the equator."""
    for south in (-2, 40, 80):
        grid = Grid.over(lon=(10, 14), lat=(south, south + 4), shape=(3, 4))
        mechanism = make(grid, "1/100000")
        lat, lon = (np.radians(axis) for axis in (grid.y_at(np.arange(3) + 0.5), grid.x_at(np.arange(4) + 0.5)))
        down, across = (part.ravel() for part in np.meshgrid(lat, lon, indexing="ij"))
        chord = (
            np.sin((down - down[:, None]) / 2) ** 2
            + np.cos(down) * np.cos(down[:, None]) * np.sin((across - across[:, None]) / 2) ** 2
        )
        metres = 2 * 6_371_000 * np.arcsin(np.sqrt(chord))
        assert mechanism.adjacency is Adjacency.PER_METRE
        assert (losses(mechanism.transition_matrix()) <= 1e-5 * metres * (1 + 1e-12) + 1e-12).all()


def columns(mechanism: Estimator, cell: int, reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which column of the matrix each report is, and the law of the columns for a cell.

    Of hashing, whose seeds cannot be written out: how far the bucket lies from the true cell's under its own seed.
    """
    if isinstance(mechanism, LocalHashing):
        seeds = reports[:, 0].astype(np.uint64)
        own = mechanism._hash(seeds, np.full(len(seeds), cell, dtype=np.uint64)).astype(np.int64)
        low, high = mechanism.weights
        law = np.array([high] + [low] * (mechanism.buckets - 1)) / (high + low * (mechanism.buckets - 1))
        return (reports[:, 1] - own) % mechanism.buckets, law
    if isinstance(mechanism, Mixture):
        discs, hashed = mechanism.split(reports)
        places, of_disc = columns(mechanism.disc, cell, discs)
        away, of_hash = columns(mechanism.hash, cell, hashed)
        share = float(mechanism.hashing)
        return np.concatenate([places, len(of_disc) + away]), np.concatenate([(1 - share) * of_disc, share * of_hash])
    law = mechanism.transition_matrix()[cell]
    if mechanism.numbers == 1 and mechanism.limit == len(law):
        return reports[:, 0], law
    places = {tuple(report): place for place, report in enumerate(every_report(mechanism).tolist())}
    return np.array([places[tuple(report)] for report in reports.tolist()]), law


def assert_draws_follow(mechanism: Estimator, cell: int, reports: np.ndarray) -> None:
    assert_follows(*columns(mechanism, cell, reports))


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_drawn_is_what_the_matrix_says(name: str) -> None:
    for mechanism in (SETTINGS[name](GRIDS[0], 1), SETTINGS[name](GRIDS[1], "7/2")):
        for cell in corners(mechanism.grid):
            assert_draws_follow(mechanism, cell, draws(mechanism, cell, 20_000))


@pytest.mark.parametrize("name", ["response", "disk of radius 2", "rings", "laplace", "wave"])
def test_a_device_that_tells_the_truth_is_caught(name: str) -> None:
    """Errata E1-1: the true cell's id in place of the drawn one, in every report or in one of twenty."""
    mechanism = SETTINGS[name](GRIDS[0], 1)
    honest = draws(mechanism, 5, 20_000)
    truth = int(mechanism.transition_matrix()[5].argmax())
    for part in (1, 20):
        with pytest.raises(AssertionError):
            assert_draws_follow(mechanism, 5, np.where(np.arange(20_000)[:, None] % part == 0, truth, honest))


def test_a_matrix_that_leaks_is_caught() -> None:
    """The identity, the matrix of a larger epsilon, and the unclipped share of errata E1-2."""
    mechanism = RandomizedResponse(GRIDS[0], 1)
    for matrix in (np.eye(12), RandomizedResponse(GRIDS[0], "1001/1000").transition_matrix()):
        with pytest.raises(AssertionError):
            assert_promise_is_kept(mechanism, matrix)
    disk = DiskArea(plane(8, 8), "7/2", radius=3)
    weights = disk.transition_matrix() * disk.window.total / disk.window.low
    lowered = np.where((weights == 1) & (np.indices(weights.shape)[1] % 13 == 0), 0.919, weights)
    with pytest.raises(AssertionError):
        assert_promise_is_kept(disk, lowered / lowered.sum(axis=1, keepdims=True))


# ── both halves fit together ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in SETTINGS if "hashing" not in name and "mixture" not in name])
def test_the_channel_is_what_the_tallies_expect(name: str) -> None:
    """Of hashing on average over its seeds alone; test_categorical has it, and test_mixture."""
    for mechanism in made(name):
        assert_channel_is(mechanism.channel(), expected_tallies(mechanism))


@pytest.mark.parametrize("name", SETTINGS)
def test_reports_and_tallies_fit_their_declaration(name: str) -> None:
    for mechanism in made(name):
        cells = np.arange(mechanism.grid.cells).repeat(5)
        reports = mechanism.draw(cells, Simulation(2))
        assert reports.shape == (len(cells), mechanism.numbers)
        assert reports.min() >= 0
        assert reports.max() < mechanism.limit
        single = np.array([mechanism.tally(reports[[place]]) for place in range(len(reports))])
        assert single.shape == (len(cells), mechanism.outcomes)
        # A report counts once for an outcome, or not at all: so no tally exceeds the number of reports.
        assert set(np.unique(single).tolist()) <= {0, 1}
        assert (single.sum(axis=0) == mechanism.tally(reports)).all()
        if not isinstance(mechanism, UnaryEncoding | LocalHashing | Mixture):
            assert (single.sum(axis=1) == mechanism.numbers).all()
        nothing = mechanism.draw(cells[:0], Simulation(2))
        assert nothing.shape == (0, mechanism.numbers)
        assert mechanism.tally(nothing).tolist() == [0] * mechanism.outcomes


@pytest.mark.parametrize("name", SETTINGS)
def test_parameters_travel(name: str) -> None:
    """Through JSON and back: an equal mechanism with the same fingerprint, and weights that are the same."""
    for mechanism in made(name):
        fields = json.loads(json.dumps(mechanism_to_dict(mechanism) | {"fingerprint": fingerprint(mechanism)}))
        rebuilt = mechanism_from_dict(fields, Path("a.reports"))
        assert rebuilt == mechanism
        assert fingerprint(rebuilt) == fingerprint(mechanism)
        assert (
            rebuilt.draw(np.zeros(9, np.int64), Simulation(1)) == mechanism.draw(np.zeros(9, np.int64), Simulation(1))
        ).all()


# ── every mechanism ─────────────────────────────────────────────────────────────────────────────────────────────────


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
    assert mechanism.event == RandomizedReport(Fraction(3, 10), mechanism.adjacency.length)
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
