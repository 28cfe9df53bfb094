"""A picture of the map with the guarantee as its caption; it cannot be loaded back."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from heathaze.maps.figure import draw
from heathaze.maps.shade import sigmas
from heathaze.release.formats.facts import counted, shown
from heathaze.release.release import Release


def write(release: Release, target: Path, title: str) -> None:
    """Draw a release, at most 1024 cells a side, lightly smoothed on grids of 64 cells a side and more.

    The label of the colour bar says so; for other pictures see :func:`heathaze.maps.figure.draw`.
    """
    density, units = shown(release), f"share of {counted(release)} per cell"
    if light := sigmas(density.grid)[:1]:
        density, units = density.smooth(light[0]), f"{units}, smoothed by {light[0]:.3g} cells"
    picture = BytesIO()
    draw([("", density)], caption=str(release.guarantee), path=picture, title=title, units=units)
    target.write_bytes(picture.getbuffer())
