"""The curator of rounds: owners that vanish, cheat, repeat themselves or talk out of turn; the run always ends."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from heathaze.errors import InvalidInput, UnexpectedMessage
from heathaze.marketplace.auction import AskPublicFew, LogisticAuction
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import (
    Ask,
    Bid,
    Broadcast,
    CallForBids,
    FromOwner,
    Offer,
    Profile,
    Purchase,
    Quota,
    ToOwner,
)
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.private_greedy_parties import PrivateGreedyCurator, PrivateGreedyOwner
from heathaze.marketplace.roles import Consumer
from heathaze.privacy.randomness import Simulation
from tests.marketplace.market import check_points_are_the_owners

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: next to no noise, so that numbers can be told exactly."""

FEATURES = Features(columns=2, gamma=0.5, frequencies=3)
TARGET = np.random.default_rng(0).normal(size=(60, 2))
Change = Callable[[Offer, int], Offer]


def plan(points: int = 12, **more: Any) -> PrivateGreedy:
    return PrivateGreedy(FEATURES, points, 60, 30, broadcasts=more.pop("broadcasts", 2), **more)


def owners(*counts: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(count, 2)) for name, count in zip("abcdefgh", counts, strict=False)}


class Run:
    """A curator with its owners; every message can be looked at on its way."""

    def __init__(self, plan: PrivateGreedy, points: Mapping[str, np.ndarray], seed: int = 1) -> None:
        wanted = Consumer(plan, TARGET, randomness=Simulation(seed)).want()
        self.curator = PrivateGreedyCurator(plan, tuple(points), wanted, Simulation(seed + 1))
        self.parties = {name: PrivateGreedyOwner(FEATURES, table) for name, table in points.items()}
        self.told: list[tuple[str, ToOwner]] = []

    def finish(self, change: Callable[[str, FromOwner], FromOwner | None] = lambda _, answer: answer) -> Purchase:
        """Carry everything; ``change`` may alter an answer, or lose it."""
        deliveries = list(self.curator.begin())
        while self.curator.purchase is None:
            following = []
            for name, message in deliveries:
                self.told.append((name, message))
                answer = self.parties[name].receive(message)
                answer = None if answer is None else change(name, answer)
                if answer is not None and name in self.curator.waiting:
                    following += self.curator.receive(name, answer)
            deliveries = following or list(self.curator.close_step())
        return self.curator.purchase


def altered(name: str, at: int, change: Change) -> Callable[[str, FromOwner], FromOwner]:
    """Alter the offer of an owner when it makes its ``at``-th one."""
    made = 0

    def one(who: str, answer: FromOwner) -> FromOwner:
        nonlocal made
        if who == name and isinstance(answer, Offer):
            made += 1
            return change(answer, made) if made == at else answer
        return answer

    return one


# ── all goes well ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_whole_run() -> None:
    points = owners(20, 30, 10)
    run = Run(plan(), points)
    bought = run.finish()
    assert len(bought.rows) == 12
    assert bought.notes == ()
    assert bought.offered == {"a": 12, "b": 12, "c": 10}
    assert bought.seen == 34
    check_points_are_the_owners(bought, points)
    kinds = [type(message).__name__ for name, message in run.told if name == "a"]
    assert kinds.count("CallForBids") == kinds.count("Ask") == 12
    assert kinds.count("Broadcast") == 3
    members = [message.members for _, message in run.told if isinstance(message, CallForBids)]
    assert sorted(set(members)) == list(range(12))
    assert repr(run.curator) == "<PrivateGreedyCurator>"
    assert run.curator.expected is None


def test_what_is_bought_is_the_best_under_the_broadcast_score() -> None:
    """Played back with all points at hand: with everyone asked, the best that remains wins each round."""
    points = owners(9, 8, 7)
    run = Run(plan(), points)
    bought = run.finish()
    heard = [message for name, message in run.told if name == "a" and isinstance(message, Broadcast | CallForBids)]
    left = {(name, row): FEATURES.of(table[[row]])[0] for name, table in points.items() for row in range(len(table))}
    target, summary, expected = np.zeros(6), np.zeros(6), []
    for message in heard:
        if isinstance(message, Broadcast):
            target, summary = (message.values, summary) if message.about == "target" else (target, message.values)
        else:
            q = message.members
            best = max(left, key=lambda key: left[key] @ target - q / (q + 1) * (left[key] @ summary))
            expected.append(best)
            del left[best]
    assert list(zip(bought.owners, bought.rows.tolist(), strict=True)) == expected


