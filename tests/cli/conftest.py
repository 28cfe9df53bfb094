"""The command line as a person uses it: words in, exit code and two streams out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from heathaze.cli.main import run

NEW_YORK = ("--lon", "-74.10", "-73.78", "--lat", "40.58", "40.90")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Heathaze = Callable[..., Said]


@pytest.fixture
def heathaze(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Heathaze:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["heathaze", *map(str, words)])
        code: object = 0
        try:
            run()
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return Said(code if isinstance(code, int) else 0, said.out, said.err)

    return call


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A small file of visits in New York."""
    rng = np.random.default_rng(1)
    lines = ["user_id,lon,lat,time"]
    for person in range(300):
        home = rng.normal((-73.95, 40.75), 0.03)
        for _ in range(rng.integers(1, 12)):
            lon, lat = rng.normal(home, 0.004)
            lines.append(f"person-{person},{lon:.6f},{lat:.6f},2026-03-{rng.integers(1, 29):02d} 12:00:00")
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
