"""Lower bounds on the worst-case error of every estimate of sources: the paper's theorem 15, proved anew and improved.

Readings are ỹ = M f + N(0, σ² I). Sources f have total strength S and lie on a shortest path of length D: the line
itself, a segment of the plate, or a path of the graph. Errors are measured by the normalised earth mover's distance d.
The physics enters only through the Lipschitz constant Λ: moving strength 1 by length 1 changes the readings by at most
Λ in ℓ2, so

    ‖M f − M f′‖ ≤ Λ S d(f, f′)     (Lemma 16; Λ is Δ₂ / α, see :mod:`heathaze.sensors.sensitivity`).

A **floor** is a number R such that for every estimator f̂ there are sources f with expected error E d(f, f̂) ≥ R.

**Two points** (:func:`two_point_floor`). Take a piece of the path of length a. Let f have all strength at one end of
the piece, and f′ at the other end, and let P and P′ be the distributions of the readings. Every estimate has d(f, f̂) +
d(f′, f̂) ≥ a, so the two expected errors add up to at least a ∫ min(dP, dP′). The overlap ∫ min(dP, dP′) of two normal
distributions whose means are at most Λ S a apart is at least 2 Φ(−Λ S a / 2σ). The larger of the two errors is at least
half of the sum:

    R ≥ a Φ(−Λ S a / 2σ),   the best a is 1.5036 σ / (Λ S), if D is that long: R ≥ 0.3399 σ / (Λ S).

**Many sources** (:func:`recovery_floor`). Cut the path into K pieces. Each piece holds a source of strength S/K, either
at the piece's left end or moved from there by δ ≤ D/K. This gives 2^K sets of sources. On a line, d = ∫ |F − F̂| is a
sum over the pieces, for every estimate. On a plate or a graph, map every place to its distance from the start of the
path; this map makes no distance longer, so d is at least the same sum. The two choices in one piece have the distance a
= δ/K, for all choices in the other pieces, and the readings differ by at most Λ S a. So the argument for two points
holds in each piece, averaged over the other choices (P. Assouad, 1983), and the K bounds add up:

    R ≥ K a Φ(−Λ S a / 2σ),   a ≤ D / K²:   about 0.31 √(σ D / (Λ S)) for small σ, with K near √(Λ S D / σ).

For small σ this bound falls like √σ, but the bounds from one source fall like σ. So many weak sources are far harder to
find than one, and theorem 15 as printed is far from tight.

**Fano** (:func:`fano_floor`) is the paper's argument with corrected steps (errata E4-10). The paper's four vectors are
at distance a/2 from each other, not a, so they are stretched by 2, which needs 2a ≤ D/2. Fano's inequality bounds the
probability of an error of at least a/2, not a. The divergence and log 4 must be in the same unit. With a divergence of
half a bit, Λ² S² a² / 2σ² = ½ ln 2, the probability is at least 1 − (½ + 1)/2 = ¼:

    R ≥ (a/2) · ¼ = a/8,   a = min(D/4, √(ln 2) σ / (Λ S)).

The printed bound 3a/4 cannot follow from the printed vectors. All four vectors lie within a/2 of e_{1/2}, so the
estimator that always returns e_{1/2} has an error of at most a/2.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

BEST = 0.7517915247
"""The x for which x · Φ(−x) is largest, where Φ is the normal distribution function."""


def recovery_floor(
    sigma: npt.ArrayLike,
    lipschitz: float,
    *,
    length: float = 1.0,
    strength: float = 1.0,
    sources: int | None = None,
    spacing: float | None = None,
) -> Floats:
    """Lower bound on the error of every estimate of sources, for each σ: the bound from K sources, with the best K.

    Args:
        sigma: Standard deviations of the noise of a reading, not negative.
        lipschitz: Λ, the largest change of the readings in ℓ2 if strength 1 moves by length 1.
        length: D, the length of a shortest path in the space.
        strength: S, the sum of all strengths.
        sources: Largest number of sources. By default any number.
        spacing: Distance between adjacent candidate places along the path, if sources lie only at candidates.

    Returns:
        An array like ``sigma`` of lower bounds. For every estimator there are sources for which the expected normalised
        earth mover's distance is at least the bound.

    Raises:
        InvalidInput: A number is out of range.

    >>> curve = recovery_floor([0.001, 0.1, 1000], lipschitz=13.59)
    >>> [round(float(floor), 4) for floor in curve]
    [0.0027, 0.0265, 0.4973]
    >>> round(float(recovery_floor(0.1, 13.59, sources=1)), 4) == round(float(two_point_floor(0.1, 13.59)), 4)
    True
    """
    _check(lipschitz, length, strength)
    if sources is not None and (isinstance(sources, bool) or sources != int(sources) or sources < 1):
        raise InvalidInput(f"The number of sources is {sources!r}; give a whole number from 1, or leave it out.")
    if spacing is not None and not 0 < spacing <= length:
        raise InvalidInput(f"The spacing is {spacing!r}; give a positive number of at most the length {length:g}.")
    noise = _sigmas(sigma)
    floors = [_best_over_counts(float(s) / (lipschitz * strength), length, sources, spacing) for s in noise.ravel()]
    return np.array(floors).reshape(noise.shape)


def two_point_floor(sigma: npt.ArrayLike, lipschitz: float, *, length: float = 1.0, strength: float = 1.0) -> Floats:
    """Lower bound on the error of every estimate, from one source with two possible places (L. Le Cam).

    The bound is a Φ(−Λ S a / 2σ) at the best a ≤ D, about 0.34 σ/(Λ S). The arguments are the same as for
    :func:`recovery_floor`.
    """
    return recovery_floor(sigma, lipschitz, length=length, strength=strength, sources=1)


def fano_floor(sigma: npt.ArrayLike, lipschitz: float, *, length: float = 1.0, strength: float = 1.0) -> Floats:
    """Lower bound on the error of every estimate, by the paper's proof of theorem 15 with corrected steps.

    The bound is a/8 with a = min(D/4, √(ln 2) σ / (Λ S)). The bound is always smaller than :func:`recovery_floor`, and
    the arguments are the same.
    """
    _check(lipschitz, length, strength)
    return np.asarray(np.minimum(length / 4, math.sqrt(math.log(2)) * _sigmas(sigma) / (lipschitz * strength)) / 8)


def _best_over_counts(scale: float, length: float, sources: int | None, spacing: float | None) -> float:
    """Largest floor over all numbers K of sources; ``scale`` is σ / (Λ S), a length."""
    if scale == 0:
        return 0.0
    # With a = D / K² the floor is D Φ(−D / (2 scale K²)) / K, which is largest near K = √(D / scale) and then falls.
    most = max(1, math.ceil(2 * math.sqrt(length / scale)))
    most = most if sources is None else min(most, int(sources))
    if spacing is not None:
        most = min(most, math.floor(length / spacing * (1 + 1e-9)))
    counts = np.arange(1, most + 1)
    longest = length / counts  # δ ≤ D / K
    wanted = 2 * BEST * scale * counts  # δ = K a at the best a
    if spacing is None:
        return float(np.max(_floor(counts, np.minimum(longest, wanted), scale)))
    # δ must be a whole number of spacings: try the two whole numbers next to the best δ, if they fit into a piece.
    fit = np.floor(longest / spacing * (1 + 1e-9))
    below = np.clip(np.floor(wanted / spacing), 1, fit)
    above = np.clip(np.ceil(wanted / spacing), 1, fit)
    return max(float(np.max(_floor(counts, steps * spacing, scale))) for steps in (below, above))


def _floor(counts: Integers, moved: Floats, scale: float) -> Floats:
    """The floor K a Φ(−a / (2 scale)) with a = δ / K, for each K in ``counts`` and δ in ``moved``."""
    from scipy.special import ndtr

    return np.asarray(moved * ndtr(-moved / counts / (2 * scale)))


def _sigmas(sigma: npt.ArrayLike) -> Floats:
    noise = np.asarray(sigma, dtype=np.float64)
    if not np.isfinite(noise).all() or (noise < 0).any():
        raise InvalidInput("A sigma is negative or not finite; give finite standard deviations, 0 or larger.")
    return noise


def _check(lipschitz: float, length: float, strength: float) -> None:
    for name, value in (("Lipschitz constant", lipschitz), ("length", length), ("strength", strength)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"The {name} is {value!r}; give a positive number.")
