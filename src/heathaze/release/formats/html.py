"""A page with the map to pan and zoom, in one file that works offline; it cannot be loaded back."""

from __future__ import annotations

from pathlib import Path

from heathaze.maps.page import render_page
from heathaze.maps.shade import sigmas
from heathaze.release.formats.facts import counted, facts, shown, shown_deviation
from heathaze.release.release import Release


def write(release: Release, target: Path, title: str) -> None:
    """Write the page of a release, at most 1024 cells a side."""
    density = shown(release)
    deviations = [shown_deviation(release, sigma) for sigma in (0.0, *sigmas(density.grid))]
    page = render_page(
        density,
        title=title,
        total=release.total,
        total_unit=counted(release),
        guarantee=str(release.guarantee),
        facts=facts(release),
        deviations=[one for one in deviations if one is not None] or None,
    )
    target.write_bytes(page.encode())
