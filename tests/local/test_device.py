"""The device: it pays before it speaks, remembers only what it said, and needs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import BudgetExceeded, CannotWrite, InvalidInput, LedgerMismatch, UnreadableData
from heathaze.local import (
    Device,
    DiskArea,
    PlanarLaplace,
    RandomizedResponse,
    Reports,
    SubsetExponential,
    Tally,
    UnaryEncoding,
    randomize,
)
from heathaze.local.mechanism import Estimator, promise
from heathaze.privacy.events import RandomizedReport
from heathaze.privacy.guarantee import Adjacency, Trust, Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.randomness import Randomness, SecureRandomness, Simulation
from tests.local.enumeration import plane
from tests.local.test_reports import EVERY

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: next to no noise, so that numbers can be told exactly."""

GRID = plane(4, 6)
TRUTH = RandomizedResponse(GRID, 1000)
"""Reports the true cell, but for one in 10^9."""


class Broken(Randomness):
    """A source that fails when it is asked."""

    def __init__(self) -> None:
        super().__init__(bytes(32))

    def words(self, count: int) -> NoReturn:  # noqa: ARG002
        raise RuntimeError("no entropy")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "own.ledger", total=2)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


def coin(epsilon: Any = 1, grid: Grid = GRID) -> RandomizedResponse:
    return RandomizedResponse(grid, epsilon)


# ── positions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_position_becomes_its_cell() -> None:
    points = [(x + 0.5, y + 0.5) for y in range(4) for x in range(6)]
    assert randomize(TRUTH, points, randomness=Simulation(1)).values.ravel().tolist() == list(range(24))
    assert randomize(TRUTH, (2.5, 1.5), randomness=Simulation(1)).values.tolist() == [[8]]
    assert len(randomize(TRUTH, np.zeros((0, 2)))) == 0


@pytest.mark.parametrize(
    ("point", "cell"),
    [
        ((-9, -9), 0),
        ((99, -9), 5),
        ((-9, 99), 18),
        ((99, 99), 23),
        ((2.5, -1e300), 2),
        ((1e300, 1.5), 11),
        ((6, 4), 23),
    ],
)
def test_positions_outside_go_to_the_nearest_border(point: tuple[float, float], cell: int) -> None:
    """Never dropped: who is missing would be told (errata E1-6)."""
    assert randomize(TRUTH, point, randomness=Simulation(1)).values.tolist() == [[cell]]


def test_positions_outside_the_globe_are_clamped_too() -> None:
    mechanism = RandomizedResponse(Grid.over(lon=(-74.1, -73.78), lat=(40.58, 40.90), shape=(2, 3)), 1000)
    points = [(-200, 95), (200, -95), (-73.9, 91)]
    assert randomize(mechanism, points, randomness=Simulation(1)).values.ravel().tolist() == [0, 5, 1]


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        ((40.75, -73.95), "Longitude and latitude are probably swapped"),
        ((10.0, 53.5), "far outside the map; check that longitude comes first"),
        ((-73.95, 41.3), "far outside the map"),
        ((-200, 95), "far outside the map"),
    ],
)
def test_a_position_that_is_probably_a_mistake_is_refused(
    point: tuple[float, float], sentence: str, ledger: Ledger, memory: Path
) -> None:
    """The error stays on the device, names no coordinate, and costs nothing."""
    grid = Grid.over(lon=(-74.1, -73.78), lat=(40.58, 40.90), shape=(2, 3))
    device = Device(coin(grid=grid), ledger=ledger, memory=memory)
    with pytest.raises(InvalidInput, match=sentence) as refused:
        device.randomize(point)
    assert "Nothing was charged and nothing reported" in str(refused.value)
    assert not any(character.isdigit() for character in str(refused.value))
    assert ledger.spent == 0
    assert not memory.exists()
    assert len(device.randomize(point, far=True)) == 1
    assert ledger.spent == 1


def test_a_position_near_the_map_is_reported() -> None:
    """Up to the map's own width or height outside of it, and only one that exchanging would mend counts as swapped."""
    for point in ((-6, 2), (12, 2), (3, -4), (3, 8), (5, 2), (2, 3)):
        assert len(Device(coin()).randomize(point)) == 1
    with pytest.raises(InvalidInput, match="X and y are probably swapped"):
        Device(coin()).randomize((2, 5))
    with pytest.raises(InvalidInput, match="check that x comes first"):
        Device(coin()).randomize((12.1, 8))


BAD: list[Any] = [
    (np.nan, 1), (1, np.inf), (-np.inf, 1), (1,), (1, 2, 3), [[1, 2], [3, 4]], [], 7, "here", ("a", "b"), None,
    [[1, 2], [3]], {"x": 1}, (1, 10**400), [[[1, 2]]],
]  # fmt: skip


