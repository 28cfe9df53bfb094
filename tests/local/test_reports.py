"""Reports: bytes that come back as they were, and a sentence for everything else that may lie in a file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import CannotWrite, HeathazeError, InvalidInput, SimulatedRelease, UnreadableData
from heathaze.local import (
    DiskArea,
    HybridUniformExponential,
    LocalHashing,
    Mixture,
    PlanarLaplace,
    RandomizedResponse,
    Reports,
    SquareWave2D,
    SubsetExponential,
    Tally,
    UnaryEncoding,
    randomize,
)
from heathaze.local.catalogue import MECHANISMS
from heathaze.local.chunks import WORDS, frame_chunk
from heathaze.local.mechanism import FORMAT_VERSION, Estimator, fingerprint
from heathaze.local.reports import DEVICE
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import plane

NEW_YORK = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), shape=(5, 7))

EVERY: list[Estimator] = [
    DiskArea(plane(5, 7), 3.5),
    DiskArea(NEW_YORK, "1/3", radius=2, shrink=False),
    DiskArea(plane(300, 300), 9, radius=0),
    HybridUniformExponential(plane(4, 4), 2),
    LocalHashing(plane(4, 4), 2),
    Mixture(plane(5, 7), 3.5),
    Mixture(NEW_YORK, "1/3", radius=2, hashing="2/7"),
    PlanarLaplace(NEW_YORK, "1/5000"),
    PlanarLaplace(plane(4, 6), 1),
    RandomizedResponse(plane(1, 1), 1),
    RandomizedResponse(plane(3, 3), Fraction(10**40 + 1, 10**40)),
    SquareWave2D(plane(4, 6), 2),
    SquareWave2D(plane(4, 6), 2, "users"),
    SubsetExponential(plane(4, 6), 1),
    SubsetExponential(NEW_YORK, "1/5000", size=2),
    UnaryEncoding(plane(5, 7), 1),
]


def some(mechanism: Estimator, count: int = 20, seed: int = 1, *, devices: bool = False, **kept: Any) -> Reports:
    """Reports that may be saved: drawn by a simulation, but not marked as such."""
    cells = (Simulation(seed).uniforms(count) * mechanism.grid.cells).astype(np.int64)
    names = np.frombuffer(Simulation(seed + 1).words(2 * count).tobytes(), DEVICE) if devices else None
    return Reports(mechanism, mechanism.draw(cells, Simulation(seed + 2)), devices=names, **kept)


def same(first: Reports, second: Reports) -> None:
    assert fingerprint(first.mechanism) == fingerprint(second.mechanism)
    assert first.mechanism == second.mechanism
    assert (first.values == second.values).all()
    assert first.unit is second.unit
    assert (first.devices is None) == (second.devices is None)
    if first.devices is not None and second.devices is not None:
        assert (first.devices == second.devices).all()
    assert not second.simulated


def parts_of(chunk: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields of a chunk's header, and its body."""
    header, body = (int.from_bytes(chunk[start:end], "little") for start, end in ((4, 6), (6, 10)))
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, zdict=WORDS)
    assert len(chunk) == 10 + header + body + 4
    return json.loads(unpacker.decompress(chunk[10 : 10 + header])), chunk[10 + header : -4]


# ── there and back ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_mechanism_is_among_these() -> None:
    assert sorted({type(mechanism).__name__ for mechanism in EVERY}) == sorted(kind.__name__ for kind in MECHANISMS)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
@pytest.mark.parametrize("devices", [False, True])
def test_reports_come_back(mechanism: Estimator, devices: bool, tmp_path: Path) -> None:
    sent = some(mechanism, devices=devices, unit=Unit.VISIT)
    (found,) = Reports.load(sent.save(tmp_path / "a.reports"))
    same(sent, found)
    assert found.mechanism.parameters() == mechanism.parameters()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), mechanism=st.sampled_from(EVERY), unit=st.sampled_from([Unit.PERSON, Unit.VISIT]))
