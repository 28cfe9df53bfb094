"""Find and read the files of real data, and derive random seeds."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import numpy as np


def data_file(name: str) -> Path | None:
    """Find a file of real data in the folder HEATHAZE_DATA, or in ../shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    path = Path(os.environ.get("HEATHAZE_DATA", beside)) / name
    return path if path.is_file() else None


@functools.cache
def columns_of(path: Path, *names: str) -> tuple[np.ndarray, ...]:
    """Read some columns of a Parquet file."""
    import duckdb

    table = duckdb.sql(f"select {', '.join(names)} from read_parquet('{path.as_posix()}')").fetchnumpy()
    return tuple(table[name] for name in names)


def seed_of(*parts: object) -> int:
    """A random seed that differs for different arguments."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8])
