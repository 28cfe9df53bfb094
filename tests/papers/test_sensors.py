"""The paper's claims hold on a quick run, and a run in which they do not says so."""

import functools
import json
import math

import numpy as np
import pytest

from heathaze.sensors.physics import Graph, Line
from tests.papers.quick_run import PAPERS, check_quick_run, check_tables, shown_pictures

PAPER = PAPERS / "sensors"


def test_quick_run_finds_every_claim_to_hold():
    check_quick_run(
        PAPER / "run.py",
        20,
        (
            "fig. 1: basis pursuit agrees",
            "table, apart, reach 0.01: at most half of",
            "table, anywhere: never clearly worse than",
            "fig. 2: exponent of T where T ≤ 0.01",
            "fig. 3: the right community in 90 % of runs",
            "no method can",
            "EMD over ε: falls",
            "realised ε: each sensor for itself",
            "every mean repeats expected.json",
        ),
    )


def test_what_is_committed_is_complete():
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    for mode in ("quick", "full"):
        assert {key.split(" | ")[0] for key in expected[mode]} >= {"figure1", "table", "figure3", "over epsilon"}
    assert {key.split(" | ")[0] for key in expected["full"]} >= {"over n", "over m", "over T", "lab"}
    assert len(shown_pictures(PAPER)) == 6


def test_the_tables_of_the_readme_are_those_of_the_full_run(module_of, full, config):
    with_tables = functools.partial(module_of("tables").with_tables, config=config)
    check_tables(PAPER, with_tables, full, "table | apart | 0.01 | posterior | EMD", "printed")


# ── claims that fail ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def results_of(module_of):
    """Results of forty runs with these means, that differ as their standard errors say or hardly at all."""
    results = module_of("harness.results")
    pattern = np.linspace(-1, 1, 40) / np.linspace(-1, 1, 40).std(ddof=1)

    def made(means, hardly=False):
        values = {}
        for number, (key, (mean, error)) in enumerate(sorted(means.items())):
            figure, source, x, method, metric = key.split(" | ")
            point = results.Point(figure, source, float(x))
            away = np.random.default_rng(number).permutation(pattern)
            values[point, method, metric] = mean + (1e-3 * mean if hardly else error * math.sqrt(40)) * away
        return results.Results(values)

    return made


@pytest.fixture
def outcome(module_of, results_of, monkeypatch, capsys):
    """Exit code and output of run.py, had its trials these means; nothing is written or drawn."""

    def of(means):
        monkeypatch.setattr(module_of("harness.reproduce"), "with_progress", lambda *_: results_of(means))
        code = module_of("run").main(["--quick"])
        return code, capsys.readouterr()

    return of


def test_a_broken_claim_fails_the_run(outcome, full, monkeypatch, tmp_path):
    monkeypatch.setenv("HEATHAZE_DATA", str(tmp_path))

    def first(said):
        return next(line for line in said.out.splitlines() if line.startswith("fig. 1: basis pursuit agrees"))

    assert first(outcome(full)[1]).endswith("yes")
    full["figure1 | line | 0.1 | basis pursuit | EMD"][0] = 0.06
    code, said = outcome(full)
    assert code == 1
    assert "claims do not hold" in said.err
    assert "intel_lab_mote_locations.parquet was not found, so the run leaves it out" in said.out
    assert first(said).endswith("NO")


@pytest.fixture
def failing(module_of, results_of, config, monkeypatch):
    """Claims that fail, given the means of a full run."""
    claims = module_of("claims")
    monkeypatch.setattr(claims, "best_possible", lambda *_: (0.85, 0.88))
    return lambda means: {
        claim.text for claim in claims.all_claims(results_of(means, hardly=True), config, {}) if claim.fails
    }


@pytest.mark.parametrize("method", ["posterior", "posterior, known"])
def test_an_answer_that_is_not_twice_as_near_fails_the_run(failing, full, method):
    text = f"table, apart, reach 0.01: at most half of basis pursuit ({method})"
    assert text not in failing(full)
    full[f"table | apart | 0.01 | {method} | EMD"][0] = 0.51 * full["table | apart | 0.01 | basis pursuit | EMD"][0]
    assert text in failing(full)


@pytest.mark.parametrize("places", ["apart", "anywhere"])
def test_an_answer_worse_than_uniform_fails_the_run(failing, full, places):
    text = f"table, {places}: never clearly worse than uniform (posterior)"
    assert text not in failing(full)
    full[f"table | {places} | 0.05 | posterior | EMD"][0] = 1.02 * full[f"table | {places} | 0.05 | uniform | EMD"][0]
    assert text in failing(full)


