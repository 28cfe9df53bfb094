"""A picture of the map with the guarantee as its caption; it cannot be loaded back."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from heathaze.maps.figure import draw
from heathaze.release.formats.facts import counted, shown
from heathaze.release.release import Release


def write(release: Release, target: Path, title: str) -> None:
    """Draw a release, at most 1024 cells a side."""
    picture = BytesIO()
    units = f"share of {counted(release)} per cell"
    draw([("", shown(release))], caption=str(release.guarantee), path=picture, title=title, units=units)
    target.write_bytes(picture.getbuffer())
