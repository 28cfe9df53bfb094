"""List the trials behind figures 1, 2, 10 and 11 of the paper on private heat maps."""

from __future__ import annotations

from typing import Any

from harness.data import data_file
from harness.results import Config, Point
from protocol import Trial


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run; trials of the same point follow each other."""
    chosen, real = config[mode], data_file(config["gowalla"]["file"]) is not None
    sources = ["synthetic", "gowalla"] if real and mode == "full" else ["synthetic"]
    trials: list[tuple[Point, Trial]] = []

    def add(figure: str, source: str, x: float, data: str = "", **changes: Any) -> None:
        point = Point(figure, source, x)
        runs = range(chosen[figure]["runs"])
        trials.extend((point, _trial(config, mode, data or source, run, **changes)) for run in runs)

    for source in sources:
        for epsilon in chosen["figure1"]["epsilons"]:
            add("figure1", source, epsilon, epsilon=epsilon)
        for people in chosen["users"]["people"]:
            add("users", source, people, epsilon=chosen["users"]["epsilon"], people=people)
        for size in chosen["resolution"]["sizes"]:
            add("resolution", source, size, epsilon=chosen["resolution"]["epsilon"], size=size)
    for figure in ("sparsity", "clusters"):
        for clusters, share in chosen[figure]["steps"]:
            x = share if figure == "sparsity" else clusters
            add(figure, "mixture", x, data=f"mixture:{clusters}:{share}", epsilon=chosen[figure]["epsilon"])
    if real:
        for epsilon in sorted({value["epsilon"] for value in config["golden"]["values"]}):
            names = [value["method"] for value in config["golden"]["values"] if value["epsilon"] == epsilon]
            add("golden", "gowalla", epsilon, epsilon=epsilon, names=names, emd_size=chosen["golden"]["emd_size"])
    return trials


def _trial(config: Config, mode: str, source: str, run: int, **changes: Any) -> Trial:
    settings = {**config["protocol"], **config[mode].get("protocol", {}), **changes}
    names = settings.pop("names", None) or config[mode].get("methods") or list(config["methods"])
    methods = tuple(
        (name, config["methods"][name]["mechanism"], config["methods"][name].get("share")) for name in names
    )
    return Trial(source=source, run=run, methods=methods, **settings)
