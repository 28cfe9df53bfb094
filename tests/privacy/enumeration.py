"""Exact δ of mixed reports, by enumerating the histograms of all reports."""

from __future__ import annotations

import itertools
import math

import numpy as np

Law = dict[tuple[int, ...], float]
"""The probability of each histogram of reports."""


def histograms(rows: list[np.ndarray]) -> Law:
    """The law of the histogram of all reports: one person after the other."""
    law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        law = with_one_more(law, row)
    return law


def with_one_more(law: Law, row: np.ndarray) -> Law:
    """The law with the report of one more person, whose reports have the probabilities ``row``."""
    following: Law = {}
    for counts, mass in law.items():
        for report, chance in enumerate(row):
            key = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
            following[key] = following.get(key, 0.0) + mass * chance
    return following


def exact_deltas(matrix: np.ndarray, people: int, epsilons: list[float], others: list[tuple[int, ...]]) -> np.ndarray:
    """The largest δ at each ε, over all changes of one position and the given positions of the other people."""
    worst = np.zeros(len(epsilons))
    for positions in others:
        rest = histograms([matrix[x] for x in positions])
        laws = [with_one_more(rest, row) for row in matrix]
        keys = list(laws[0])
        table = np.array([[law[key] for key in keys] for law in laws])
        for at, epsilon in enumerate(epsilons):
            excess = np.maximum(table[:, None, :] - math.exp(epsilon) * table[None, :, :], 0).sum(axis=2)
            worst[at] = max(worst[at], excess.max())
    return worst


def everyone(k: int, people: int) -> list[tuple[int, ...]]:
    """All positions of the other people, up to their order."""
    return list(itertools.combinations_with_replacement(range(k), people - 1))
