"""Release files: the ending says which.

| ending | what is in it | loads back |
|---|---|---|
| ``.npz`` | numpy arrays of the cells or squares, zipped | exactly |
| ``.parquet`` | a table with one row for each cell or square that holds mass | exactly |
| ``.geojson`` | a polygon for each cell or square that holds mass | exactly |
| ``.tif`` | a raster that every GIS reads (extra ``geo``) | cell by cell, at most 4096 a side above 2^24 cells |
| ``.png`` | a picture, at most 1024 cells a side | no |
| ``.html`` | a page with a map to pan and zoom, at most 1024 cells a side | no |

Each module has ``write(release, target, title)``, and ``read(path)`` where the format loads back. A file holds public
things only: the density, the estimated total, the noisy counts behind them where the mechanism kept these (and so how
sure the map is), the guarantee and the provenance; no seed, no row count, no name or hash of the input, no time finer
than the day.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Protocol, cast

from heathaze.errors import HeathazeError, MissingExtra, UnknownFormat, UnreadableData
from heathaze.files import replacing
from heathaze.release.release import Release

_MODULES = {
    ".npz": "npz",
    ".parquet": "parquet",
    ".geojson": "geojson",
    ".tif": "geotiff",
    ".tiff": "geotiff",
    ".png": "png",
    ".html": "html",
}
ENDINGS = (".npz", ".parquet", ".geojson", ".tif", ".png", ".html")
LOADABLE = (".npz", ".parquet", ".geojson", ".tif")


def write(release: Release, path: Path) -> Path:
    """Write all of a release or nothing: a hidden file beside the target, flushed to the disk, takes its place.

    Raises:
        UnknownFormat: An ending nobody knows.
        MissingExtra: ``.tif`` without rasterio.
        CannotWrite: The disk is full or the directory refuses; nothing half-written is left.
    """
    module = _module(path)
    with replacing(path) as (part,):
        module.write(release, part, _title(path))
    return path


def check_writable(path: str | Path) -> None:
    """Say now what :func:`write` would say later: call it before any budget is spent.

    Checks that the ending is known, its extra installed, and that the directory takes files.
    """
    target = Path(path)
    _module(target)
    with replacing(target, keep=False):
        pass


def load(path: str | Path) -> Release:
    """Read a release back from ``.npz``, ``.parquet``, ``.geojson`` or ``.tif``.

    The file may come from anyone: nothing in it is executed, and what does not fit together is refused. The event is
    priced again, and a guarantee that promises more than its event gives is refused as well.

    Raises:
        UnreadableData: No such file, damaged, not a release, from a newer version, or a guarantee that does not follow
            from its event.
        UnknownFormat: An ending that is not one of these.
    """
    source = Path(path)
    ending = source.suffix.lower()
    if ending in _MODULES and ending.replace(".tiff", ".tif") not in LOADABLE:
        raise UnknownFormat(f"{source} shows a release but cannot be loaded; load one saved as {_listed(LOADABLE)}.")
    if ending not in _MODULES:
        raise UnknownFormat(f"{source} has no ending that can be loaded; load a release saved as {_listed(LOADABLE)}.")
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
    """What a module of this package looks like; pictures and pages have no ``read``."""

    def write(self, release: Release, target: Path, title: str) -> None:
        """Write a release to a file that exists and is empty."""

    def read(self, path: Path) -> Release:
        """Read a release, raising whatever a damaged file makes it raise."""


def _module(path: Path) -> _Format:
    """The module behind an ending."""
    name = _MODULES.get(path.suffix.lower())
    if name is None:
        found = f"the ending {path.suffix!r}" if path.suffix else "no ending"
        raise UnknownFormat(f"{path} has {found}, which no format has; choose {_listed(ENDINGS)}.")
    if name == "geotiff" and importlib.util.find_spec("rasterio") is None:
        raise MissingExtra("GeoTIFF needs the package rasterio; install rasterio (the extra 'geo').")
    return cast(_Format, importlib.import_module(f"heathaze.release.formats.{name}"))


def _listed(endings: tuple[str, ...]) -> str:
    return f"{', '.join(endings[:-1])} or {endings[-1]}"


def _title(path: Path) -> str:
    """The heading of a picture or page: the name of the file, in words."""
    words = path.stem.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