def test_the_order_of_names_and_messages_does_not_matter() -> None:
    points = owners(10, 11, 12)
    first = Run(plan(), points).finish()
    second = Run(plan(), dict(reversed(points.items()))).finish()
    assert first.points.tobytes() == second.points.tobytes()


def test_of_equal_points_the_first_name_and_its_first_row_win() -> None:
    same = np.zeros((3, 2))
    bought = Run(plan(6), {"b": same, "a": same}).finish()
    assert bought.owners[0] == "a"
    assert bought.rows[0] == 0
    assert sorted(zip(bought.owners, bought.rows.tolist(), strict=True)) == [(n, r) for n in "ab" for r in range(3)]


def test_only_the_few_are_called_but_all_hear_the_broadcasts() -> None:
    run = Run(plan(auction=AskPublicFew(2, seed=3)), owners(20, 20, 20, 20))
    bought = run.finish()
    assert bought.seen == 24
    assert bought.parsimony == 2
    for name in "abcd":
        assert sum(isinstance(message, Broadcast) for who, message in run.told if who == name) == 3
    assert sum(isinstance(message, CallForBids) for _, message in run.told) == 24


def test_seeds_are_told_without_noise_and_are_not_bought() -> None:
    seeds = np.full((5, 2), 0.25)
    run = Run(plan(initial=seeds), owners(20, 20))
    bought = run.finish()
    first = next(message for _, message in run.told if isinstance(message, Broadcast) and message.about == "summary")
    assert (first.deviation, first.members) == (0.0, 5)
    assert np.allclose(first.values, FEATURES.of(seeds)[0])
    assert len(bought.rows) == 12
    assert not (bought.points == 0.25).any()
    assert next(message.members for _, message in run.told if isinstance(message, CallForBids)) == 5


# ── too few points ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_fewer_points_than_wanted_are_all_bought_and_owners_do_not_notice() -> None:
    few, many = Run(plan(), owners(3, 0, 4)), Run(plan(), owners(30, 30, 30))
    bought = few.finish()
    many.finish()
    assert len(bought.rows) == 7
    assert bought.notes == ("Only 7 of 12 points could be bought: no more were offered.",)
    # How many there were is no one else's business: calls and asks go on as if there were enough.
    assert [(name, type(m), getattr(m, "members", None)) for name, m in few.told] == [
        (name, type(m), getattr(m, "members", None)) for name, m in many.told
    ]


# ── owners that fail ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda o, _: Offer(o.rows, o.points + 1.0), "its point contradicts its bid"),
        (lambda o, _: Offer(o.rows, np.full((1, 2), np.nan)), "its offer cannot be used (Some of the points are not"),
        (lambda o, _: Offer(o.rows, np.zeros((1, 3))), "its offer cannot be used (The points have 3 columns"),
        (lambda o, _: Offer(o.rows[:0], o.points[:0]), "it made a bid but offered no point"),
        (
            lambda *_: Offer(np.arange(2), np.zeros((2, 2))),
            "it offered 2 points with 2 row numbers, but at most 1 were wanted",
        ),
    ],
)
def test_an_unusable_offer_sets_its_owner_aside(change: Change, words: str) -> None:
    run = Run(plan(), owners(20, 20, 20))
    bought = run.finish(altered("b", 4, change))
    assert len(bought.notes) == 1
    assert bought.notes[0].startswith(f"b is left out from round 4 on: {words}")
    assert len(bought.rows) == 12
    assert bought.offered["a"] == bought.offered["c"] == 12
    assert bought.offered["b"] in (3, 4)
    # What it had sent and was not bought before is left, or the promise would be.
    assert "b" not in bought.owners[3:]
    assert not any(name == "b" for name, message in run.told if isinstance(message, Ask) and message.round > 4)


