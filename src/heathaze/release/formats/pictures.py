"""Write pictures (``.png``, ``.svg``, ``.pdf``) and pages (``.html``) of a release. They cannot be loaded back.

A picture shows the certain squares of the release; a release without error bars has squares of one size. The style
glow is a smooth map of at most 1024 cells along a side. A page is one file with the squares on a map that can be moved
and zoomed, and works offline.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.inference.estimate import Estimate
from heathaze.maps.backdrop import built_in_land
from heathaze.maps.mosaic import draw_glow, draw_squares
from heathaze.maps.page import render_page
from heathaze.maps.pair import draw_pair
from heathaze.maps.shade import sigmas
from heathaze.maps.sheet import Look, Words
from heathaze.maps.squares import Squares, number
from heathaze.privacy.guarantee import Guarantee, Trust, Unit
from heathaze.privacy.provenance import Provenance
from heathaze.release.formats.cells import counted, has_deviations
from heathaze.release.formats.metadata import Contents
from heathaze.release.squares import area_unit, areas, certain_squares, plain_squares

MOST_CELLS_A_SIDE = 1024
"""The most cells along a side of a smooth picture; a larger grid is rendered with fewer cells."""


def write(contents: Contents, target: Path, look: Look) -> None:
    """Write a page if the target ends in ``.html``, a picture otherwise."""
    if look.backdrop is None:
        look = dataclasses.replace(look, backdrop=built_in_land(contents.estimate.grid))
    if target.suffix.lower() == ".html":
        target.write_bytes(_page(contents, look).encode())
        return
    picture = BytesIO()
    _draw(contents, look, picture, target.suffix.lower()[1:])
    target.write_bytes(picture.getbuffer())


def _page(contents: Contents, look: Look) -> str:
    """Make the page of a release."""
    estimate, guarantee, provenance = contents
    told = words(contents)
    return render_page(
        _squares(contents),
        title=look.title or told.title,
        subtitle=look.subtitle or told.subtitle,
        promise=told.promise,
        guarantee=told.guarantee,
        source=f"{told.made} Source: {look.source}" if look.source else told.made,
        facts=facts(estimate.grid, guarantee, provenance),
        backdrop=look.backdrop,
        theme=look.theme,
        tiles=look.tiles,
    )


def _draw(contents: Contents, look: Look, picture: BytesIO, kind: str) -> None:
    """Draw a picture in the style that the user chose. Without error bars, a pair is the map alone."""
    estimate, guarantee, provenance = contents
    if look.style == "glow":
        density = _smoothed(estimate)
        grid = density.grid
        # A cell with the whole mass has the density total / (area of a cell).
        per_cell = estimate.total * grid.cells / float(areas(grid, np.zeros(1, np.int64), np.zeros(1, np.int64))[0])
        area, name = area_unit(grid, density.values.max() * max(per_cell, 1e-9) / 100)
        unit = f"{counted(guarantee, provenance)} per {name}"
        draw_glow(density, per_cell * area, unit, words(contents), look, picture, kind)
        return
    squares = _squares(contents)
    draw_it = draw_pair if look.style == "pair" and squares.has_error_bars else draw_squares
    draw_it(squares, words(contents), look, picture, kind)


def _squares(contents: Contents) -> Squares:
    """Divide the map into its certain squares, or into plain squares if it has no error bars."""
    divide = certain_squares if has_deviations(contents.estimate) else plain_squares
    return divide(contents.estimate, counted(contents.guarantee, contents.provenance))


def words(contents: Contents) -> Words:
    """Write the texts of a picture or page that come from the release."""
    estimate, guarantee, provenance = contents
    units = counted(guarantee, provenance)
    about = f"About {number(max(0.0, float(f'{estimate.total:.2g}')))} {units}."
    if guarantee.trust is Trust.LOCAL:
        about = f"{estimate.total:,.0f} reports, each of one position."
    elif guarantee.unit is Unit.PERSON and provenance.weight == "share":
        several = guarantee.trust is Trust.CENTRAL
        about += " Each counts once" + (", shared over the places where they were seen." if several else ".")
    day = datetime.date.fromisoformat(provenance.day)
    made = f"Published on {day.day} {day:%B %Y} with Heathaze {provenance.version}."
    every = facts(estimate.grid, guarantee, provenance)
    chosen = {name: every[name] for name in ("Mechanism", "Loss", "Unit", "Weight", "Cells", "Cell size", "Day")}
    return Words(f"Density of {units}", about, guarantee.plain, guarantee.exact, made, chosen)


def _smoothed(estimate: Estimate) -> Density:
    """Render the map, lightly smoothed if a side has at least 64 cells."""
    density = shown(estimate)
    return density.smooth(next(iter(sigmas(density.grid)), 0.0))


def shown(estimate: Estimate) -> Density:
    """Render the map with the number of cells that smooth pictures show."""
    return estimate.density.render(shape=_shape(estimate))


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
    lines |= {"Projection": grid.projection.value, "Day": made.day, "Heathaze": made.version}
    if made.ledger_entry is not None:
        lines |= {f"Ledger: {name.replace('_', ' ')}": text for name, text in _flat(made.ledger_entry)}
    return lines


def _shape(estimate: Estimate) -> tuple[int, int]:
    return min(estimate.grid.rows, MOST_CELLS_A_SIDE), min(estimate.grid.cols, MOST_CELLS_A_SIDE)


def _flat(fields: Any) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        yield str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
