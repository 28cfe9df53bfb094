"""List the trials of the marketplace: data sets, ε, numbers of points and of owners, and points seen."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Config, Point
from protocol import HERDING, POOL, PRIVATE, REFERENCES, ROUNDS, UNIFORM, Trial
from sources import available

EPSILON = 2
"""The ε of trials that vary something else."""

OVER_EPSILON, OVER_POINTS, OVER_SEEN, OVER_OWNERS = "over epsilon", "over points", "over seen", "over owners"


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run; trials of one market follow each other, because they share computations."""
    chosen = config[mode]
    return [
        trial
        for name, runs in chosen["runs"].items()
        if available(name, config)
        for run in range(runs)
        for trial in _of_run(config, chosen, name, run)
    ]


def _of_run(config: Config, chosen: Config, name: str, run: int) -> Iterator[tuple[Point, Trial]]:
    usual = config[name]["points"]
    every = (*PRIVATE, *REFERENCES)
    for epsilon in chosen["epsilons"][name]:
        yield Point(OVER_EPSILON, name, epsilon), Trial(name, run, usual, epsilon, every)
    for points in chosen["points"][name]:
        yield Point(OVER_POINTS, name, points), Trial(name, run, points, EPSILON, every)
    for seen in chosen["seen"].get(name, ()):
        yield Point(OVER_SEEN, name, seen), Trial(name, run, usual, EPSILON, (HERDING, POOL), seen, learn=False)
    for owners in chosen["owners"].get(name, ()):
        methods = (HERDING, ROUNDS, POOL, UNIFORM)
        trial = Trial(name, run, usual, EPSILON, methods, owners=owners, learn=False)
        yield Point(OVER_OWNERS, name, owners), trial
