"""Range queries: the claims hold on a quick run, with and without the real data, and a broken mechanism is noticed."""

import json

import numpy as np
import pytest

from tests.papers.quick_run import PAPERS, check_quick_run, quick_run, replaced_config, shown_pictures, verdicts

PAPER = PAPERS / "range_queries"


def test_quick_run_finds_every_claim_to_hold():
    check_quick_run(PAPER / "run.py", 2, ("errors B, made-up data", "totals B", "repeats expected.json"))


@pytest.fixture
def strict(tmp_path):
    """Totals that must be a hundred times as exact as their noise allows, on very few trials."""
    changes = (
        ("B = 3", "B = 2"),
        ('["clusters", "stripes"]', '["clusters"]'),
        ("B = 0.01, C", "B = 1e-6, C"),
    )
    return replaced_config(PAPER, changes, tmp_path / "config.toml")


def test_a_broken_claim_fails_the_run_without_the_real_data(strict, tmp_path):
    done = quick_run(PAPER / "run.py", "--config", strict, HEATHAZE_DATA=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "claims do not hold" in done.stderr
    assert "The real data are absent, so the run uses made-up data only." in done.stdout
    assert "NO" in verdicts(done.stdout)


def test_the_protocol_is_dpbenchs(module_of):
    """The first rectangles of its workload, and answers against sums written out."""
    protocol = module_of("protocol")
    queries = protocol.random_queries(2000, 128, 9001)
    rng = np.random.RandomState(9001)
    height, width = rng.randint(1, 129), rng.randint(1, 129)
    assert queries[0].tolist() == [rng.randint(0, 128 - height + 1), rng.randint(0, 128 - width + 1), height, width]
    assert (queries[:, :2] + queries[:, 2:]).max() <= 128
    cells = np.random.default_rng(1).random((128, 128))
    for (top, left, high, wide), found in zip(queries[:20], protocol.answers(cells, queries[:20]), strict=True):
        assert found == pytest.approx(cells[top : top + high, left : left + wide].sum())


def test_made_up_data_are_drawn_again_the_same(module_of, config):
    protocol = module_of("protocol")
    for name in protocol.MADE_UP:
        first, again, other = (protocol.sample(name, 1000, seed, 128, config) for seed in (1, 1, 2))
        assert first.shape == (128, 128)
        assert first.sum() == 1000
        assert (first == again).all()
        assert (first != other).any()


@pytest.mark.slow
def test_a_quick_run_on_cities_finds_its_claims_to_hold():
    done = quick_run(PAPER / "cities.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "releases of nobody that name a hotspot" in done.stdout
    assert "NO" not in verdicts(done.stdout)


def test_the_recorded_cities_are_those_of_the_plan(config):
    chosen, means = config["cities"]["full"], json.loads((PAPER / "cities.json").read_text(encoding="utf-8"))
    cities = [*chosen["real"], *(f"city {number}" for number in range(chosen["made_up"]))]
    points = {f"{city} | {people}" for city in cities for people in chosen["people"]}
    points |= {f"{name} | {people}" for name, people in chosen["dense"]} | {"nobody | 0.1", "nobody | 1"}
    assert {" | ".join(key.split(" | ")[:2]) for key in means} == points
    assert set(config["before"]["emd"]) == {f"{city}, {people}" for city in cities for people in chosen["people"]}


def test_what_is_committed_is_complete(config):
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    for mode in ("quick", "full"):
        settings = {key.split(" | ")[0] for key in expected[mode]}
        sources = {key.split(" | ")[1] for key in expected[mode]}
        methods = {key.split(" | ")[3] for key in expected[mode]}
        assert settings == set(config[mode]["trials"])
        assert sources == {*config[mode]["sets"], *config[mode]["made_up"]}
        assert methods == set(config["methods"])
    assert len(shown_pictures(PAPER)) == 2
