"""Basis pursuit denoising: the fewest, weakest sources that explain noisy readings of a field, with a proof.

    minimise  Σ f   subject to   ‖M f − ỹ‖₂ ≤ r = σ √χ²_{m, confidence},   0 ≤ f ≤ b

Algorithm 1 of A. Gilbert and A. McMillan, "Local Differential Privacy for Physical Sensor Data and Sparse Recovery",
with another radius: the printed σ√m keeps the truth with a probability of little more than a half, the quantile of χ²
with the one asked for (errata E4-7). It is post-processing of published readings and costs no privacy.

How: only the columns of few places are ever held. A small problem over them is solved (_basis_pursuit_master); its
multipliers u price every other place by one adjoint, (Mᵀu)_i, and the places that are worth more than they cost join.
When none is left, the answer is optimal, and u proves it: for every u and every f in the set,

    Σ f  ≥  yᵀu − r‖u‖ − Σ b·max(0, (Mᵀu)_i − 1).

That bound is computed with the field itself at the end, so nothing rests on the way the answer was found.

If no f in the box lies within the radius, the least residual is returned instead, and marked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.sensors.physics.field import Field
from heathaze.sensors.recovery._column_generation import Search, neighbours
from heathaze.types import Floats, Indices

DUST = 1e-6
"""Candidates below this part of the strongest are no part of a peak."""

WIDE = 64
"""Where a peak on a graph covers more nodes than this, its middle is sought among that many of the strongest."""


@dataclass(frozen=True, eq=False)
class Pursuit:
    """What basis pursuit found, and how sure it is that nothing better exists.

    Attributes:
        strengths: (places,) between 0 and the bound; zero at most places.
        feasible: Whether these sources explain the readings; if not, none do, and these have the least residual. That
            none do is proved where ``residual − gap`` exceeds ``radius``, as it does unless steps ran out.
        objective: Σ f.
        residual: ‖M f − y‖, computed with the field.
        radius: How large it may be. ``residual`` exceeds it by rounding at most, unless not ``feasible``.
        gap: No better answer differs by more: objective − proven lower bound; of the residual if not ``feasible``.
        steps: Newton steps on small problems.
        rounds: How often all places were priced: one adjoint each.
    """

    strengths: Floats
    feasible: bool
    objective: float
    residual: float
    radius: float
    gap: float
    steps: int
    rounds: int

    @property
    def violation(self) -> float:
        """By how much the residual exceeds the radius."""
        return max(self.residual - self.radius, 0.0)


@dataclass(frozen=True)
class Peak:
    """A group of neighbouring places that hold strength.

    Attributes:
        position: The mean of its places, weighted by strength; nothing on a graph.
        node: The place from which the strength is nearest on average, on a graph; else the place nearest the mean.
        strength: The sum of its strengths.
        spread: Root of the mean squared distance of the strength from the position or node.
    """

    position: tuple[float, ...] | None
    node: int
    strength: float
    spread: float


def radius(sigma: float, readings: int, confidence: float = 0.95) -> float:
    """How far the noise of that many readings reaches with the given probability: σ √χ²_{m, confidence}.

    The printed σ√m is passed by almost half of all noise (errata E4-7):

    >>> round(radius(1, 50) / 50**0.5, 6), round(radius(1, 500) / 500**0.5, 6)
    (1.161936, 1.051786)
    """
    from scipy.special import gammaincinv

    # The quantile of χ² with m degrees of freedom is twice that of a gamma distribution of shape m/2.
    return float(sigma * math.sqrt(2 * gammaincinv(readings / 2, confidence)))


def basis_pursuit(
    field: Field,
    readings: npt.ArrayLike,
    sigma: float,
    *,
    confidence: float = 0.95,
    at_most: float = 1.0,
    tolerance: float = 1e-5,
) -> Pursuit:
    """The least total strength that explains the readings up to their noise.

    Args:
        field: The physics; only ``apply``, ``adjoint`` and the ``responses`` of some places are used.
        readings: One for each row of the field; NaN where a sensor was silent, which leaves its row out.
        sigma: Standard deviation of the noise of a reading, positive.
        confidence: With which probability the true sources may be the answer, between 0 and 1.
        at_most: No place is stronger; may be infinite.
        tolerance: The gap that is good enough, as a part of the objective (of the residual where nothing fits).

    Returns:
        A :class:`Pursuit`. Where the solver could not reach the tolerance, ``gap`` says so and is still true.

    Raises:
        InvalidInput: The readings do not fit the field, or a number is out of range.

    Cost: 5 to 15 adjoints and the responses of some dozen to hundred places; 1,000 places and 500 readings take some
    hundredths of a second, a graph what its heat kernel takes.

    >>> class OneToOne:
    ...     shape, positions, bounds, network = (3, 3), None, None, None
    ...     def apply(self, strengths): return strengths
    ...     def adjoint(self, readings): return readings
    ...     def responses(self, where): return np.eye(3)[:, where]
    >>> found = basis_pursuit(OneToOne(), [0.9, 0, 0], sigma=0.1)
    >>> [round(float(strength), 3) for strength in found.strengths], round(0.9 - found.radius, 3)
    ([0.62, 0.0, 0.0], 0.62)
    """
    values = _readings(field, readings)
    _check(sigma, confidence, at_most, tolerance)
    seen = np.isfinite(values)
    if not seen.any():
        raise InvalidInput("All readings are missing; give at least one that is a number.")
    limit = radius(sigma, int(seen.sum()), confidence)
    answer = Search(field, values, seen, limit, float(at_most), float(tolerance)).run()
    return Pursuit(
        strengths=answer.strengths,
        feasible=answer.feasible,
        objective=float(answer.strengths.sum()),
        residual=answer.residual,
        radius=limit,
        gap=answer.gap,
        steps=answer.steps,
        rounds=answer.rounds,
    )


def peaks(field: Field, strengths: npt.ArrayLike) -> list[Peak]:
    """Neighbouring places that hold strength, taken together, the strongest first.

    On a line places with at most one empty candidate between them belong together, on a grid those that touch, on a
    graph those joined by an edge.

    Args:
        field: Says which places there are and which are neighbours.
        strengths: (places,), finite and not negative.

    Raises:
        InvalidInput: The strengths do not fit the field.
    """
    mass = np.asarray(strengths, dtype=np.float64)
    if mass.shape != (field.shape[1],):
        raise InvalidInput(f"The strengths have shape {mass.shape}; the field has {field.shape[1]} places.")
    if not np.isfinite(mass).all() or (mass < 0).any():
        raise InvalidInput("A strength is negative or not finite; give strengths from 0.")
    from scipy.sparse.csgraph import connected_components

    held = np.flatnonzero(mass > DUST * mass.max(initial=0.0))
    if held.size == 0:
        return []
    count, group = connected_components(neighbours(field)[held][:, held], directed=False)
    found = [_peak(field, mass, held[group == number]) for number in range(count)]
    return sorted(found, key=lambda peak: (-peak.strength, peak.node))


def _peak(field: Field, mass: Floats, places: Indices) -> Peak:
    strength = float(mass[places].sum())
    share = mass[places] / strength
    if field.network is not None:
        node, distance = _medoid(field, share, places)
        position = None
    elif field.positions is not None:
        where = np.asarray(field.positions, dtype=np.float64).reshape(len(mass), -1)[places]
        mean = share @ where
        distance = np.linalg.norm(where - mean, axis=1)
        node, position = int(places[np.argmin(distance)]), tuple(mean.tolist())
    else:  # No two places are neighbours, so this is one.
        node, position, distance = int(places[0]), None, np.zeros(len(places))
    return Peak(position, node, strength, math.sqrt(float(share @ distance**2)))


def _medoid(field: Field, share: Floats, places: Indices) -> tuple[int, Floats]:
    """The node of a group from which its strength is nearest on average, and how far the others are."""
    from scipy.sparse.csgraph import dijkstra

    assert field.network is not None
    strongest = np.argsort(-share, kind="stable")[:WIDE]
    apart = dijkstra(field.network.adjacency(), directed=False, indices=places[strongest])[:, places]
    best = int(np.argmin(apart @ share))
    return int(places[strongest[best]]), np.asarray(apart[best], dtype=np.float64)


def _readings(field: Field, readings: npt.ArrayLike) -> Floats:
    try:
        values = np.asarray(readings, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("The readings are not numbers; give one for each row of the field.") from None
    if values.shape != (field.shape[0],):
        raise InvalidInput(f"The readings have shape {values.shape}; the field expects {field.shape[0]} of them.")
    if np.isinf(values).any():
        raise InvalidInput("A reading is infinite; give numbers, or NaN for a sensor that was silent.")
    return values


def _check(sigma: float, confidence: float, at_most: float, tolerance: float) -> None:
    if not (math.isfinite(sigma) and sigma > 0):
        raise InvalidInput(f"Sigma is {sigma!r}; give the standard deviation of a reading's noise, a positive number.")
    if not 0 < confidence < 1:
        raise InvalidInput(f"The confidence is {confidence!r}; give a probability between 0 and 1, such as 0.95.")
    if not at_most > 0:
        raise InvalidInput(f"The bound on a strength is {at_most!r}; give a positive number, or infinity for none.")
    if not 0 < tolerance < 1:
        raise InvalidInput(f"The tolerance is {tolerance!r}; give a part of the objective, such as 1e-5.")
