"""A GeoTIFF and a GeoPackage in QGIS, as Debian packages it: they open, and show the release."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import heathaze as hz
from heathaze.domain.quadtree import node_extent
from heathaze.inference.estimate import Estimate
from heathaze.maps.squares import UNKNOWN, WHITE
from tests.release.conftest import Wrap, noisy_counts

PYTHON = "/usr/bin/python3"  # QGIS belongs to the Python of the system


def _in_qgis(*words: object) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean["QT_QPA_PLATFORM"] = "offscreen"
    return subprocess.run([PYTHON, *map(str, words)], capture_output=True, text=True, check=False, env=clean)


@pytest.mark.slow
def test_qgis_renders_the_release(wrap: Wrap, tmp_path: Path) -> None:
    if not Path(PYTHON).exists() or _in_qgis("-c", "import qgis.core").returncode != 0:
        pytest.skip("There is no QGIS, so no file is rendered in it; install Debian's package python3-qgis.")
    grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.7), size=64)
    release = wrap(Estimate.infer(noisy_counts(grid, 4)))
    files = [release.save(tmp_path / name) for name in ("map.tif", "map.gpkg")]
    ran = _in_qgis(Path(__file__).with_name("render_in_qgis.py"), *files, tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    print(f"QGIS {told['version']}")
    squares = release.squares()
    assert told["valid"] == [True, True]
    assert told["systems"] == ["EPSG:4326", "EPSG:4326"]
    assert told["size"] == [64, 64]
    assert [band.split(": ")[-1] for band in told["bands"]] == ["people_per_cell", "people_per_cell_sd"]
    assert {"class", "people", "people_low", "people_high", "people_per_km2"} <= set(told["fields"])
    assert told["squares"] == len(squares)
    assert told["errors"] == []
    # The middle of every square has the colour of its class.
    top, bottom, left, right = node_extent(grid, squares.levels, squares.codes)
    rows, cols = (((low + high) * 512 // 128).astype(int) for low, high in ((top, bottom), (left, right)))
    drawn = np.asarray(Image.open(tmp_path / "squares.png").convert("RGB"))[rows, cols]
    wanted = {UNKNOWN: (0, 0, 255), WHITE: (255, 255, 255)} | {k: (255 - 30 * k, 0, 0) for k in range(7)}
    assert drawn.tolist() == [list(wanted[kind]) for kind in squares.kinds.tolist()]
    assert len(np.unique(squares.kinds)) > 1
    # The raster is the brighter the denser the release is, from black to white.
    grey = np.asarray(Image.open(tmp_path / "raster.png").convert("L")).astype(float)
    cells = grey.reshape(64, 8, 64, 8).mean(axis=(1, 3))[
        np.unravel_index(np.argsort(release.density.values, axis=None), (64, 64))
    ]
    assert np.diff(cells).min() >= -1
    assert (cells[0], cells[-1]) == (0, 255)
