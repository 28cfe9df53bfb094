"""``heathaze show``: print the contents of a release file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from heathaze.checks import check_confidence
from heathaze.cli.common import Json, out, say_json
from heathaze.domain.density import Density
from heathaze.inference.interval import interval
from heathaze.maps.shade import percent
from heathaze.privacy.guarantee import Trust
from heathaze.release.formats.cells import counted
from heathaze.release.release import Release, load
from heathaze.release.uncertainty import Hotspot

_CONFIDENCE, _FEW = 0.9, 5
_SHADES = " ·:-=+*#%@"


def show(
    file: Annotated[Path, Argument(metavar="RELEASE", help="A release: .npz .parquet .geojson or .tif.")],
    centers: Annotated[int, Option("--centers", help="Number of centres to list (k-median on the release).")] = 3,
    hotspots: Annotated[
        float | None,
        Option(
            "--hotspots",
            metavar="CONFIDENCE",
            help="List all places that are twice as dense as the average with this confidence.",
            show_default="the 5 largest at 0.9",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the guarantee of a release, how it was made, its centres and hotspots, and a sketch of the map."""
    if hotspots is not None:
        check_confidence(hotspots)
    release = load(file)
    found = release.centers(centers) if centers > 0 else np.empty((0, 2))
    confidence = _CONFIDENCE if hotspots is None else hotspots
    # If --hotspots is given for a release without error bars, an error says that the error bars are missing.
    certain = release.knows_uncertainty or hotspots is not None
    spots = release.hotspots(confidence) if certain else []
    few = spots[:_FEW] if hotspots is None else spots
    if json:
        known = _interval_fields(release, confidence, few, len(spots)) if certain else {}
        say_json(release.to_dict() | {"centers": found.tolist()} | known)
        return
    how = release.provenance
    axes = ("lon", "lat") if release.grid.projection.is_geographic else ("x", "y")
    settings = ", ".join(f"{key} {value}" for key, value in how.parameters.items() if value is not None)
    lines = [
        release.guarantee.plain,
        release.guarantee.exact,
        f"Mechanism: {how.mechanism} ({settings})",
        f"Grid: {release.grid.rows} × {release.grid.cols} cells, {axes[0]} {release.grid.x[0]} to {release.grid.x[1]}, "
        f"{axes[1]} {release.grid.y[0]} to {release.grid.y[1]}",
        f"Weight: {how.weight}" + ("" if how.at_most is None else f", at most {how.at_most} cells per unit"),
        _total(release, confidence),
        f"Made: {how.day}, heathaze {how.version}",
    ]
    lines += [f"Centre {k + 1}: {axes[0]} {x:.5f}, {axes[1]} {y:.5f}" for k, (x, y) in enumerate(found)]
    lines += [f"Hotspot {k + 1}: {_described(spot, axes)}" for k, spot in enumerate(few)]
    if len(few) < len(spots):
        what = "hotspots (squares twice as dense as the average, densest first)"
        lines.append(f"and {len(spots) - len(few)} more {what}; list all with --hotspots {confidence:g}")
    elif certain and not spots:
        lines.append(f"No place is twice as dense as the average with {100 * confidence:g} % confidence.")
    for line in filter(None, lines):
        out.print(line)
    out.print(_sketch(release.render(shape=(min(20, release.grid.rows), min(48, release.grid.cols)))))


def _total_interval(release: Release, confidence: float) -> tuple[float, float]:
    whole = release.posterior.levels[0]
    low, high = interval(whole.mean[0], whole.deviation[0], confidence)
    return float(low), float(high)


def _total(release: Release, confidence: float) -> str:
    """Write the total of a release, with its interval if there is one. The number of reports is exact."""
    if release.guarantee.trust is Trust.LOCAL:
        return f"Reports: {release.total:,.0f}, each of one {release.guarantee.unit.value}"
    within = ""
    if release.knows_uncertainty:
        low, high = _total_interval(release, confidence)
        within = f"{100 * confidence:g} %: {low:,.0f} to {high:,.0f}; "
    units = counted(release.guarantee, release.provenance)
    return f"Estimated total: {release.total:,.0f} {units} ({within}from noisy numbers)"


def _described(spot: Hotspot, axes: tuple[str, str]) -> str:
    """Write a hotspot in one line: its share, interval, density and place."""
    share, (x, y) = spot.share, (spot.box.x, spot.box.y)
    within = ""
    if share.low is not None and share.high is not None:
        within = f" ({100 * share.confidence:g} %: {percent(share.low)} to {percent(share.high)})"
    return (
        f"{percent(share)}{within}, {spot.times:.3g} times the average, "
        f"{axes[0]} {x[0]:.5f} to {x[1]:.5f}, {axes[1]} {y[0]:.5f} to {y[1]:.5f}"
    )


def _interval_fields(release: Release, confidence: float, few: list[Hotspot], count: int) -> dict[str, Any]:
    """Return the interval of the total, and the hotspots, for --json."""
    return {
        "confidence": confidence,
        "total_interval": list(_total_interval(release, confidence)),
        "hotspots": [
            {
                "x": list(spot.box.x),
                "y": list(spot.box.y),
                "share": float(spot.share),
                "low": spot.share.low,
                "high": spot.share.high,
                "times": spot.times,
            }
            for spot in few
        ],
        "hotspots_in_all": count,
    }


def _sketch(density: Density) -> str:
    """Sketch the map in characters; darker characters mean a larger square root of the cell's share."""
    heights = np.sqrt(density.values / density.values.max())
    return "\n".join("".join(_SHADES[int(h * (len(_SHADES) - 1) + 0.5)] for h in row) for row in heights)
