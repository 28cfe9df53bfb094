"""NPZ files of a release: zipped numpy arrays, exact and compact, which ``numpy.load`` reads without Heathaze.

A dense map has the array ``values``, and a tree has ``levels``, ``codes`` and ``mass``. If the release has error bars,
``sd_of_share`` is the standard deviation of each share in ``values`` or ``mass``. ``heathaze.json`` holds all other
fields.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.domain.density import Density, TreeDensity
from heathaze.errors import UnreadableData
from heathaze.maps.sheet import Look
from heathaze.release.formats import metadata
from heathaze.release.formats._posterior import LONGEST_TEXT
from heathaze.release.formats.cells import deviations_of


def write(contents: metadata.Contents, target: Path, look: Look) -> None:  # noqa: ARG001
    """Write a release as zipped numpy arrays."""
    density = contents.estimate.density
    arrays: dict[str, tuple[npt.NDArray[Any], str]]
    if isinstance(density, TreeDensity):
        arrays = {"levels": (density.levels, "<i8"), "codes": (density.codes, "<i8"), "mass": (density.mass, "<f8")}
    else:
        arrays = {"values": (density.values, "<f8")}
    if (deviations := deviations_of(contents.estimate)) is not None:
        arrays["sd_of_share"] = (deviations, "<f8")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry("heathaze.json"), metadata.to_json(contents))
        for name, (array, kind) in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as file:
                plain = np.ascontiguousarray(array, dtype=kind)
                np.lib.format.write_array(file, plain, version=(1, 0), allow_pickle=False)


def read(path: Path) -> metadata.Contents:
    """Read a release from zipped numpy arrays. Sizes are checked before anything is unpacked; nothing is unpickled."""
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("heathaze.json").file_size > LONGEST_TEXT:
            raise UnreadableData(f"{path} has a description of absurd length; it is not a release.")
        fields = metadata.from_json(archive.read("heathaze.json"))
        grid = metadata.grid_of(fields)
        if fields["form"] == "dense":
            return metadata.to_contents(fields, Density(grid, _read_array(archive, "values", "<f8", grid.cells)))
        levels = _read_array(archive, "levels", "<i8", metadata.most_squares(grid))
        codes = _read_array(archive, "codes", "<i8", metadata.most_squares(grid))
        mass = _read_array(archive, "mass", "<f8", metadata.most_squares(grid))
    return metadata.to_contents(fields, metadata.density_of("tree", grid, levels, codes, mass))


def _read_array(archive: zipfile.ZipFile, name: str, kind: str, most: int) -> npt.NDArray[Any]:
    """Read one array of an NPZ file; its type and size are checked before its numbers are read."""
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        if version != (1, 0) or fortran_order or dtype != kind:
            raise UnreadableData(
                f"The file holds something else than numbers as its {name}; it is damaged or was edited."
            )
        if math.prod(shape) > most:
            raise UnreadableData("The file holds more numbers than fit its grid; it is damaged or was edited.")
        return np.frombuffer(file.read(8 * math.prod(shape)), dtype=kind).reshape(shape)


def _entry(name: str) -> zipfile.ZipInfo:
    """Make an entry of the zip file without the time of writing, so that the same release gives the same bytes."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
