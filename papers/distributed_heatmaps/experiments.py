"""List the trials behind tables 1 to 5 and figures 7 to 9 on surveys by secure aggregation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.results import Config, Point
from protocol import Trial
from sources import present


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run; trials of the same point follow each other."""
    chosen = config[mode]
    return [
        (point, Trial(source=point.source, run=run, **{"size": chosen["size"]} | settings))
        for point, runs, settings in _points(config, chosen)
        for run in range(runs)
    ]


def table1(lost: float) -> str:
    """The name of the trials of table 1 in which this share of people drops out."""
    return "table1" if lost == 0 else f"table1, {lost:.0%} lost"


def _points(config: Config, chosen: Config) -> Iterator[tuple[Point, int, dict]]:
    def here(names: list[str]) -> list[str]:
        return [name for name in names if present(name, config)]

    for source in here(chosen["rasters"]):
        for row in chosen["table1"]:
            settings = {"kind": "table1", "people": row["people"], "lost": row["lost"], "infer": row["infer"]}
            yield Point(table1(row["lost"]), source, row["people"]), row["runs"], settings
        table = chosen["table3"]
        settings = {"kind": "table3", "people": table["people"], "infer": table["infer"]}
        yield Point("table3", source, table["people"]), table["runs"], settings
    table = chosen["table2"]
    for source in here(table["visits"]):
        people = table["people"][source]
        settings = {"kind": "table2", "people": people, "values": tuple(table["masses"]), "infer": table["infer"]}
        yield Point("table2", source, people), table["runs"], settings
    table = chosen["shards"]
    for source in here(table["rasters"]):
        for people in table["people"]:
            settings = {"kind": "shards", "people": people, "values": tuple(table["numbers"])}
            yield Point("shards", source, people), table["runs"], settings
    table = chosen["earlier"]
    for source in here(table["rasters"]):
        for people in table["people"]:
            yield Point("earlier", source, people), table["runs"], {"kind": "earlier", "people": people}
    figure = chosen["samples"]
    for source in here(figure["rasters"]):
        for people in figure["people"]:
            settings = {"kind": "samples", "people": people, "infer": figure["infer"]}
            yield Point("samples", source, people), figure["runs"], settings
    figure = chosen["early_noise"]
    for source in here(figure["rasters"]):
        for value in figure["values"]:
            settings = {"kind": "early_noise", "people": figure["people"], "value": value, "infer": figure["infer"]}
            yield Point("early_noise", source, value), figure["runs"], settings
    yield from _figure8(chosen, here)
    for source in here(chosen["shares"]["rasters"]):
        for people in chosen["shares"]["people"]:
            settings = {"kind": "shares", "people": people, "value": chosen["shares"]["width"]}
            yield Point("shares", source, people), chosen["shares"]["runs"], settings


def _figure8(chosen: Config, here: Callable[[list[str]], list[str]]) -> Iterator[tuple[Point, int, dict]]:
    for source in here(chosen["shard"]["rasters"]):
        for people in chosen["shard"]["people"]:
            for size in (size for size in chosen["shard"]["sizes"] if size <= people):
                settings = {"kind": "shard", "people": people, "value": size}
                yield Point("shard", source, size), chosen["shard"]["runs"], settings
    for source in here(chosen["threshold"]["rasters"]):
        for lost in chosen["threshold"]["lost"]:
            # A shard with fewer people than ``size`` is not opened. So ``size`` is at least 2 percentage points below
            # the expected share of people who stay.
            for size in (size for size in chosen["threshold"]["sizes"] if lost == 0 or size <= 10_000 * (0.98 - lost)):
                settings = {"kind": "threshold", "lost": lost, "value": size}
                yield Point("threshold", source, size), chosen["threshold"]["runs"], settings
    for source in here(chosen["bits"]["rasters"]):
        for bits in chosen["bits"]["sizes"]:
            yield Point("bits", source, bits), chosen["bits"]["runs"], {"kind": "bits", "value": bits}
