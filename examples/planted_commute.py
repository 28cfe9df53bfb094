"""Is one person's commute of a hundred rides visible in a model of journeys? With the person, and the trip, as unit.

    python examples/planted_commute.py

The attacker knows everybody else, and the way of the commute, and sees the model. The attack compares the model's mass
of pairs near the commute's start and end with a threshold. Its advantage is the true positive rate minus the false
positive rate, at the best threshold. No attack on an ε-differentially private model has an advantage above
(e^ε − 1) / (e^ε + 1).
"""

from __future__ import annotations

import math
import sys

import numpy as np

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.domain.quadtree import interleave
from heathaze.ingest.journeys import Journeys
from heathaze.privacy.guarantee import Unit
from heathaze.trajectories.facts import count_facts
from heathaze.trajectories.frame import pair_codes

GRID = hz.Grid.plane(x=(0, 16), y=(0, 16), size=16)
COMMUTE = [(1.5, 14.5), (14.5, 14.5)]


def journeys(unit: Unit, planted: bool) -> Journeys:
    """Return rides of 300 people between two centres, and perhaps one person who rides elsewhere a hundred times."""
    ends = np.clip(np.random.default_rng(1).normal([[4, 4], [11, 6]], 1.5, (300, 2, 2)), 0, 15.9)
    each = [*ends, *([COMMUTE] * 100 if planted else [])]
    owner = np.minimum(np.arange(len(each)), 300)
    return Journeys(GRID, Lines.from_points(each), owner if unit is Unit.PERSON else np.arange(len(each)), unit)


def advantage(unit: Unit, runs: int, epsilon: float = 1.0) -> float:
    """Measure the advantage of the attack in so many runs with and without the commute."""
    mechanism = hz.trajectories.JourneyTrees(GRID, epsilon, squares=16)
    row, col = mechanism.frame.ends.nearest_cell(*np.array(COMMUTE).T)
    start, end = interleave(row, col)
    commute = pair_codes(np.array([start]), np.array([end]))[0]
    seen = []
    for planted in (False, True):
        facts = count_facts(journeys(unit, planted), mechanism.frame)
        scores = []
        for run in range(runs):
            model = mechanism.measure(facts, hz.Simulation(2 * run + planted))
            size = 4.0 ** (mechanism.frame.pairs.depth - model.pair_levels)
            here = commute >> (2 * (mechanism.frame.pairs.depth - model.pair_levels)) == model.pair_codes
            scores.append(float((model.pair_mass / size)[here].sum()))
        seen.append(np.array(scores))
    without, with_it = seen
    return max(float((with_it >= t).mean() - (without >= t).mean()) for t in np.concatenate(seen))


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(f"bound of the advantage at epsilon 1: {(math.e - 1) / (math.e + 1):.2f}")
    print(f"chance alone, {number} runs, one time in twenty: {1.36 * math.sqrt(2 / number):.2f}")
    for unit in (Unit.PERSON, Unit.TRIP):
        print(f"unit {unit.value}: advantage {advantage(unit, number):.2f}")
