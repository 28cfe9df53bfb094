"""``heathaze gallery``: a static site of releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heathaze.cli import common
from heathaze.cli.common import say_written


def gallery(
    releases: Annotated[list[Path], Argument(metavar="RELEASES", help="Releases: .npz .parquet .geojson or .tif.")],
    folder: Annotated[Path, Option("--out", "-o", metavar="FOLDER", help="Folder of the site.")],
    title: Annotated[str, Option("--title", help="Title of the site.")] = "Maps",
    names: Annotated[
        list[str] | None,
        Option("--name", help="Title of a map; repeat it for each, in their order.", show_default="what and when"),
    ] = None,
    publisher: Annotated[str, Option("--publisher", help="Who publishes the maps, for the catalogue.")] = "",
    licence: Annotated[str, Option("--licence", help="Address of the licence of the maps, for the catalogue.")] = "",
    backdrop: common.Backdrop = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a site that is there already.")] = False,
    quiet: common.Quiet = False,
) -> None:
    """Make a static site of releases, with downloads and a catalogue. Only releases are read."""
    from heathaze.release.gallery import make_gallery

    about: dict[str, str] = {"title": title, "publisher": publisher, "licence": licence}
    page = make_gallery(releases, folder, **about, names=names or (), backdrop=backdrop, overwrite=overwrite)
    if not quiet:
        say_written([page, page.with_name("catalog.jsonld")])
