"""PrivateGreedy: the bid is the best marginal gain, the plan costs what it promises, and audits find nothing."""

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.marketplace import noisy_sum as broadcast_module
from heathaze.marketplace.auction import LogisticAuction
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Ask, Broadcast, CallForBids
from heathaze.marketplace.mwem import Mwem
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.private_greedy_parties import PrivateGreedyOwner
from heathaze.marketplace.roles import buy
from heathaze.privacy.accountant import compose
from heathaze.privacy.audit import lower_bound
from heathaze.privacy.events import FineGaussian, flatten
from heathaze.privacy.guarantee import Adjacency, Trust, Unit
from heathaze.privacy.noise import discrete_gaussian
from heathaze.privacy.randomness import Simulation
from tests.marketplace.market import check_points_are_the_owners, remedies

FEATURES = Features(columns=784, gamma=0.02)
SMALL = Features(columns=2, gamma=0.5, frequencies=10, seed=1)

# ── the bid ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def objective(summary: np.ndarray, target: np.ndarray) -> float:
    """J of a summary: twice the likeness to the target less the likeness to itself, kernel = product of hashes."""
    return float(2 * (summary @ target.T).mean() - (summary @ summary.T).mean())


def instance(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of an owner, of a summary and of a target."""
    points, members = rng.normal(size=(int(rng.integers(5, 30)), 2)), rng.normal(size=(int(rng.integers(1, 15)), 2))
    return points, members, 0.7 * rng.normal(size=(int(rng.integers(3, 20)), 2)) + rng.normal(size=2)


def test_the_bid_is_the_best_marginal_gain_and_the_printed_one_is_not() -> None:
    """300 random instances; the printed bid has its terms swapped and mostly picks the worst (errata E2-1)."""
    rng = np.random.default_rng(1)
    right, printed_right, printed_worst = 0, 0, 0
    for _ in range(300):
        points, members, target = instance(rng)
        hashes, summary, wanted = SMALL.of(points), SMALL.of(members), SMALL.of(target)
        gains = np.array([objective(np.vstack([summary, h]), wanted) for h in hashes])
        bidder = PrivateGreedyOwner(SMALL, points)
        bidder.receive(Broadcast("target", wanted.mean(axis=0), 0.0, len(target)))
        bidder.receive(Broadcast("summary", summary.mean(axis=0), 0.0, len(members)))
        bidder.receive(CallForBids(1, len(members)))
        right += bidder.offer(Ask(1)).rows[0] == np.argmax(gains)
        q = len(members)
        printed = np.argmax(hashes @ summary.mean(axis=0) - q / (q + 1) * (hashes @ wanted.mean(axis=0)))
        printed_right += printed == np.argmax(gains)
        printed_worst += printed == np.argmin(gains)
    assert right == 300
    assert printed_right <= 3
    assert printed_worst > 150


def test_an_owner_sends_each_point_once_the_best_first_and_then_nothing() -> None:
    points = np.random.default_rng(2).normal(size=(4, 2))
    target = SMALL.of(np.zeros((1, 2)))[0]
    bidder = PrivateGreedyOwner(SMALL, points)
    bidder.receive(Broadcast("target", target, 0.0, 1))
    sent, scores = [], []
    for number in range(1, 7):
        bid = bidder.bid(CallForBids(number, number - 1))
        offer = bidder.offer(Ask(number))
        assert bidder.bid(CallForBids(number, number - 1)) is bid
        assert bidder.offer(Ask(number)) is offer
        sent += offer.rows.tolist()
        scores.append(bid.score)
        assert np.array_equal(offer.points, points[offer.rows])
    assert sorted(sent) == [0, 1, 2, 3]
    assert scores[4:] == [None, None]
    assert scores[:4] == sorted(scores[:4], reverse=True)
    assert sent == np.argsort(-(SMALL.of(points) @ target)).tolist()


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_the_papers_rounds_come_near_greedy_and_far_from_uniform() -> None:
    """A mixture of two blobs is wanted and three blobs are there; a large ε leaves little but the greedy choice."""
    rng = np.random.default_rng(3)
    centres = np.array([[0, 0], [2, 0], [0, 3]])
    owners = {f"owner {k}": rng.normal(size=(300, 2)) * 0.4 + centre for k, centre in enumerate(centres)}
    target = np.concatenate([rng.normal(size=(140, 2)) * 0.4, rng.normal(size=(60, 2)) * 0.4 + centres[1]])
    plan = PrivateGreedy(SMALL, points=200, target_points=200, epsilon=20)
    bought = buy(plan, target, owners, randomness=Simulation(1))
    shares = [sum(name == f"owner {k}" for name in bought.owners) / 200 for k in range(3)]
    assert shares == pytest.approx([0.7, 0.3, 0], abs=0.12)
    assert bought.parsimony == pytest.approx(3, abs=0.2)
    assert len({(name, int(row)) for name, row in zip(bought.owners, bought.rows, strict=True)}) == 200
    goal = SMALL.of(target).mean(axis=0)
    error = np.linalg.norm(SMALL.of(bought.points).mean(axis=0) - goal)
    uniform = np.linalg.norm(SMALL.of(np.vstack([points[:67] for points in owners.values()])).mean(axis=0) - goal)
    assert error < 0.3 * uniform
    check_points_are_the_owners(bought, owners)


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("more", [{}, {"broadcasts": 3}, {"mechanism": Mwem(20)}], ids=["planned", "three", "mwem"])
@pytest.mark.parametrize("epsilon", [1, 8])
def test_neither_side_costs_more_than_declared_and_hardly_less(epsilon: int, more: dict[str, Any]) -> None:
    plan = PrivateGreedy(FEATURES, 2000, 251, epsilon, **more)
    for event in (plan.event_for_target, plan.event_for_owners):
        cost = compose([event], plan.delta).epsilon
        assert 0.999 * epsilon < cost <= epsilon


def test_target_and_owners_are_promised_the_same_about_different_changes() -> None:
    plan = PrivateGreedy(FEATURES, 1000, 251, 2)
    target, owners = plan.guarantee_for_target, plan.guarantee_for_owners
    assert target.loss == owners.loss
    assert (target.unit, owners.unit) == (Unit.RECORD, Unit.RECORD)
    assert (target.adjacency, owners.adjacency) == (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
    assert (target.trust, owners.trust) == (Trust.CURATOR, Trust.CURATOR)


def test_every_broadcast_is_priced_with_a_replaced_hash() -> None:
    """A hash has length 1 and the swap lemma is a replacement: sensitivity 2, in steps and a little for rounding."""
    plan = PrivateGreedy(FEATURES, 1000, 251, 2, broadcasts=7)
    parts = flatten(plan.event_for_owners)
    assert len(parts) == 7
    told = plan.summary_sum
    assert told is not None
    for part in parts:
        assert isinstance(part, FineGaussian)
        assert part.numbers == 140
        step = told.deviation / part.sigma
        assert 2 < part.sensitivity * step < 2.0001


def test_an_auction_leaves_less_for_the_broadcasts() -> None:
    free = PrivateGreedy(FEATURES, 1000, 251, 4, broadcasts=3)
    paid = PrivateGreedy(FEATURES, 1000, 251, 4, broadcasts=3, auction=LogisticAuction("1/200", owners=50))
    assert paid.summary_sum is not None
    assert free.summary_sum is not None
    assert paid.summary_sum.deviation > 1.1 * free.summary_sum.deviation
    assert paid.target_deviation == free.target_deviation
    cost = compose([paid.event_for_owners], paid.delta).epsilon
    assert 3.99 < cost <= 4
    # The part of δ that a missed bid takes is not there for the rest.
    assert cost > compose([*flatten(paid.event_for_owners)[:-1]], paid.delta).epsilon


def test_beside_an_auction_no_loss_is_promised_that_cannot_be_priced() -> None:
    """At a large ε the chance of a missed bid outgrows δ for some losses; those do not fit, whatever else."""
    plan = PrivateGreedy(SMALL, 20, 50, 60, broadcasts=2, auction=LogisticAuction("1/10", 4))
    assert 59 < compose([plan.event_for_owners], plan.delta).epsilon <= 60


def test_an_auction_that_alone_costs_too_much_is_refused() -> None:
    plan = PrivateGreedy(FEATURES, 1000, 251, 1, auction=LogisticAuction(1, owners=50))
    with pytest.raises(InvalidInput, match=r"coins cost ε = \S+, but the whole plan promises 1; give the auction a sm"):
        plan.check_signal()


def test_without_broadcasts_nothing_of_owners_is_told() -> None:
    plan = PrivateGreedy(SMALL, 50, 200, 4, broadcasts=0)
    assert plan.marks == ()
    assert compose([plan.event_for_owners]).epsilon == 0
    assert len(plan.noise_to_signals) == 1
    owners = {"a": np.random.default_rng(4).normal(size=(80, 2))}
    assert len(buy(plan, np.zeros((200, 2)), owners, randomness=Simulation(1)).rows) == 50
    with pytest.raises(InvalidInput, match="never broadcasts the summary"):
        plan.summary_hash(np.zeros((1, 20)), 3, Simulation(1))


# ── when it tells ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 4), (1, 6), (2, 8), (8, 20)])
def test_the_planner_tells_more_often_with_more_to_spend(epsilon: float, count: int) -> None:
    plan = PrivateGreedy(FEATURES, 1000, 251, epsilon)
    assert len(plan.marks) == count
    # About the cube root of 2p²/σ²d, from the formula on the page.
    sigma = plan.target_sum.deviation
    assert count == pytest.approx((2e6 / (sigma**2 * 140)) ** (1 / 3), abs=2)
    assert max(plan.noise_to_signals[1:]) <= 1
    gaps = np.diff([*plan.marks, 1000])
    assert gaps.max() - gaps.min() <= 1
    assert plan.marks[0] >= gaps[0]


def test_no_other_number_of_broadcasts_is_predicted_to_be_better() -> None:
    plan = PrivateGreedy(FEATURES, 300, 251, 4)
    best = plan._predicted(len(plan.marks))
    assert all(best <= plan._predicted(count) for count in range(1, 30))
    assert plan._predicted(200) == math.inf


def test_seeds_count_as_members_and_let_owners_be_told_earlier() -> None:
    seeds = np.random.default_rng(5).normal(size=(400, 2))
    plain, seeded = (
        PrivateGreedy(SMALL, 400, 200, 1, broadcasts=5),
        PrivateGreedy(SMALL, 400, 200, 1, broadcasts=5, initial=seeds),
    )
    assert seeded.members(7) == 407
    assert seeded.marks[0] < plain.marks[0]
    assert seeded.noise_to_signal < plain.noise_to_signal
    assert not seeded.initial.flags.writeable  # type: ignore[union-attr]
    bought = buy(seeded, seeds[:200], {"a": seeds + 0.1}, randomness=Simulation(3))
    assert len(bought.rows) == 400


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "1/10000"}, "target's mean hash, taken over 251 points of the target, is .* take epsilon"),
        ({"target_points": 3}, "over 3 points of the target, is .* take at least 100 points of the target, or epsilon"),
        (
            {"points": 100, "broadcasts": 5},
            "summary's mean hash, taken over 95 points bought, is .* take at least .* points b",
        ),
        (
            {"points": 20},
            "over 19 points bought, is .* take at least 101 points bought, or epsilon .*, or at most 2 fr",
        ),
    ],
)
def test_a_budget_without_signal_is_refused(changes: dict[str, Any], words: str) -> None:
    plan = PrivateGreedy(**{"features": FEATURES, "points": 1000, "target_points": 251, "epsilon": 1} | changes)
    with pytest.raises(InvalidInput, match=words) as refused:
        plan.check_signal()
    enough = remedies(str(refused.value), FEATURES)
    assert enough
    for change in enough:
        dataclasses.replace(plan, **change).check_signal()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"broadcasts": 10}, "broadcasts is 10; give how often the summary is broadcast, a whole number from 0 to 9"),
        ({"broadcasts": -1}, "broadcasts is -1"),
        ({"broadcasts": 2.5}, r"broadcasts is 2\.5"),
        ({"points": 0}, "points is 0"),
        ({"epsilon": 0}, "epsilon is 0"),
        ({"delta": 0.5}, r"delta is 0\.5"),
        ({"auction": "all"}, "auction is a str; expected AskEveryone or AskPublicFew or LogisticAuction"),
        ({"mechanism": "laplace"}, "The mechanism, if not 'gaussian', is a str; expected Mwem"),
        ({"initial": [[1.0, 2.0]]}, "The points have 2 columns; the study has 784"),
    ],
)
def test_bad_plans_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        PrivateGreedy(**{"features": FEATURES, "points": 10, "target_points": 251, "epsilon": 1} | changes)


def test_the_parameters_hold_no_data() -> None:
    seeds = np.full((3, 2), 0.125)
    told = PrivateGreedy(SMALL, 100, 200, 8, initial=seeds, auction=LogisticAuction("1/100", 3)).parameters()
    assert told["seeds"] == 3
    assert told["broadcasts"] >= 1
    assert told["auction"]["asked"] == "logistic-auction"
    assert "0.125" not in repr(told)


# ── the promise, attacked ───────────────────────────────────────────────────────────────────────────────────────────

CIRCLE = Features(columns=1, gamma=0.5, frequencies=1)
OPPOSITE = math.pi / abs(float(CIRCLE.omega[0, 0]))
"""A point whose hash is opposite to that of 0: as far as hashes can be."""


def observed_loss(runs: int, seed: int) -> tuple[float, PrivateGreedy]:
    """The most that an attacker sees who adds up all broadcasts, of two summaries with one member swapped."""
    plan = PrivateGreedy(CIRCLE, 40, 40, 3, Fraction(1, 100), broadcasts=2)
    worlds = [CIRCLE.of(np.array([[place]] + [[0.1]] * 19)) for place in (0.0, OPPOSITE)]
    randomness = Simulation(seed)
    outcomes = [
        [sum(plan.summary_hash(hashes, 20, randomness)[0] for _ in plan.marks) for _ in range(runs)]
        for hashes in worlds
    ]
    return lower_bound(*outcomes, delta=float(plan.delta)), plan


def test_an_audit_of_swapped_members_finds_no_violation() -> None:
    found, plan = observed_loss(4000, 1)
    assert 1 < found <= plan.epsilon


def test_an_audit_finds_half_the_noise_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        broadcast_module, "discrete_gaussian", lambda sigma, *more: discrete_gaussian(sigma // 2, *more)
    )
    found, plan = observed_loss(4000, 2)
    assert found > plan.epsilon
