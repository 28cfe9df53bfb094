"""The public face: the names, the quick import, the README's own words."""

from __future__ import annotations

import ast
import inspect
import os
import pydoc
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

import heathaze as hz
from heathaze.datasets import city

ROOT = Path(__file__).resolve().parents[2]


def test_the_public_names() -> None:
    assert set(hz.__all__) == {
        "Box", "Counts", "Density", "Grid", "Guarantee", "HeathazeError", "Ledger", "Release", "SecureRandomness",
        "Simulation", "__version__", "central", "count", "datasets", "distributed", "load", "local",
        "marketplace", "metrics", "plan", "publish", "sensors", "shuffle", "trajectories",
    }  # fmt: skip
    for name in hz.__all__:
        assert getattr(hz, name) is not None
    assert callable(hz.publish)


def test_the_names_that_type_checkers_see_are_the_names_that_load() -> None:
    tree = ast.parse(Path(hz.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    seen = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == dict.fromkeys(hz._MODULES, "heathaze") | hz._MODULE_OF
    assert {*seen, "__version__"} == set(hz.__all__)
    assert set(hz.__all__) <= set(dir(hz))
    with pytest.raises(AttributeError, match="has no attribute 'Grit'"):
        getattr(hz, "Grit")  # noqa: B009


def test_help_shows_what_the_readme_shows() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    shown = textwrap.dedent(re.sub(r"^ +\| ?", "", pydoc.plain(pydoc.render_doc(hz)), flags=re.MULTILINE))
    assert block.strip() in inspect.getdoc(hz).replace("\n    ", "\n")
    for name in set(hz.__all__) - {"__version__"}:
        assert re.search(rf"\b{name}\b", shown), f"help(heathaze) does not show {name}"


def _loaded_by(script: str) -> set[str]:
    """Names of the modules that a new process has loaded after a script."""
    script += "; import sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_model_loads_no_other_model() -> None:
    models = ("central", "local", "distributed", "sensors", "marketplace")
    for model in models:
        loaded = _loaded_by(f"import heathaze; heathaze.{model}")
        others = {f"heathaze.{other}" for other in models if other != model}
        assert f"heathaze.{model}" in loaded
        assert others & loaded == set(), model


def test_importing_loads_nothing_heavy() -> None:
    """What makes `import heathaze` quick, checked without a clock."""
    loaded = _loaded_by("import heathaze")
    assert {name for name in loaded if name.startswith("heathaze")} == {"heathaze", "heathaze.version"}
    heavy = {
        "cryptography",
        "duckdb",
        "numba",
        "numpy",
        "scipy",
        "matplotlib",
        "pandas",
        "pyarrow",
        "pyspark",
        "rasterio",
        "shapely",
        "geopandas",
        "xarray",
        "dp_accounting",
    }
    assert heavy & loaded == set()
    # Nor do the names that the README uses, before they are called.
    quick = _loaded_by("import heathaze as hz; hz.Grid, hz.count, hz.Ledger, hz.publish, hz.central.default")
    assert (heavy - {"numpy"}) & quick == set()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the visits that ``make demo`` writes, though fewer of them."""
    (tmp_path / "demo").mkdir()
    with duckdb.connect() as connection:
        connection.register("visits", city(people=400, visits=4000))
        connection.sql("select * from visits").write_parquet(str(tmp_path / "demo" / "visits.parquet"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readmes_python(clone: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
    assert (clone / "demo" / "map.html").stat().st_size > 10_000
    assert hz.Ledger.open("demo/visits.ledger").spent == 1


def run_command(line: str) -> None:
    """Run a line of shell as a user would, with the installed command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    )
    assert done.returncode == 0, done.stderr


def test_the_readmes_shell(clone: Path) -> None:
    lines = re.findall(r"^heathaze .*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["plan", "publish"]
    run_command(f"{lines[0]} --cities 1")  # one synthetic city is enough to see that it runs
    run_command(lines[1])
    assert (clone / "demo" / "published.html").exists()


def test_every_page_that_is_named_exists() -> None:
    for page in (
        "README.md",
        "ARCHITECTURE.md",
        "PROMISE.md",
        "CONTRIBUTING.md",
        "docs/guide/first-map.md",
        "docs/guide/your-files.md",
        "docs/guide/better-maps.md",
        "docs/guide/trust-nobody.md",
        "docs/guide/trust-a-sum.md",
        "docs/guide/heat-through-walls.md",
        "docs/guide/buy-data.md",
    ):
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in re.findall(r"`((?:docs|papers|benchmarks|tests|src|examples)/[\w./-]*|[A-Z]+\.md)`", text):
            assert (ROOT / name).exists(), f"{page} names {name}"


def test_constraints_hold_names_and_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.]+", line), line
