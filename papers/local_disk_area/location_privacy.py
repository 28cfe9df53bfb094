"""The mean error of an adversary who guesses a position from one report. It is for plots, and is not a guarantee.

The paper on the disk area mechanism calls this number local privacy, LP (eq. 15 and 16). LP depends on a prior, an
adversary and a distance, none of which can be guaranteed. Two mechanisms with the same LP may have very different
privacy losses (errata E1-12). Do not choose the noise of a mechanism by LP; the guarantee is the mechanism's epsilon.
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
    """The mean distance between the true cell and a cell drawn from the posterior, the paper's adversary (eq. 15).

        LP = Σ_o Σ_i Σ_g  Pr[i] Pr[o | i] Pr[g | o] · ‖i − g‖₂,   Pr[g | o] = Pr[g] Pr[o | g] / Pr[o]

    Here i is the true cell, o the output and g the guess. LP is not a privacy guarantee and is used only for plots.
    :func:`bayes_adversary` guesses better.

    Args:
        transitions: Pr[output | cell]. Rows are cells, in row-major order; columns are outputs.
        shape: Rows and columns of the grid.
        prior: The prior probability of each cell, up to a factor; uniform if left out.
        unit: ``"cells"``, or ``"box"`` for fractions of the box's longer side.

    Cost: cells² · outputs.

    On a line of many cells, a report that reveals nothing gives a mean error of a third of the line:

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
    """The mean distance between the true cell and the best guess: the strongest adversary (errata E1-12).

        Σ_o min_g Σ_i  Pr[i] Pr[o | i] · ‖i − g‖₂,   g over the cells of the grid

    The best guess g minimises the expected distance after output o. This number is not a privacy guarantee either,
    because it holds for one prior only. The arguments are those of :func:`sampling_adversary`.

    >>> round(bayes_adversary(np.ones((100, 1)), (1, 100), unit="box"), 3)
    0.25
    """
    joint, apart = _joint_and_distances(transitions, shape, prior, unit)
    return float((apart @ joint).min(axis=0).sum())


def _joint_and_distances(
    transitions: npt.ArrayLike, shape: tuple[int, int], prior: npt.ArrayLike | None, unit: LengthUnit
) -> tuple[Floats, Floats]:
    """The joint probabilities Pr[cell, output], and the distances between all pairs of cells."""
    if unit not in ("box", "cells"):
        raise InvalidInput(f"There is no unit {unit!r}; choose 'cells' or 'box' (longer side is 1).")
    matrix = np.asarray(transitions, dtype=np.float64)
    rows, cols = shape
    if matrix.ndim != 2 or len(matrix) != rows * cols or matrix.shape[1] == 0:
        raise InvalidInput(
            f"The transitions have shape {matrix.shape}; for a grid of {rows} × {cols} cells give {rows * cols} rows, "
            "and a column for each output."
        )
    # Rows that do not sum to 1 would give a wrong number without an error.
    if not ((matrix >= 0).all() and np.allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=1e-9)):
        raise InvalidInput(
            "The transitions are not probabilities; each row must hold numbers of at least 0 that sum to 1."
        )
    weights = np.ones(rows * cols) if prior is None else np.asarray(prior, dtype=np.float64).ravel()
    if len(weights) != rows * cols or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise InvalidInput(f"The prior needs a finite weight of at least 0 for each of {rows * cols} cells, not all 0.")
    return matrix * (weights / weights.sum())[:, None], cell_distances(shape, unit=unit)


def cell_distances(shape: tuple[int, int], *, unit: LengthUnit = "cells") -> Floats:
    """The Euclidean distances between all pairs of cells of a grid, in row-major order.

    >>> cell_distances((1, 3)).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    row, col = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    apart = np.hypot(row[:, None] - row, col[:, None] - col)
    return np.asarray(apart if unit == "cells" else apart / max(shape))