def test_any_numbers_below_the_limit_come_back(
    data: st.DataObject, mechanism: Estimator, unit: Unit, tmp_path: Path
) -> None:
    number = st.integers(0, mechanism.limit - 1) | st.sampled_from([0, mechanism.limit - 1])
    rows = data.draw(st.lists(st.lists(number, min_size=mechanism.numbers, max_size=mechanism.numbers), max_size=9))
    sent = Reports(mechanism, np.array(rows, dtype=np.int64).reshape(-1, mechanism.numbers), unit)
    (found,) = Reports.load(sent.save(tmp_path / "a.reports"))
    same(sent, found)


def test_a_report_is_as_short_as_its_ids_allow() -> None:
    """One byte up to 256 ids, two up to 65 536, three above."""
    for size, width in ((15, 1), (16, 1), (17, 2), (256, 2), (257, 3)):
        mechanism = RandomizedResponse(plane(size, size), 1)
        assert len(parts_of(some(mechanism, 9).to_bytes())[1]) == 9 * width


def test_the_header_is_public_parameters_alone() -> None:
    chunk = some(DiskArea(plane(5, 7), 3.5, radius=2)).to_bytes()
    fields, _ = parts_of(chunk)
    assert sorted(fields) == [
        "chunk", "devices", "fingerprint", "grid", "heathaze", "mechanism", "parameters", "reports", "unit",
    ]  # fmt: skip
    assert fields["parameters"] == {"epsilon": "7/2", "radius": 2, "shrink": True}
    assert (fields["heathaze"], fields["reports"]) == ("reports", 20)
    assert chunk[:4] == b"HZR\x03"


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_a_single_report_is_short(mechanism: Estimator) -> None:
    """Frame, header and checksum of one report: at most 130 bytes, where version 2 took 300."""
    sent = some(mechanism, 1)
    _, body = parts_of(sent.to_bytes())
    assert len(sent.to_bytes()) - len(body) <= 130


def test_the_dictionary_belongs_to_the_version() -> None:
    """Another dictionary cannot read old headers: raise the version with it."""
    assert (zlib.crc32(WORDS), FORMAT_VERSION) == (211045646, 3)


def test_bytes_are_received_as_sent() -> None:
    sent = some(DiskArea(plane(5, 7), 3.5, radius=2))
    received = Reports.from_bytes(sent.to_bytes())
    assert received.to_bytes() == sent.to_bytes()
    for block in (b"", b"x", sent.to_bytes()[:-1], sent.to_bytes() + b"x", 2 * sent.to_bytes()):
        with pytest.raises(UnreadableData, match="block"):
            Reports.from_bytes(block)


def test_joined_files_are_all_read(tmp_path: Path) -> None:
    parts = [some(mechanism, 3 + k, k) for k, mechanism in enumerate(EVERY)]
    path = tmp_path / "joined.reports"
    path.write_bytes(b"".join(part.to_bytes() for part in parts))
    found = Reports.load(path)
    assert len(found) == len(parts)
    for sent, back in zip(parts, found, strict=True):
        same(sent, back)


def test_no_reports_are_reports_too(tmp_path: Path) -> None:
    (found,) = Reports.load(some(EVERY[0], 0).save(tmp_path / "none.reports"))
    assert len(found) == 0
    assert Tally.of(found).counts.sum() == 0


def test_simulated_reports_do_not_leave(tmp_path: Path) -> None:
    reports = randomize(EVERY[0], [(0.5, 0.5)], randomness=Simulation(1))
    with pytest.raises(SimulatedRelease, match="made with simulated randomness"):
        reports.to_bytes()
    with pytest.raises(SimulatedRelease):
        reports.save(tmp_path / "a.reports")
    assert not list(tmp_path.iterdir())
    assert not randomize(EVERY[0], [(0.5, 0.5)]).simulated


def test_a_place_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"there is no directory .*missing; make it first"):
        some(EVERY[0]).save(tmp_path / "missing" / "a.reports")


