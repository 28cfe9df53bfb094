"""The paper's claims hold on a quick run, and a run in which they do not says so."""

import json
import tomllib

import numpy as np
import pytest

from tests.papers.quick_run import PAPERS, check_quick_run, check_tables, quick_run, replaced_config, shown_pictures

PAPER = PAPERS / "distributed_heatmaps"


def run(*arguments, **environment):
    return quick_run(PAPER / "run.py", *arguments, **environment)


def test_quick_run_finds_every_claim_to_hold():
    check_quick_run(
        PAPER / "run.py",
        12,
        (
            "table 1, synthetic: what is published (default",
            "table 1, synthetic: what is published (the",
            "table 1, synthetic: at 10,000 people",
            "table 1, synthetic: 10 % lost costs at most 5",
            "table 2, city",
            "table 3, synthetic",
            "fig. 7, synthetic",
            "fig. 8, synthetic",
            "fig. 9, synthetic",
            "every mean repeats expected.json",
        ),
    )


@pytest.fixture
def noiseless(tmp_path):
    """Figure 8 with so large an epsilon that no shard has noise, and no inference: larger shards are no better then."""
    changes = (("level_epsilon = 0.1", "level_epsilon = 100"), ("infer = true", "infer = false"))
    return replaced_config(PAPER, changes, tmp_path / "config.toml")


@pytest.mark.slow  # the harness is the same for all papers; make test breaks claims of two others
def test_a_broken_claim_fails_the_run(noiseless, tmp_path):
    done = run("--config", noiseless, HEATHAZE_DATA=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "claims do not hold" in done.stderr
    assert "population_rasters.npz was not found, so the run leaves it out" in done.stdout
    first = next(line for line in done.stdout.splitlines() if line.startswith("fig. 8, synthetic, 20,000 people"))
    assert first.endswith("NO")


def test_what_is_committed_is_complete():
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    for mode in ("quick", "full"):
        assert {key.split(" | ")[0] for key in expected[mode]} >= {
            "table1", "table1, 10% lost", "table2", "table3", "samples", "early_noise", "shard", "threshold", "bits",
            "shares",
        }  # fmt: skip
    assert {key.split(" | ")[1] for key in expected["full"]} >= {"manhattan", "nyc", "synthetic", "gowalla", "city"}
    assert len(shown_pictures(PAPER)) >= 6


def test_the_tables_of_the_readme_are_those_of_the_full_run(module_of, full):
    check_tables(
        PAPER, module_of("tables").with_tables, full, "table1 | nyc | 100000 | ours, default settings | MSE", "table 2"
    )


@pytest.fixture
def failing(module_of):
    """Claims that fail, given the means of a full run; three runs, hardly different from each other."""
    claims, results = module_of("claims"), module_of("harness.results")
    config = tomllib.loads((PAPER / "config.toml").read_text(encoding="utf-8"))

    def texts(means):
        values = {}
        for key, (mean, _) in means.items():
            figure, source, x, method, metric = key.split(" | ")
            point = results.Point(figure, source, float(x))
            values[point, method, metric] = mean * np.array([1 - 1e-3, 1, 1 + 1e-3])
        found = claims.all_claims(results.Results(values), config, {})
        return {claim.text for claim in found if claim.fails}

    return texts


PUBLISHED = "ours, default settings"


@pytest.mark.parametrize("source", ["manhattan", "nyc", "synthetic"])
@pytest.mark.parametrize("people", [10_000, 100_000])
def test_a_published_map_that_is_behind_a_rival_fails_the_run(failing, full, source, people):
    rival = full[f"table1 | {source} | {people:g} | adaptive grid | MSE"][0]
    full[f"table1 | {source} | {people:g} | {PUBLISHED} | MSE"][0] = 1.01 * rival
    assert f"table 1, {source}: what is published (default settings) is below every rival" in failing(full)


@pytest.mark.parametrize("source", ["manhattan", "nyc", "synthetic"])
@pytest.mark.parametrize(("method", "setting"), [(PUBLISHED, "default settings"), ("ours", "the paper's setting")])
def test_a_published_map_far_from_the_best_level_fails_the_run(failing, full, source, method, setting):
    text = (
        f"table 1, {source}: at 10,000 people what is published ({setting}) is at most 1.3 times the best level "
        "without privacy"
    )
    assert text not in failing(full)
    plain = full[f"table1 | {source} | 10000 | non-private | MSE"][0]
    full[f"table1 | {source} | 10000 | {method} | MSE"][0] = 1.31 * plain
    assert text in failing(full)


@pytest.mark.parametrize("source", ["manhattan", "nyc"])
def test_a_dear_loss_of_people_fails_the_run(failing, full, source):
    text = f"table 1, {source}: 10 % lost costs at most 5 % ({PUBLISHED})"
    assert text not in failing(full)
    whole = full[f"table1 | {source} | 100000 | {PUBLISHED} | MSE"][0]
    full[f"table1, 10% lost | {source} | 100000 | {PUBLISHED} | MSE"][0] = 1.06 * whole
    assert text in failing(full)


def test_a_departure_that_is_none_any_more_fails_the_run(failing, full):
    fixed = full["table3 | manhattan | 10000 | scheduled ε, T = 10 | MSE"][0]
    full["table3 | manhattan | 10000 | scheduled ε, adaptive T | MSE"][0] = 0.9 * fixed
    assert "every departure that README.md names is one" in failing(full)


@pytest.mark.parametrize("people", [10_000, 100_000])
def test_many_more_bytes_fail_the_run(failing, full, people):
    text = (
        f"table 4, manhattan, {people:,} people: with one shard a device sends and receives at most a quarter more "
        "bytes than before the number of shards was planned"
    )
    assert text not in failing(full)
    full[f"shards | manhattan | {people:g} | 1 shard | sent"][0] += 150_000
    assert text in failing(full)


@pytest.mark.parametrize("source", ["manhattan", "nyc", "synthetic", "country"])
def test_an_earlier_map_that_makes_a_map_worse_fails_the_run(failing, full, source):
    text = f"table 5, {source}, 100,000 people: no earlier map makes the published map worse than 1.05 times"
    assert text not in failing(full)
    full[f"earlier | {source} | 100000 | mirrored in squares | times"][0] = 1.06
    assert text in failing(full)


@pytest.fixture
def oracles(module_of):
    return module_of("oracles")


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
