"""The paper's definitions, theorems, equations and Algorithm 2, as tests; no trials are needed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import theory
from calibration import square
from harness.claims import Claim
from location_privacy import cell_distances, sampling_adversary

import heathaze as hz
from heathaze.local.disk_area import disk_window, paper_radius
from heathaze.privacy.loss import parse_epsilon

EPSILONS = (0.7, 1.4, 2.1, 2.8, 3.5, 5, 6, 7, 8, 9)
RADII = (0.02, 0.1, 0.5, 1.2)


def theory_claims(config: Mapping[str, Any]) -> Iterator[Claim]:
    """All claims about the paper's theory."""
    yield from _continuous()
    yield from _losses(config)
    yield from _cells()
    yield _local_privacy()


def _continuous() -> Iterator[Claim]:
    pairs = list(itertools.product(EPSILONS, RADII))
    away = max(
        abs(printed(epsilon, radius) / theory.density_outside(wave(epsilon, radius), radius) - 1)
        for epsilon, radius in pairs
        for printed, wave in ((theory.printed_disk_q, _disk), (theory.printed_hybrid_q, theory.hybrid_wave))
    )
    yield Claim("definitions 5 and 8: a report has probability 1", "so it is", _within(away, pairs), away < 1e-5)

    moved = []
    for epsilon, radius in pairs:
        for wave in (_disk(epsilon, radius), theory.hybrid_wave(epsilon, radius)):
            printed = theory.printed_derivative(theory.density_outside(wave, radius), radius, 0.3)
            moved.append(abs(theory.projected_distance(wave, radius, 0.3) / printed - 1))
    yield Claim(
        "theorem V.1: projected onto any line, reports differ by Δ (1 − (πb² + 4b + 1) q)",
        "equal",
        _within(max(moved), pairs),
        max(moved) < 5e-3,
    )
    # Other waves between 1 and e^ε: the hybrid one, half a disc, and rings.
    others = [
        theory.density_outside(wave, radius) / theory.printed_disk_q(epsilon, radius)
        for epsilon, radius in pairs
        for wave in (
            theory.hybrid_wave(epsilon, radius),
            lambda r, e=epsilon, b=radius: np.where(r < b / 2, math.exp(e), 1.0),
            lambda r, e=epsilon, b=radius: np.exp(e * (np.sin(20 * r / b) + 1) / 2),
        )
    ]
    yield Claim(
        "theorem V.2: the disc has the smallest q",
        "the smallest",
        f"other waves have {min(others):.3f} to {max(others):.0f} times its q",
        min(others) > 1,
    )
    worse = [_radius_loss(epsilon, side) for epsilon in EPSILONS for side in (1.0, 3.0)]
    yield Claim(
        "eq. 9 to 12: the paper's b has the largest bound on information",
        "the largest",
        f"4,000 other radii have at least {-max(worse):.0e} nats less at {len(worse)} pairs of ε and side",
        max(worse) < 0,
    )


def _disk(epsilon: float, _: float) -> theory.Wave:
    return theory.disk_wave(epsilon)


def _within(away: float, pairs: list[Any]) -> str:
    return f"within {away:.0e} at {len(pairs)} pairs of ε and b"


def _radius_loss(epsilon: float, side: float) -> float:
    """How much more than the paper's radius the best of many radii tells, on a map of this side, in nats."""
    best = paper_radius(square(1), epsilon) * side
    tried = best * np.linspace(0.01, 4, 4000)
    return max(theory.information_bound(b, epsilon, side) for b in tried) - theory.information_bound(
        best, epsilon, side
    )


# ── privacy, by enumeration ─────────────────────────────────────────────────────────────────────────────────────────