def test_the_same_row_a_second_time_sets_its_owner_aside() -> None:
    sent: list[Offer] = []

    def again(name: str, answer: FromOwner) -> FromOwner:
        if name == "a" and isinstance(answer, Offer):
            sent.append(answer)
            return Offer(sent[0].rows, answer.points) if len(sent) == 3 else answer
        return answer

    bought = Run(plan(), owners(20, 20)).finish(again)
    assert bought.notes == ("a is left out from round 3 on: it offered the same row a second time.",)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "much"])
def test_a_bid_that_is_no_number_sets_its_owner_aside(score: Any) -> None:
    bought = Run(plan(), owners(20, 20)).finish(
        lambda name, answer: Bid(answer.round, score) if name == "b" and isinstance(answer, Bid) else answer
    )
    assert bought.notes == ("b is left out from round 1 on: its bid is not a finite number.",)
    assert set(bought.owners) == {"a"}


def test_an_owner_that_disappears_is_left_out_and_nothing_is_lost() -> None:
    bought = Run(plan(), owners(20, 20)).finish(
        lambda name, answer: None if name == "a" and getattr(answer, "round", 0) == 5 else answer
    )
    assert bought.notes == ("a is left out from round 5 on: it did not answer.",)
    assert bought.offered == {"a": 4, "b": 12}
    assert len(bought.rows) == 12


def test_all_disappear_and_what_was_bought_is_there() -> None:
    bought = Run(plan(), owners(20, 20)).finish(lambda _, answer: None if getattr(answer, "round", 0) == 4 else answer)
    assert len(bought.rows) == 3
    assert bought.notes[-1] == "Only 3 of 12 points could be bought: no more were offered."
    assert len(bought.notes) == 3


def test_no_note_holds_data() -> None:
    points = owners(20, 20)
    bought = Run(plan(), points).finish(altered("a", 2, lambda o, _: Offer(o.rows, o.points * 1.5)))
    assert len(bought.notes) == 1
    for value in np.concatenate(list(points.values())).ravel():
        assert f"{value:.3g}" not in bought.notes[0]


# ── messages out of turn ────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_out_of_turn_are_refused_and_change_nothing() -> None:
    run = Run(plan(), owners(20, 20))
    deliveries = run.curator.begin()
    bids = {name: run.parties[name].receive(message) for name, message in deliveries}  # the last of each is its bid
    wrong: list[tuple[str, Any, str]] = [
        ("z", bids["a"], "an owner who takes part"),
        ("a", Offer(np.zeros(1, dtype=np.int64), np.zeros((1, 2))), "expected Bid"),
        ("a", Profile(np.zeros(6), 1.0, 1.0), "expected Bid"),
        ("a", Bid(2, 0.0), "The round of a bid is 2, expected 1"),
    ]
    for name, message, words in wrong:
        with pytest.raises(UnexpectedMessage, match=words):
            run.curator.receive(name, message)
    assert run.curator.waiting == {"a", "b"}
    assert run.curator.receive("a", bids["a"]) == ()
    with pytest.raises(UnexpectedMessage, match="one who was asked and has not answered"):
        run.curator.receive("a", bids["a"])
    asks = run.curator.receive("b", bids["b"])
    assert [delivery.message for delivery in asks] == [Ask(1), Ask(1)]
    assert run.curator.expected is Offer
    with pytest.raises(UnexpectedMessage, match="under way"):
        run.curator.begin()


def test_an_offer_of_the_round_before_is_refused_and_the_right_one_taken() -> None:
    run = Run(plan(3, broadcasts=0), owners(9, 9))
    last: dict[str, Offer] = {}
    refused = 0
    deliveries = list(run.curator.begin())
    while run.curator.purchase is None:
        following = []
        for name, message in deliveries:
            answer = run.parties[name].receive(message)
            if isinstance(answer, Offer):
                if name in last:
                    with pytest.raises(UnexpectedMessage, match="the one before again"):
                        run.curator.receive(name, last[name])
                    refused += 1
                last[name] = answer
            if answer is not None:
                following += run.curator.receive(name, answer)
        deliveries = following
    assert refused == 4
    assert run.curator.purchase.notes == ()


