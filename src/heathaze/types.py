"""Short names of the array types in signatures. Words are unsigned 64-bit integers of random bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
