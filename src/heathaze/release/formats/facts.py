"""How a release came about, in lines for the reader of a picture or a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from heathaze.domain.density import Density
from heathaze.inference.drawn_maps import DrawnPosterior
from heathaze.maps.uncertainty import smoothed_deviations
from heathaze.privacy.guarantee import Unit
from heathaze.release.formats.cells import knows_uncertainty
from heathaze.release.release import Release
from heathaze.types import Floats

MOST_CELLS_A_SIDE = 1024
"""Pictures and pages show at most this many; a larger grid is rendered coarser."""

_PLURALS = {Unit.PERSON: "people", Unit.PERSON_DAY: "person-days", Unit.VISIT: "visits"}


def shown(release: Release) -> Density:
    """The map as pictures and pages show it."""
    return release.render(shape=_shape(release))


def shown_deviation(release: Release, sigma: float = 0.0) -> Floats | None:
    """Standard deviation of every cell of :func:`shown`, smoothed by ``sigma`` cells; ``None`` where unknown."""
    if not knows_uncertainty(release):
        return None
    if isinstance(release.posterior, DrawnPosterior):
        return release.posterior.deviations(shape=_shape(release), sigma=sigma)
    levels, codes, _, deviations = release.posterior.squares
    shares = deviations / max(release.posterior.total, 1e-300)
    return smoothed_deviations(release.grid, levels, codes, shares, _shape(release), sigma)


def counted(release: Release) -> str:
    """What the total counts, in the plural."""
    return "presences" if release.provenance.weight == "presence" else _PLURALS[release.guarantee.unit]


def facts(release: Release) -> dict[str, str]:
    """Name and value of each fact, in the order of reading."""
    made, grid = release.provenance, release.grid
    lines = {"Mechanism": made.mechanism}
    lines |= {name.replace("_", " "): text for name, text in _flat(made.parameters)}
    lines |= {"Loss": str(release.guarantee.loss), "Unit": release.guarantee.unit.value, "Weight": made.weight}
    if made.at_most is not None:
        lines["At most"] = (
            f"{made.at_most} cell{'s' if made.at_most > 1 else ''} for each {release.guarantee.unit.value}"
        )
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


def _shape(release: Release) -> tuple[int, int]:
    return min(release.grid.rows, MOST_CELLS_A_SIDE), min(release.grid.cols, MOST_CELLS_A_SIDE)


def _flat(fields: Any) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        yield str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
