"""The paper's claims hold on a quick run, and a run in which they do not says so."""

import importlib
import json

import numpy as np
import pytest

from tests.papers.quick_run import PAPERS, quick_run, replaced_config, times, verdicts

PAPER = PAPERS / "distributed_heatmaps"


def run(*arguments, **environment):
    return quick_run(PAPER / "run.py", *arguments, **environment)


def test_quick_run_finds_every_claim_to_hold():
    before = times(PAPER)
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(done.stdout)
    assert found.count("yes") >= 12
    assert "NO" not in found
    for words in (
        "table 1, synthetic: what is published is below",
        "table 1, synthetic: at 10,000 people",
        "table 1, synthetic: 10 % lost costs at most 5",
        "table 2, city",
        "table 3, synthetic",
        "fig. 7, synthetic",
        "fig. 8, synthetic",
        "fig. 9, synthetic",
        "every mean repeats expected.json",
    ):
        assert words in done.stdout
    assert times(PAPER) == before, "a quick run writes nothing"


@pytest.fixture
def noiseless(tmp_path):
    """Figure 8 with so large an epsilon that no shard has noise, and no inference: larger shards are no better then."""
    changes = (("level_epsilon = 0.1", "level_epsilon = 100"), ("infer = true", "infer = false"))
    return replaced_config(PAPER, changes, tmp_path / "config.toml")


def test_a_broken_claim_fails_the_run(noiseless, tmp_path):
    done = run("--config", noiseless, HEATHAZE_DATA=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "claims do not hold" in done.stderr
    assert "population_rasters.npz is not here: synthetic data alone" in done.stdout
    first = next(line for line in done.stdout.splitlines() if line.startswith("fig. 8, synthetic, 20,000 people"))
    assert first.endswith("NO")


def test_what_is_committed_is_complete():
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    for mode in ("quick", "full"):
        assert {key.split(" | ")[0] for key in expected[mode]} >= {
            "table1", "table1, 10% lost", "table2", "table3", "samples", "calm", "shard", "threshold", "bits", "shares",
        }  # fmt: skip
    assert {key.split(" | ")[1] for key in expected["full"]} >= {"manhattan", "nyc", "synthetic", "gowalla", "city"}
    readme = (PAPER / "README.md").read_text(encoding="utf-8")
    pictures = sorted(PAPER.glob("*.png"))
    assert len(pictures) >= 6
    for picture in pictures:
        assert picture.stat().st_size < 200_000, picture.name
        assert f"({picture.name})" in readme


@pytest.fixture
def oracles(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPER))
    return importlib.import_module("oracles")


def test_the_best_split_is_the_best_of_all_splits(oracles):
    """All 17 maps of a 4 × 4 grid whose quarters are whole or split, or which is one, gone through one by one."""
    rng = np.random.default_rng(3)
    truth = rng.random((4, 4))
    truth /= truth.sum()
    cells, quarters, whole = rng.random((4, 4)) * 10, rng.random((2, 2)) * 40, np.array([[80.0]])
    tried = [np.full((4, 4), 80.0 / 16)]
    for choice in np.ndindex(2, 2, 2, 2):
        found = cells.copy()
        for place, is_whole in zip(np.ndindex(2, 2), choice, strict=True):
            if is_whole:
                row, col = 2 * place[0], 2 * place[1]
                found[row : row + 2, col : col + 2] = quarters[place] / 4
        tried.append(found)
    best = min(((found / 80 - truth) ** 2).sum() for found in tried)
    ours = oracles.best_split([whole, quarters, cells], truth, 80)
    assert ((ours - truth) ** 2).sum() == pytest.approx(best, rel=1e-12)


def test_the_best_layer_is_the_nearest_level(oracles):
    truth = np.array([[0.7, 0.1], [0.1, 0.1]])
    flat, right = np.array([[5.0]]), np.array([[7.0, 1.0], [1.0, 1.0]])
    assert oracles.best_layer([flat, right], truth).tolist() == right.tolist()
    assert oracles.best_layer([flat, right[::-1]], truth).tolist() == [[1.25, 1.25], [1.25, 1.25]]
