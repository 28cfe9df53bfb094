"""``heathaze show``: what a release file says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from heathaze.cli.console import Json, out, say_json
from heathaze.domain.density import Density
from heathaze.release.formats import load
from heathaze.release.formats.facts import counted

_SHADES = " ·:-=+*#%@"


def show(
    file: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release: .npz .parquet .geojson or .tif.")],
    centers: Annotated[int, typer.Option("--centers", help="How many centres to list (k-median on the release).")] = 3,
    json: Json = False,
) -> None:
    """Print the guarantee of a release, how it came about, its main centres and a sketch of the map."""
    release = load(file)
    found = release.centers(centers) if centers > 0 else np.empty((0, 2))
    if json:
        say_json(release.to_dict() | {"centers": found.tolist()})
        return
    how = release.provenance
    axes = ("lon", "lat") if release.grid.projection.is_geographic else ("x", "y")
    knobs = ", ".join(f"{key} {value}" for key, value in how.parameters.items())
    lines = [
        str(release.guarantee),
        f"Mechanism: {how.mechanism} ({knobs})",
        f"Grid: {release.grid.rows} × {release.grid.cols} cells, {axes[0]} {release.grid.x[0]} to {release.grid.x[1]}, "
        f"{axes[1]} {release.grid.y[0]} to {release.grid.y[1]}",
        f"Weight: {how.weight}" + ("" if how.at_most is None else f", at most {how.at_most} cells per unit"),
        f"Estimated total: {release.total:,.0f} {counted(release)} (from noisy numbers)",
        f"Made: {how.day}, heathaze {how.version}",
    ]
    lines += [f"Centre {k + 1}: {axes[0]} {x:.5f}, {axes[1]} {y:.5f}" for k, (x, y) in enumerate(found)]
    for line in lines:
        out.print(line, markup=False)
    out.print(_sketch(release.render(shape=(min(20, release.grid.rows), min(48, release.grid.cols)))), markup=False)


def _sketch(density: Density) -> str:
    """The map in characters, darker with the square root of the share."""
    heights = np.sqrt(density.values / density.values.max())
    return "\n".join("".join(_SHADES[int(h * (len(_SHADES) - 1) + 0.5)] for h in row) for row in heights)
