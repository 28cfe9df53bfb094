"""Trials that put the paper's theory beside measured errors: people at k places (A, C), and smoothed maps (B)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from bounds import coreset_error, heat_map_bounds, packing_bound
from harness.data import seed_of
from protocol import ONE, Trial, visits_of

import heathaze as hz
from heathaze.privacy.guarantee import Unit

Found = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Places:
    """People at the k points of a √k × √k grid, in random shares: the inputs of the lower bound (Lemma C.2)."""

    run: int
    epsilon: float
    people: int
    k: int
    size: int

    def measure(self, _: Mapping[str, Any]) -> Found:
        """The error of the pyramid with w = k as EMD, and the error of its coreset in people times the side.

        The coreset's error is the largest over sets of k centres: the people's, the release's, one place too few, and
        random ones. "centres" is what the release's centres cost the people (Corollary A.2; the optimum is 0).
        """
        rng = np.random.default_rng(seed_of("places", self.run, self.people, self.k))
        grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=self.size)
        side = math.isqrt(self.k)
        at = (np.arange(side) * self.size) // side
        rows, cols = (part.ravel() for part in np.meshgrid(at, at, indexing="ij"))
        held = rng.multinomial(self.people, rng.dirichlet(np.ones(self.k)))
        counts = hz.Counts.from_cells(grid, rows, cols, held * ONE, bound=ONE, one=ONE, unit=Unit.PERSON)
        pyramid = hz.central.Pyramid(grid, epsilon=self.epsilon, w=self.k)
        noise = hz.Simulation(seed_of("places", self.run, self.epsilon, self.people, self.k))
        release = hz.publish(pyramid, counts, randomness=noise)
        truth = hz.Density.from_mass(grid, counts.dense())
        distance = hz.metrics.emd(truth, release.density, tolerance=1e-5)

        few = release.coreset(self.k)
        sites = np.column_stack([grid.x_at(cols + 0.5), grid.y_at(rows + 0.5)])
        places = len(release.density.squares()[2])
        found = release.centers(min(self.k, places))
        sets = [sites, sites[1:], found, *rng.uniform(0, 1, (20, self.k, 2))]
        return {
            "pyramid": {
                "EMD": float(distance),
                "coreset": max(abs(_cost(sites, held, centers) - few.cost(centers)) for centers in sets),
                "merged": few.moved,
                "centres": _cost(sites, held, found),
            },
            "lower bound": {"EMD": packing_bound(self.epsilon, self.people, self.k)},
            "upper bound": {
                "EMD": 2 * coreset_error(pyramid) / self.people,  # Lemma 2.1 with the constant 2 (errata E0-7)
                "coreset": coreset_error(pyramid),
            },
        }


def _cost(points: np.ndarray, weights: np.ndarray, centers: np.ndarray) -> float:
    apart = np.abs(points[:, None] - centers[None]).sum(axis=2)
    return float(weights @ apart.min(axis=1))


@dataclass(frozen=True)
class Heat:
    """One release of the pyramid, measured before smoothing and as heat maps of several widths (appendix B)."""

    run: int
    epsilon: float
    people: int
    size: int
    widths: tuple[int, ...]

    def measure(self, config: Mapping[str, Any]) -> Found:
        """EMD before smoothing, and EMD, KL and SIM of the heat maps with their bounds; a width w means σ = 1/w."""
        visits = visits_of(Trial("synthetic", self.run, self.epsilon, self.people, self.size, 0, 0, ()), config)
        grid = visits.grid(self.size)
        counts = visits.counts(grid, self.people, seed_of("heat", self.run))
        truth = hz.Density.from_mass(grid, counts.dense())
        noise = hz.Simulation(seed_of("heat", self.run, self.epsilon))
        release = hz.publish(hz.central.Pyramid(grid, epsilon=self.epsilon), counts, randomness=noise)
        plain = hz.metrics.emd(truth, release.density, tolerance=1e-4)
        found: Found = {}
        for width in self.widths:
            sigma = self.size / width
            heat, other = truth.smooth(sigma), release.smooth(sigma)
            # Bounds from below for what must be small, and from above for the distance that bounds it.
            measured = {
                "plain EMD": plain.upper,
                "EMD": hz.metrics.emd(heat, other, tolerance=1e-4).lower,
                "KL": hz.metrics.kl(heat, other),
                "SIM": hz.metrics.similarity(heat, other),
            }
            limits = heat_map_bounds(plain.upper, 1 / width)
            found[f"σ = 1/{width}"] = measured | {f"{name} bound": limit for name, limit in limits.items()}
        return found
