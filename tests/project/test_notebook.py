"""The guide's notebook: its cells run in order, and what it stores is what they show."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import duckdb
import matplotlib as mpl
import pytest

from heathaze.datasets import city

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "notebook.ipynb"


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("run_notebook", ROOT / "examples" / "run_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def media(notebook: dict[str, Any]) -> list[list[str]]:
    """The media types that each cell of code shows."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [sorted(data) for cell in cells for data in (output["data"] for output in cell["outputs"])]


def test_the_notebook_runs_and_is_stored_as_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpl.use("Agg")
    (tmp_path / "demo").mkdir()
    with duckdb.connect() as connection:
        connection.register("visits", city(people=400, visits=4000))
        connection.sql("select * from visits").write_parquet(str(tmp_path / "demo" / "visits.parquet"))
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(GUIDE.read_text(encoding="utf-8"))
    stored = media(notebook)
    names = runner().run(notebook)
    assert stored == media(notebook)
    assert ["text/html", "text/plain"] in stored
    assert ["image/png", "text/plain"] in stored
    assert names["share"].low < names["share"] < names["share"].high
    from matplotlib import pyplot

    pyplot.close("all")


def test_the_notebook_is_small_and_names_no_folder_of_a_machine() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    assert "/home/" not in text
    assert str(Path(__file__).resolve().parents[2]) not in text