def _losses(config: Mapping[str, Any]) -> Iterator[Claim]:
    chosen = config["full"]
    places = {(d, chosen[name]["epsilon"]) for name in ("few_cells", "many_cells") for d in chosen[name]["d"]}
    for name in ("small_epsilon", "large_epsilon", "wide_discs"):
        places |= {(chosen[name]["d"], epsilon) for epsilon in chosen[name]["epsilons"]}
    printed, ours = [], []
    for size, epsilon in sorted(place for place in places if place[0] > 1):
        grid = square(size)
        radius = math.floor(paper_radius(grid, epsilon))
        mechanisms = (
            hz.local.DiskArea(grid, epsilon, radius),
            hz.local.DiskArea(grid, epsilon, radius, shrink=False),
            hz.local.HybridUniformExponential(grid, epsilon, radius),
        )
        ours += [theory.worst_loss(mechanism.transition_matrix()) - epsilon for mechanism in mechanisms]
        if radius:
            printed.append((theory.printed_loss(size, epsilon, radius) - epsilon, size, epsilon))
    yield Claim(
        "theorem IV.1: DAM, DAM-NS and HUEM are ε-LDP at table IV's settings",
        "ε-LDP",
        f"the loss is at most ε in {sum(one <= 0 for one in ours)} of {len(ours)} enumerated matrices",
        max(ours) <= 0,
    )
    leaks = [one for one in printed if one[0] > 1e-9]
    excess, size, epsilon = max(printed)
    yield Claim(
        "theorem VI.1: DAM with the printed shares is ε-LDP",
        "ε-LDP",
        f"not at {len(leaks)} of {len(printed)} settings; at d = {size}, ε = {epsilon:g} the loss is "
        f"{epsilon + excess:.3f} (errata E1-2)",
        not leaks,
        departure=True,
    )


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cells() -> Iterator[Claim]:
    sizes = [(b, d) for b in range(1, 13) for d in range(1, 10)]
    windows = {place: disk_window((place[1], place[1]), parse_epsilon(1), place[0]) for place in sizes}
    wrong = [
        (b, d)
        for (b, d), window in windows.items()
        if window.outputs.size - window.support.sum() != d * d + 4 * b * d - 4 * b - 1
    ]
    yield Claim(
        "theorem VI.2: d² + 4bd − 4b − 1 cells have the low probability",
        "equal",
        f"wrong at {len(wrong)} of {len(sizes)} pairs of b and d",
        not wrong,
    )
    radii = range(1, 51)
    true = {b: theory.enumerated_octant(b) for b in radii}
    printed = {b: theory.printed_octant(b) for b in radii}
    for number, part, what in (("VI.3", 1, "lists the cut cells"), ("VI.4", 0, "counts the whole cells")):
        off = [b for b in radii if printed[b][part] != true[b][part]]
        example = "" if part else f", at b = 7 {printed[7][0]} instead of {true[7][0]}"
        yield Claim(
            f"theorem {number} {what} of an eighth of the disc",
            "equal",
            f"wrong for {len(off)} of {len(radii)} radii, first b = {off[0]}{example} (errata E1-3)"
            if off
            else "right",
            not off,
            departure=True,
        )
    mended = [b for b in range(1, 201) if theory.corrected_octant(b) != theory.enumerated_octant(b)]
    yield Claim(
        "theorems VI.3 and VI.4 as corrected here",
        "–",
        f"wrong for {len(mended)} of 200 radii",
        not mended,
    )
    diagonal = max(abs(theory.printed_diagonal(b) - theory.enumerated_diagonal(b)) for b in radii)
    yield Claim("eq. 14: the cells of the diagonal", "equal", f"within {diagonal:.0e} for b = 1 to 50", diagonal < 1e-9)
    apart = 0.0
    for size, epsilon, radius in ((5, 3.5, 1), (15, 3.5, 3), (15, 2.1, 7), (20, 5, 2)):
        staged, direct = theory.two_stages(size, epsilon, radius)
        window = disk_window((size, size), parse_epsilon(epsilon), radius)
        drawn = window.probabilities()[window.support]
        apart = max(apart, *np.abs(staged / direct - 1), *np.abs(drawn / direct - 1))
    yield Claim(
        "Algorithm 2: its two stages have the probabilities of one draw by weight, which is drawn here",
        "equal",
        f"within {apart:.0e} at 4 settings",
        apart < 1e-6,
    )


def _local_privacy() -> Claim:
    """Equation 16, Σ_o Σ_ij Pr[o | i] Pr[o | j] d(i, j) / (n Σ_j Pr[o | j]): equation 15 for equally likely cells."""
    away = 0.0
    for size, epsilon in ((3, 1.4), (5, 3.5)):
        grid = square(size)
        matrix = hz.local.DiskArea(grid, epsilon, math.floor(paper_radius(grid, epsilon))).transition_matrix()
        distances, cells = cell_distances(grid.shape), grid.cells
        seen = [column for column in matrix.T if column.any()]
        summed = sum(
            sum(column[i] * column[j] * distances[i, j] for i in range(cells) for j in range(cells))
            / (cells * column.sum())
            for column in seen
        )
        away = max(away, abs(float(summed) / sampling_adversary(matrix, grid.shape) - 1))
    return Claim("eq. 15 and 16: local privacy", "equal", f"within {away:.0e}", away < 1e-9)
