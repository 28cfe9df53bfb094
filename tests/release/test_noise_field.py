"""Noisy counts in a file from anyone: packed wrongly, too many, or nonsense, they are refused with a sentence."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import HeathazeError, UnreadableData
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.release.formats import LOADABLE, _posterior
from heathaze.release.release import Release, load
from tests.release.conftest import with_estimate

GRID = Grid.plane(x=(0, 4), y=(0, 3), shape=(3, 4))
KINDS = ("|u1", "<i8", "<f8", "<f8")
Fields = dict[str, Any]


def _packed(block: bytes) -> str:
    return base64.b64encode(zlib.compress(block)).decode()


def _fields(levels: Any, codes: Any, values: Any, scales: Any) -> Fields:
    arrays = (np.asarray(array, dtype=kind) for array, kind in zip((levels, codes, values, scales), KINDS, strict=True))
    return {"nodes": len(levels), "packed": _packed(b"".join(array.tobytes() for array in arrays))}


def test_what_is_packed_comes_back() -> None:
    noisy = NoisyCounts(GRID, np.array([0, 1, 2]), np.array([0, 3, 7]), np.array([1e9, -0.1, 3]), np.array([1, 2.5, 4]))
    fields = _posterior.noisy_to_fields(noisy, GRID)
    assert fields == _fields(noisy.levels, noisy.codes, noisy.values, noisy.scales)
    back = _posterior.noisy_from_fields(GRID, json.loads(json.dumps(fields)))
    for name in ("levels", "codes", "values", "scales"):
        assert np.array_equal(getattr(back, name), getattr(noisy, name))
    assert _posterior.noisy_to_fields(noisy, GRID.resized((6, 8))) is None
    assert _posterior.noisy_to_fields(None, GRID) is None


_WHOLE = ([0, 1], [0, 3], [9.0, 2.0], [1.0, 2.0])
_HOSTILE: dict[str, Fields | list[int] | None] = {
    "no object": None,
    "a list": [1],
    "nothing inside": {},
    "no nodes": _fields([], [], [], []),
    "nodes of text": {**_fields(*_WHOLE), "nodes": "2"},
    "nodes true": {**_fields([0], [0], [9.0], [1.0]), "nodes": True},
    "half a node": {**_fields(*_WHOLE), "nodes": 2.0},
    "fewer nodes than packed": {**_fields(*_WHOLE), "nodes": 1},
    "more nodes than packed": {**_fields(*_WHOLE), "nodes": 3},
    "negative nodes": {**_fields(*_WHOLE), "nodes": -1},
    "absurdly many nodes": {**_fields(*_WHOLE), "nodes": 10**15},
    "packed is no text": {"nodes": 2, "packed": 7},
    "packed is not base64": {"nodes": 2, "packed": "é%&"},
    "packed is not zlib": {"nodes": 2, "packed": base64.b64encode(b"x" * 50).decode()},
    "truncated": {"nodes": 2, "packed": base64.b64encode(zlib.compress(bytes(50))[:-6]).decode()},
    "one byte short": {"nodes": 2, "packed": _packed(bytes(49))},
    "one byte long": {"nodes": 2, "packed": _packed(bytes(51))},
    "something behind": {"nodes": 2, "packed": base64.b64encode(zlib.compress(bytes(50)) + b"behind").decode()},
    "a bomb": {"nodes": 1, "packed": _packed(bytes(2**26))},
    "nan": _fields([0], [0], [float("nan")], [1.0]),
    "infinite scale": _fields([0], [0], [9.0], [float("inf")]),
    "negative scale": _fields([0], [0], [9.0], [-1.0]),
    "values beyond all people": _fields([0], [0], [1e300], [1.0]),
    "scale of nothing": _fields([0], [0], [9.0], [1e-300]),
    "exact and noisy together": _fields([0, 1], [0, 3], [9.0, 2.0], [0.0, 1.0]),
    "exact without their sum": _fields([1], [3], [9.0], [0.0]),
    "level too deep": _fields([3], [0], [9.0], [1.0]),
    "level of 255": _fields([255], [0], [9.0], [1.0]),
    "code too large": _fields([1], [4], [9.0], [1.0]),
    "negative code": _fields([1], [-1], [9.0], [1.0]),
    "node in the padding": _fields([2], [10], [9.0], [1.0]),
    "a node twice": _fields([1, 1], [2, 2], [9.0, 8.0], [1.0, 1.0]),
}


@pytest.fixture
def tiny(sure: Release) -> Release:
    noisy = _posterior.noisy_from_fields(GRID, _fields(*_WHOLE))
    from heathaze.inference.posterior import posterior

    return with_estimate(sure, density=posterior(noisy).density, noisy=noisy)


def _edited(release: Release, path: Path, edit: Callable[[Fields], None]) -> Path:
    # The file holds the density itself, because it does not follow from the counts. So only the counts can be refused.
    own = with_estimate(release, density=Density.uniform(release.grid))
    collection = json.loads(own.save(path).read_bytes())
    edit(collection["heathaze"])
    path.write_text(json.dumps(collection))
    return path


@pytest.mark.parametrize("name", list(_HOSTILE))
def test_nonsense_is_refused(tiny: Release, name: str, tmp_path: Path) -> None:
    path = _edited(tiny, tmp_path / "a.geojson", lambda fields: fields.update(noisy=_HOSTILE[name]))
    with pytest.raises(UnreadableData):
        load(path)


def test_the_editing_itself_breaks_nothing(tiny: Release, tmp_path: Path) -> None:
    path = _edited(tiny, tmp_path / "a.geojson", lambda fields: fields.update(noisy=_fields(*_WHOLE)))
    assert load(path).knows_uncertainty
    path = _edited(tiny, tmp_path / "a.geojson", lambda fields: fields.pop("noisy"))
    assert not load(path).knows_uncertainty


def test_counts_that_would_be_refused_are_not_written(sure: Release, tmp_path: Path) -> None:
    """A file that cannot be loaded back would lose a map that was paid for."""
    assert sure.noisy is not None
    wild = dataclasses.replace(sure.noisy, scales=np.full(len(sure.noisy.scales), 1e-9))
    release = with_estimate(sure, noisy=wild)
    release.__dict__["posterior"] = sure.posterior  # what such counts lead to is another matter
    for ending in LOADABLE:
        assert load(release.save(tmp_path / f"a{ending}")).noisy is None


@pytest.mark.parametrize("value", [1e10, -1e10])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e10])
def test_whatever_is_let_in_can_be_asked(value: float, scale: float) -> None:
    """At the limits, inference neither warns nor fails."""
    from heathaze.inference.posterior import posterior

    found = posterior(
        _posterior.noisy_from_fields(GRID, _fields([0, 1, 2], [0, 3, 5], [value, -value, value], [scale] * 3))
    )
    assert np.isfinite(found.total)
    assert np.isfinite(found.squares[3]).all()


def test_too_many_nodes_are_not_written(sure: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sure.noisy is not None
    assert _posterior.noisy_to_fields(sure.noisy, sure.grid) is not None
    monkeypatch.setattr(_posterior, "MAX_NODES", len(sure.noisy.codes) - 1)
    assert _posterior.noisy_to_fields(sure.noisy, sure.grid) is None


def test_the_longest_text_holds_the_most_nodes() -> None:
    """Even where nothing compresses: 25 bytes a node, four letters for three bytes."""
    assert _posterior.MAX_NODES * 25 * 4 / 3 * 1.01 + 2**20 < _posterior.LONGEST_TEXT


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), letter=st.sampled_from("AZaz09+/="))
def test_a_changed_letter_is_refused_or_harmless(place: float, letter: str) -> None:
    fields = _fields(*_WHOLE)
    at = int(place * len(fields["packed"]))
    fields["packed"] = fields["packed"][:at] + letter + fields["packed"][at + 1 :]
    try:
        noisy = _posterior.noisy_from_fields(GRID, fields)
    except HeathazeError as problem:
        assert str(problem).endswith(".")  # noqa: PT017
    else:
        assert noisy.values.tolist() == [9.0, 2.0]
