"""List the trials behind figures 8, 9 and 13 of the paper on the disk area mechanism, and of the estimators."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from calibration import equal_subset, square
from harness.results import Config, Point
from protocol import Trial
from sources import present

from heathaze.local.disk_area import paper_radius


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run; trials of the same point follow each other."""
    chosen = config[mode]
    sources = [name for name in chosen["data"] if present(name, config)]
    return [
        (point, Trial(source=point.source, run=run, **settings))
        for point, runs, settings in _points(config, chosen, sources)
        for run in range(runs)
    ]


def _points(config: Config, chosen: Config, sources: list[str]) -> Iterable[tuple[Point, int, dict[str, Any]]]:
    methods = {name: tuple(listed) for name, listed in config["methods"].items()}
    for source in sources:
        figure = chosen["figure8"]
        size, epsilon = figure["d"], figure["epsilon"]
        best = math.floor(paper_radius(square(size), epsilon))
        for share in figure["shares"]:
            settings = {"size": size, "epsilon": epsilon, "methods": methods["discs"], "radius": round(share * best)}
            yield Point("figure8", source, settings["radius"]), figure["runs"], settings
        for name in ("few_cells", "many_cells"):
            figure = chosen[name]
            for size in figure["d"]:
                settings = _compared(size, figure["epsilon"]) | {"methods": methods["all"]}
                yield Point(name, source, size), figure["runs"], settings
        for name in ("small_epsilon", "large_epsilon"):
            figure = chosen[name]
            for epsilon in figure["epsilons"]:
                settings = _compared(figure["d"], epsilon) | {"methods": methods["all"]}
                yield Point(name, source, epsilon), figure["runs"], settings
        figure = chosen["wide_discs"]
        for epsilon in figure["epsilons"]:
            settings = {"size": figure["d"], "epsilon": epsilon, "methods": methods["ldp"]}
            yield Point("wide_discs", source, epsilon), figure["runs"], settings
        figure = chosen["estimators"]
        for size in figure["d"] if source in figure["data"] else ():
            for epsilon in figure["epsilons"]:
                settings = {"size": size, "epsilon": epsilon, "methods": methods["estimators"]}
                settings["reports"] = config["protocol"]["estimator_reports"]
                yield Point(f"estimators, d = {size}", source, epsilon), figure["runs"], settings


def _compared(size: int, epsilon: float) -> dict[str, Any]:
    return {"size": size, "epsilon": epsilon, "subset": equal_subset(size, epsilon)}
