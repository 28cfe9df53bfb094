"""A page with the map to pan and zoom, in one file that works offline; it cannot be loaded back."""

from __future__ import annotations

from pathlib import Path

from heathaze.maps.page import render_page
from heathaze.release.formats.facts import counted, facts, shown
from heathaze.release.release import Release


def write(release: Release, target: Path, title: str) -> None:
    """Write the page of a release, at most 1024 cells a side."""
    page = render_page(
        shown(release),
        title=title,
        total=release.total,
        total_unit=counted(release),
        guarantee=str(release.guarantee),
        facts=facts(release),
    )
    target.write_bytes(page.encode())
