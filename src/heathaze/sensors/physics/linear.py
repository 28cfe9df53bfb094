"""Custom physics: a field given by any matrix from strengths of sources to readings of sensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.errors import InvalidInput
from heathaze.sensors.physics._base import FieldBase, block, candidate_numbers, coordinates, floats, same_place, units
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False, init=False)
class Linear(FieldBase):
    """Field of custom physics: readings = matrix · strengths. Sources lie at the candidate places only.

    Args:
        matrix: An array, a scipy sparse array or a scipy linear operator, with a row for each reading and a column for
            each place. A column of zeros is refused, because no sensor would see a source there; the columns of an
            operator are not checked.
        positions: Coordinates of the places, shape (n,) or (n, dimensions). Distances are Euclidean.
        network: Instead of positions, a network whose nodes are the places. Distances are lengths of shortest paths.

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
            raise InvalidInput(
                f"The matrix has {found.shape[1]} columns, but there are {count} places; give one column per place."
            )
        assign(self, matrix=found, positions=places, network=network)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of readings, and number of places."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def unit(self) -> str:
        """Unit of distances between places."""
        return "unit of edge length" if self.positions is None else "unit of the positions"

    def apply(self, strengths: Floats) -> Floats:
        """Readings matrix · strengths of the custom field.

        Args:
            strengths: Strength of each candidate source.

        Returns:
            One number for each reading.
        """
        return np.asarray(self.matrix @ block(strengths, self.shape[1], "strengths"), dtype=np.float64)

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint matrixᵀ · readings of the custom field.

        Args:
            readings: One number for each reading.

        Returns:
            One number for each candidate source.
        """
        found = block(readings, self.shape[0], "readings")
        transposed = self.matrix.H if _is_operator(self.matrix) else self.matrix.T
        return np.asarray(transposed @ found, dtype=np.float64)

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some places, given by index: the columns of the matrix.

        Args:
            where: Indices of the candidate sources.

        Returns:
            One column of readings for each place.
        """
        numbers = candidate_numbers(where, self.shape[1])
        if isinstance(self.matrix, np.ndarray):
            return np.asarray(self.matrix[:, numbers])
        return self.apply(units(numbers, self.shape[1]))

    def _with(self, rows: Integers) -> Self:
        # __init__ is not called, because it refuses columns of zeros, which missing readings can cause.
        rest = object.__new__(type(self))
        matrix = _some_rows(self.matrix, rows) if len(rows) < self.shape[0] else self.matrix
        assign(rest, matrix=matrix, positions=self.positions, network=self.network)
        return rest


def _dimensions(positions: npt.ArrayLike) -> int:
    try:
        shape = np.shape(positions)
    except ValueError as error:
        raise InvalidInput("Places have different numbers of coordinates; give equally many for each place.") from error
    return shape[1] if len(shape) == 2 else 1


def _is_operator(matrix: Any) -> bool:
    return not isinstance(matrix, np.ndarray) and hasattr(matrix, "rmatvec")


def _parse_matrix(matrix: Any) -> Any:
    """Check the matrix of a custom field: finite, and without a column of zeros. Operators are returned unchecked."""
    if _is_operator(matrix):
        return matrix
    if hasattr(matrix, "tocsr"):
        from scipy.sparse import csr_array

        found = csr_array(matrix, dtype=np.float64)
        values, seen = found.data, np.bincount(found.indices[found.data != 0], minlength=found.shape[1]) > 0
    else:
        found = floats(matrix, "The matrix holds a value that is not a number; give an array of numbers.")
        if found.ndim != 2 or found.size == 0:
            raise InvalidInput(
                f"The matrix has the shape {found.shape}; give a row for each reading and a column for each place."
            )
        found.flags.writeable = False
        values, seen = found, (found != 0).any(axis=0)
    if not np.isfinite(values).all():
        raise InvalidInput(f"The matrix holds {values[~np.isfinite(values)][0]}; give finite numbers.")
    if not seen.all():
        unseen = np.flatnonzero(~seen)
        raise InvalidInput(
            f"{len(unseen)} of the matrix's {len(seen)} columns are zero, the first is column {unseen[0]}: no sensor "
            "would see a source there; leave such places out."
        )
    return found


def _some_rows(matrix: Any, kept: Integers) -> Any:
    if not _is_operator(matrix):
        return matrix[kept]
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import aslinearoperator

    return aslinearoperator(eye_array(matrix.shape[0], format="csr")[kept]) @ matrix
