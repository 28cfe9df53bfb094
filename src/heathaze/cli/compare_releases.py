"""``heathaze compare-releases``: two releases on one scale, and which changes are real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_place, out, say_json, say_table, say_written
from heathaze.errors import InvalidInput, UnknownFormat
from heathaze.maps.squares import number, side_lengths
from heathaze.release.changes import ENDINGS, save_changes
from heathaze.release.changes import compare_releases as changes_between
from heathaze.release.release import load

_FEW = 10


def compare_releases(
    before: Annotated[Path, Argument(metavar="BEFORE", help="A release: .npz .parquet .geojson or .tif.")],
    after: Annotated[Path, Argument(metavar="AFTER", help="Another release on the same grid.")],
    outputs: Annotated[
        list[Path] | None,
        Option("--out", "-o", help="Picture (.png .svg .pdf) or table of all squares (.csv); repeatable."),
    ] = None,
    confidence: Annotated[
        float, Option("--confidence", help="Probability that no change is called real which is only noise.")
    ] = 0.9,
    names: Annotated[tuple[str, str], Option("--names", metavar="BEFORE AFTER", help="Names of the two maps.")] = (
        "Before",
        "After",
    ),
    title: common.Title = "",
    subtitle: common.Subtitle = "",
    source: common.Source = "",
    theme: common.Theme = None,
    dpi: common.Dpi = 150,
    backdrop: common.Backdrop = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace output files that exist.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show two releases on one scale, and which changes are real. Only releases are read; nothing is charged."""
    for path in outputs or []:
        if path.suffix.lower() not in ENDINGS:
            raise UnknownFormat(f"{path} has an ending that changes are not written to; choose {', '.join(ENDINGS)}.")
        check_place(path, before, after, *(backdrop or []), overwrite=overwrite)
    first, second = load(before), load(after)
    if before.samefile(after):
        raise InvalidInput(f"{before} is given twice, and nothing changes between a release and itself; give two.")
    changes = changes_between(first, second, confidence)
    look = {"names": names, "title": title, "subtitle": subtitle, "source": source, "theme": theme, "dpi": dpi}
    written = [
        save_changes(changes, first, second, path, backdrop=backdrop or None, **look)  # type: ignore[arg-type]
        for path in outputs or []
    ]
    best = changes.largest().tolist()
    if json:
        bounds = changes.bounds()
        rows = [
            {
                "bounds": bounds[k].tolist(),
                "before": float(changes.people_before[k]),
                "after": float(changes.people_after[k]),
                "change": float(changes.change[k]),
                "low": float(changes.low[k]),
                "high": float(changes.high[k]),
            }
            for k in best
        ]
        fields = {"squares": len(changes), "confidence": confidence, "total_change": list(changes.total)}
        say_json(fields | {"counted": changes.before.counted, "real": rows, "cost": changes.cost})
        return
    if quiet:
        return
    out.print(changes.summary())
    rows = [
        {
            "place": changes.where(k),
            "side": side_lengths(changes.grid, int(changes.levels[k])),
            "before": number(round(float(changes.people_before[k]))),
            "after": number(round(float(changes.people_after[k]))),
            "within": f"{number(round(float(changes.low[k])))} to {number(round(float(changes.high[k])))}",
        }
        for k in best[:_FEW]
    ]
    columns = {"place": "{place}", "square": "{side}", "before": "{before}", "after": "{after}", "change": "{within}"}
    if rows:
        say_table(columns, rows)
    if len(best) > _FEW:
        out.print(f"and {len(best) - _FEW} more; --out changes.csv lists all squares")
    out.print(changes.cost)
    say_written(written)
