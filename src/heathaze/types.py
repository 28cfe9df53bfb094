"""Short names for the types of numpy arrays in signatures. ``Words`` holds random bits, 64 in each integer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
