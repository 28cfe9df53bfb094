"""A release in a notebook: a picture with its guarantee and numbers, the live page, and a plot by matplotlib."""

from __future__ import annotations

import base64
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.inference.interval import interval
from heathaze.release import formats
from heathaze.release.formats.cells import counted
from heathaze.release.formats.metadata import Contents

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS_A_SIDE = 1024
_SIMULATED = "Simulated: this map was made with noise that anyone can repeat. It is not private."


class Page:
    """The live page of a release, which a notebook shows in a frame without access to the notebook.

    Args:
        html: The page.
        height: Height of the frame in pixels.
    """

    def __init__(self, html: str, height: int) -> None:
        self.html = html
        self.height = height

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.html, quote=True)}"></iframe>'

    def __repr__(self) -> str:
        return "<Page: a notebook shows it; elsewhere, save the release as .html>"


def summary(contents: Contents) -> str:
    """Write the HTML that a notebook shows for a release: a picture, its guarantee and its numbers.

    The picture comes first and needs no script, because a notebook that is not trusted runs none.

    Args:
        contents: The parts of the release.
    """
    estimate, guarantee, provenance = contents
    picture = base64.b64encode(written(contents, "map.png")).decode("ascii")
    units = counted(guarantee, provenance)
    lines = [_SIMULATED] if estimate.simulated else []
    lines += [guarantee.plain, guarantee.exact]
    within = ""
    if estimate.knows_uncertainty:
        whole = estimate.posterior.levels[0]
        low, high = interval(whole.mean[0], whole.deviation[0], 0.9)
        within = f" (90 %: {low:,.0f} to {high:,.0f})"
    rows, cols = estimate.grid.shape
    lines.append(
        f"About {estimate.total:,.0f} {units}{within} on {rows:,} × {cols:,} cells, made by {provenance.mechanism} "
        f"on {provenance.day}."
    )
    text = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    alternative = f"Map of the density of {units}, with its guarantee"
    return f'<div><img alt="{alternative}" style="max-width: 100%" src="data:image/png;base64,{picture}">{text}</div>'


def page(contents: Contents, height: int) -> Page:
    """Make the live page of a release.

    Args:
        contents: The parts of the release.
        height: Height of the frame in pixels.
    """
    return Page(written(contents, "map.html").decode(), height)


def written(contents: Contents, name: str) -> bytes:
    """Return the bytes of a release file; the ending of its name gives the format."""
    with tempfile.TemporaryDirectory(prefix="heathaze-") as folder:
        return formats.write(contents, Path(folder, name)).read_bytes()


def plot(contents: Contents, axes: Axes | None, **options: Any) -> Axes:
    """Draw the density on axes of matplotlib; see :meth:`heathaze.Release.plot`."""
    grid = contents.estimate.grid
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots()[1]
        if not grid.projection.is_geographic:
            axes.invert_yaxis()  # a plane is drawn downwards, as in pictures
    shape = (min(grid.rows, MOST_CELLS_A_SIDE), min(grid.cols, MOST_CELLS_A_SIDE))
    density = contents.estimate.density.render(shape=shape)
    across, down = (np.arange(length + 1) for length in (shape[1], shape[0]))
    people = density.values * contents.estimate.total
    chosen: dict[str, Any] = {"cmap": "viridis", "rasterized": True, **options}
    drawn = axes.pcolormesh(density.grid.x_at(across), density.grid.y_at(down), people, **chosen)
    units = counted(contents.guarantee, contents.provenance)
    axes.figure.colorbar(drawn, ax=axes, label=f"{units} per cell, {contents.guarantee.short}")
    if grid.projection.is_geographic:
        axes.set_xlabel("longitude in degrees")
        axes.set_ylabel("latitude in degrees")
        axes.set_aspect(1 / np.cos(np.radians(sum(grid.y) / 2)))
    return axes
