"""Write pictures (``.png``) and pages (``.html``) of a release. They cannot be loaded back.

Both show at most 1024 cells along a side, the guarantee, and the uncertainty if it is known. A page is one file with a
map that can be panned and zoomed, and works offline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.inference.drawn_maps import DrawnPosterior
from heathaze.inference.estimate import Estimate
from heathaze.maps.figure import draw
from heathaze.maps.page import render_page
from heathaze.maps.shade import sigmas
from heathaze.maps.uncertainty import smoothed_deviations
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.privacy.provenance import Provenance
from heathaze.release.formats.cells import has_deviations
from heathaze.release.formats.metadata import Contents
from heathaze.types import Floats

MOST_CELLS_A_SIDE = 1024
"""The most cells along a side of a picture or page; a larger grid is rendered with fewer cells."""

_PLURALS = {Unit.PERSON: "people", Unit.PERSON_DAY: "person-days", Unit.VISIT: "visits"}


def write(contents: Contents, target: Path, title: str) -> None:
    """Write a page if the target ends in ``.html``, a picture otherwise."""
    (_write_page if target.suffix.lower() == ".html" else _write_picture)(contents, target, title)


def _write_page(contents: Contents, target: Path, title: str) -> None:
    estimate, guarantee, provenance = contents
    density = shown(estimate)
    deviations = [shown_deviation(estimate, sigma) for sigma in (0.0, *sigmas(density.grid))]
    page = render_page(
        density,
        title=title,
        total=estimate.total,
        total_unit=counted(guarantee, provenance),
        guarantee=str(guarantee),
        facts=facts(estimate.grid, guarantee, provenance),
        deviations=[one for one in deviations if one is not None] or None,
    )
    target.write_bytes(page.encode())


def _write_picture(contents: Contents, target: Path, title: str) -> None:
    """Write a picture, lightly smoothed if a side has at least 64 cells; the label of the colour bar says so."""
    estimate, guarantee, provenance = contents
    density, units = shown(estimate), f"share of {counted(guarantee, provenance)} per cell"
    sigma = next(iter(sigmas(density.grid)), 0.0)
    if sigma:
        density, units = density.smooth(sigma), f"{units}, smoothed by {sigma:.3g} cells"
    deviation = shown_deviation(estimate, sigma)
    heading, caption = "", str(guarantee)
    if deviation is not None:
        heading, caption = "Map", f"{caption} Faded: more noise than signal."
    picture = BytesIO()
    draw([(heading, density)], caption=caption, path=picture, title=title, units=units, deviation=deviation)
    target.write_bytes(picture.getbuffer())


def shown(estimate: Estimate) -> Density:
    """Render the map with the number of cells that pictures and pages show."""
    return estimate.density.render(shape=_shape(estimate))


def shown_deviation(estimate: Estimate, sigma: float = 0.0) -> Floats | None:
    """Compute the standard deviation of every cell of :func:`shown`, smoothed by ``sigma`` cells; None if unknown."""
    if not has_deviations(estimate):
        return None
    posterior, shape = estimate.posterior, _shape(estimate)
    if isinstance(posterior, DrawnPosterior):
        return posterior.deviations(shape=shape, sigma=sigma)
    levels, codes, _, deviations = posterior.squares
    shares = deviations / max(posterior.total, 1e-300)
    return smoothed_deviations(estimate.grid, levels, codes, shares, shape, sigma)


def counted(guarantee: Guarantee, provenance: Provenance) -> str:
    """Name what the total of a release counts, in the plural: "people", for example."""
    return "presences" if provenance.weight == "presence" else _PLURALS[guarantee.unit]


def facts(grid: Grid, guarantee: Guarantee, made: Provenance) -> dict[str, str]:
    """List the facts about how a release was made, for a page: name and value of each fact, in the order of display."""
    lines = {"Mechanism": made.mechanism}
    lines |= {name.replace("_", " "): text for name, text in _flat(made.parameters)}
    lines |= {"Loss": str(guarantee.loss), "Unit": guarantee.unit.value, "Weight": made.weight}
    if made.at_most is not None:
        lines["At most"] = f"{made.at_most} cell{'s' if made.at_most > 1 else ''} for each {guarantee.unit.value}"
    lines["Cells"] = f"{grid.rows:,} × {grid.cols:,}"
    height, width = grid.cell_size
    unit = " m" if grid.projection.is_geographic else ""
    lines["Cell size"] = f"{height:.3g}{unit} high, {width:.3g}{unit} wide"
    if max(grid.shape) > MOST_CELLS_A_SIDE:
        lines["Shown"] = " × ".join(f"{min(side, MOST_CELLS_A_SIDE):,}" for side in grid.shape)
    lines |= {"Projection": grid.projection.value, "Day": made.day, "Heathaze": made.version}
    if made.ledger_entry is not None:
        lines |= {f"Ledger: {name.replace('_', ' ')}": text for name, text in _flat(made.ledger_entry)}
    return lines


def _shape(estimate: Estimate) -> tuple[int, int]:
    return min(estimate.grid.rows, MOST_CELLS_A_SIDE), min(estimate.grid.cols, MOST_CELLS_A_SIDE)


def _flat(fields: Any) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        yield str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
