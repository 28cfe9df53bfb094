"""Whom to ask: free where it does not depend on bids, paid for where it does, and the printed auction caught."""

import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.marketplace.auction import AskEveryone, AskPublicFew, Coins, LogisticAuction, default_auction
from heathaze.privacy.accountant import compose
from heathaze.privacy.audit import lower_bound
from heathaze.privacy.events import PureSteps
from heathaze.privacy.randomness import Simulation

DELTA = Fraction(1, 10**6)
NAMES = [f"owner {k:03}" for k in range(50)]


def test_all_are_asked_up_to_32_and_a_public_few_of_more() -> None:
    assert default_auction(32, 7) == AskEveryone()
    assert default_auction(33, 7) == AskPublicFew(32, 7)
    assert AskEveryone().called(3, NAMES) == tuple(NAMES)
    assert len(AskPublicFew(32, 7).called(3, NAMES)) == 32


def test_the_few_are_drawn_evenly_and_anew_in_each_round() -> None:
    auction = AskPublicFew(10, seed=4)
    calls = [auction.called(number, NAMES) for number in range(2000)]
    assert len(set(calls)) > 1990
    assert all(list(call) == sorted(set(call)) and len(call) == 10 for call in calls)
    counts = np.array([sum(name in call for call in calls) for name in NAMES])
    # Sum of 50 dependent binomials(2000, 1/5): χ² has 49 degrees of freedom after scaling by the missing part.
    chi = ((counts - 400) ** 2 / (400 * 0.8)).sum() * 49 / 50
    assert chi < 130  # alpha 1e-6
    assert auction.called(5, NAMES) == calls[5]
    assert AskPublicFew(10, seed=5).called(5, NAMES) != calls[5]
    assert AskPublicFew(60, seed=5).called(5, NAMES) == tuple(NAMES)


@pytest.mark.parametrize(("owners", "seed"), [(0, 1), (True, 1), (2.5, 1), (3, -1)])
def test_bad_numbers_are_refused(owners: int, seed: int) -> None:
    with pytest.raises(InvalidInput, match="give a whole number"):
        AskPublicFew(owners, seed)


# ── the logistic auction ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("epsilon", "asks"),
    [
        ("0.02", (150, 346, 691, 1037)),
        ("0.1", (30.4, 69.6, 139, 208)),
        ("0.5", (6.5, 14.3, 28.1, 42.0)),
        ("1", (3.5, 7.4, 14.3, 21.2)),
    ],
)
def test_expected_asks_as_in_the_errata(epsilon: str, asks: tuple[float, ...]) -> None:
    """E2-6, ten thousand owners, by the chance to miss the best bid."""
    for missed, wanted in zip((0.05, 1e-3, 1e-6, 1e-9), asks, strict=True):
        coins = Coins(Fraction(epsilon), Fraction(math.log(1 / missed - 1)))
        assert coins.expected_asks(10**4) == pytest.approx(wanted, rel=0.008)
        assert 1 - coins.chance(1) == pytest.approx(missed, rel=1e-6)


def test_of_five_owners_nearly_all_are_asked() -> None:
    for epsilon in ("0.01", "0.05", "0.1"):
        assert 4.65 < Coins(Fraction(epsilon), Fraction(math.log(19))).expected_asks(5) < 5


@pytest.mark.parametrize("epsilon", ["1/100", "1/10", "1", "3"])
def test_one_rank_changes_no_odds_by_more_than_it_should(epsilon: str) -> None:
    coins = Coins(Fraction(epsilon), Fraction(8))
    for rank in range(1, 3000):
        step = coins.exponent(rank + 1) - coins.exponent(rank)
        assert 0 <= step <= Fraction(epsilon)
    # Beyond all hope the odds are frozen, and not zero.
    assert coins.exponent(10**9) == 64
    assert coins.chance(10**9) > 0


def test_the_best_bid_is_missed_as_seldom_as_its_share_of_delta_allows() -> None:
    for epsilon in (Fraction(1, 2), Fraction(8), Fraction(900)):
        auction = LogisticAuction(Fraction(1, 100), owners=100)
        coins = auction.coins(1000, epsilon, DELTA)
        # In logarithms: (1 + e^ε) · p · δ₀ ≤ δ/10, and the thousandth that was rounded up is all that is given away.
        missed = -float(coins.head_start) + float(epsilon) + math.log1p(math.exp(-float(epsilon))) + math.log(1000)
        assert -0.003 < missed - math.log(1e-7) <= 0


def test_coins_fall_as_their_ranks_say() -> None:
    coins, randomness = Coins(Fraction(1, 2), Fraction(2)), Simulation(3)
    asked = np.zeros(12)
    for _ in range(4000):
        for name in coins.asked(NAMES[:12], randomness):
            asked[NAMES.index(name)] += 1
    chances = np.array([coins.chance(rank) for rank in range(1, 13)])
    z = (asked - 4000 * chances) / np.sqrt(4000 * chances * (1 - chances))
    assert np.abs(z).max() < 5.4  # alpha 1e-6 for twelve
    assert asked.sum() / 4000 == pytest.approx(coins.expected_asks(12), rel=0.03)


def test_the_event_charges_every_coin_of_every_other_owner() -> None:
    auction = LogisticAuction("1/100", owners=20)
    event = auction.event(1000, Fraction(2), DELTA)
    assert (event.epsilon, event.steps, event.bounded_range) == (Fraction(1, 100), 19_000, True)
    # (1 + e^ε) times the chance of a miss is its share of δ, a tenth, and a thousandth less for what is rounded up.
    assert 0.997 * 1e-7 < float(event.failure_probability) * (1 + math.exp(2)) <= 1e-7
    # One owner who listens alone sees a thousand coins: a quarter of the errata's ρ, which knew no bounded range.
    alone = compose([LogisticAuction("1/100", owners=2).event(1000, Fraction(2), DELTA)], DELTA).epsilon
    assert alone < compose([PureSteps(Fraction(1, 100), 1000, False)], DELTA).epsilon < 1.66


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epsilon": 0}, "epsilon of the auction is 0"),
        ({"owners": 0}, "owners is 0"),
        ({"share": 1}, "share is 1; give a fraction of delta between 0 and 1"),
        ({"share": "no"}, "share is 'no'"),
    ],
)
def test_bad_auctions_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        LogisticAuction(**{"epsilon": 1, "owners": 5} | wrong)  # type: ignore[arg-type]


# ── attacked ────────────────────────────────────────────────────────────────────────────────────────────────────────

RUNS = 4000


def printed_auction(rank: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 3 line 13, NOT PRIVATE: asked with probability e^(−ε(i − 1))."""
    return (rng.random(RUNS) < math.exp(-epsilon * (rank - 1))).astype(float)


def test_an_audit_catches_the_printed_auction() -> None:
    """Who was the best and is so no longer can be *not* asked, which could never happen before (errata E2-6)."""
    rng = np.random.default_rng(5)
    assert lower_bound(printed_auction(1, 0.1, rng), printed_auction(2, 0.1, rng)) > 10 * 0.1


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_audit_of_the_logistic_auction_finds_no_violation(rank: int) -> None:
    coins, randomness = Coins(Fraction(1), Fraction(1)), Simulation(rank)
    outcomes = []
    for place in (rank, rank + 1):
        ranked = [f"other {k}" for k in range(place - 1)] + ["me"]
        outcomes.append([float("me" in coins.asked(ranked, randomness)) for _ in range(RUNS)])
    assert 0.1 < lower_bound(*outcomes) <= 1
