"""Tallies: the same numbers in whatever order and pieces reports arrive, and no trace of what was refused."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.errors import CannotWrite, HeathazeError, InvalidInput, SimulatedRelease, UnreadableData, kind_of
from heathaze.local import DiskArea, Reports, Tally, estimate, randomize
from heathaze.local.mechanism import Estimator, fingerprint
from heathaze.local.reports import DEVICE
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import plane
from tests.local.test_reports import EVERY, edited, parts_of, some

MECHANISM = DiskArea(plane(5, 7), 3.5, radius=2)


def equal(first: Tally, second: Tally) -> bool:
    return (
        fingerprint(first.mechanism) == fingerprint(second.mechanism)
        and first.counts.dtype == second.counts.dtype == np.int64
        and bool((first.counts == second.counts).all())
        and first.reports == second.reports
        and first.unit is second.unit
        and first.devices.tolist() == second.devices.tolist()
        and first.simulated == second.simulated
    )


def cut(reports: Reports, ends: list[int]) -> list[Reports]:
    """The same reports in pieces."""
    assert reports.devices is not None
    places = [0, *sorted(ends), len(reports)]
    return [
        replace(reports, values=reports.values[start:end], devices=reports.devices[start:end], chunk=number)
        for number, (start, end) in enumerate(itertools.pairwise(places))
    ]


# ── adding up ───────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=60)
@given(st.data(), st.sampled_from(EVERY))
def test_any_schedule_ends_the_same(data: st.DataObject, mechanism: Estimator) -> None:
    """Cut anywhere, in any order, summed as any tree: exactly the tally of everything at once."""
    everything = some(mechanism, 30, devices=True)
    pieces = [Tally.of(piece) for piece in cut(everything, data.draw(st.lists(st.integers(0, 30), max_size=5)))]
    pieces = list(data.draw(st.permutations(pieces)))
    while len(pieces) > 1:
        first = pieces.pop(data.draw(st.integers(0, len(pieces) - 1)))
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at] = pieces[at] + first
    assert equal(pieces[0], Tally.of(everything))


def test_order_and_brackets_do_not_matter() -> None:
    a, b, c = (Tally.of(some(MECHANISM, 10 + k, 10 * k, devices=True)) for k in (1, 2, 3))
    assert equal((a + b) + c, a + (b + c))
    assert equal(a + b, b + a)
    assert (a + b).reports == 23
    assert (a + b).counts.sum() == 23


def test_reports_are_added_as_their_tally() -> None:
    first, second = some(MECHANISM, 9, 1), some(MECHANISM, 8, 5)
    assert equal(Tally.of(first) + second, Tally.of(first) + Tally.of(second))


def test_the_same_reports_count_once(tmp_path: Path) -> None:
    """Counted by accident a second time, on their own, from a file or within a saved tally, they are refused."""
    monday, tuesday = some(MECHANISM, 9, 1), some(MECHANISM, 8, 5)
    both = Tally.of(monday) + tuesday
    path = both.save(tmp_path / "both.tally")
    monday.save(tmp_path / "monday.reports")
    for again in (monday, Tally.of(tuesday), Tally.load(tmp_path / "monday.reports"), Tally.load(path)):
        with pytest.raises(InvalidInput, match="counted before; give each set of reports once"):
            both + again
    with pytest.raises(InvalidInput, match="counted before"):
        Tally.load(path) + monday


def test_many_are_summed_at_once() -> None:
    parts = [some(MECHANISM, 3, k, devices=True) for k in range(20)]
    one_by_one = Tally.of(parts[0])
    for part in parts[1:]:
        one_by_one = one_by_one + part
    assert equal(Tally.sum(parts), one_by_one)


def test_named_and_nameless_reports_add_up() -> None:
    both = Tally.of(some(MECHANISM, 9, 1, devices=True)) + some(MECHANISM, 8, 5)
    assert both.reports == 17
    assert len(both.devices) == 9


def test_many_chunks_keep_whole_numbers() -> None:
    """Counts beyond what floats tell apart still add up by one."""
    one = Tally.of(some(MECHANISM, 1))
    large = Tally(
        MECHANISM, one.counts * (2**53 - 2), 2**53 - 2, Unit.PERSON, np.zeros(0, DEVICE), np.zeros(1, np.uint64)
    )
    assert (large + one).counts.max() == 2**53 - 1


def test_printing_a_tally_shows_no_count() -> None:
    assert repr(Tally.of(some(MECHANISM, 3))) == f"<Tally: 3 reports of DiskArea, {fingerprint(MECHANISM)}>"


# ── what is refused, and leaves no trace ────────────────────────────────────────────────────────────────────────────


def refuses(tally: Tally, chunk: Any, words: str) -> None:
    before = Tally(
        tally.mechanism, tally.counts.copy(), tally.reports, tally.unit, tally.devices.copy(), tally.simulated
    )
    with pytest.raises(InvalidInput, match=words):
        tally + chunk
    assert equal(tally, before)


def test_other_parameters_are_named_both() -> None:
    tally, other = Tally.of(some(MECHANISM)), DiskArea(plane(5, 7), 3.6, radius=2)
    both = rf"{fingerprint(other)} \(DiskArea, epsilon 18/5, .*{fingerprint(MECHANISM)} \(DiskArea, epsilon 7/2, "
    refuses(tally, some(other), both)
    refuses(tally, Tally.of(some(other)), "reports of two parameter sets cannot be mixed; estimate each by itself")
    refuses(tally, some(DiskArea(plane(7, 5), 3.5, radius=2)), "7 × 5 cells.*5 × 7 cells")


def test_another_unit_is_refused() -> None:
    refuses(
        Tally.of(some(MECHANISM)),
        some(MECHANISM, unit=Unit.VISIT),
        "for a visit each, and the others for a person",
    )


def test_a_device_counts_once() -> None:
    reports = some(MECHANISM, 6, devices=True)
    assert reports.devices is not None
    tally = Tally.of(reports)
    twice = replace(reports, devices=reports.devices[[0, 1, 2, 3, 4, 0]])
    with pytest.raises(
        InvalidInput,
        match="Two of these reports carry the same device id; a device may report once, so remove one of them",
    ):
        Tally.of(twice)
    fresh = some(MECHANISM, 2, 50, devices=True)
    assert fresh.devices is not None
    known = replace(fresh, devices=np.array([fresh.devices[0], reports.devices[3]], DEVICE))
    refuses(tally, known, "a device id that was counted before; a device may report once")
    refuses(tally, twice, "same device id")
    refuses(tally, tally, "counted before")
    assert (tally + fresh).reports == 8


def test_names_that_differ_in_half_are_different() -> None:
    names = np.array([(1, 2), (2, 1), (1, 1), (2, 2)], DEVICE)
    assert Tally.of(replace(some(MECHANISM, 4), devices=names)).reports == 4


def test_ids_that_never_occur_are_refused() -> None:
    """The corners of the frame: no disc around a cell of the grid reaches them."""
    frame = MECHANISM.window.frame
    corners = [0, frame[1] - 1, (frame[0] - 1) * frame[1], frame[0] * frame[1] - 1]
    assert not MECHANISM.transition_matrix()[:, corners].any()
    for corner in corners:
        made_up = Reports(MECHANISM, np.array([[50], [corner]]))
        with pytest.raises(InvalidInput, match="never reports; the report is damaged or forged"):
            Tally.of(made_up)
        refuses(Tally.of(some(MECHANISM)), made_up, "never reports")


@pytest.mark.parametrize("thing", [None, 3, [(1.0, 2.0)], np.zeros((3, 1)), "reports"])
def test_other_things_are_not_added(thing: Any) -> None:
    refuses(Tally.of(some(MECHANISM)), thing, f"A tally adds reports or another tally, not {kind_of(thing)}")


# ── simulated ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_simulated_stays_so(tmp_path: Path) -> None:
    simulated = randomize(MECHANISM, np.full((9, 2), 2.5), randomness=Simulation(1))
    tally = Tally.of(some(MECHANISM)) + simulated
    for tainted in (tally, Tally.of(simulated) + some(MECHANISM), Tally.of(simulated)):
        assert tainted.simulated
        with pytest.raises(SimulatedRelease, match="cannot be saved"):
            tainted.save(tmp_path / "a.tally")
        release = estimate(tainted, draws=0)
        assert release.simulated
        with pytest.raises(SimulatedRelease):
            release.save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())
    assert not estimate(some(MECHANISM), draws=0).simulated


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
@pytest.mark.parametrize("devices", [False, True])
def test_tallies_come_back(mechanism: Estimator, devices: bool, tmp_path: Path) -> None:
    tally = Tally.of(some(mechanism, 50, devices=devices, unit=Unit.VISIT))
    assert equal(Tally.load(tally.save(tmp_path / "a.tally")), tally)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tally"]


def test_saving_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, parts = tmp_path / "state.tally", [some(MECHANISM, 10, 7 * k, devices=True) for k in range(4)]
    Tally.of(parts[0]).save(path)
    for part in parts[1:]:
        (Tally.load(path) + part).save(path)
    whole = Tally.of(parts[0]) + parts[1] + parts[2] + parts[3]
    assert equal(Tally.load(path), whole)
    refuses(Tally.load(path), parts[2], "counted before")


def test_tallies_and_reports_in_one_file(tmp_path: Path) -> None:
    parts = [some(MECHANISM, 10 + k, 7 * k, devices=True) for k in range(3)]
    Tally.of(parts[1]).save(tmp_path / "middle")
    path = tmp_path / "mixed"
    path.write_bytes(parts[0].to_bytes() + (tmp_path / "middle").read_bytes() + parts[2].to_bytes())
    assert equal(Tally.load(path), Tally.of(parts[0]) + parts[1] + parts[2])
    with pytest.raises(UnreadableData, match="mixed holds a tally, not reports"):
        Reports.load(path)
    path.write_bytes(path.read_bytes() + parts[0].to_bytes())
    with pytest.raises(UnreadableData, match=r"mixed: .* counted before"):
        Tally.load(path)


def test_a_file_of_two_parameter_sets_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "two"
    path.write_bytes(some(MECHANISM).to_bytes() + some(DiskArea(plane(5, 7), 2)).to_bytes())
    with pytest.raises(
        UnreadableData, match=r"two: .* reports of two parameter sets cannot be mixed; estimate each by itself"
    ):
        Tally.load(path)


def test_one_bad_file_does_not_poison_the_state(tmp_path: Path) -> None:
    """As a server would do it: every file that can be read counts, and no other."""
    good = [some(MECHANISM, 10 + k, 7 * k) for k in range(3)]
    contents = [good[0].to_bytes(), good[1].to_bytes()[:-9], good[1].to_bytes() + b"junk", good[2].to_bytes()]
    state, refused = Tally.of(some(MECHANISM, 0)), 0
    for number, content in enumerate(contents):
        path = tmp_path / str(number)
        path.write_bytes(content)
        try:
            state = state + Tally.load(path)
        except HeathazeError:
            refused += 1
    assert refused == 2
    assert equal(state, Tally.of(good[0]) + good[2])


def test_a_place_that_cannot_be_written_keeps_the_old_state(tmp_path: Path) -> None:
    old = Tally.of(some(MECHANISM, 5))
    old.save(tmp_path / "a.tally")
    for place, sentence in (
        (tmp_path / "missing" / "a.tally", r"there is no directory .*missing; make it first"),
        (tmp_path / "a.tally" / "inside", r"there is no directory .*a\.tally; make it first"),
        (tmp_path, "is a directory; name a file to write"),
    ):
        with pytest.raises(CannotWrite, match=sentence):
            old.save(place)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tally"]
    assert equal(Tally.load(tmp_path / "a.tally"), old)


SAVED = Tally.of(some(MECHANISM, 40, devices=True))


def saved(tmp_path: Path) -> bytes:
    return SAVED.save(tmp_path / "whole.tally").read_bytes()


def rewritten(counts: np.ndarray, devices: np.ndarray, behind: bytes = b"") -> bytes:
    chunks = SAVED.chunks.astype("<u8").tobytes()
    return zlib.compress(counts.astype("<i8").tobytes() + devices.astype(DEVICE).tobytes() + chunks + behind)


def corner() -> np.ndarray:
    counts = SAVED.counts.copy()
    counts[np.flatnonzero(counts)[0]] -= 1
    counts[0] = 1
    return counts


def at_first(value: int) -> np.ndarray:
    counts = SAVED.counts.copy()
    counts[np.flatnonzero(counts)[0]] = value
    return counts


BODIES: dict[str, Callable[[], bytes]] = {
    "a count below zero": lambda: rewritten(at_first(-1), SAVED.devices),
    "more than reports": lambda: rewritten(at_first(41), SAVED.devices),
    "nearly too many for 64 bits": lambda: rewritten(at_first(2**63 - 1), SAVED.devices),
    "a cell that never occurs": lambda: rewritten(corner(), SAVED.devices),
    "a device twice": lambda: rewritten(SAVED.counts, SAVED.devices[[0, *range(39)]]),
    "a device too few": lambda: rewritten(SAVED.counts, SAVED.devices[:-1]),
    "a device too many": lambda: rewritten(SAVED.counts, SAVED.devices[[*range(40), 0]]),
    "an outcome too few": lambda: rewritten(SAVED.counts[:-1], SAVED.devices),
    "a byte behind": lambda: rewritten(SAVED.counts, SAVED.devices, b"\0"),
    "something behind the block": lambda: rewritten(SAVED.counts, SAVED.devices) + b"behind",
    "a block without its end": lambda: rewritten(SAVED.counts, SAVED.devices)[:-4],
    "a bomb": lambda: zlib.compress(bytes(2**26)),
    "not packed": lambda: SAVED.counts.tobytes(),
    "nothing": lambda: b"",
}
FIELDS: dict[str, dict[str, Any]] = {
    "reports too few": {"reports": 39},
    "reports negative": {"reports": -1},
    "reports absurd": {"reports": 2**53},
    "reports text": {"reports": "40"},
    "reports null": {"reports": None},
    "reports true": {"reports": True},
    "devices true": {"devices": True},
    "devices negative": {"devices": -1},
    "devices absurd": {"devices": 10**15, "reports": 10**15},
    "devices too few": {"devices": 39},
    "devices null": {"devices": None},
    "unit": {"unit": "household"},
    "unit null": {"unit": None},
    "fingerprint": {"fingerprint": "0" * 16},
    "as reports": {"heathaze": "reports"},
}


@pytest.mark.parametrize("name", list(BODIES))
def test_edited_bodies_are_refused(name: str, tmp_path: Path) -> None:
    body = BODIES[name]()
    path = edited(tmp_path / "edited.tally", saved(tmp_path), dict.copy, body)
    with pytest.raises(UnreadableData, match=r"edited\.tally is damaged or was edited"):
        Tally.load(path)


@pytest.mark.parametrize("name", list(FIELDS))
def test_edited_fields_are_refused(name: str, tmp_path: Path) -> None:
    path = edited(tmp_path / "edited.tally", saved(tmp_path), lambda fields: fields.update(FIELDS[name]))
    with pytest.raises(UnreadableData, match=r"edited\.tally"):
        Tally.load(path)


def test_the_editing_itself_breaks_nothing(tmp_path: Path) -> None:
    body = rewritten(SAVED.counts, SAVED.devices)
    path = edited(tmp_path / "edited.tally", saved(tmp_path), dict.copy, body)
    assert equal(Tally.load(path), SAVED)


def test_a_tally_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole, path = saved(tmp_path), tmp_path / "cut.tally"
    for end in (1, 4, 9, 10, 50, len(whole) // 2, len(whole) - 4, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(UnreadableData, match=r"cut\.tally (is cut short|holds no reports)"):
            Tally.load(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_flipped_byte_is_refused(tmp_path: Path, place: float, flip: int) -> None:
    whole, path = saved(tmp_path), tmp_path / "flipped.tally"
    at = int(place * len(whole))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
    with pytest.raises(UnreadableData):
        Tally.load(path)


def test_the_header_of_a_tally_is_public(tmp_path: Path) -> None:
    fields, _ = parts_of(saved(tmp_path))
    assert sorted(fields) == [
        "chunks", "devices", "fingerprint", "grid", "heathaze", "mechanism", "parameters", "reports", "unit",
    ]  # fmt: skip
    assert (fields["heathaze"], fields["reports"], fields["devices"]) == ("tally", 40, 40)