@pytest.mark.parametrize("point", BAD, ids=str)
def test_what_is_no_position_costs_nothing(point: Any, ledger: Ledger, memory: Path) -> None:
    with pytest.raises(InvalidInput, match=r"[Pp]osition"):
        Device(coin(), ledger=ledger, memory=memory).randomize(point)
    assert ledger.spent == 0
    assert not memory.exists()


@pytest.mark.parametrize("points", [point for point in BAD if point != [[1, 2], [3, 4]]], ids=str)
def test_many_positions_are_checked_as_well(points: Any) -> None:
    with pytest.raises(InvalidInput, match=r"[Pp]osition"):
        randomize(coin(), points)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="There is no unit 'household'"):
        randomize(coin(), (1, 1), unit="household")
    with pytest.raises(InvalidInput, match="for a person or for a visit"):
        randomize(coin(), (1, 1), unit="person-day")
    assert randomize(coin(), (1, 1), unit="visit").unit is Unit.VISIT


def test_only_the_secure_source_is_not_simulated() -> None:
    assert not randomize(coin(), (1, 1), randomness=SecureRandomness()).simulated
    assert randomize(coin(), (1, 1), randomness=Simulation(1)).simulated
    assert randomize(coin(), (1, 1), randomness=Randomness(bytes(32))).simulated


# ── paying ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_report_is_charged(ledger: Ledger) -> None:
    device = Device(coin("2/3"), ledger=ledger)
    for count in (1, 2, 3):
        assert len(device.randomize((1, 1))) == 1
        assert ledger.spent == Fraction(2, 3) * count
    entry = ledger.entries()[0]
    assert entry.guarantee == promise(device.mechanism)
    assert (entry.guarantee.trust, entry.guarantee.adjacency) == (Trust.LOCAL, Adjacency.ANY_TWO)
    assert entry.event == RandomizedReport(Fraction(2, 3))
    assert entry.note == ""


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_every_mechanism_pays_what_it_declares(mechanism: Estimator, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "own.ledger", total=20)
    middle = [float(sum(axis)) / 2 for axis in (mechanism.grid.x, mechanism.grid.y)]
    reports = Device(mechanism, ledger=ledger, memory=tmp_path / "memory").randomize(middle)
    assert ledger.spent == mechanism.epsilon
    assert Tally.of(reports).reports == 1
    assert (Device(mechanism, memory=tmp_path / "memory").again().values == reports.values).all()


def test_reports_of_one_person_are_promised_together() -> None:
    assert promise(coin("3/2"), reports=4).loss.epsilon == 6


def test_beyond_the_budget_nothing_happens(ledger: Ledger, memory: Path) -> None:
    device = Device(coin("3/2"), ledger=ledger, memory=memory)
    first = device.randomize((1, 1))
    before, entries = memory.read_bytes(), ledger.entries()
    with pytest.raises(BudgetExceeded, match=r"nothing was charged.*The last answer can be repeated at no cost: again"):
        device.randomize((5, 3))
    assert memory.read_bytes() == before
    assert ledger.entries() == entries
    assert (device.again().values == first.values).all()


def test_without_an_answer_none_is_offered(tmp_path: Path, memory: Path) -> None:
    ledger = Ledger.open(tmp_path / "small.ledger", total="1/2")
    with pytest.raises(BudgetExceeded) as refused:
        Device(coin(), ledger=ledger, memory=memory).randomize((1, 1))
    assert "again" not in str(refused.value)
    assert not memory.exists()


def test_paid_before_anything_is_drawn(ledger: Ledger, memory: Path) -> None:
    """A source that fails wastes the charge: the ledger on the disk shows it, and nothing is remembered."""
    device = Device(coin(), ledger=ledger, memory=memory)
    with pytest.raises(RuntimeError, match="no entropy"):
        device.randomize((1, 1), randomness=Broken())
    assert Ledger.open(ledger.path).spent == 1
    assert not memory.exists()


def test_the_charge_is_on_the_disk_when_the_draw_begins(ledger: Ledger) -> None:
    seen = []

    class Watching(Randomness):
        def words(self, count: int) -> Any:
            seen.append(Ledger.open(ledger.path).spent)
            return super().words(count)

    Device(coin(), ledger=ledger).randomize((1, 1), randomness=Watching(bytes(32)))
    assert seen[0] == 1


