"""List the trials of the range queries."""

from __future__ import annotations

from harness.data import data_file
from harness.results import Config, Point
from protocol import Trial


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run; trials of the same point follow each other."""
    chosen = config[mode]
    rectangles = {**config["protocol"], **chosen.get("protocol", {})}["rectangles"]
    real = all(data_file(config["data"][name]) for name in ("grids", "peers"))
    if not real:
        print("The real data are absent, so the run uses made-up data only.")
    return [
        (Point(setting, source, config["settings"][setting]["epsilon"]), Trial(source, setting, number, rectangles))
        for setting, trials in chosen["trials"].items()
        for source in [*(chosen["sets"] if real else []), *chosen["made_up"]]
        for number in range(trials)
    ]
