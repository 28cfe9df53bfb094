"""Release files. The ending of the file's name gives the format.

| ending | what is in it | loads back |
|---|---|---|
| ``.npz`` | numpy arrays of the cells or squares, zipped | exactly |
| ``.parquet`` | a table with one row for each cell or square that holds mass | exactly |
| ``.geojson`` | a polygon for each cell or square that holds mass | exactly |
| ``.tif`` | a raster that every GIS reads (extra ``geo``) | cell by cell, at most 4096 a side above 2^24 cells |
| ``.png`` | a picture, at most 1024 cells a side | no |
| ``.html`` | a page with a map to pan and zoom, at most 1024 cells a side | no |

Each module has ``write(contents, target, title)``, and ``read(path)`` where the format loads back. The contents are
estimate, guarantee and provenance. A file holds public things only: the density, the estimated total, the noisy counts
or drawn maps behind them where the mechanism kept these, the guarantee and the provenance. It holds no seed, no row
count, no name or hash of the input, and no time finer than the day.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Protocol, cast

from heathaze.errors import HeathazeError, MissingExtra, UnknownFormat, UnreadableData
from heathaze.files import replacing
from heathaze.release.formats.metadata import Contents

_MODULES = {
    ".npz": "npz",
    ".parquet": "parquet",
    ".geojson": "geojson",
    ".tif": "geotiff",
    ".tiff": "geotiff",
    ".png": "pictures",
    ".html": "pictures",
}
ENDINGS = (".npz", ".parquet", ".geojson", ".tif", ".png", ".html")
LOADABLE = (".npz", ".parquet", ".geojson", ".tif")


def write(contents: Contents, path: Path) -> Path:
    """Write a release file, all of it or nothing: a hidden file beside the target is flushed and then renamed.

    Args:
        contents: What to write.
        path: The file; its ending gives the format.

    Returns:
        The path.

    Raises:
        UnknownFormat: No format has this ending.
        MissingExtra: ``.tif`` without rasterio.
        CannotWrite: The disk is full or the directory refuses; nothing half-written is left.
    """
    module = _module(path)
    with replacing(path) as (part,):
        module.write(contents, part, _title(path))
    return path


def check_writable(path: str | Path) -> None:
    """Raise what :func:`write` would raise for a path. Call it before any budget is spent.

    Checks that the ending is known, its extra installed, and that the directory takes files.

    Args:
        path: The file to be written later.

    Raises:
        UnknownFormat: No format has this ending.
        MissingExtra: ``.tif`` without rasterio.
        CannotWrite: The directory refuses.
    """
    target = Path(path)
    _module(target)
    with replacing(target, keep=False):
        pass


def read(path: str | Path) -> Contents:
    """Read what a release file holds; see :meth:`heathaze.Release.load`.

    Args:
        path: The file; its ending gives the format.

    Returns:
        The estimate, the guarantee and the provenance.

    Raises:
        UnreadableData: There is no such file, or it is not a sound release.
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
        # Whatever a damaged or hostile file makes a parser raise means the same to the caller.
        raise _not_a_release(source) from None


def _not_a_release(source: Path) -> UnreadableData:
    return UnreadableData(f"{source} is damaged or not a release of Heathaze; get it again or save it anew.")


class _Format(Protocol):
    """What a module of this package looks like; pictures have no ``read``."""

    def write(self, contents: Contents, target: Path, title: str) -> None:
        """Write to a file that exists and is empty."""

    def read(self, path: Path) -> Contents:
        """Read a file, raising whatever a damaged file makes it raise."""


def _module(path: Path) -> _Format:
    """The module behind an ending."""
    name = _MODULES.get(path.suffix.lower())
    if name is None:
        raise UnknownFormat(f"{path} has {_ending(path)}, which no format has; choose {_listed(ENDINGS)}.")
    if name == "geotiff" and importlib.util.find_spec("rasterio") is None:
        raise MissingExtra("GeoTIFF needs the package rasterio; install rasterio (the extra 'geo').")
    return cast(_Format, importlib.import_module(f"heathaze.release.formats.{name}"))


def _ending(path: Path) -> str:
    return f"the ending {path.suffix!r}" if path.suffix else "no ending"


def _listed(endings: tuple[str, ...]) -> str:
    return f"{', '.join(endings[:-1])} or {endings[-1]}"


def _title(path: Path) -> str:
    """The heading of a picture or page: the name of the file, in words."""
    words = path.stem.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