def test_printing_reports_shows_no_report() -> None:
    reports = some(EVERY[0], 3)
    assert repr(reports) == f"<Reports: 3 of DiskArea, {fingerprint(EVERY[0])}>"


# ── what cannot be reports ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("values", [[[81]], [[-1]], [[1, 2]], [1], [[[1]]]])
def test_numbers_that_no_report_holds_are_refused(values: list[Any]) -> None:
    """The frame of 5 × 5 cells and radius 2 has 81 ids; a larger one would be cut to another when it is written."""
    mechanism = DiskArea(plane(5, 5), 2, radius=2)
    assert mechanism.limit == 81
    with pytest.raises(InvalidInput, match="A report"):
        Reports(mechanism, np.array(values))


def test_device_names_are_one_for_each_report() -> None:
    with pytest.raises(InvalidInput, match="one device name for each report"):
        Reports(EVERY[0], np.zeros((3, 1), dtype=np.int64), devices=np.zeros(2, DEVICE))


def test_reports_cannot_be_changed() -> None:
    values = np.zeros((3, 1), dtype=np.int64)
    reports = Reports(DiskArea(plane(2, 2), 1, radius=0), values)
    values[:] = 3
    assert not reports.values.any()
    with pytest.raises(ValueError, match="read-only"):
        reports.values[0] = 1


def test_fingerprints_tell_everything_apart() -> None:
    grid = plane(5, 7)
    others = [
        DiskArea(grid, 3.5, radius=2),
        DiskArea(grid, 3.5, radius=1),
        DiskArea(grid, 3.5, radius=1, shrink=False),
        DiskArea(grid, "3.500001", radius=1),
        DiskArea(plane(7, 5), 3.5, radius=1),
        DiskArea(plane(5, 7, width=2), 3.5, radius=1),
        HybridUniformExponential(grid, 3.5, radius=1),
        RandomizedResponse(grid, 3.5),
        UnaryEncoding(grid, 3.5),
        LocalHashing(grid, 3.5),
        SquareWave2D(grid, 3.5),
        SquareWave2D(grid, 3.5, "users"),
    ]
    assert len({fingerprint(mechanism) for mechanism in others}) == len(others)
    assert fingerprint(DiskArea(grid, 3.5)) == fingerprint(DiskArea(grid, "7/2", radius=DiskArea(grid, 3.5).radius))


# ── damaged files ───────────────────────────────────────────────────────────────────────────────────────────────────

