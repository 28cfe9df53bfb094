"""A picture of the map, and of how sure it is, with the guarantee as its caption; it cannot be loaded back."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from heathaze.maps.figure import draw
from heathaze.maps.shade import sigmas
from heathaze.release.formats.facts import counted, shown, shown_deviation
from heathaze.release.release import Release


def write(release: Release, target: Path, title: str) -> None:
    """Draw a release, at most 1024 cells a side, lightly smoothed on grids of 64 cells a side and more.

    The label of the colour bar says so; for other pictures see :func:`heathaze.maps.figure.draw`.
    """
    density, units = shown(release), f"share of {counted(release)} per cell"
    sigma = next(iter(sigmas(density.grid)), 0.0)
    if sigma:
        density, units = density.smooth(sigma), f"{units}, smoothed by {sigma:.3g} cells"
    deviation = shown_deviation(release, sigma)
    heading, caption = "", str(release.guarantee)
    if deviation is not None:
        heading, caption = "Map", f"{caption} Faded: more noise than signal."
    picture = BytesIO()
    draw([(heading, density)], caption=caption, path=picture, title=title, units=units, deviation=deviation)
    target.write_bytes(picture.getbuffer())
