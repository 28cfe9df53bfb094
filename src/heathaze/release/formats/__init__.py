"""Write and read release files. The ending of the file's name gives the format.

| ending | what is in it | loads back |
|---|---|---|
| ``.npz`` | numpy arrays of the cells or squares, zipped | exactly |
| ``.parquet`` | GeoParquet: a row for each certain square, or each cell without error bars | exactly |
| ``.geojson`` | a polygon for each of the same squares or cells | exactly |
| ``.gpkg`` | GeoPackage: a layer of the same polygons | no |
| ``.tif`` | a raster with overviews (extra ``geo``); a side of at most 4096 above 2^24 cells | as float32 cells |
| ``.png``, ``.svg``, ``.pdf`` | a picture: the certain squares, or another style | no |
| ``.html`` | a page with a map to pan and zoom | no |

Each module of this folder has ``write(contents, target, look)``. The modules of formats that load back also have
``read(path)``. A file holds public things only: the density, the estimated total, the noisy counts or drawn maps if the
mechanism kept any, the guarantee and the provenance. A file holds no seed, no number of rows, no name or hash of the
input, and no time more precise than the day.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Protocol, cast

from heathaze.errors import HeathazeError, MissingExtra, UnknownFormat, UnreadableData
from heathaze.files import replacing
from heathaze.maps.sheet import Look
from heathaze.release.formats.metadata import Contents

_MODULES = {
    ".npz": "npz",
    ".parquet": "parquet",
    ".geojson": "geojson",
    ".gpkg": "geopackage",
    ".tif": "geotiff",
    ".tiff": "geotiff",
    ".png": "pictures",
    ".svg": "pictures",
    ".pdf": "pictures",
    ".html": "pictures",
}
ENDINGS = (".npz", ".parquet", ".geojson", ".gpkg", ".tif", ".png", ".svg", ".pdf", ".html")
LOADABLE = (".npz", ".parquet", ".geojson", ".tif")


def write(contents: Contents, path: Path, look: Look | None = None) -> Path:
    """Write a release file, completely or not at all: a hidden file in the same folder is written and then renamed.

    Args:
        contents: The parts of the release.
        path: The file; its ending gives the format.
        look: The texts and the style of a picture or page.

    Returns:
        The path.

    Raises:
        UnknownFormat: No format has this ending.
        MissingExtra: The ending is ``.tif``, and rasterio is not installed.
        CannotWrite: The disk is full or the directory cannot be written; nothing half-written is left.
    """
    module = _module(path)
    with replacing(path) as (part,):
        module.write(contents, part, Look() if look is None else look)
    return path


def check_writable(path: str | Path) -> None:
    """Check that a release file can be written to a path; to be called before any budget is spent.

    The ending must be known, the package for the format installed, and the directory writable.

    Args:
        path: The file that will be written later.

    Raises:
        UnknownFormat: No format has this ending.
        MissingExtra: The ending is ``.tif``, and rasterio is not installed.
        CannotWrite: The directory cannot be written.
    """
    target = Path(path)
    _module(target)
    with replacing(target, keep=False):
        pass


def read(path: str | Path) -> Contents:
    """Read the parts of a release from a file; see :meth:`heathaze.Release.load`.

    Args:
        path: The file; its ending gives the format.

    Returns:
        The estimate, the guarantee and the provenance.

    Raises:
        UnreadableData: The file does not exist, or is not a valid release.
        UnknownFormat: Files with this ending cannot be loaded.
    """
    source = Path(path)
    ending = source.suffix.lower()
    if ending in _MODULES and ending.replace(".tiff", ".tif") not in LOADABLE:
        raise UnknownFormat(f"{source} shows a release but cannot be loaded; load one saved as {_listed(LOADABLE)}.")
    if ending not in _MODULES:
        raise UnknownFormat(f"{source} has {_ending(source)}, which cannot be loaded; expected {_listed(LOADABLE)}.")
    if not source.is_file():
        raise UnreadableData(
            f"{source} is {'a directory' if source.is_dir() else 'no file'}; give the path of a release."
        )
    module = _module(source)
    try:
        return module.read(source)
    except UnreadableData:
        raise
    except HeathazeError as problem:
        raise UnreadableData(f"{source} is not a sound release: {problem}") from None
    except OSError as problem:
        if problem.strerror is None:
            raise _not_a_release(source) from None
        raise UnreadableData(f"{source} cannot be read: {problem.strerror.lower()}.") from None
    except Exception:
        # A damaged or hostile file can make a parser raise any error. The caller gets the same error for all of them.
        raise _not_a_release(source) from None


def _not_a_release(source: Path) -> UnreadableData:
    return UnreadableData(f"{source} is damaged or not a release of Heathaze; get it again or save it anew.")


class _Format(Protocol):
    """The interface of the module of a release file format; the module of pictures has no ``read``."""

    def write(self, contents: Contents, target: Path, look: Look) -> None:
        """Write a release to a file that exists and is empty."""

    def read(self, path: Path) -> Contents:
        """Read a release from a file; a damaged file may raise any error."""


def _module(path: Path) -> _Format:
    """Import the module that writes and reads release files with the ending of a path."""
    name = _MODULES.get(path.suffix.lower())
    if name is None:
        raise UnknownFormat(f"{path} has {_ending(path)}, which no format has; choose {_listed(ENDINGS)}.")
    if name == "geotiff" and importlib.util.find_spec("rasterio") is None:
        raise MissingExtra("GeoTIFF needs the package rasterio; install the extra 'geo': pip install 'heathaze[geo]'.")
    return cast(_Format, importlib.import_module(f"heathaze.release.formats.{name}"))


def _ending(path: Path) -> str:
    return f"the ending {path.suffix!r}" if path.suffix else "no ending"


def _listed(endings: tuple[str, ...]) -> str:
    return f"{', '.join(endings[:-1])} or {endings[-1]}"
