"""How far off an adversary guesses who sees one report: a number for plots, and no privacy guarantee.

The paper on the disk area mechanism calls it local privacy, LP (eq. 15 and 16). It depends on a prior, on an adversary
and on a distance, none of which anybody can promise, and two mechanisms with the same LP may lose very different
amounts of privacy (errata E1-12). Never calibrate a promise by it; what is promised is a mechanism's epsilon.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.metrics.pair import LengthUnit
from heathaze.types import Floats


def sampling_adversary(
    transitions: npt.ArrayLike,
    shape: tuple[int, int],
    prior: npt.ArrayLike | None = None,
    *,
    unit: LengthUnit = "cells",
) -> float:
    """Mean distance between the true cell and one drawn from the posterior: the adversary of the paper (eq. 15).

        LP = Σ_o Σ_i Σ_g  Pr[i] Pr[o | i] Pr[g | o] · ‖i − g‖₂,   Pr[g | o] = Pr[g] Pr[o | g] / Pr[o]

    Not a privacy guarantee: for plots only, never to calibrate a promise by. :func:`bayes_adversary` guesses better.

    Args:
        transitions: Pr[output | cell], a row for each cell, numbered row by row, and a column for each output.
        shape: Rows and columns of the grid.
        prior: Probability of each cell before the report, in any scale; the same everywhere if left out.
        unit: ``"cells"``, or ``"box"`` for parts of the longer side.

    Cost: cells² · outputs.

    Whoever reports nothing is guessed a third of a line away, on a line of many cells:

    >>> round(sampling_adversary(np.ones((100, 1)), (1, 100), unit="box"), 3)
    0.333
    """
    joint, apart = _joint_and_distances(transitions, shape, prior, unit)
    outputs = joint.sum(axis=0)
    seen = outputs > 0
    # Σ_{i,g} Pr[i, o] · Pr[g, o] · distance, over Pr[o].
    return float(((apart @ joint) * joint).sum(axis=0)[seen] @ (1 / outputs[seen]))


def bayes_adversary(
    transitions: npt.ArrayLike,
    shape: tuple[int, int],
    prior: npt.ArrayLike | None = None,
    *,
    unit: LengthUnit = "cells",
) -> float:
    """Mean distance between the true cell and the cell for which it is least: the strongest adversary (errata E1-12).

        Σ_o min_g Σ_i  Pr[i] Pr[o | i] · ‖i − g‖₂,   g over the cells of the grid

    Not a privacy guarantee either: it holds for one prior. Arguments as for :func:`sampling_adversary`.

    >>> round(bayes_adversary(np.ones((100, 1)), (1, 100), unit="box"), 3)
    0.25
    """
    joint, apart = _joint_and_distances(transitions, shape, prior, unit)
    return float((apart @ joint).min(axis=0).sum())


def _joint_and_distances(
    transitions: npt.ArrayLike, shape: tuple[int, int], prior: npt.ArrayLike | None, unit: LengthUnit
) -> tuple[Floats, Floats]:
    """Pr[cell, output], and the distance of every two cells."""
    if unit not in ("box", "cells"):
        raise InvalidInput(f"There is no unit {unit!r}; choose 'cells' or 'box' (longer side is 1).")
    matrix = np.asarray(transitions, dtype=np.float64)
    rows, cols = shape
    if matrix.ndim != 2 or len(matrix) != rows * cols or matrix.shape[1] == 0:
        raise InvalidInput(
            f"The transitions have shape {matrix.shape}; a grid of {rows} × {cols} cells has {rows * cols} rows, and a "
            "column for each output."
        )
    # One that is not stochastic would still give a number, and a wrong one.
    if not ((matrix >= 0).all() and np.allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=1e-9)):
        raise InvalidInput("The transitions are no probabilities: each row holds numbers from 0 up that sum to 1.")
    weights = np.ones(rows * cols) if prior is None else np.asarray(prior, dtype=np.float64).ravel()
    if len(weights) != rows * cols or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise InvalidInput(f"The prior is no weight for each of {rows * cols} cells: finite, from 0 up, not all 0.")
    return matrix * (weights / weights.sum())[:, None], cell_distances(shape, unit=unit)


def cell_distances(shape: tuple[int, int], *, unit: LengthUnit = "cells") -> Floats:
    """Euclidean distance of every two cells of a grid, numbered row by row.

    >>> cell_distances((1, 3)).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    row, col = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    apart = np.hypot(row[:, None] - row, col[:, None] - col)
    return np.asarray(apart if unit == "cells" else apart / max(shape))