SENT = some(DiskArea(plane(5, 7), 3.5, radius=2), 40, devices=True)
WHOLE = SENT.to_bytes()
HEADER = 10 + int.from_bytes(WHOLE[4:6], "little")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    """In the header, at its end, in the ids, in the device names, in the checksum."""
    path = tmp_path / "cut.reports"
    places = {1, 2, HEADER // 2, HEADER - 1, HEADER, HEADER + 1, HEADER + 20, HEADER + 40, HEADER + 100}
    for end in sorted(places | set(range(len(WHOLE) - 6, len(WHOLE)))):
        path.write_bytes(WHOLE[:end])
        with pytest.raises(UnreadableData, match=r"cut\.reports (is cut short|holds no reports)"):
            Reports.load(path)
        path.write_bytes(WHOLE + WHOLE[:end])
        with pytest.raises(UnreadableData, match=r"cut\.reports (is cut short|holds no reports)"):
            Tally.load(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused(tmp_path: Path, at: int, flip: int) -> None:
    path = tmp_path / "flipped.reports"
    path.write_bytes(WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :])
    with pytest.raises(UnreadableData, match=r"flipped\.reports"):
        Reports.load(path)


def test_bytes_behind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "longer.reports"
    path.write_bytes(WHOLE + b"\0")
    with pytest.raises(UnreadableData, match="holds no reports"):
        Reports.load(path)


@pytest.mark.parametrize(
    "content", [b"\n", b"{}", b"[]\n", b"null\n", b"7\n", b'"text"\n', b"\xff\xfe\n", b"PAR1", b"x" * 10**6]
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_bytes(content)
    with pytest.raises(UnreadableData, match=r"other\.csv holds no reports"):
        Reports.load(path)


def test_a_header_nested_without_end_is_refused(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    header = packer.compress(b"[" * 60_000) + packer.flush()
    text = b"HZR\x03" + len(header).to_bytes(2, "little") + bytes(4) + header
    for content in (b'{"a":' * 10_000 + b"\n", text + zlib.crc32(text).to_bytes(4, "little")):
        path = tmp_path / "deep.reports"
        path.write_bytes(content)
        with pytest.raises(UnreadableData, match=r"holds no reports|do not fit together"):
            Reports.load(path)


def test_empty_missing_and_directories_get_sentences(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for path, words in (
        (tmp_path / "empty", "is empty"),
        (tmp_path / "no", "is no file"),
        (tmp_path, "is a directory"),
    ):
        with pytest.raises(UnreadableData, match=words):
            Reports.load(path)
        with pytest.raises(UnreadableData, match=words):
            Tally.load(path)


# ── edited files, with a checksum that fits ─────────────────────────────────────────────────────────────────────────


def edited(path: Path, chunk: bytes, edit: Callable[[dict[str, Any]], Any], body: bytes | None = None) -> Path:
    """The chunk with other fields (and another body), its checksum made anew: what a hostile sender would do."""
    fields, old = parts_of(chunk)
    edit(fields)
    path.write_bytes(frame_chunk(fields, old if body is None else body))
    return path


def test_the_editing_itself_breaks_nothing(tmp_path: Path) -> None:
    same(SENT, Reports.load(edited(tmp_path / "a.reports", WHOLE, dict.copy))[0])


@pytest.mark.parametrize("version", [0, 1, 2, 4, 255])
def test_another_version_is_named(version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.reports"
    path.write_bytes(frame_chunk(*parts_of(WHOLE), version))
    with pytest.raises(UnreadableData, match=f"written in version {version} .* reads version 3"):
        Reports.load(path)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("load", [Reports.load, Tally.load])
def test_the_older_format_is_named(version: int, load: Callable[[Path], Any], tmp_path: Path) -> None:
    """Versions 1 and 2 began with a line of JSON."""
    path = tmp_path / "old.reports"
    path.write_bytes(b'{"heathaze":"reports","version":%d,"bytes":2}\n\x01\x02\x03\x04\x05\x06' % version)
    with pytest.raises(UnreadableData, match=f"written in version {version} .* reads version 3"):
        load(path)


@pytest.mark.parametrize("header", [b"", b"\x03\x00", b"x" * 40, zlib.compress(b"{}"), None], ids=str)
def test_headers_that_are_no_header_are_refused(header: bytes | None, tmp_path: Path) -> None:
    """Damaged, without the dictionary, or a header that would fill the memory."""
    if header is None:
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        header = packer.compress(b" " * 2**24) + packer.flush()
    text = b"HZR\x03" + len(header).to_bytes(2, "little") + bytes(4) + header
    path = tmp_path / "a.reports"
    path.write_bytes(text + zlib.crc32(text).to_bytes(4, "little"))
    with pytest.raises(UnreadableData, match="its parts do not fit together"):
        Reports.load(path)


def test_a_body_that_is_announced_but_missing_is_refused(tmp_path: Path) -> None:
    """Four gigabytes that are not there are not even reserved."""
    path = tmp_path / "a.reports"
    path.write_bytes(WHOLE[:6] + b"\xff\xff\xff\xff" + WHOLE[10:])
    with pytest.raises(UnreadableData, match="cut short"):
        Reports.load(path)


EDITS: dict[str, dict[str, Any]] = {
    "kind": {"heathaze": "map"},
    "kind of list": {"heathaze": ["reports"]},
    "reports text": {"reports": "40"},
    "reports negative": {"reports": -40},
    "reports too many": {"reports": 41},
    "reports too few": {"reports": 39},
    "reports absurd": {"reports": 10**300},
    "reports true": {"reports": True},
    "reports null": {"reports": None},
    "chunk gone": {"chunk": None},
    "chunk text": {"chunk": "7"},
    "chunk too large": {"chunk": 2**64},
    "devices number": {"devices": 40},
    "devices gone": {"devices": False},
    "devices null": {"devices": None},
    "unit unknown": {"unit": "household"},
    "unit of a day": {"unit": "person-day"},
    "unit list": {"unit": ["person"]},
    "unit null": {"unit": None},
    "mechanism unknown": {"mechanism": "Teleport"},
    "mechanism inside": {"mechanism": "Reports"},
    "mechanism dunder": {"mechanism": "__doc__"},
    "mechanism null": {"mechanism": None},
    "mechanism list": {"mechanism": ["DiskArea"]},
    "another mechanism": {"mechanism": "RandomizedResponse", "parameters": {"epsilon": "7/2"}},
    "parameters null": {"parameters": None},
    "parameters list": {"parameters": [1, 2]},
    "parameters empty": {"parameters": {}},
    "parameters more": {"parameters": {"epsilon": "7/2", "radius": 2, "shrink": True, "grid": 1}},
    "parameters unknown": {"parameters": {"epsilon": "7/2", "radius": 2, "shrink": True, "beyond": 1}},
    "epsilon larger": {"parameters": {"epsilon": "9/2", "radius": 2, "shrink": True}},
    "epsilon absurd": {"parameters": {"epsilon": "1e999999", "radius": 2, "shrink": True}},
    "epsilon endless": {"parameters": {"epsilon": "9" * 5000, "radius": 2, "shrink": True}},
    "epsilon too large": {"parameters": {"epsilon": "9" * 30, "radius": 2, "shrink": True}},
    "epsilon nothing": {"parameters": {"epsilon": "1/0", "radius": 2, "shrink": True}},
    "epsilon zero": {"parameters": {"epsilon": "0", "radius": 2, "shrink": True}},
    "epsilon number": {"parameters": {"epsilon": 3.5, "radius": 2, "shrink": True}},
    "epsilon null": {"parameters": {"epsilon": None, "radius": 2, "shrink": True}},
    "epsilon other digits": {"parameters": {"epsilon": "٣", "radius": 2, "shrink": True}},
    "radius negative": {"parameters": {"epsilon": "7/2", "radius": -2, "shrink": True}},
    "radius absurd": {"parameters": {"epsilon": "7/2", "radius": 10**40, "shrink": True}},
    "radius text": {"parameters": {"epsilon": "7/2", "radius": "2", "shrink": True}},
    "radius other": {"parameters": {"epsilon": "7/2", "radius": 3, "shrink": True}},
    "shrink other": {"parameters": {"epsilon": "7/2", "radius": 2, "shrink": False}},
    "cutoff absurd": {"mechanism": "PlanarLaplace", "parameters": {"epsilon": "1", "cutoff": "1e400"}},
    "cutoff nothing": {"mechanism": "PlanarLaplace", "parameters": {"epsilon": "1", "cutoff": "1/0"}},
    "size absurd": {"mechanism": "SubsetExponential", "parameters": {"epsilon": "1", "size": 10**9, "cutoff": "3"}},
    "split unknown": {"mechanism": "SquareWave2D", "parameters": {"epsilon": "1", "split": "hairs"}},
    "split dunder": {"mechanism": "SquareWave2D", "parameters": {"epsilon": "1", "split": "__class__"}},
    "fingerprint": {"fingerprint": "0" * 16},
    "fingerprint null": {"fingerprint": None},
    "grid null": {"grid": None},
    "grid list": {"grid": [5, 7]},
    "grid text": {"grid": "plane"},
}  # fmt: skip
GRIDS: dict[str, dict[str, Any]] = {
    "rows zero": {"rows": 0},
    "rows negative": {"rows": -5},
    "rows absurd": {"rows": 10**12},
    "rows too many": {"rows": 2**20, "cols": 2**20},
    "rows text": {"rows": "many"},
    "rows null": {"rows": None},
    "rows list": {"rows": [5]},
    "rows infinite": {"rows": float("inf")},
    "rows not a number": {"rows": float("nan")},
    "another cell": {"rows": 6},
    "x reversed": {"x": [7, 0]},
    "x empty": {"x": []},
    "x text": {"x": "09"},
    "x null": {"x": None},
    "x one": {"x": [0]},
    "x mapping": {"x": {"0": 1}},
    "x not a number": {"x": [float("nan"), 7]},
    "x infinite": {"x": [0, float("inf")]},
    "x texts": {"x": ["west", "east"]},
    "projection unknown": {"projection": "flat earth"},
    "projection list": {"projection": ["plane"]},
    "projection of the globe": {"projection": "equirectangular", "x": [-500, 500]},
}


@pytest.mark.parametrize("name", list(EDITS))
def test_edited_fields_are_refused(name: str, tmp_path: Path) -> None:
    path = edited(tmp_path / "edited.reports", WHOLE, lambda fields: fields.update(EDITS[name]))
    with pytest.raises(UnreadableData, match=r"edited\.reports.*[.:;]"):
        Reports.load(path)
    with pytest.raises(UnreadableData):
        Tally.load(path)


@pytest.mark.parametrize("name", ["cutoff absurd", "epsilon absurd", "epsilon endless"])
def test_numbers_that_would_fill_the_memory_are_not_even_read(name: str, tmp_path: Path) -> None:
    """1e400 stands for 1e999999999, which nobody could wait for: refused by its form, before it is a number."""
    path = edited(tmp_path / "edited.reports", WHOLE, lambda fields: fields.update(EDITS[name]))
    with pytest.raises(UnreadableData, match="its parts do not fit together"):
        Reports.load(path)


@pytest.mark.parametrize("name", list(GRIDS))
def test_edited_grids_are_refused(name: str, tmp_path: Path) -> None:
    path = edited(tmp_path / "edited.reports", WHOLE, lambda fields: fields["grid"].update(GRIDS[name]))
    with pytest.raises(UnreadableData, match=r"edited\.reports"):
        Reports.load(path)


@pytest.mark.parametrize("field", sorted(parts_of(WHOLE)[0]))
def test_a_missing_field_is_refused(field: str, tmp_path: Path) -> None:
    path = edited(tmp_path / "edited.reports", WHOLE, lambda fields: fields.pop(field))
    with pytest.raises(UnreadableData, match=r"edited\.reports"):
        Reports.load(path)


def test_a_body_of_other_parameters_is_refused(tmp_path: Path) -> None:
    """Other parameters with their own fingerprint make another mechanism; its ids are as wide, and some do not fit."""
    other = RandomizedResponse(plane(5, 7), 3.5)
    fields, _ = parts_of(some(other, 40, devices=True).to_bytes())
    path = edited(tmp_path / "edited.reports", WHOLE, lambda found: found.update(fields))
    with pytest.raises(UnreadableData):
        Reports.load(path)


def test_ids_out_of_range_are_refused(tmp_path: Path) -> None:
    mechanism = DiskArea(plane(5, 7), 3.5, radius=2)
    sent = some(mechanism, 3)
    for number in (mechanism.limit, 255):
        path = edited(tmp_path / "a.reports", sent.to_bytes(), dict.copy, bytes([0, number, 12]))
        with pytest.raises(UnreadableData):
            Reports.load(path)
        with pytest.raises(UnreadableData):
            Tally.load(path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(parts_of(WHOLE)[0])),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    ),
)
def test_whatever_a_field_holds_there_is_a_sentence(tmp_path: Path, field: str, value: Any) -> None:
    path = edited(tmp_path / "a.reports", WHOLE, lambda fields: fields.update({field: value}))
    try:
        (found,) = Reports.load(path)
    except HeathazeError as problem:
        assert str(path) in str(problem)  # noqa: PT017
        assert str(problem).endswith(".")  # noqa: PT017
    else:
        same(SENT, found)
