"""The paper's bounds with their constants: appendix A.1 and Theorem 3.1, appendix B, and appendix C.

Lengths are in units of the longer side of the map, distances are ℓ1, and people are added or removed.

**Upper bound (Theorem 3.1, Corollary A.1).** Let s be the true counts, ŝ the fit of the pyramid, and P_i the sums over
the nodes of level i. Only the levels q to ℓ are measured, and P is restricted to them. Moving mass inside the nodes of
level q costs at most ‖P z‖₁ = Σ_{i ≥ q} 2^(−i) ‖P_i z‖₁ (Lemma 3.5 inside each node). Moving the rest between them, or
leaving it unmatched, costs at most the diameter 2 times ‖P_q z‖₁ ≤ 2^q ‖P z‖₁. So

    ‖z‖_EMD ≤ (1 + 2^(q+1)) · ‖P z‖₁.

ŝ minimises ‖P ŝ − ŷ‖₁, so ‖P(s − ŝ)‖₁ ≤ 2 ‖P s − ŷ‖₁. Lemma 3.2 bounds ‖P s − ŷ‖₁ by 3 ‖y* − P s‖₁ plus three times the
sum of 2^(−i) |ν_i| over at most 2w nodes of each level (its proof needs a correction, errata E0-14). For people at
k ≤ w places y* = P s. The mean of |ν_i| is 1/ε_i, but the nodes in the sum are chosen by their noise, so the mean of
the largest 2w of all candidates is used.

**Heat maps (appendix B).** For heat maps of width σ: EMD(H_p, H_q) ≤ EMD(p, q), KL ≤ EMD/(2σ²), TV ≤ √EMD/(2σ).

**Lower bound (appendix C).** See ``packing_bound``.
"""

from __future__ import annotations

import math

import numpy as np

import heathaze as hz


def coreset_error(pyramid: hz.central.Pyramid) -> float:
    """Bound the mean of ‖s − ŝ‖ in the EMD norm, in people times the side, for people at no more than w places."""
    w, noise = pyramid.w, 0.0
    for level, epsilon in pyramid.level_epsilons().items():
        # At most 4w nodes are candidates, of which 2w count; |Laplace(1/ε)| is exponential, and the mean of the largest
        # r of m exponential variables is (r + Σ_{j > r} r/j)/ε.
        candidates = min(4**level, 4 * w)
        counted = min(2 * w, candidates)
        tail = sum(counted / j for j in range(counted + 1, candidates + 1))
        noise += 2.0**-level * (counted + tail) / float(epsilon)
    return (1 + 2 ** (pyramid.top + 1)) * 2 * 3 * noise


def heat_map_bounds(distance: float, sigma: float) -> dict[str, float]:
    """Bound the metrics of two heat maps by the earth mover's distance of the maps before smoothing (appendix B).

    Args:
        distance: EMD of the two maps, in units of the side.
        sigma: Width of the heat maps, in the same unit.

    Returns:
        Upper bounds for EMD and KL, and a lower bound for SIM.
    """
    return {
        "EMD": distance,
        "KL": distance / (2 * sigma**2),
        "SIM": max(0.0, 1 - math.sqrt(distance) / (2 * sigma)),
    }


def conjecture_excess(sigma: float, length: int) -> tuple[float, float]:
    """How far heat maps that are cut off at the border miss the inequalities behind appendix B; at most 0 if they hold.

    The paper proves its lemmas for infinite heat maps and conjectures them for the usual ones. Its proofs need only two
    inequalities for the heat maps K_a and K_b of two cells: W₁(K_a, K_b) ≤ ‖a − b‖₁ and KL(K_a ‖ K_b) ≤ ‖a − b‖₂²/2σ².
    A heat map that is cut off (errata E0-10) is a product over the two axes, and both sides add up over the axes. So
    the inequalities are checked for all pairs of cells along one axis; if they hold, the conjecture is proven for this
    grid.

        W₁(K_a, K_b) = |m_b − m_a|,   KL(K_a ‖ K_b) = (b² − a² − 2 m_a (b − a))/2σ² + ln(Z_b/Z_a)

    with the mean m_a and the normaliser Z_a of K_a. (The first holds because K_b/K_a is monotone.)

    Args:
        sigma: Width of the Gaussian, in cells.
        length: Cells along the axis.

    Returns:
        The largest W₁ − |a − b|, in cells, and the largest KL − (a − b)²/2σ², in nats.
    """
    cell = np.arange(length, dtype=float)
    weight = np.exp(-((cell[:, None] - cell) ** 2) / (2 * sigma**2))
    total = weight.sum(axis=1)
    mean = weight @ cell / total
    apart = cell - cell[:, None]  # b − a in row a, column b
    moved = np.abs(mean - mean[:, None]) - np.abs(apart)
    loss = (cell**2 - cell[:, None] ** 2 - 2 * mean[:, None] * apart) / (2 * sigma**2) + np.log(total / total[:, None])
    return float(moved.max()), float((loss - apart**2 / (2 * sigma**2)).max())


def packing_bound(epsilon: float, people: int, k: int, probability: float = 0.1) -> float:
    """An error that no ε-private algorithm stays below with this probability on all inputs with k places (appendix C).

    Lemma C.2 with its constants. Let t² ≤ k, d = t², and G_t the points of a t × t grid, 1/t apart. Distributions on
    G_t are determined by d − 1 coordinates, which form a simplex of volume 1/(d − 1)!. In a maximal set of members of
    pairwise ℓ1 distance at least 2tγ in these coordinates, ℓ1 balls of radius 2tγ cover the simplex, and each has
    volume (4tγ)^(d−1)/(d − 1)!. So the set has T ≥ (4tγ)^(1−d) members, and two of them are EMD ≥ γ apart.

    Let n₀ of the n people hold one member p and the others a fixed one. The averages are γ·n₀/n apart, so balls of
    half this radius are disjoint. If an algorithm hits each ball with the given probability, then without the n₀ people
    it hits each ball with at least e^(−ε n₀) times this probability (add or remove), and all balls together with at
    most 1. This is impossible if T · e^(−ε n₀) · probability > 1. The error is therefore at least γ·n₀/(2n) with

        γ = (probability · e^(−ε n₀))^(1/(d−1)) / (4t),

    and the best t and n₀ are taken: about √k/(8 e ε n).

    Args:
        epsilon: Privacy loss.
        people: Number of people n.
        k: Number of places.
        probability: How often the algorithm succeeds at least.

    Returns:
        The error, as EMD in units of the side; 0 if the bound says nothing.
    """
    best = 0.0
    for t in range(2, math.isqrt(k) + 1):
        d = t * t
        around = (d - 1) / epsilon  # n₀ · exp(−ε n₀/(d − 1)) is largest here
        for moved in {max(1, math.floor(around)), math.ceil(around)}:
            if moved <= people:
                gamma = math.exp((math.log(probability) - epsilon * moved) / (d - 1)) / (4 * t)
                best = max(best, gamma * moved / (2 * people))
    return best
