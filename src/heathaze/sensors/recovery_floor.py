"""Lower bounds on the worst-case error of every estimate of sources: the paper's theorem 15, proved anew and improved.

Readings are ỹ = M f + N(0, σ² I). Sources f have total strength S and lie on a shortest way of length D: the line
itself, a segment of the plate, a path of the graph. Errors are the normalised earth mover's distance d. One number
describes the physics, the Lipschitz constant Λ: moving strength 1 by length 1 changes readings by at most Λ in ℓ2, so

    ‖M f − M f′‖ ≤ Λ S d(f, f′)     (Lemma 16; Λ is Δ₂ / α, see :mod:`heathaze.sensors.sensitivity`).

A **floor** is a number R such that for every estimator, however clever, some such f has E d(f, f̂) ≥ R.

**Two points** (:func:`two_point_floor`). Let f, f′ be all strength at one end and at the other of a piece of length a.
Every estimate has d(f, f̂) + d(f′, f̂) ≥ a, so the two expected errors add up to a ∫ min(dP, dP′) or more, and the
overlap of two normal distributions whose means are Λ S a apart or less is at least 2 Φ(−Λ S a / 2σ). The worse of the
two errors is at least half of that:

    R ≥ a Φ(−Λ S a / 2σ),   the best a is 1.5036 σ / (Λ S), if D is that long: R ≥ 0.3399 σ / (Λ S).

**Many sources** (:func:`recovery_floor`). Cut the way into K pieces with S/K in each, at its left end or moved by
δ ≤ D/K: 2^K sources. On a line d = ∫ |F − F̂| is a sum over the pieces, whatever the estimate; off a line it is at least
that after mapping every place to its distance from the start of the way, which makes no distance longer. In one piece
the two choices are a = δ/K apart, however the others lie, and the readings at most Λ S a. So the argument of two points
holds in each piece, averaged over the other choices (P. Assouad, 1983), and the K bounds add up:

    R ≥ K a Φ(−Λ S a / 2σ),   a ≤ D / K²:   about 0.31 √(σ D / (Λ S)) for small σ, with K near √(Λ S D / σ).

That falls like √σ, not like σ: many weak sources are far harder than one, and theorem 15 as printed is far from tight.

**Fano** (:func:`fano_floor`), as the paper argues, with its steps put right (errata E4-10). Its four vectors are at
distance a/2 from each other, not a, so they are stretched by 2, which needs 2a ≤ D/2; Fano's inequality bounds the
chance of an error of a/2 or more, not of a; and divergence and log 4 must be in one unit. With a divergence of half a
bit, Λ² S² a² / 2σ² = ½ ln 2, the chance is at least 1 − (½ + 1)/2 = ¼:

    R ≥ (a/2) · ¼ = a/8,   a = min(D/4, √(ln 2) σ / (Λ S)).

The printed 3a/4 cannot follow from these vectors: all lie within a/2 of e_{1/2}, as printed, so the estimator that
always says e_{1/2} is never further off than that.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

BEST = 0.7517915247
"""Where x · Φ(−x) is largest."""


def recovery_floor(
    sigma: npt.ArrayLike,
    lipschitz: float,
    *,
    length: float = 1.0,
    strength: float = 1.0,
    sources: int | None = None,
    spacing: float | None = None,
) -> Floats:
    """The largest lower bound proved here, for each σ: from K sources that may each have moved, with the best K.

    Args:
        sigma: Standard deviations of a reading's noise, not negative.
        lipschitz: Λ, the largest change of the readings in ℓ2 if strength 1 moves by length 1.
        length: D, the length of a shortest path in the space.
        strength: S, the sum of all strengths.
        sources: The largest number of sources; any number if not given.
        spacing: The distance of candidate places along the path, if sources lie at candidates only.

    Returns:
        An array like ``sigma``. For every estimator some sources have an expected normalised earth mover's distance of
        at least this.

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
        raise InvalidInput(f"The number of sources is {sources!r}; give a whole number from 1, or nothing.")
    if spacing is not None and not 0 < spacing <= length:
        raise InvalidInput(f"The spacing is {spacing!r}; give one that is positive and at most the length {length:g}.")
    noise = _sigmas(sigma)
    floors = [_best_over_counts(float(s) / (lipschitz * strength), length, sources, spacing) for s in noise.ravel()]
    return np.array(floors).reshape(noise.shape)


def two_point_floor(sigma: npt.ArrayLike, lipschitz: float, *, length: float = 1.0, strength: float = 1.0) -> Floats:
    """The lower bound from one source that may have moved (L. Le Cam): a Φ(−Λ S a / 2σ) at the best a ≤ D.

    It is about 0.34 σ/(Λ S). Arguments are those of :func:`recovery_floor`.
    """
    return recovery_floor(sigma, lipschitz, length=length, strength=strength, sources=1)


def fano_floor(sigma: npt.ArrayLike, lipschitz: float, *, length: float = 1.0, strength: float = 1.0) -> Floats:
    """The bound of the paper's proof of theorem 15 with corrected steps: a/8 with a = min(D/4, √(ln 2) σ / (Λ S)).

    It is always smaller than :func:`recovery_floor`, whose arguments it takes.
    """
    _check(lipschitz, length, strength)
    return np.asarray(np.minimum(length / 4, math.sqrt(math.log(2)) * _sigmas(sigma) / (lipschitz * strength)) / 8)


def _best_over_counts(scale: float, length: float, sources: int | None, spacing: float | None) -> float:
    """The best K; ``scale`` is σ / (Λ S), a length."""
    if scale == 0:
        return 0.0
    # With a = D / K² the floor is D Φ(−D / 2 scale K²) / K, which is largest near K = √(D / scale) and then falls.
    most = max(1, math.ceil(2 * math.sqrt(length / scale)))
    most = most if sources is None else min(most, int(sources))
    if spacing is not None:
        most = min(most, math.floor(length / spacing * (1 + 1e-9)))
    counts = np.arange(1, most + 1)
    longest = length / counts  # δ ≤ D / K
    wanted = 2 * BEST * scale * counts  # δ = K a at the best a
    if spacing is None:
        return float(np.max(_floor(counts, np.minimum(longest, wanted), scale)))
    # δ is a whole number of steps: the two next to the best, as far as they fit.
    fit = np.floor(longest / spacing * (1 + 1e-9))
    below = np.clip(np.floor(wanted / spacing), 1, fit)
    above = np.clip(np.ceil(wanted / spacing), 1, fit)
    return max(float(np.max(_floor(counts, steps * spacing, scale))) for steps in (below, above))


def _floor(counts: Integers, moved: Floats, scale: float) -> Floats:
    """K a Φ(−a / 2 scale) with a = δ / K."""
    from scipy.special import ndtr

    return np.asarray(moved * ndtr(-moved / counts / (2 * scale)))


def _sigmas(sigma: npt.ArrayLike) -> Floats:
    noise = np.asarray(sigma, dtype=np.float64)
    if not np.isfinite(noise).all() or (noise < 0).any():
        raise InvalidInput("A sigma is negative or not finite; give standard deviations from 0.")
    return noise


def _check(lipschitz: float, length: float, strength: float) -> None:
    for name, value in (("Lipschitz constant", lipschitz), ("length", length), ("strength", strength)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"The {name} is {value!r}; give a positive number.")
