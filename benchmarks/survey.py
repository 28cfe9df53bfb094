"""Compare the exact simulation of a survey of ten million people with running one device after the other.

python benchmarks/survey.py
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from heathaze.datasets.city import synthetic_city
from heathaze.distributed import AdaptiveQuadtree, Cohort, Device, Population, Survey, simulate
from heathaze.domain.grid import Grid
from heathaze.privacy.randomness import Simulation

PEOPLE, SHARDS, SIZE = 10_000_000, 1000, 1024
DEVICES = 200
WANTED_SECONDS, WANTED_RATIO = 60, 100


def main() -> None:
    """Print times and the ratio."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=SIZE)
    population, drawing = _timed(
        lambda: Population.from_raster(grid, synthetic_city(grid.shape, 1), PEOPLE, Simulation(1))
    )
    survey = Survey(AdaptiveQuadtree(grid, 1), Cohort(PEOPLE, SHARDS))
    done, asking = _timed(lambda: simulate(survey, population, randomness=Simulation(2), dropout=0.05))
    release, estimating = _timed(lambda: done.estimate(draws=0))
    seconds = drawing + asking + estimating
    print(f"{PEOPLE:,} people, {SHARDS:,} shards, {SIZE} × {SIZE} cells, {len(done.rounds)} rounds of up to "
          f"{done.rounds[-1].question.length:,} regions: {seconds:.0f} s")  # fmt: skip
    print(f"  population {drawing:.1f} s, rounds {asking:.1f} s, map {estimating:.1f} s, "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB; {release}")  # fmt: skip
    print(f"  wanted at most {WANTED_SECONDS} s: {'reached' if seconds <= WANTED_SECONDS else 'MISSED'}")
    one = sum(_one_device(one.question) for one in done.rounds)
    ratio = one * PEOPLE / asking
    print(f"  device after device, by extrapolation from {DEVICES}: {one * PEOPLE:,.0f} s, ratio {ratio:,.0f}")
    print(f"  wanted at least {WANTED_RATIO}: {'reached' if ratio >= WANTED_RATIO else 'MISSED'}")


def _one_device(question: Any) -> float:
    """The seconds in which one device answers, encodes its answer and adds its noise, without masks."""
    places = np.random.default_rng(1).uniform(0, 1, (DEVICES, 2))
    devices = [Device(place, budget=10) for place in places]
    source = Simulation(3)
    devices[0].answer(question, randomness=source)
    _, seconds = _timed(lambda: [device.answer(question, randomness=source) for device in devices[1:]])
    return seconds / (DEVICES - 1)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