def test_prices_for_each_metre_and_for_any_two_do_not_mix(tmp_path: Path) -> None:
    """Both ways, and for each kind of geo-indistinguishable mechanism."""
    globe = Grid.over(lon=(-74.1, -73.78), lat=(40.58, 40.90), size=4)
    kinds = [coin(), PlanarLaplace(GRID, 1), PlanarLaplace(globe, "1/5000"), UnaryEncoding(GRID, 1)]
    for number, (first, second) in enumerate([(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]):
        ledger = Ledger.open(tmp_path / f"{number}.ledger", total=10)
        Device(kinds[first], ledger=ledger).randomize((1, 1), far=True)
        with pytest.raises(LedgerMismatch, match=r"counts in adjacency .* losses in different units do not add up"):
            Device(kinds[second], ledger=ledger).randomize((1, 1), far=True)
        assert ledger.spent == kinds[first].epsilon
    same = Ledger.open(tmp_path / "same.ledger", total=10)
    for mechanism in (PlanarLaplace(GRID, 1), SubsetExponential(GRID, 1)):
        Device(mechanism, ledger=same).randomize((1, 1))
    assert same.spent == 2


# ── repeating ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_again_is_word_for_word_and_free(ledger: Ledger, memory: Path) -> None:
    device = Device(coin(2), ledger=ledger, memory=memory)
    first = device.randomize((1, 1))
    assert ledger.remaining == 0
    for _ in range(3):
        again = Device(coin(2), ledger=ledger, memory=memory).again()
        assert again.to_bytes() == first.to_bytes()
    assert ledger.spent == 2


def test_again_is_the_last_answer(memory: Path) -> None:
    device = Device(TRUTH, memory=memory)
    for point, cell in (((0.5, 0.5), 0), ((5.5, 3.5), 23)):
        assert device.randomize(point).values.tolist() == [[cell]]
        assert device.again().values.tolist() == [[cell]]


def test_there_may_be_nothing_to_repeat(memory: Path) -> None:
    with pytest.raises(InvalidInput, match="no answer to repeat; report a position first, with a memory"):
        Device(coin()).again()
    with pytest.raises(InvalidInput, match="no answer to repeat"):
        Device(coin(), memory=memory).again()
    Device(coin(), memory=memory).randomize((1, 1))
    with pytest.raises(InvalidInput, match="no answer to repeat"):
        Device(coin(2), memory=memory).again()


def test_simulated_answers_are_not_remembered(memory: Path) -> None:
    assert Device(coin(), memory=memory).randomize((1, 1), randomness=Simulation(1)).simulated
    assert not memory.exists()


def test_a_server_counts_a_device_once(memory: Path) -> None:
    device = Device(coin(), memory=memory)
    tally = Tally.of(device.randomize((1, 1)))
    for repeated in (device.again(), device.randomize((3, 3))):
        with pytest.raises(InvalidInput, match="a device may report once"):
            tally + repeated
    assert Device(coin()).randomize((1, 1)).devices is None


def test_names_of_two_campaigns_cannot_be_linked(tmp_path: Path) -> None:
    """One memory, several parameter sets: no name, and no half of a name, occurs twice or stands in the memory."""
    memory, names = tmp_path / "memory", []
    for epsilon in (1, 2, 3):
        device = Device(coin(epsilon), memory=memory)
        devices = device.randomize((1, 1)).devices
        assert devices is not None
        assert device.again().devices.tolist() == devices.tolist()  # type: ignore[union-attr]
        names.append(devices.tobytes())
    halves = [half for name in names for half in (name[:8], name[8:])]
    assert len(set(halves)) == 6
    kept = memory.read_text()
    assert not any(half.hex() in kept for half in halves)
    other = Device(coin(), memory=tmp_path / "other").randomize((1, 1)).devices
    assert other is not None
    assert other.tobytes() not in names


def test_answers_of_two_campaigns_are_kept_apart(memory: Path) -> None:
    first = Device(coin(), memory=memory).randomize((1, 1))
    Device(UnaryEncoding(GRID, 1), memory=memory).randomize((1, 1))
    assert (Device(coin(), memory=memory).again().values == first.values).all()


def test_the_memory_never_holds_the_true_cell(tmp_path: Path) -> None:
    """Position, row, column and cell are searched for where the report says something else."""
    grid = Grid.plane(x=(0, 1000), y=(0, 1000), size=1000)
    device = Device(RandomizedResponse(grid, "1/1000"), memory=tmp_path / "memory", ledger=Ledger.open(
        tmp_path / "own.ledger", total=1
    ))  # fmt: skip
    row, col = 777, 888
    reports = device.randomize((col + 0.125, row + 0.125))
    cell = row * 1000 + col
    assert reports.values[0, 0] != cell  # once in a million runs this is the true cell by chance
    kept = json.loads((tmp_path / "memory").read_text())
    assert sorted(kept) == ["answers", "name"]
    assert list(kept["answers"].values()) == [reports.values[0].tolist()]
    numbers = json.dumps(list(kept["answers"].values()))
    assert not any(secret in numbers for secret in (str(cell), ".125"))
    ledger = (tmp_path / "own.ledger").read_bytes()
    assert not any(secret.encode() in ledger for secret in ("888.125", "777.125"))


MEMORIES: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello",
    "not utf-8": b"\xff\xfe\x00",
    "cut": b'{"name": "ab", "answers": {',
    "list": b"[]",
    "null": b"null",
    "number": b"7",
    "no name": b'{"answers": {}}',
    "no answers": b'{"name": "ab"}',
    "name of number": b'{"name": 7, "answers": {}}',
    "answers of list": b'{"name": "ab", "answers": []}',
    "nested without end": b"[" * 100_000,
}