def test_owners_refuse_what_is_out_of_turn() -> None:
    values = np.ones(6)
    bidder = PrivateGreedyOwner(FEATURES, np.zeros((2, 2)))
    early: list[Any] = [CallForBids(1, 0), Ask(1), Broadcast("summary", values, 0.0, 3), Quota(3)]
    for message in early:
        with pytest.raises(UnexpectedMessage):
            bidder.receive(message)
    assert bidder.receive(Broadcast("target", values, 0.0, 9)) is None
    assert bidder.receive(Broadcast("target", values.copy(), 0.0, 9)) is None
    assert isinstance(bidder.receive(CallForBids(4, 3)), Bid)
    bidder.receive(Broadcast("summary", values, 0.0, 5))
    bidder.receive(Broadcast("summary", values.copy(), 0.0, 5))
    late: list[Any] = [
        Broadcast("target", 2 * values, 0.0, 9),
        Broadcast("summary", 2 * values, 0.0, 5),
        Broadcast("summary", values, 0.0, 4),
        Broadcast("summary", values[:3], 0.0, 8),
        Broadcast("summary", np.nan * values, 0.0, 8),
        CallForBids(3, 3),
        CallForBids(5, -1),
        Ask(5),
        Broadcast("weather", values, 0.0, 1),
    ]
    for message in late:
        with pytest.raises(UnexpectedMessage):
            bidder.receive(message)
    assert isinstance(bidder.receive(Ask(4)), Offer)
    assert repr(bidder) == "<PrivateGreedyOwner>"


@pytest.mark.parametrize("names", [(), ("a", "a")])
def test_owners_need_names_of_their_own(names: tuple[str, ...]) -> None:
    wanted = Consumer(plan(), TARGET, randomness=Simulation(1)).want()
    with pytest.raises(InvalidInput, match="at least one owner, and each owner needs its own name"):
        PrivateGreedyCurator(plan(), names, wanted, Simulation(1))


def test_more_owners_than_the_auction_was_paid_for_are_refused() -> None:
    with pytest.raises(InvalidInput, match="There are 3 owners, but the auction covers 2; give the auction owners=3"):
        Run(plan(auction=LogisticAuction("1/10", 2)), owners(5, 5, 5))


# ── any schedule ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "auction", [None, AskPublicFew(2, seed=1), LogisticAuction("1/10", 5)], ids=["all", "some", "auction"]
)
def test_whatever_happens_to_messages_the_run_ends(auction: Any) -> None:
    """Owners vanish, answers are doubled and come in any order, time is up at any moment: 40 schedules."""
    one = plan(8, auction=auction)
    ended, noted, full = 0, 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        points = owners(*rng.integers(0, 9, 5), seed=seed)
        run = Run(one, points, seed)
        deliveries, mail, gone = list(run.curator.begin()), [], set()
        for _ in range(5000):
            if run.curator.purchase is not None:
                break
            for name, message in deliveries:
                if name in gone or rng.random() < 0.01:
                    gone.add(name)
                    continue
                answer = run.parties[name].receive(message)
                if answer is not None:
                    mail += [(name, answer)] * (1 + (rng.random() < 0.2))
            deliveries = []
            if mail and rng.random() < 0.97:
                name, answer = mail.pop(int(rng.integers(len(mail))))
                try:
                    deliveries = list(run.curator.receive(name, answer))
                except UnexpectedMessage:
                    continue
            elif not mail or rng.random() < 0.1:
                deliveries = list(run.curator.close_step())
        bought = run.curator.purchase
        assert bought is not None
        chosen = list(zip(bought.owners, bought.rows.tolist(), strict=True))
        assert len(set(chosen)) == len(chosen) <= 8
        check_points_are_the_owners(bought, points)
        assert sum(bought.offered.values()) >= len(chosen)
        assert run.curator.close_step() == ()
        ended, noted, full = ended + 1, noted + bool(bought.notes), full + (len(chosen) == 8)
    assert ended == 40
    assert noted > 5
    assert full > 5
