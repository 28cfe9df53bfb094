"""A static site of releases: thumbnails, guarantees, what all of them cost together, downloads, and a DCAT catalogue.

The site works from a folder or any web server. Its page has no script and loads nothing from elsewhere. Only releases
are read, so the site costs no budget. DCAT is the vocabulary of data catalogues that open-data portals read.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from heathaze.domain.grid import Grid
from heathaze.errors import CannotWrite, InvalidInput
from heathaze.files import replacing
from heathaze.maps.backdrop import Backdrop, built_in_land
from heathaze.maps.backdrop_files import NotOnTheMap, read_backdrop
from heathaze.maps.figure import new_figure, save_figure
from heathaze.maps.mosaic import draw_mosaic
from heathaze.maps.shade import height_over_width
from heathaze.maps.sheet import Look
from heathaze.maps.squares import WHITE, Squares
from heathaze.privacy.guarantee import cost_together
from heathaze.release.formats.cells import counted, has_deviations
from heathaze.release.formats.metadata import Contents
from heathaze.release.formats.pictures import words
from heathaze.release.release import Release, load
from heathaze.release.squares import one_scale, plain_squares

_MEDIA = {
    ".html": ("Map to move and zoom", "text/html"),
    ".png": ("Picture", "image/png"),
    ".geojson": ("GeoJSON", "application/geo+json"),
    ".npz": ("Release file (npz)", "application/zip"),
    ".parquet": ("Release file (GeoParquet)", "application/vnd.apache.parquet"),
    ".tif": ("Release file (GeoTIFF)", "image/tiff"),
    ".tiff": ("Release file (GeoTIFF)", "image/tiff"),
}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
body { color: #1f2328; background: #fff; }
a { color: #0b57a4; }
ul.maps { list-style: none; padding: 0; display: grid; gap: 1.5rem; }
ul.maps { grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
.maps > li { border: 1px solid #8a919c; border-radius: 6px; padding: 1rem; overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; border: 1px solid #8a919c; }
.note { font-size: .875rem; color: #50565f; }
@media (prefers-color-scheme: dark) {
  body { color: #eceae6; background: #15171c; }
  a { color: #8ec1ff; }
  .note { color: #b4bac4; }
}
"""


@dataclass(frozen=True)
class _Shown:
    """A release on the site, with the files that can be downloaded, and the squares of its small map."""

    release: Release
    title: str
    files: tuple[Path, ...]
    backdrop: Backdrop | None
    squares: Squares


