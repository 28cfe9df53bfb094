"""Rules of the tree that import-linter cannot see: who calls what, who opens which kind of file, and no cycles."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "heathaze"


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every file of the package, by its path below ``src/heathaze``."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def imported(tree: ast.AST) -> Iterator[str]:
    """Full names of what a file imports, at its top, inside functions and for type checkers alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(*packages: str) -> set[str]:
    """Files that import one of some packages or modules."""
    return {
        file
        for file, tree in trees().items()
        if any(name == package or name.startswith(f"{package}.") for name in imported(tree) for package in packages)
    }


def test_a_ledger_is_charged_in_one_place() -> None:
    callers = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "charge")
        or (isinstance(node, ast.Constant) and node.value == "charge")  # getattr and its like
    }
    assert callers == {"privacy/door.py"}


def test_provenance_is_made_at_the_door_or_by_its_class() -> None:
    """What was paid for gets it at the door; what is made from reports gets it from `Provenance.of_devices`."""
    makers = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Provenance"
    }
    assert makers == {"privacy/door.py"}


def test_unpaid_randomness_is_made_where_no_secret_is_noised() -> None:
    """Noise on a secret is drawn from a receipt's randomness; these files draw other things.

    Samples of a release, made-up journeys from reports, a search, masks and names of a secure sum, an order of
    positions, baselines, and whole purchases and surveys in one process, whose parties pay at the door with the source
    they are given.
    """
    makers = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "SecureRandomness"
    }
    assert makers == {
        "privacy/door.py",
        "release/release.py",
        "sensors/sensitivity/__init__.py",
        "secagg/parameters.py",
        "secagg/run_shard.py",
        "ingest/positions.py",
        "cli/marketplace_report.py",
        "marketplace/roles.py",
        "distributed/simulate.py",
        "distributed/device.py",
        "trajectories/estimate.py",
    }


def test_random_bits_have_one_source() -> None:
    """A sensor's file is the exception: it runs with the standard library alone."""
    named = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in ("urandom", "getrandom", "uuid4", "generate_key"))
        or (isinstance(node, ast.Constant) and node.value in ("urandom", "getrandom"))
    }
    users = named | importers("os.urandom", "os.getrandom", "secrets", "random")
    assert users == {"privacy/randomness.py", "sensors/device.py"}


def test_raw_data_is_opened_in_one_place() -> None:
    """Beside ``ingest`` only release files, synthetic data and the hostile files of tests are read and written.

    A backdrop is public geography, and may be GeoParquet.
    """
    readers = importers("duckdb", "pyarrow", "csv", "pandas", "pyspark")
    folders = ("ingest/", "release/formats/", "datasets/", "testing/")
    allowed = {file for file in readers if file in ("files.py", "maps/backdrop_files.py") or file.startswith(folders)}
    assert allowed
    assert readers == allowed


def module_of(file: str) -> str:
    """``privacy/door.py`` is ``heathaze.privacy.door``, ``privacy/__init__.py`` is ``heathaze.privacy``."""
    return ".".join(["heathaze", *Path(file).with_suffix("").parts]).removesuffix(".__init__")


def graph() -> dict[str, set[str]]:
    """Which module imports which, inside the package; ``from package import module`` is an import of the module.

    The top package is left out: it names every model, and imports none before it is used.
    """
    modules = {module_of(file): tree for file, tree in trees().items()}
    edges: dict[str, set[str]] = {}
    for module, tree in modules.items():
        if module == "heathaze":
            continue
        found = {name if name in modules else name.rpartition(".")[0] for name in imported(tree)}
        edges[module] = {name for name in found if name in modules and name not in (module, "heathaze")}
    return edges


def cycles(edges: dict[str, set[str]]) -> set[str]:
    """Modules that reach themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = edges[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    return {module for module in edges if module in reached(module)}


def test_no_module_reaches_itself() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "e"}, "e": set()}) == {"b", "c"}
    assert cycles(graph()) == set()
