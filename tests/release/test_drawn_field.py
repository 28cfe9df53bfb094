"""Drawn maps in a file from anyone: packed wrongly, too many, or nonsense, they are refused with a sentence."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import HeathazeError, UnreadableData
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.privacy.randomness import Simulation
from heathaze.release.formats import LOADABLE, _posterior
from heathaze.release.release import Release, load
from tests.release.conftest import with_estimate

GRID = Grid.plane(x=(0, 4), y=(0, 3), shape=(3, 4))
Fields = dict[str, Any]


def _shares(maps: int, rows: int, cols: int) -> np.ndarray:
    drawn = Simulation(1).uniforms(maps * rows * cols).reshape(maps, rows, cols) + 0.1
    return drawn / drawn.sum(axis=(1, 2), keepdims=True)


def _packed(block: bytes) -> str:
    return base64.b64encode(zlib.compress(block)).decode()


def _fields(shares: Any, side: int = 1, within: float = 0.25) -> Fields:
    array = np.asarray(shares, dtype="<f4")
    return {"maps": len(array), "side": side, "within": within, "packed": _packed(array.tobytes())}


_THREE = _shares(3, 3, 4)
_WHOLE = _fields(_THREE)
_HOSTILE: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "a list": [],
    "nothing": {},
    "maps gone": {name: value for name, value in _WHOLE.items() if name != "maps"},
    "packed gone": {name: value for name, value in _WHOLE.items() if name != "packed"},
    "side gone": {name: value for name, value in _WHOLE.items() if name != "side"},
    "within gone": {name: value for name, value in _WHOLE.items() if name != "within"},
    "no maps": _WHOLE | {"maps": 0},
    "one map": _fields(_THREE[:1]),
    "negative maps": _WHOLE | {"maps": -3},
    "maps as text": _WHOLE | {"maps": "3"},
    "maps as fraction": _WHOLE | {"maps": 3.0},
    "maps true": _WHOLE | {"maps": True},
    "more maps than there are": _WHOLE | {"maps": 4},
    "fewer maps than there are": _WHOLE | {"maps": 2},
    "too many maps": _WHOLE | {"maps": 1001},
    "absurdly many": _WHOLE | {"maps": 10**30},
    "side as text": _WHOLE | {"side": "1"},
    "side true": _WHOLE | {"side": True},
    "side zero": _WHOLE | {"side": 0},
    "side negative": _WHOLE | {"side": -1},
    "side three": _fields(_shares(3, 1, 2), side=3),
    "side of other squares": _WHOLE | {"side": 2},
    "side beyond the map": _fields(np.ones((3, 1, 1)), side=8),
    "side absurd": _WHOLE | {"side": 2**40},
    "within as text": _WHOLE | {"within": "0"},
    "within null": _WHOLE | {"within": None},
    "within true": _WHOLE | {"within": True},
    "within negative": _WHOLE | {"within": -0.1},
    "within nan": _WHOLE | {"within": float("nan")},
    "within infinite": _WHOLE | {"within": float("inf")},
    "within absurd": _WHOLE | {"within": 1e3},
    "packed null": _WHOLE | {"packed": None},
    "packed number": _WHOLE | {"packed": 7},
    "packed list": _WHOLE | {"packed": [0.1] * 36},
    "not base64": _WHOLE | {"packed": "ä!"},
    "not zlib": _WHOLE | {"packed": base64.b64encode(bytes(99)).decode()},
    "empty": _WHOLE | {"packed": ""},
    "block cut": _WHOLE | {"packed": base64.b64encode(zlib.compress(_THREE.astype("<f4").tobytes())[:-5]).decode()},
    "one byte short": _WHOLE | {"packed": _packed(_THREE.astype("<f4").tobytes()[:-1])},
    "one byte long": _WHOLE | {"packed": _packed(_THREE.astype("<f4").tobytes() + b"\0")},
    "something behind": _WHOLE
    | {"packed": base64.b64encode(zlib.compress(_THREE.astype("<f4").tobytes()) + b"behind").decode()},
    "a bomb": _WHOLE | {"packed": _packed(bytes(2**26))},
    "nan": _fields(np.where(np.arange(4) == 2, np.nan, _THREE)),
    "infinite": _fields(np.where(np.arange(4) == 2, np.inf, _THREE)),
    "negative": _fields(np.concatenate([_THREE[:2], [[[-0.1] + [1.1 / 11] * 3, *[[1.1 / 11] * 4] * 2]]])),
    "sum of two": _fields(2 * _THREE),
    "all zero": _fields(0 * _THREE),
    "sideways": _fields(_shares(3, 4, 3)) | {"packed": _packed(bytes(3 * 12 * 4))},
}


@pytest.fixture
def drawn(small: Release) -> Release:
    return with_estimate(
        small, density=Density.uniform(GRID), drawn=_posterior.drawn_from_fields(GRID, _WHOLE), total=5_000.0
    )


def _edited(release: Release, path: Path, edit: Callable[[Fields], None]) -> Path:
    collection = json.loads(release.save(path).read_bytes())
    edit(collection["heathaze"])
    path.write_text(json.dumps(collection))
    return path


@pytest.mark.parametrize("name", list(_HOSTILE))
def test_nonsense_is_refused(drawn: Release, name: str, tmp_path: Path) -> None:
    path = _edited(drawn, tmp_path / "a.geojson", lambda fields: fields.update(drawn=_HOSTILE[name]))
    with pytest.raises(UnreadableData, match=r"\.$"):
        load(path)


def test_the_editing_itself_breaks_nothing(drawn: Release, tmp_path: Path) -> None:
    path = _edited(drawn, tmp_path / "a.geojson", lambda fields: fields.update(drawn=_WHOLE))
    back = load(path)
    assert back.drawn is not None
    np.testing.assert_allclose(back.drawn.shares, _THREE, rtol=1e-6)
    path = _edited(drawn, tmp_path / "a.geojson", lambda fields: fields.pop("drawn"))
    assert not load(path).knows_uncertainty


def test_sizes_are_checked_before_anything_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = Grid.plane(x=(0, 1), y=(0, 1), size=2**20)
    monkeypatch.setattr(_posterior.zlib, "decompressobj", lambda: pytest.fail("unpacked"))
    for side in (1, 256):
        with pytest.raises(UnreadableData):
            _posterior.drawn_from_fields(huge, _WHOLE | {"side": side})


@pytest.mark.parametrize("ending", LOADABLE)
def test_maps_that_would_be_refused_are_not_written(drawn: Release, ending: str, tmp_path: Path) -> None:
    """A file that cannot be loaded back would lose the map itself."""
    many = with_estimate(drawn, drawn=DrawnMaps(GRID, 1, np.tile(_THREE, (334, 1, 1)), 0.0))
    assert many.drawn is not None
    assert len(many.drawn.shares) == 1002
    assert load(many.save(tmp_path / f"a{ending}")).drawn is None
    most = with_estimate(drawn, drawn=DrawnMaps(GRID, 1, np.tile(_THREE, (333, 1, 1)), 0.0))
    assert load(most.save(tmp_path / f"b{ending}")).knows_uncertainty


def test_maps_of_another_grid_are_not_written() -> None:
    maps = _posterior.drawn_from_fields(GRID, _WHOLE)
    assert _posterior.drawn_to_fields(maps, GRID) is not None
    assert _posterior.drawn_to_fields(maps, GRID.resized((6, 8))) is None
    assert _posterior.drawn_to_fields(None, GRID) is None


def test_what_is_let_in_can_be_asked(drawn: Release) -> None:
    """All mass of each map in one cell, and an estimate that says something else: no warning, no failure."""
    spikes = np.zeros((3, 3, 4))
    spikes[0, 0, 0] = spikes[1, 2, 3] = spikes[2, 0, 0] = 1
    release = with_estimate(drawn, drawn=_posterior.drawn_from_fields(GRID, _fields(spikes, within=999.0)))
    assert np.isfinite(release.uncertainty).all()
    share = release.mass_in(GRID.box)
    assert (share.low, share.high) == (1.0, 1.0)
    assert np.isfinite(release.posterior.squares[3]).all()
    assert release.hotspots(0.9) is not None


@settings(max_examples=80)
@given(place=st.floats(0, 1, exclude_max=True), letter=st.sampled_from("AZaz09+/="))
def test_a_changed_letter_is_refused_or_harmless(place: float, letter: str) -> None:
    at = int(place * len(_WHOLE["packed"]))
    fields = _WHOLE | {"packed": _WHOLE["packed"][:at] + letter + _WHOLE["packed"][at + 1 :]}
    try:
        maps = _posterior.drawn_from_fields(GRID, fields)
    except HeathazeError as problem:
        assert str(problem).endswith(".")  # noqa: PT017
    else:
        np.testing.assert_allclose(maps.shares, _THREE, rtol=1e-6)
