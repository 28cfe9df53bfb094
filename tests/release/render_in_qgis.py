"""Render a GeoTIFF and a GeoPackage in QGIS, with the Python of the system: render_in_qgis.py TIF GPKG PICTURES.

PICTURES is a folder, which gets raster.png and squares.png. Squares have a level of red for each class.
"""

import json
import os
import sys
from pathlib import Path


def main(tif: str, gpkg: str, pictures: str) -> None:
    """Render both files, and print what QGIS says of them as JSON."""
    from qgis.core import Qgis, QgsApplication, QgsRasterLayer, QgsSingleBandGrayRenderer, QgsVectorLayer

    application = QgsApplication([], False)
    application.initQgis()
    raster, squares = QgsRasterLayer(tif, "raster"), QgsVectorLayer(gpkg, "squares", "ogr")
    raster.setRenderer(QgsSingleBandGrayRenderer(raster.dataProvider(), 1))
    raster.setDefaultContrastEnhancement()
    told = {
        "version": Qgis.QGIS_VERSION,
        "valid": [raster.isValid(), squares.isValid()],
        "systems": [raster.crs().authid(), squares.crs().authid()],
        "size": [raster.width(), raster.height()],
        "bands": [raster.bandName(band + 1) for band in range(raster.bandCount())],
        "fields": [field.name() for field in squares.fields()],
        "squares": squares.featureCount(),
        "errors": render(raster, Path(pictures) / "raster.png"),
    }
    colour_by_class(squares)
    told["errors"] += render(squares, Path(pictures) / "squares.png")
    print(json.dumps(told), flush=True)
    os._exit(0)  # QGIS 3.22 may crash when Python tidies up


def colour_by_class(squares: object) -> None:
    """Give class k the colour (255 − 30 k, 0, 0), white squares white, and unknown squares blue; no borders."""
    from qgis.core import QgsCategorizedSymbolRenderer, QgsFillSymbol, QgsRendererCategory

    colours = {-2: "0,0,255", -1: "255,255,255"} | {k: f"{255 - 30 * k},0,0" for k in range(7)}
    categories = [
        QgsRendererCategory(k, QgsFillSymbol.createSimple({"color": colour, "outline_style": "no"}), str(k))
        for k, colour in colours.items()
    ]
    squares.setRenderer(QgsCategorizedSymbolRenderer("class_number", categories))  # type: ignore[attr-defined]


def render(layer: object, path: Path) -> list[str]:
    """Render the whole layer as a picture of 512 × 512 pixels, and return what went wrong."""
    from qgis.core import QgsMapRendererSequentialJob, QgsMapSettings, QgsRectangle
    from qgis.PyQt.QtCore import QSize

    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(layer.crs())  # type: ignore[attr-defined]
    settings.setOutputSize(QSize(512, 512))
    box = layer.extent()  # type: ignore[attr-defined]
    # QGIS widens the box to the shape of the picture. The boxes of the test are square.
    settings.setExtent(QgsRectangle(box))
    settings.setFlag(QgsMapSettings.Antialiasing, False)
    job = QgsMapRendererSequentialJob(settings)
    job.start()
    job.waitForFinished()
    job.renderedImage().save(str(path))
    return [error.message for error in job.errors()]


if __name__ == "__main__":
    main(*sys.argv[1:])
