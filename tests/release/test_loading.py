"""A file may come from anyone: damaged, edited or hostile ones get a sentence, never a traceback, never a run."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.errors import UnknownFormat, UnreadableData
from heathaze.release.formats import LOADABLE
from heathaze.release.release import Release, load

Fields = dict[str, Any]


def test_no_file_and_no_release(tmp_path: Path) -> None:
    (tmp_path / "directory.npz").mkdir()
    with pytest.raises(UnreadableData, match="is a directory"):
        load(tmp_path / "directory.npz")
    for ending in LOADABLE:
        with pytest.raises(UnreadableData, match="is no file"):
            load(tmp_path / f"missing{ending}")
        for content in (b"", b"PK\x03\x04", b"PAR1" * 5, b"{}", b"[1, 2]", b"II*\x00\x08\x00\x00\x00", b"\xff" * 1000):
            (tmp_path / f"a{ending}").write_bytes(content)
            with pytest.raises(UnreadableData, match=r"not a (sound )?release|damaged"):
                load(tmp_path / f"a{ending}")


@pytest.mark.parametrize("name", ["a.png", "a.html"])
def test_pictures_say_what_can_be_loaded(small: Release, name: str, tmp_path: Path) -> None:
    with pytest.raises(
        UnknownFormat, match=r"cannot be loaded; load one saved as \.npz, \.parquet, \.geojson or \.tif"
    ):
        load(small.save(tmp_path / name))


@pytest.mark.parametrize("name", ["a.csv", "a"])
def test_unknown_endings(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"\.npz, \.parquet, \.geojson or \.tif"):
        load(tmp_path / name)


@pytest.mark.parametrize("ending", LOADABLE)
@pytest.mark.parametrize("kind", ["small", "tree"])
def test_truncated_files(kind: str, ending: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(kind).save(tmp_path / f"a{ending}")
    whole = path.read_bytes()
    for part in (0.1, 0.5, 0.9, 0.98):
        path.write_bytes(whole[: int(len(whole) * part)])
        with pytest.raises(UnreadableData):
            load(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ending=st.sampled_from(LOADABLE), place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_flipped_byte_is_refused_or_harmless(
    ending: str, place: float, byte: int, small: Release, tmp_path: Path
) -> None:
    path = small.save(tmp_path / f"a{ending}")
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] = byte
    path.write_bytes(content)
    try:
        back = load(path)
    except UnreadableData as problem:
        assert str(problem).endswith(".")  # noqa: PT017
    else:
        assert back.density.values.sum() == pytest.approx(1)


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".geojson", ".tif"])
def test_files_of_the_kind_that_are_no_release(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    if ending == ".npz":
        np.savez(path, values=np.ones((2, 2)) / 4)
    elif ending == ".parquet":
        import duckdb

        duckdb.sql(f"copy (select 1 as \"row\", 1 as col, 1.0 as share_of_total) to '{path}' (format parquet)")
    elif ending == ".geojson":
        path.write_text('{"type": "FeatureCollection", "features": []}')
    else:
        from rasterio import open as open_raster
        from rasterio.transform import Affine

        where = Affine(0.5, 0, 0, 0, -0.5, 1)
        with open_raster(
            path, "w", driver="GTiff", width=2, height=2, count=1, dtype="float64", transform=where
        ) as file:
            file.write(np.ones((2, 2)) / 4, 1)
    with pytest.raises(UnreadableData, match="not a release"):
        load(path)


# ── edited on purpose: the fields that every format shares, through the simplest one ─────────────────────────────────


def _edited(release: Release, path: Path, edit: Callable[[Fields], None]) -> Path:
    collection = json.loads(release.save(path).read_bytes())
    edit(collection)
    path.write_text(json.dumps(collection))
    return path


def _set(*keys: str | int, to: Any) -> Callable[[Fields], None]:
    def edit(fields: Any) -> None:
        for key in keys[:-1]:
            fields = fields[key]
        fields[keys[-1]] = to

    return edit


_HOSTILE = {
    "nan share": _set("features", 0, "properties", "share_of_total", to=float("nan")),
    "infinite share": _set("features", 0, "properties", "share_of_total", to=float("inf")),
    "negative share": _set("features", 0, "properties", "share_of_total", to=-0.5),
    "text for a share": _set("features", 0, "properties", "share_of_total", to="0.5"),
    "share too large": _set("features", 0, "properties", "share_of_total", to=7.5),
    "row out of range": _set("features", 0, "properties", "row", to=24),
    "negative row": _set("features", 0, "properties", "row", to=-1),
    "broken row": _set("features", 0, "properties", "row", to=1.5),
    "row beyond 64 bits": _set("features", 0, "properties", "row", to=2**70),
    "a cell twice": lambda found: found["features"].append(found["features"][0]),
    "no features": _set("features", to=None),
    "absurd size": _set("heathaze", "grid", "rows", to=10**12),
    "too large to be dense": _set("heathaze", "grid", to={"x": [0, 1], "y": [0, 1], "rows": 2**20, "cols": 2**20,
                                                          "projection": "plane"}),
    "fraction of a row": _set("heathaze", "grid", "rows", to=24.5),
    "no such projection": _set("heathaze", "grid", "projection", to="globe"),
    "reversed bounds": _set("heathaze", "grid", "x", to=[5, 1]),
    "nan bounds": _set("heathaze", "grid", "x", to=[float("nan"), 1]),
    "nan total": _set("heathaze", "total", to=float("nan")),
    "text total": _set("heathaze", "total", to="many"),
    "no guarantee": _set("heathaze", "guarantee", to=None),
    "epsilon that fills the memory": _set("heathaze", "guarantee", "epsilon", to="1e999999999"),
    "epsilon over zero": _set("heathaze", "guarantee", "epsilon", to="1/0"),
    "epsilon beyond floats": _set("heathaze", "guarantee", "epsilon", to="1" + "0" * 400),
    "negative epsilon": _set("heathaze", "guarantee", "epsilon", to="-1"),
    "delta of 1": _set("heathaze", "guarantee", "delta", to="1"),
    "no such unit": _set("heathaze", "guarantee", "unit", to="galaxy"),
    "unknown provenance": _set("heathaze", "provenance", "seed", to=7),
    "wrong provenance": _set("heathaze", "provenance", "mechanism", to=["x"]),
    "a finer time": _set("heathaze", "provenance", "day", to="2026-01-31T12:00"),
    "no such form": _set("heathaze", "form", to="cube"),
    "version of text": _set("heathaze", "heathaze", to="1"),
    "version zero": _set("heathaze", "heathaze", to=0),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_HOSTILE))
def test_edited_files_are_refused(small: Release, name: str, tmp_path: Path) -> None:
    path = _edited(small, tmp_path / "a.geojson", _HOSTILE[name])
    with pytest.raises(UnreadableData):
        load(path)


def test_the_editing_itself_breaks_nothing(small: Release, tmp_path: Path) -> None:
    back = load(_edited(small, tmp_path / "a.geojson", lambda _: None))
    assert np.array_equal(back.density.values, small.density.values)


def test_deeply_nested_json(tmp_path: Path) -> None:
    (tmp_path / "a.geojson").write_text("[" * 200_000)
    with pytest.raises(UnreadableData):
        load(tmp_path / "a.geojson")


@pytest.mark.parametrize(
    ("feature", "key", "value"),
    [(0, "code", 4**2), (0, "code", -1), (0, "level", 8), (0, "level", -1), (0, "code", 15), (-1, "level", 2)],
)
def test_squares_that_do_not_exist_or_overlap(
    tree: Release, feature: int, key: str, value: int, tmp_path: Path
) -> None:
    """Code 15 of level 2 lies wholly in the padding of a 48 × 80 grid; the last feature is a cell with a large code."""
    path = _edited(tree, tmp_path / "a.geojson", _set("features", feature, "properties", key, to=value))
    with pytest.raises(UnreadableData):
        load(path)


def test_two_squares_that_share_a_cell(tree: Release, tmp_path: Path) -> None:
    def edit(fields: Fields) -> None:
        # Of the squares of level 2 the first becomes the node whose corner cells are listed too.
        fields["features"][0]["properties"]["code"] = 0

    with pytest.raises(UnreadableData, match="do not fit together"):
        load(_edited(tree, tmp_path / "a.geojson", edit))


@pytest.mark.parametrize("ending", LOADABLE)
def test_a_newer_version_says_so(small: Release, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heathaze.release.formats.metadata.FILE_VERSION", 3)
    path = small.save(tmp_path / f"a{ending}")
    monkeypatch.undo()
    with pytest.raises(UnreadableData, match=r"newer Heathaze \(file version 3, .* update"):
        load(path)


@pytest.mark.parametrize("ending", LOADABLE)
def test_an_older_version_says_so(small: Release, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heathaze.release.formats.metadata.FILE_VERSION", 1)
    path = small.save(tmp_path / f"a{ending}")
    monkeypatch.undo()
    with pytest.raises(UnreadableData, match=r"older Heathaze \(file version 1, .* publish the map again"):
        load(path)


# ── zip files ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the file ran code",))


def _with_entry(release: Release, path: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(release.save(path)) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, old in {**entries, name: content}.items():
            archive.writestr(entry, old)
    return path


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


def test_nothing_is_unpickled(small: Release, tmp_path: Path) -> None:
    trap = np.empty((24, 32), dtype=object)
    trap[:] = _Trap()
    for content in (_npy(trap), pickle.dumps(_Trap())):
        with pytest.raises(UnreadableData):
            load(_with_entry(small, tmp_path / "a.npz", "values.npy", content))


@pytest.mark.parametrize(
    "array",
    [
        np.full((32, 24), 1 / 768),
        np.full((24, 32), 1 / 768, dtype=np.float32),
        np.full((24, 32), np.nan),
        np.full((24, 33), 1 / 792),
        np.asfortranarray(np.random.default_rng(1).random((24, 32))),
    ],
    ids=["shape", "kind", "nan", "larger", "order"],
)
def test_arrays_that_do_not_fit(small: Release, array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    with pytest.raises(UnreadableData):
        load(_with_entry(small, tmp_path / "a.npz", "values.npy", _npy(array)))


def test_a_header_that_promises_too_much(small: Release, tmp_path: Path) -> None:
    header = _npy(np.zeros((24, 32))).replace(b"(24, 32), }         ", b"(24, 32000000000), }")
    assert b"32000000000" in header
    with pytest.raises(UnreadableData, match="more numbers than fit"):
        load(_with_entry(small, tmp_path / "a.npz", "values.npy", header))


def test_a_zip_bomb_is_not_unpacked(small: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heathaze.release.formats.npz.LONGEST_TEXT", 2**20)
    with pytest.raises(UnreadableData, match="absurd length"):
        load(_with_entry(small, tmp_path / "a.npz", "heathaze.json", b" " * (2**20 + 1)))


def test_a_table_with_empty_places(small: Release, tmp_path: Path) -> None:
    import duckdb

    path = small.save(tmp_path / "a.parquet")
    with duckdb.connect() as connection:
        ((text,),) = connection.execute(
            "select value from parquet_kv_metadata(?) where key = 'heathaze'", [str(path)]
        ).fetchall()
        quoted = text.decode().replace("'", "''")
        for column in (
            'null::bigint as "row", col, share_of_total',
            '"row", col, null::double as share_of_total',
            '"row", col',
        ):
            edited = tmp_path / "edited.parquet"
            connection.execute(
                f"copy (select {column} from read_parquet('{path}')) to '{edited}' "
                f"(format parquet, kv_metadata {{heathaze: '{quoted}'}})"
            )
            with pytest.raises(UnreadableData):
                load(edited)
