"""The gallery: a site without scripts that shows releases, what they cost together, and a catalogue."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import CannotWrite, InvalidInput, UnreadableData
from heathaze.release.gallery import make_gallery
from heathaze.release.squares import certain_squares, choose_first, gather, one_scale

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("releases")
    grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=16)
    visits = {"person": range(300), "lon": [9.93] * 300, "lat": [53.52] * 300}
    counts = hz.count(visits, grid, person="person")
    named = {"may <b>&.npz": hz.central.default(grid, 1), "june.geojson": hz.central.Flat(grid, 2)}
    return [hz.publish(mechanism, counts).save(folder / name) for name, mechanism in named.items()]


def test_the_site(files: list[Path], tmp_path: Path) -> None:
    told = {"title": "City <i>maps</i>", "publisher": "The city", "names": ["May <b>&", "June"]}
    page = make_gallery(files, tmp_path / "site", **told)  # type: ignore[arg-type]
    text = page.read_text("utf-8")
    assert "City &lt;i&gt;maps" in text
    assert "May &lt;b&gt;&amp;" in text
    assert "<i>" not in text
    assert "<script" not in text
    assert "Together these 2 releases cost at most ε = 3 (unit: person" in text
    # Downloads are the same releases.
    for source in files:
        assert (page.parent / source.name).read_bytes() == source.read_bytes()
    catalogue = json.loads((page.parent / "catalog.jsonld").read_text("utf-8"))
    assert catalogue["@type"] == "dcat:Catalog"
    assert [one["dct:title"] for one in catalogue["dcat:dataset"]] == ["May <b>&", "June"]
    for one in catalogue["dcat:dataset"]:
        assert one["dct:publisher"]["foaf:name"] == "The city"
        for part in one["dcat:distribution"]:
            assert part["dcat:downloadURL"]["@id"] in text.replace("&amp;", "&")
    with pytest.raises(CannotWrite, match="holds a site already"):
        make_gallery(files, page.parent)


def test_maps_without_a_name_say_what_they_are(files: list[Path], tmp_path: Path) -> None:
    """Not the name of a file, unless two maps would have the same title."""
    day = hz.load(files[0]).provenance.day
    for sources in (files, files[:1]):
        site = make_gallery(sources, tmp_path / f"{len(sources)}").parent
        titles = [one["dct:title"] for one in json.loads((site / "catalog.jsonld").read_text("utf-8"))["dcat:dataset"]]
        for title, source in zip(titles, sources, strict=True):
            assert title.startswith("Density of people, ")
            assert day[:4] in title
            assert title.endswith(f"({source.stem})") == (len(sources) > 1)
    for names in (["only one"], ["one", ""]):
        with pytest.raises(InvalidInput, match=r"Names: ., releases: 2"):
            make_gallery(files, tmp_path / "other", names=names)


LICENCE = "https://creativecommons.org/licenses/by/4.0/"


def test_the_catalogue_has_what_portals_need(files: list[Path], tmp_path: Path) -> None:
    """The mandatory properties of the profile DCAT-AP, and the licence; every address is a file of the site."""
    site = make_gallery(files, tmp_path / "site", publisher="The city", licence=LICENCE).parent
    catalogue = json.loads((site / "catalog.jsonld").read_text("utf-8"))
    prefixes = catalogue["@context"]
    assert all(address.startswith("http") for address in prefixes.values())

    def check(node: object) -> None:
        """Every property has a declared prefix, and every node a type or an address."""
        for one in node if isinstance(node, list) else [node]:
            if isinstance(one, dict):
                names = [name for name in one if not name.startswith("@")]
                assert all(name.split(":")[0] in prefixes for name in names)
                assert "@type" in one or "@id" in one
                for name in names:
                    check(one[name])

    check({name: value for name, value in catalogue.items() if name != "@context"})
    assert {"dct:title", "dct:description", "dct:publisher", "dct:license", "dcat:dataset"} <= catalogue.keys()
    for one in catalogue["dcat:dataset"]:
        assert {"dct:title", "dct:description", "dct:issued", "dct:spatial", "dcat:keyword"} <= one.keys()
        for part in one["dcat:distribution"]:
            assert part["dcat:accessURL"] == part["dcat:downloadURL"]
            assert part["dct:license"] == {"@id": LICENCE}
            assert part["dcat:mediaType"]["@id"].startswith("https://www.iana.org/assignments/media-types/")
            path = site / unquote(part["dcat:downloadURL"]["@id"])
            assert path.stat().st_size == part["dcat:byteSize"]


def test_small_maps_of_one_place_have_one_scale(tmp_path: Path) -> None:
    grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=16)
    files = []
    for name, people in (("few", 300), ("many", 30_000)):
        visits = {"person": np.arange(people), "lon": np.linspace(9.93, 9.94, people), "lat": np.full(people, 53.52)}
        counts = hz.count(visits, grid, person="person")
        files.append(hz.publish(hz.central.default(grid, 1), counts).save(tmp_path / f"{name}.npz"))
    text = make_gallery(files, tmp_path / "site").read_text("utf-8")
    scales = re.findall(r"White: under .*? people per km²\. Darkest: .*? and more\.", text)
    assert len(scales) == 2
    assert scales[0] == scales[1]


def test_a_map_of_many_keeps_its_classes_beside_a_map_of_few() -> None:
    """It had one colour once, "0.3 and more"."""
    grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.62), size=128)
    maps = []
    for people in (150, 50_000):
        rng = np.random.default_rng(people)
        away = 0.09 * rng.uniform(size=people) ** 4 * np.exp(2j * np.pi * rng.uniform(size=people))
        visits = {"person": np.arange(people), "lon": 10 + away.real, "lat": 53.56 + 0.6 * away.imag}
        counts = hz.count(visits, grid, person="person")
        maps.append(hz.publish(hz.central.default(grid, 1), counts, randomness=hz.Simulation(1)).estimate)
    alone = [certain_squares(one, "people") for one in maps]
    first, together = one_scale(maps, "people")
    assert together[0].classes == together[1].classes
    assert len(alone[1].classes) >= 5
    used = [len(np.unique(squares.kinds[squares.kinds >= 0])) for squares in together]
    assert used[1] >= len(alone[1].classes) - 1
    assert used[0] >= 1
    lowest = choose_first(gather(maps[0].posterior, 0.9))
    assert lowest < first <= lowest + 4
    # Maps that fit into seven classes keep the lowest first class.
    assert one_scale(maps[1:], "people")[0] == choose_first(gather(maps[1].posterior, 0.9))


def test_each_map_gets_the_outlines_that_lie_on_it(files: list[Path], tmp_path: Path) -> None:
    outlines = {"Nearby": [9.92, 53.52], "far": [-74.0, 40.7], "nowhere": [20.0, 20.0]}
    for name, (x, y) in outlines.items():
        ring = [[x, y], [x + 0.05, y], [x + 0.05, y + 0.05], [x, y]]
        feature = {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": "Polygon", "coordinates": [ring]},
        }
        (tmp_path / f"{name}.geojson").write_text(json.dumps(feature), "utf-8")
    other = hz.Grid.over(lon=(-74.1, -73.8), lat=(40.6, 40.9), size=16)
    visits = {"person": range(300), "lon": [-74.0] * 300, "lat": [40.7] * 300}
    away = hz.publish(hz.central.default(other, 1), hz.count(visits, other, person="person")).save(
        tmp_path / "away.npz"
    )
    both = [tmp_path / "Nearby.geojson", tmp_path / "far.geojson"]
    site = make_gallery([files[0], away], tmp_path / "site", backdrop=both).parent
    assert '"Nearby"' in (site / f"{files[0].stem}.html").read_text("utf-8")
    assert '"Nearby"' not in (site / "away.html").read_text("utf-8")
    assert '"far"' in (site / "away.html").read_text("utf-8")
    with pytest.raises(UnreadableData, match=r"nowhere\.geojson has nothing to draw"):
        make_gallery([files[0], away], tmp_path / "other", backdrop=[*both, tmp_path / "nowhere.geojson"])
    assert not (tmp_path / "other").exists()


def test_refusals(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at least one release"):
        make_gallery([], tmp_path / "site")
    with pytest.raises(InvalidInput, match="taken twice"):
        make_gallery([files[0], files[0]], tmp_path / "site")
    with pytest.raises(InvalidInput, match="The licence is 'CC BY'; give its address"):
        make_gallery(files, tmp_path / "site", licence="CC BY")
    assert not (tmp_path / "site").exists()


@pytest.mark.xdist_group("browser")
def test_the_site_in_a_browser(files: list[Path], tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    if CHROMIUM is None:
        pytest.skip("There is no Chromium, so the page is not opened in a browser; install Debian's package chromium.")
    page = make_gallery(files, tmp_path / "site")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme, bypass_csp=False)
            opened, asked, complaints = context.new_page(), [], []
            opened.on("request", lambda request, asked=asked: asked.append(request.url))
            opened.on("console", lambda message, complaints=complaints: complaints.append(message.text))
            opened.goto(page.as_uri())
            assert opened.evaluate("[...document.images].every((image) => image.naturalWidth > 100)")
            assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
            assert complaints == []
            assert axe.Axe().run(opened).violations_count == 0
            context.close()
        browser.close()
