"""List the trials behind the figures of the paper on private heat maps."""

from __future__ import annotations

from typing import Any

from communication import Rounded
from harness.data import data_file
from harness.results import Config, Measured, Point
from protocol import Trial, measure
from theory import Heat, Places


def measure_any(trial: Any, config: Config) -> Measured:
    """Run one trial of any kind."""
    return measure(trial, config) if isinstance(trial, Trial) else trial.measure(config)  # type: ignore[no-any-return]


def plan(config: Config, mode: str) -> list[tuple[Point, Any]]:
    """All trials of a full or a quick run; trials of the same point follow each other."""
    chosen, real = config[mode], data_file(config["gowalla"]["file"]) is not None
    sources = ["synthetic", "gowalla"] if real and mode == "full" else ["synthetic"]
    trials: list[tuple[Point, Any]] = []

    def add(figure: str, source: str, x: float, data: str = "", **changes: Any) -> None:
        point = Point(figure, source, x)
        runs = range(chosen[figure]["runs"])
        trials.extend((point, trial_of(config, mode, data or source, run, **changes)) for run in runs)

    for source in sources:
        for epsilon in chosen["figure1"]["epsilons"]:
            add("figure1", source, epsilon, epsilon=epsilon)
        for at in ("", "_at_1"):  # ε = 10 for figures 2, 4 and 5, and ε = 1 for figures 6 and 7
            users, resolution = "users" + at, "resolution" + at
            for people in chosen[users]["people"]:
                add(users, source, people, epsilon=chosen[users]["epsilon"], people=people)
            for size in chosen[resolution]["sizes"]:
                add(resolution, source, size, epsilon=chosen[resolution]["epsilon"], size=size)
    for figure in ("sparsity", "clusters"):
        for clusters, share in chosen[figure]["steps"]:
            x = share if figure == "sparsity" else clusters
            add(figure, "mixture", x, data=f"mixture:{clusters}:{share}", epsilon=chosen[figure]["epsilon"])
    source = "gaze" if mode == "full" and data_file(config["gaze"]["file"]) is not None else "made-up gaze"
    for epsilon in chosen["gaze"]["epsilons"]:
        settings = {name: config["gaze"][name] for name in ("size", "people")}
        add("gaze", source, epsilon, epsilon=epsilon, **settings)
    trials += _theory(chosen, source, {**config["protocol"], **chosen.get("protocol", {})}, config["gaze"])
    if real:
        for epsilon in sorted({value["epsilon"] for value in config["golden"]["values"]}):
            names = [value["method"] for value in config["golden"]["values"] if value["epsilon"] == epsilon]
            add("golden", "gowalla", epsilon, epsilon=epsilon, names=names, emd_size=chosen["golden"]["emd_size"])
    return trials


def _theory(chosen: Config, gaze: str, protocol: Config, frame: Config) -> list[tuple[Point, Any]]:
    """Trials behind appendices A, B and C, and figure 13."""
    trials: list[tuple[Point, Any]] = []
    places, heat, rounding = chosen["places"], chosen["heat"], chosen["rounding"]
    for run in range(places["runs"]):
        for figure, steps in (("places", places["steps"]), ("crowds", places["crowds"])):
            for k, people in steps:
                x = k if figure == "places" else people
                trials.append((Point(figure, "places", x), Places(run, places["epsilon"], people, k, places["size"])))
        for epsilon in heat["epsilons"]:
            one = Heat(run, epsilon, protocol["people"], heat["size"], tuple(heat["widths"]))
            trials.append((Point("heat", "synthetic", epsilon), one))
    for scale in rounding["scales"]:  # 0: not rounded, the central model
        for run in range(rounding["runs"]):
            one = Rounded(
                gaze,
                run,
                rounding["epsilon"],
                frame["people"],
                frame["size"],
                protocol["sigma"],
                protocol["emd_size"],
                scale,
            )
            trials.append((Point("rounding", gaze, scale), one))
    return trials


def trial_of(config: Config, mode: str, source: str, run: int, **changes: Any) -> Trial:
    """One trial on a data set, with the settings of the protocol except for these changes."""
    settings = {**config["protocol"], **config[mode].get("protocol", {}), **changes}
    names = settings.pop("names", None) or config[mode].get("methods") or list(config["methods"])
    methods = tuple(
        (name, config["methods"][name]["mechanism"], config["methods"][name].get("share")) for name in names
    )
    return Trial(source=source, run=run, methods=methods, **settings)