def make_gallery(
    releases: Sequence[str | Path],
    folder: str | Path,
    *,
    title: str = "Maps",
    names: Sequence[str] = (),
    publisher: str = "",
    licence: str = "",
    backdrop: Sequence[str | Path] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a static site of releases.

    Args:
        releases: Release files (.npz, .parquet, .geojson, .tif), each with a name of its own.
        folder: The folder of the site. It is made if it does not exist.
        title: The title of the site.
        names: The title of each map, in the order of the releases. If left out, a title says what the map counts and
            when it was published; of maps with the same title, each also has the name of its file.
        publisher: Who publishes the maps, for the catalogue.
        licence: The address of the licence of the maps, for the catalogue.
        backdrop: Files of public geography for maps and pages. A map gets those of the files that lie on it.
        overwrite: Whether a site that is there already is replaced, file by file.

    Returns:
        The first page of the site, ``index.html``. Beside it are ``catalog.jsonld`` and the files to download.

    Raises:
        InvalidInput: There is no release, or two have the same name.
        UnreadableData: A file is no release, or a backdrop lies on no map.
        CannotWrite: The folder holds a site already, or cannot be written.
    """
    sources, site = [Path(one) for one in releases], Path(folder)
    if not sources:
        raise InvalidInput("A gallery needs at least one release; name release files.")
    stems = [source.stem for source in sources]
    twice = next((name for name in stems if stems.count(name) > 1 or name in ("index", "catalog")), None)
    if twice is not None:
        raise InvalidInput(f"The name {twice!r} is taken twice in the gallery; rename one of the files.")
    if names and (len(names) != len(sources) or not all(names)):
        raise InvalidInput(
            f"Names: {len(names)}, releases: {len(sources)}; give each release one name, in their order."
        )
    if licence and not re.fullmatch(r"https?://[^\s<>\"]+", licence):
        raise InvalidInput(
            f"The licence is {licence!r}; give its address, such as https://creativecommons.org/licenses/by/4.0/."
        )
    loaded = [load(source) for source in sources]
    outlines = _outlines(backdrop or [], loaded)
    if (site / "index.html").exists() and not overwrite:
        raise CannotWrite(f"{site} holds a site already; choose another folder, or add --overwrite.")
    try:
        site.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotWrite(f"Cannot make the folder {site}: {(problem.strerror or 'unknown').lower()}.") from None
    small = _on_one_scale(loaded)
    titles = list(names) or _titles(loaded, stems)
    shown = [_write(*one, site) for one in zip(sources, loaded, titles, outlines, small, strict=True)]
    with replacing(site / "index.html", site / "catalog.jsonld") as (page, catalogue):
        page.write_bytes(_page(shown, title).encode())
        catalogue.write_text(
            json.dumps(_catalogue(shown, title, publisher, licence), ensure_ascii=False, indent=2), "utf-8"
        )
    return site / "index.html"


def _outlines(paths: Sequence[str | Path], releases: Sequence[Release]) -> list[Backdrop | None]:
    """Read for each release the backdrops that lie on its map; a file that lies on no map is refused."""
    elsewhere: dict[str | Path, list[NotOnTheMap]] = {path: [] for path in paths}
    found: list[Backdrop | None] = []
    for release in releases:
        here = []
        for path in paths:
            try:
                read_backdrop([path], release.grid)
                here.append(path)
            except NotOnTheMap as problem:
                elsewhere[path].append(problem)
        found.append(read_backdrop(here, release.grid) if here else built_in_land(release.grid))
    for problems in elsewhere.values():
        if len(problems) == len(releases):
            raise problems[0]
    return found


def _on_one_scale(releases: Sequence[Release]) -> list[Squares]:
    """Divide maps into squares for small pictures. Maps with one grid that count the same thing share their classes."""
    names = [counted(one.guarantee, one.provenance) for one in releases]
    together: dict[tuple[Grid, str], list[int]] = {}
    found: dict[int, Squares] = {}
    for k, (one, name) in enumerate(zip(releases, names, strict=True)):
        if has_deviations(one.estimate):
            together.setdefault((one.grid, name), []).append(k)
        else:
            found[k] = plain_squares(one.estimate, name)
    for (_, name), members in together.items():
        found |= dict(zip(members, one_scale([releases[k].estimate for k in members], name)[1], strict=True))
    return [found[k] for k in range(len(releases))]


def _titles(releases: Sequence[Release], stems: Sequence[str]) -> list[str]:
    """Write a title for each release that has none: what it counts, its day, and its file if titles are equal."""
    days = [datetime.date.fromisoformat(one.provenance.day) for one in releases]
    titles = [
        f"{words(_contents(one)).title}, published on {day.day} {day:%B %Y}"
        for one, day in zip(releases, days, strict=True)
    ]
    return [
        title if titles.count(title) == 1 else f"{title} ({stem})" for title, stem in zip(titles, stems, strict=True)
    ]


def _write(source: Path, release: Release, title: str, backdrop: Backdrop | None, small: Squares, site: Path) -> _Shown:
    """Copy a release into the site, and write its page, its picture and its polygons."""
    files = [site / f"{source.stem}.html", site / f"{source.stem}.png", site / f"{source.stem}.geojson"]
    copy = site / source.name
    for path in files:
        if path != copy:
            release.save(path, title=title, backdrop=backdrop)
    if not (copy.exists() and copy.samefile(source)):
        with replacing(copy) as (part,):
            shutil.copyfile(source, part)
    return _Shown(release, title, tuple(dict.fromkeys([*files, copy])), backdrop, small)


def _page(shown: Sequence[_Shown], title: str) -> str:
    style = f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"
    policy = f"default-src 'none'; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"
    cost = cost_together([one.release.guarantee for one in shown])
    maps = "\n".join(_card(one) for one in shown)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_STYLE}</style>
</head>
<body>
<header><h1>{html.escape(title)}</h1></header>
<main>
<p>{html.escape(cost)} <a href="catalog.jsonld">Catalogue for data portals (DCAT)</a></p>
<ul class="maps">
{maps}
</ul>
</main>
</body>
</html>
"""


def _card(one: _Shown) -> str:
    sentences = words(_contents(one.release))
    picture, squares = base64.b64encode(_thumbnail(one)).decode(), one.squares
    scale = f"White: {squares.name(WHITE)} {squares.unit}. Darkest: {squares.name(len(squares.classes) - 1)}."
    scale += " Its page may have other classes: compare the numbers."
    links = ", ".join(
        f'<a href="{html.escape(_address(path))}">{_MEDIA[path.suffix.lower()][0]}'
        f"<span> ({max(1, path.stat().st_size // 1000):,} kB)</span></a>"
        for path in one.files
    )
    return (
        f"<li><h2>{html.escape(one.title)}</h2>"
        f'<img src="data:image/png;base64,{picture}" alt="Small map: {html.escape(one.title)}">'
        f'<p class="note">{html.escape(scale)}</p>'
        f"<p>{html.escape(sentences.subtitle)} {html.escape(sentences.promise)}</p><p>{links}</p>"
        f'<p class="note">{html.escape(sentences.guarantee)} {html.escape(sentences.made)}</p></li>'
    )


def _thumbnail(one: _Shown) -> bytes:
    """Draw a small map without texts."""
    ratio = min(max(height_over_width(one.release.grid), 0.2), 3.0)
    figure = new_figure(3.0, 3.0 * ratio)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    draw_mosaic(axes, one.squares, Look(backdrop=one.backdrop), 3.0, 3.0 * ratio)
    picture = BytesIO()
    save_figure(figure, picture)
    return picture.getvalue()


def _contents(release: Release) -> Contents:
    return Contents(release.estimate, release.guarantee, release.provenance)


def _address(path: Path) -> str:
    from urllib.parse import quote

    return f"./{quote(path.name)}"


def _catalogue(shown: Sequence[_Shown], title: str, publisher: str, licence: str) -> dict[str, Any]:
    """Describe the releases in the vocabulary DCAT, as JSON-LD. Addresses of files are relative to the catalogue."""
    by = {"dct:publisher": {"@type": "foaf:Agent", "foaf:name": publisher}} if publisher else {}
    under = {"dct:license": {"@id": licence}} if licence else {}
    return {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "foaf": "http://xmlns.com/foaf/0.1/",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
            "geo": "http://www.opengis.net/ont/geosparql#",
        },
        "@id": "./catalog.jsonld",
        "@type": "dcat:Catalog",
        "dct:title": title,
        "dct:description": cost_together([one.release.guarantee for one in shown]),
        **by,
        **under,
        "dcat:dataset": [_dataset(one, under) | by for one in shown],
    }