@pytest.mark.parametrize("name", list(MEMORIES))
def test_a_damaged_memory_gets_a_sentence_before_anything_is_paid(name: str, ledger: Ledger, memory: Path) -> None:
    memory.write_bytes(MEMORIES[name])
    device = Device(coin(), ledger=ledger, memory=memory)
    for act in (lambda: device.randomize((1, 1)), device.again):
        with pytest.raises(UnreadableData, match=r"memory\.json is not the memory of a device"):
            act()
    assert ledger.spent == 0
    assert memory.read_bytes() == MEMORIES[name]


@pytest.mark.parametrize(
    "answer", [[99], [-1], [1, 2], [], "x", ["x"], [[1]], None, [None], [1.5e300], [2**70], {"a": 1}]
)
def test_an_edited_answer_does_not_leave(answer: Any, memory: Path) -> None:
    device = Device(coin(), memory=memory)
    device.randomize((1, 1))
    kept = json.loads(memory.read_text())
    kept["answers"] = dict.fromkeys(kept["answers"], answer)
    memory.write_text(json.dumps(kept))
    with pytest.raises(UnreadableData, match="is not the memory of a device"):
        device.again()


def test_an_answer_that_no_device_makes_does_not_leave(memory: Path) -> None:
    """In the corner of the frame, which no disc reaches."""
    device = Device(DiskArea(GRID, 1, radius=2), memory=memory)
    device.randomize((1, 1))
    kept = json.loads(memory.read_text())
    kept["answers"] = {name: [0] for name in kept["answers"]}
    memory.write_text(json.dumps(kept))
    with pytest.raises(UnreadableData, match="is not the memory of a device"):
        device.again()


def test_a_memory_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="Cannot write"):
        Device(coin(), memory=tmp_path / "missing" / "memory").randomize((1, 1))
    with pytest.raises(UnreadableData, match="is not the memory of a device"):
        Device(coin(), memory=tmp_path).randomize((1, 1))
    assert not list(tmp_path.iterdir())


# ── next to nothing ─────────────────────────────────────────────────────────────────────────────────────────────────

ALONE = """
import importlib.abc, pathlib, sys

# The last is a part of cryptography.
ALLOWED = {"heathaze", "numpy", "cryptography", "_cffi_backend"} | set(sys.stdlib_module_names)

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError("a device has no " + name)

sys.meta_path.insert(0, Refuse())
for name in ("numba", "scipy", "duckdb", "matplotlib", "typer", "rich", "dp_accounting"):
    try:
        __import__(name)
    except ImportError:
        continue
    sys.exit(name + " was not refused")

import heathaze.local as local
from heathaze.domain.grid import Grid
from heathaze.local.catalogue import MECHANISMS
from heathaze.privacy.ledger import Ledger

folder = pathlib.Path(sys.argv[1])
for number, kind in enumerate(MECHANISMS):
    mechanism = kind(Grid.plane(x=(0, 8), y=(0, 8), size=8), 1)
    ledger = Ledger.open(folder / f"{number}.ledger", total=1)
    device = local.Device(mechanism, ledger=ledger, memory=folder / "memory")
    device.randomize((3.5, 4.5)).save(folder / f"{number}.reports")
    assert device.again().to_bytes() == (folder / f"{number}.reports").read_bytes()
    assert ledger.remaining == 0
    (folder / f"{number}.many").write_bytes(local.randomize(mechanism, [(1, 1), (2, 2)]).to_bytes())
print(number + 1)
"""


def test_a_device_needs_the_standard_library_numpy_and_cryptography(tmp_path: Path) -> None:
    """Everything else is refused on import; the server reads what the device wrote."""
    done = subprocess.run([sys.executable, "-c", ALONE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("9\n", "")
    for number in range(9):
        assert len(Reports.load(tmp_path / f"{number}.reports")[0]) == 1
        assert Tally.load(tmp_path / f"{number}.many").reports == 2
