"""List the trials behind the figures and tables on private sensors."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Config, Point
from protocol import InRoom, OnGraph, OnLine, Trial
from sources import lab_sensors

SWEEPS = ("n", "m", "T", "epsilon")


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run; trials of the same point follow each other."""
    chosen = config[mode]
    return [
        *_figure1(config, chosen),
        *_table(config, chosen),
        *_sweeps(config, chosen),
        *_figure3(chosen),
        *(_lab(chosen) if lab_sensors(config) is not None else ()),
    ]


def figure1_trial(config: Config, run: int, guesses: int) -> OnLine:
    """A trial with the setting of figure 1."""
    line = config["line"]
    return OnLine(run, guesses, "figure 1", line["n"], line["m"], line["T"], "0")


def _figure1(config: Config, chosen: Config) -> Iterator[tuple[Point, Trial]]:
    point = Point("figure1", "line", config["line"]["sigma"])
    for run in range(chosen["figure1"]["runs"]):
        yield point, figure1_trial(config, run, chosen["guesses"]["apart"])


def _table(config: Config, chosen: Config) -> Iterator[tuple[Point, Trial]]:
    line, table = config["line"], chosen["table"]
    for places in config["places"]:
        for reach in table["reaches"]:
            for run in range(table[places]):
                trial = OnLine(run, chosen["guesses"][places], places, line["n"], line["m"], line["T"], reach)
                yield Point("table", places, float(reach)), trial


def _sweeps(config: Config, chosen: Config) -> Iterator[tuple[Point, Trial]]:
    line, sweeps = config["line"], chosen["sweeps"]
    usual = {"n": line["n"], "m": line["m"], "T": line["T"], "epsilon": 1}
    for name in SWEEPS:
        for value in sweeps[name]:
            for run in range(sweeps["runs"]):
                settings = usual | {name: value}
                trial = OnLine(
                    run, chosen["guesses"]["sweeps"], "apart", reach=sweeps["reach"], known=False, **settings
                )
                yield Point(f"over {name}", "line", value), trial


def _figure3(chosen: Config) -> Iterator[tuple[Point, Trial]]:
    figure = chosen["figure3"]
    for length, runs in figure["runs"].items():
        for run in range(runs):
            trial = OnGraph(run, chosen["guesses"]["graph"], run % figure["graphs"], int(length))
            yield Point("figure3", "block model", int(length)), trial


def _lab(chosen: Config) -> Iterator[tuple[Point, Trial]]:
    for epsilon in chosen["lab"]["epsilons"]:
        for run in range(chosen["lab"]["runs"]):
            yield Point("lab", "lab", epsilon), InRoom(run, chosen["guesses"]["lab"], epsilon)
