"""Custom physics: any matrix from sources to readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.errors import InvalidInput
from heathaze.sensors.physics._checks import block, candidate_numbers, coordinates, kept_rows, same_place
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False, init=False)
class Linear:
    """Custom physics: readings = matrix · strengths. Sources lie at the candidate places only.

    Args:
        matrix: A row for each reading and a column for each place: an array, a sparse array of scipy, or a scipy linear
            operator. A column of zeros is refused, since a source there is invisible; operators are not checked.
        positions: Coordinates of the places, shape (n,) or (n, dimensions). Distances are straight.
        network: Instead of positions, a network whose nodes are the places. Distances run along its edges.

    Raises:
        InvalidInput: The matrix is not finite or has a column of zeros, or does not fit the places.

    >>> Linear([[1, 0.5], [0, 0.5]], positions=[0, 2]).apply(np.array([1.0, 2.0])).tolist()
    [2.0, 1.0]
    """

    matrix: Any
    positions: Floats | None
    network: Network | None

    bounds = None
    nonnegative = False

    def __init__(self, matrix: Any, positions: npt.ArrayLike | None = None, *, network: Network | None = None) -> None:
        found = _parse_matrix(matrix)
        if (positions is None) == (network is None):
            raise InvalidInput("Give either the positions of the places or their network, so that distances are known.")
        places = None
        if positions is not None:
            places = coordinates(positions, _dimensions(positions), "places")
            if (twins := same_place(places)) is not None:
                raise InvalidInput(f"Places {twins[0]} and {twins[1]} have the same position; give each place once.")
            places.flags.writeable = False
        count = network.nodes if network is not None else len(places) if places is not None else 0
        if count != found.shape[1]:
            raise InvalidInput(f"The matrix has {found.shape[1]} columns and there are {count} places; give as many.")
        assign(self, matrix=found, positions=places, network=network)

    @property
    def shape(self) -> tuple[int, int]:
        """Readings and places."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def unit(self) -> str:
        """What distances are measured in."""
        return "unit of edge length" if self.positions is None else "unit of the positions"

    def apply(self, strengths: Floats) -> Floats:
        """Matrix · strengths."""
        return np.asarray(self.matrix @ block(strengths, self.shape[1], "strengths"), dtype=np.float64)

    def adjoint(self, readings: Floats) -> Floats:
        """Matrixᵀ · readings."""
        found = block(readings, self.shape[0], "readings")
        transposed = self.matrix.H if _is_operator(self.matrix) else self.matrix.T
        return np.asarray(transposed @ found, dtype=np.float64)

    def responses(self, where: npt.ArrayLike) -> Floats:
        """The columns of some places, by their numbers."""
        numbers = candidate_numbers(where, self.shape[1])
        if isinstance(self.matrix, np.ndarray):
            return np.asarray(self.matrix[:, numbers])
        units = np.zeros((self.shape[1], len(numbers)))
        units[numbers, np.arange(len(numbers))] = 1
        return self.apply(units)

    def only(self, rows: npt.ArrayLike) -> Self:
        """The same physics with some of its readings: a mask, or numbers of readings.

        A column may be zero here, since readings may be missing.
        """
        kept = kept_rows(rows, self.shape[0], keep=True)
        rest = object.__new__(type(self))
        matrix = _some_rows(self.matrix, kept) if len(kept) < self.shape[0] else self.matrix
        assign(rest, matrix=matrix, positions=self.positions, network=self.network)
        return rest

    def without(self, rows: npt.ArrayLike) -> Self:
        """The same physics where these readings are missing."""
        return self.only(kept_rows(rows, self.shape[0], keep=False))


def _dimensions(positions: npt.ArrayLike) -> int:
    try:
        shape = np.shape(positions)
    except ValueError as error:
        raise InvalidInput("Not all places have as many coordinates as the first; give as many for each.") from error
    return shape[1] if len(shape) == 2 else 1


def _is_operator(matrix: Any) -> bool:
    return not isinstance(matrix, np.ndarray) and hasattr(matrix, "rmatvec")


def _parse_matrix(matrix: Any) -> Any:
    """An array of floats, a sparse array in rows, or an operator; finite, and without a column of zeros."""
    if _is_operator(matrix):
        return matrix
    if hasattr(matrix, "tocsr"):
        from scipy.sparse import csr_array

        found = csr_array(matrix, dtype=np.float64)
        values, seen = found.data, np.bincount(found.indices[found.data != 0], minlength=found.shape[1]) > 0
    else:
        try:
            found = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput("The matrix holds something that is no number; give an array of numbers.") from error
        if found.ndim != 2 or found.size == 0:
            raise InvalidInput(
                f"The matrix has the shape {found.shape}; give a row for each reading, a column for each place."
            )
        found.flags.writeable = False
        values, seen = found, (found != 0).any(axis=0)
    if not np.isfinite(values).all():
        raise InvalidInput(f"The matrix holds {values[~np.isfinite(values)][0]}; give finite numbers.")
    if not seen.all():
        unseen = np.flatnonzero(~seen)
        raise InvalidInput(
            f"{len(unseen)} of the matrix's {len(seen)} columns are zero, the first is column {unseen[0]}: a source "
            "there would be invisible; leave such places out."
        )
    return found


def _some_rows(matrix: Any, kept: Integers) -> Any:
    if not _is_operator(matrix):
        return matrix[kept]
    from scipy.sparse.linalg import LinearOperator

    def forth(strengths: Floats) -> Any:
        return (matrix @ strengths)[kept]

    def back(readings: Floats) -> Any:
        whole = np.zeros((matrix.shape[0], *readings.shape[1:]))
        whole[kept] = readings
        return matrix.H @ whole

    return LinearOperator(
        (len(kept), matrix.shape[1]), matvec=forth, rmatvec=back, matmat=forth, rmatmat=back, dtype=np.float64
    )
