"""Run trials on all cores, and collect their results in one table of numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Protocol

import numpy as np

Config = Mapping[str, Any]
Measured = Mapping[str, Mapping[str, float]]
"""The results of one trial: numbers by method and metric."""


@dataclass(frozen=True, order=True)
class Point:
    """One point on the horizontal axis of a figure."""

    figure: str
    source: str
    x: float


class Measure(Protocol):
    """A function that runs one trial. It must be a function of a module, so that another process can import it."""

    def __call__(self, trial: Any, config: Config) -> Measured: ...


@dataclass
class Results:
    """The values of all runs by figure, point, method and metric, in the order of the runs."""

    values: dict[tuple[Point, str, str], np.ndarray] = field(default_factory=dict)

    def of(self, point: Point, method: str, metric: str) -> np.ndarray:
        """One value per run; the i-th values of all methods come from the same people."""
        return self.values[point, method, metric]

    def mean(self, point: Point, method: str, metric: str) -> float:
        """Mean over the runs."""
        return float(self.of(point, method, metric).mean())

    def error(self, point: Point, method: str, metric: str) -> float:
        """Standard error of the mean."""
        runs = self.of(point, method, metric)
        return float(runs.std(ddof=1) / np.sqrt(len(runs)))

    def series(self, figure: str, source: str) -> list[Point]:
        """The points on the horizontal axis of one figure, from left to right."""
        return sorted({point for point, _, _ in self.values if (point.figure, point.source) == (figure, source)})

    def sources(self, figure: str) -> list[str]:
        """The names of the data sets of a figure."""
        return sorted({point.source for point, _, _ in self.values if point.figure == figure})

    def methods(self, point: Point) -> list[str]:
        """The names of the methods that ran at a point."""
        return list(dict.fromkeys(method for at, method, _ in self.values if at == point))


def run_all(trials: list[tuple[Point, Any]], measure: Measure, config: Config, progress: Callable[[], None]) -> Results:
    """Run all trials on all cores; the results do not depend on the order in which trials end."""
    found: list[Any] = [None] * len(trials)
    # Fresh processes: a fork of a process with threads may hang.
    with ProcessPoolExecutor(_cores(), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(measure, trial, config): place for place, (_, trial) in enumerate(trials)}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            progress()
    gathered: dict[tuple[Point, str, str], list[float]] = {}
    for key, value in _flat(trials, found):
        gathered.setdefault(key, []).append(value)
    return Results({key: np.array(values) for key, values in gathered.items()})


def _flat(trials: list[tuple[Point, Any]], found: list[Measured]) -> Iterator[tuple[tuple[Point, str, str], float]]:
    for (point, _), methods in zip(trials, found, strict=True):
        for method, metrics in methods.items():
            for metric, value in metrics.items():
                yield (point, method, metric), value


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
