"""The paper's claims hold on a quick run, and a run in which they do not says so."""

import functools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.marketplace import mmd_squared
from heathaze.privacy.randomness import Simulation
from tests.papers.quick_run import PAPERS, check_quick_run, check_tables, shown_pictures

PAPER = PAPERS / "marketplace"


def test_quick_run_finds_every_claim_to_hold():
    check_quick_run(
        PAPER / "run.py",
        30,
        (
            "bid: as printed it never takes the best point",
            "theorem 7: target, what steps really cost",
            "auction: as printed it breaks ε = 0.1",
            "hash: h₁ hides no point",
            "digits: ε = 2, MMD² at most 2 times that of",
            "digits: ε = 8, MMD² at most 1.2 times that of",
            "linear SVM within 2 points",
            "which costs no privacy",
            "every mean repeats expected.json",
        ),
    )


def test_what_is_committed_is_complete():
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    assert {key.split(" | ")[1] for key in expected["quick"]} == {"digits"}
    assert {key.split(" | ")[1] for key in expected["full"]} == {"mnist", "adult", "digits"}
    assert {key.split(" | ")[0] for key in expected["full"]} == {
        "over epsilon", "over points", "over seen", "over owners",
    }  # fmt: skip
    assert len(shown_pictures(PAPER)) == 4


def test_the_tables_of_the_readme_are_those_of_the_full_run(module_of, full, config):
    with_tables = functools.partial(module_of("tables").with_tables, config=config)
    check_tables(PAPER, with_tables, full, "over epsilon | mnist | 2 | herding | MMD2", "accounting")


# ── claims that fail ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def failing(module_of, config, monkeypatch):
    """Claims that fail, given the means of a full run, of which runs hardly differ."""
    claims, results = module_of("claims"), module_of("harness.results")
    for computed in ("_bids", "_accounting", "_auction", "_hashes"):
        monkeypatch.setattr(claims, computed, lambda *_: ())
    pattern = 1e-3 * np.linspace(-1, 1, 8)

    def of(means):
        values = {}
        for number, (key, (mean, _)) in enumerate(sorted(means.items())):
            figure, source, x, method, metric = key.split(" | ")
            away = np.random.default_rng(number).permutation(pattern)
            values[results.Point(figure, source, float(x)), method, metric] = mean * (1 + away)
        return {claim.text for claim in claims.all_claims(results.Results(values), config, {}) if claim.fails}

    return of


@pytest.mark.parametrize(
    ("epsilon", "reference", "most"),
    [(2, "greedy", 2.0), (2, "exact greedy", 2.0), (2, "uniform", 0.3), (8, "greedy", 1.2)],
)
def test_a_choice_that_is_too_far_from_the_target_fails_the_run(failing, full, epsilon, reference, most):
    text = f"mnist: ε = {epsilon}, MMD² at most {most:g} times that of {reference}"
    assert text not in failing(full)
    key = f"over epsilon | mnist | {epsilon} |"
    full[f"{key} herding | MMD2"][0] = 1.01 * most * full[f"{key} {reference} | MMD2"][0]
    assert text in failing(full)


@pytest.mark.parametrize(("metric", "named"), [("SVM", "linear SVM"), ("network", "network")])
def test_a_classifier_that_is_worse_fails_the_run(failing, full, metric, named):
    text = f"mnist: ε = 2, {named} within 2 points of greedy's"
    assert text not in failing(full)
    full[f"over epsilon | mnist | 2 | herding | {metric}"][0] = (
        full[f"over epsilon | mnist | 2 | greedy | {metric}"][0] - 0.03
    )
    assert text in failing(full)


def test_a_choice_no_better_than_a_free_one_fails_the_run(failing, full):
    text = "mnist: nearer than a random pool as large, which costs no privacy"
    assert text not in failing(full)
    full["over epsilon | mnist | 2 | herding | MMD2"][0] = full["over epsilon | mnist | 2 | random pool | MMD2"][0]
    assert text in failing(full)


def test_an_independent_trial_that_is_contradicted_fails_the_run(failing, full):
    text = "mnist: uniform agrees with an independent trial, within a quarter"
    assert text not in failing(full)
    full["over epsilon | mnist | 2 | uniform | MMD2"][0] = 0.044
    assert text in failing(full)


# ── markets ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_target_held_out_and_owners_share_no_point(module_of, config):
    market = module_of("sources").scene("digits", 0, config)
    assert list(market.owners) == ["0, 1", "3, 4", "5, 6", "7, 8", "9, 2"]
    assert (len(market.target), len(market.held), len(market.truths)) == (100, 60, 60)
    assert set(market.truths.tolist()) == {3, 4}
    assert sum(map(len, market.owners.values())) == 1797 - 160
    for owner, labels in market.labels.items():
        assert set(labels.tolist()) == set(map(int, owner.split(", ")))
        assert len(labels) == len(market.owners[owner])
    everything = np.concatenate([market.target, market.held, *market.owners.values()])
    assert np.isclose(everything.sum(), module_of("sources")._read("digits", None)[0].sum())
    other = module_of("sources").scene("digits", 1, config)
    assert other.features.seed != market.features.seed
    assert not np.array_equal(other.target, market.target)