def test_a_wrong_community_fails_the_run(failing, full):
    text = "fig. 3, edges between communities 2 long: the right community in 90 % of runs (posterior)"
    assert text not in failing(full)
    full["figure3 | block model | 2 | posterior | right"][0] = 0.8
    assert text in failing(full)


def test_a_departure_that_is_none_any_more_fails_the_run(failing, full):
    text = "every departure that README.md names is one"
    full["figure3 | block model | 1 | posterior, known | right"][0] = 0.95
    assert text in failing(full)


# ── what is computed ────────────────────────────────────────────────────────────────────────────────────────────────


def test_printed_formulas_have_the_losses_of_the_errata(module_of, config):
    rows = {row.name: row for row in module_of("calibration").calibrations(config)}
    assert rows["ours: the whole vector, with n"].realised == pytest.approx(1, abs=1e-4)
    assert rows["Δ₂ without n (E4-2)"].mu == pytest.approx(134, abs=0.1)
    assert rows["each sensor for itself (E4-3)"].realised == pytest.approx(28.67, abs=0.05)
    # The formula of a Gaussian mechanism itself: δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).
    for name, row in rows.items():
        if row.realised < 500:  # e^ε is a number.
            left = 0.5 * math.erfc(-(row.mu / 2 - row.realised / row.mu) / math.sqrt(2))
            right = 0.5 * math.erfc((row.mu / 2 + row.realised / row.mu) / math.sqrt(2))
            assert left - math.exp(row.realised) * right == pytest.approx(row.delta, rel=1e-3), name


def test_the_star_graph_as_printed_is_too_small(module_of):
    right, printed = module_of("calibration").star_rates(10, 1.0)
    assert right**2 == pytest.approx(0.1203, abs=5e-5)
    assert printed**2 == pytest.approx(0.1086, abs=5e-5)


def test_slopes_are_those_of_powers(module_of):
    x = [1.0, 10.0, 100.0, 1000.0]
    assert module_of("calibration").slope(x, [value**-1.5 for value in x], 5, 500) == pytest.approx(-1.5)


def test_communities_are_the_right_way_round(module_of, config):
    graph, sources = config["graph"], module_of("sources")
    network = sources.block_model(0, graph["nodes"], graph["within"], graph["between"], 2.0)
    side = sources.community(graph["nodes"])
    assert np.bincount(side).tolist() == [250, 250]
    crossing = side[network.edges[:, 0]] != side[network.edges[:, 1]]
    # 62,250 pairs inside and 62,500 across: 3,112 ± 54 and 62 ± 8 edges.
    assert 2800 < np.count_nonzero(~crossing) < 3400
    assert 20 < np.count_nonzero(crossing) < 110
    assert set(network.lengths[crossing]) == {2.0}
    assert set(network.lengths[~crossing]) == {1.0}


def test_sources_are_put_by_their_rule(module_of, config):
    sources, rule = module_of("sources"), config["places"]["apart"]
    for run in range(50):
        at = np.flatnonzero(sources.pair_on_line(run, 100, rule, "apart")) + 1
        assert len(at) == 2
        assert at[0] >= 10
        assert at[1] <= 90
        assert at[1] - at[0] >= 24
    assert np.flatnonzero(sources.unit_sources([0.24, 0.76], 100)).tolist() == [23, 75]
    assert Line(100, 50, 0.05).positions[[23, 75], 0] == pytest.approx([0.24, 0.76])


def test_the_posterior_of_one_source_is_bayes_rule(module_of):
    field = Graph([(0, 1), (1, 2), (2, 3)], 0.7)
    values, sigma = np.array([[0.5], [0.2], [0.4], [0.1]]), 0.3
    heat = field.responses(np.arange(4))
    odds = np.exp(-((values - heat) ** 2).sum(axis=0) / (2 * sigma**2))
    found = module_of("protocol").one_source_posterior(field, values, sigma)
    assert found[:, 0] == pytest.approx(odds / odds.sum())


def test_basis_pursuit_without_an_answer_is_scored_as_uniform(module_of, config):
    protocol = module_of("protocol")
    trial = protocol.OnLine(0, 100, "apart", 100, 50, 0.05, "0.05", epsilon=0.01, known=False)
    found = protocol.measure(trial, config)
    assert found["basis pursuit"]["nothing"] == 1
    assert found["basis pursuit"]["EMD"] == found["uniform"]["EMD"]
