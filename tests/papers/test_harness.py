"""What all papers share: a full run with all data writes the tables of its README, and no other run does."""

import re

import numpy as np
import pytest

from tests.papers.quick_run import PAPERS

PAPER = PAPERS / "marketplace"
README = "Before.\n<!-- claims, table -->\n{}<!-- end -->\nAfter.\n"
TABLE = "| claim | theirs | ours | holds |\n|---|---|---|---|\n| it is one | 1 | 1.5 | yes |\n"


@pytest.fixture
def readme_after(module_of, monkeypatch, tmp_path, capsys):
    """README.md of a made-up paper after a run with these arguments, and what was printed."""
    reproduce, results = module_of("harness.reproduce"), module_of("harness.results")
    claim, with_claims = module_of("harness.claims").Claim, module_of("harness.readme").with_claims
    found = results.Results({(results.Point("table", "made up", 1.0), "ours", "error"): np.array([1.0, 2.0])})
    monkeypatch.setattr(reproduce, "with_progress", lambda *_: found)
    monkeypatch.setenv("HEATHAZE_DATA", str(tmp_path))
    (tmp_path / "config.toml").write_text("", encoding="utf-8")
    (tmp_path / "there.parquet").touch()

    def of(*arguments, needs, parts=False):
        (tmp_path / "README.md").write_text(README.format("old\n"), encoding="utf-8")
        paper = reproduce.Paper(
            folder=tmp_path,
            about="Made up.",
            files=lambda _: [needs],
            plan=lambda *_: [],
            measure=None,
            claims=lambda *_: [claim("table: it is one", "1", "1.5", True), claim("figure: it is two", "2", "2", True)],
            draw=lambda *_: [],
            readme=lambda text, _results, _config, claims: with_claims(text, claims, ["table"]),
            parts=parts,
        )
        assert reproduce.reproduce(paper, list(arguments)) == 0
        return (tmp_path / "README.md").read_text(encoding="utf-8"), capsys.readouterr().out

    return of


def test_a_full_run_that_records_writes_the_readme(readme_after):
    text, printed = readme_after("--write-expected", needs="there.parquet")
    assert text == README.format(TABLE)
    assert "wrote README.md" in printed


def test_a_run_of_one_table_writes_it_if_the_paper_can_fill_parts(readme_after):
    text, _ = readme_after("--write-expected", "--only", "table", needs="there.parquet", parts=True)
    assert text == README.format(TABLE)


def test_a_run_of_some_tables_has_their_points_only(module_of):
    chosen, point = module_of("harness.reproduce")._chosen, module_of("harness.results").Point
    figures = ("table1", "table1, 10% lost", "table2")
    assert [chosen(point(figure, "made up", 1.0), ["table1"]) for figure in figures] == [True, True, False]
    assert all(chosen(point(figure, "made up", 1.0), []) for figure in figures)


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        ([], "there.parquet"),
        (["--quick", "--write-expected"], "there.parquet"),
        (["--write-expected"], "gone.parquet"),
        (["--write-expected", "--only", "table"], "there.parquet"),
    ],
)
def test_any_other_run_leaves_it(readme_after, arguments, needs):
    text, printed = readme_after(*arguments, needs=needs)
    assert text == README.format("old\n")
    assert "wrote README.md" not in printed


def test_make_papers_runs_every_script():
    makefile = (PAPERS.parent / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^papers:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    scripts = [path for path in PAPERS.rglob("*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    assert len(scripts) >= 10
    assert sorted(re.findall(r"papers/\S+\.py", recipe)) == sorted(
        path.relative_to(PAPERS.parent).as_posix() for path in scripts
    )