def _dataset(one: _Shown, under: Mapping[str, Any]) -> dict[str, Any]:
    release, sentences = one.release, words(_contents(one.release))
    (west, east), (south, north) = release.grid.x, release.grid.y
    box = f"POLYGON(({west} {south},{east} {south},{east} {north},{west} {north},{west} {south}))"
    place = {"@type": "dct:Location", "dcat:bbox": {"@type": "geo:wktLiteral", "@value": box}}
    return {
        "@id": f"./catalog.jsonld#{_address(one.files[0])[2:-5]}",
        "@type": "dcat:Dataset",
        "dct:title": one.title,
        "dct:description": f"{sentences.subtitle} {sentences.promise} {sentences.guarantee}",
        "dct:issued": {"@type": "xsd:date", "@value": release.provenance.day},
        **({"dct:spatial": place} if release.grid.projection.is_geographic else {}),
        "dcat:keyword": ["differential privacy", "heat map"],
        "dcat:landingPage": {"@id": _address(one.files[0])},
        "dcat:distribution": [
            {
                "@type": "dcat:Distribution",
                "dct:title": _MEDIA[path.suffix.lower()][0],
                # Portals require the address of access, which is the file itself.
                "dcat:accessURL": {"@id": _address(path)},
                "dcat:downloadURL": {"@id": _address(path)},
                "dcat:mediaType": {
                    "@id": f"https://www.iana.org/assignments/media-types/{_MEDIA[path.suffix.lower()][1]}"
                },
                "dcat:byteSize": path.stat().st_size,
                **under,
            }
            for path in one.files
        ],
    }
