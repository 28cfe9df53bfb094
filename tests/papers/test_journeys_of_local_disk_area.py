"""Appendix D at equal ε: the walks are those of the protocol, a quick run repeats, and its table is in the README."""

import json

import numpy as np
import pytest

from tests.papers.quick_run import PAPERS, check_quick_run, check_tables, shown_pictures

PAPER = PAPERS / "local_disk_area" / "journeys"


@pytest.fixture(autouse=True)
def harness_on_the_path(monkeypatch):
    """The folder lies one level deeper than those of other papers."""
    monkeypatch.syspath_prepend(str(PAPERS))


def test_walks_follow_the_protocol(module_of, config):
    walks = module_of("walks")
    lines = walks.walks("city", 0, config)
    assert len(lines) == 1000
    assert lines.counts.min() >= 2
    assert lines.counts.max() <= 200
    assert 90 < lines.counts.mean() < 112
    fine = walks.box_of("city", config, 300)
    row, col = fine.nearest_cell(lines.x, lines.y)
    inner = np.ones(len(row), bool)
    inner[lines.offsets[:-1]] = False
    step = np.maximum(np.abs(np.diff(row, prepend=0)), np.abs(np.diff(col, prepend=0)))[inner]
    assert step.max() == 1
    assert (step == 1).mean() > 0.95  # a journey stays only where no neighbour has points
    again = walks.walks("city", 0, config)
    assert (again.x == lines.x).all()
    assert len(walks.walks("city", 1, config).x) != len(lines.x)


@pytest.mark.slow
def test_quick_run_finds_every_claim_to_hold():
    check_quick_run(
        PAPER / "run.py",
        1,
        ("fig. 14, city: DAM better than LDPTrace; as", "fig. 14, city: LDPTrace better", "repeats expected.json"),
    )


def test_what_is_committed_is_complete(module_of):
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    for mode, sources in (("quick", {"city"}), ("full", {"city", "gowalla"})):
        assert {key.split(" | ")[1] for key in expected[mode]} == sources
        assert {key.split(" | ")[3] for key in expected[mode]} == set(module_of("accounting").METHODS)
    mean = "epsilon | gowalla | 0.5 | LDPTrace | W2"
    check_tables(PAPER, module_of("pages").with_tables, expected["full"], mean, "W2")
    assert [picture.name for picture in shown_pictures(PAPER)] == ["figure14.png"]