def test_owners_can_be_cut(module_of, config):
    sources = module_of("sources")
    whole, cut = sources.scene("digits", 0, config), sources.scene("digits", 0, config, owners=20)
    assert len(cut.owners) == 20
    assert len(cut.right) == 4
    assert sum(map(len, cut.owners.values())) == sum(map(len, whole.owners.values()))
    assert sum(cut.owners[name].sum() for name in cut.right) == pytest.approx(whole.owners["3, 4"].sum())


def test_a_trial_is_scored_on_points_that_took_no_part(module_of, config):
    protocol, sources = module_of("protocol"), module_of("sources")
    trial = protocol.Trial("digits", 3, 20, 8, ("herding", "uniform"), learn=False)
    found = protocol.measure(trial, config)
    market = sources.scene("digits", 3, config)
    chosen = protocol._longest("digits", 3, "uniform", 100, 0, protocol._Key(config)).first(20)
    assert found["uniform"]["MMD2"] == mmd_squared(market.held, chosen.points, market.features.gamma)
    assert found["uniform"]["seen"] == 1
    assert 1 <= found["herding"]["seen"] <= 2
    assert found["herding"]["MMD2"] < found["uniform"]["MMD2"]
    assert found == protocol.measure(trial, config), "the same trial gives the same numbers"


def test_a_single_kind_of_label_is_no_task_to_learn(module_of, config):
    protocol, sources = module_of("protocol"), module_of("sources")
    market = sources.scene("digits", 0, config)
    three = np.flatnonzero(market.labels["3, 4"] == 3)[:5]
    chosen = protocol.Chosen(("3, 4",) * 5, three, market.owners["3, 4"][three])
    share = float((market.truths == 3).mean())
    assert protocol.accuracies(market, chosen) == {"SVM": share, "network": share}


# ── the paper as printed ────────────────────────────────────────────────────────────────────────────────────────────


def test_golden_numbers_of_theorem_7(module_of):
    printed = module_of("printed")
    small = printed.summary_epsilon(1000)
    assert printed.composed([(0.01, 1656)], 0.01) == pytest.approx((1.3178, 1.2479), abs=5e-5)
    assert printed.composed([(0.01, 3312)], 0.01)[1] == pytest.approx(1.8790, abs=5e-5)
    assert printed.composed([(0.02, 1656), (0.01, 1656)], 0.01)[1] == pytest.approx(3.176, abs=5e-4)
    assert printed.composed([(0.04, 1656), (0.02, 1656)], 0.01)[1] == pytest.approx(7.1789, abs=5e-5)
    assert printed.composed([(small, 5000)], 1e-4) == pytest.approx((0.04297, 0.03158), abs=5e-6)
    assert printed.composed([(1.0, 2)], 1e-9)[1] == 2, "few steps simply add up"


def test_the_printed_auction_always_asks_the_highest_bid(module_of):
    printed = module_of("printed")
    auction, randomness = printed.PrintedAuction(Fraction(1, 2)), Simulation(3)
    asked = np.array([auction.run(np.array([0.3, 2.0, 1.0]), randomness) for _ in range(4000)])
    assert asked[:, 1].all()
    # Ranks 3 and 2: e^-1 and e^-1/2 of 4,000, within 5.5 deviations.
    assert abs(asked[:, 0].sum() - 4000 * math.exp(-1)) < 5.5 * 30.5
    assert abs(asked[:, 2].sum() - 4000 * math.exp(-0.5)) < 5.5 * 30.9


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3"])
def test_logistic_coins_keep_their_epsilon(module_of, epsilon):
    auction = module_of("printed").RepairedAuction(Fraction(epsilon), 0.05)
    odds = auction.odds(np.arange(1, 200))
    assert odds[0] == pytest.approx(0.95)
    # Below this, 1 − odds is all rounding.
    seen = odds > 1e-12
    assert np.abs(np.diff(np.log(odds[seen]))).max() <= float(auction.epsilon) * (1 + 1e-9)
    assert np.abs(np.diff(np.log1p(-odds[seen]))).max() <= float(auction.epsilon) * (1 + 1e-9)


def test_the_loss_of_a_choice_is_that_of_its_odds(module_of):
    loss = module_of("printed").choice_loss
    assert loss(0.01, 10**5, 2) / 0.01 == pytest.approx(4, abs=1e-3)
    assert loss(0.01 / 4, 140, 2) <= 0.01
    first, second = np.exp([0.0, 1.0, 1.0]), np.exp([1.0, 0.0, 0.0])
    assert loss(0.5, 3, 2) == pytest.approx(math.log(second[0] / second.sum() * first.sum() / first[0]))


def test_a_point_that_is_reconsidered_wins_again(module_of):
    printed = module_of("printed")
    rng = np.random.default_rng(1)
    hashes = rng.normal(size=(50, 8))
    hashes /= np.linalg.norm(hashes, axis=1, keepdims=True)
    mean = hashes[:10].mean(axis=0)
    assert len(set(printed.printed_choice(hashes, mean, 20, swapped=True, reconsider=True))) == 1
    assert len(set(printed.printed_choice(hashes, mean, 20, swapped=True, reconsider=False))) == 20
