"""Herding buys what greedy would, tells owners nothing but noisy numbers, and survives owners that do not behave."""

import copy
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import BudgetExceeded, InvalidInput, UnexpectedMessage
from heathaze.marketplace import Consumer, Features, Owner, PrivateGreedy, buy, curator_for, mmd_squared
from heathaze.marketplace.baselines import kernel_greedy
from heathaze.marketplace.herding import HerdingCurator, denoise, mixture, quotas
from heathaze.marketplace.messages import Ask, Bid, Broadcast, Offer, Profile, Quota
from heathaze.privacy.audit import lower_bound
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.randomness import Simulation
from tests.marketplace.market import FEATURES, market, plan, remedies

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: next to no noise, so that numbers can be told exactly."""

# ── what is bought ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_everything_offered_it_is_the_exact_greedy_choice() -> None:
    target, owners = market()
    every = plan(points=90, seen=10)
    bought = buy(every, target, owners, randomness=Simulation(1))
    together = np.concatenate([owners[name][np.sort(rows)] for name, rows in offered_rows(bought).items()])
    assert bought.seen == sum(map(len, owners.values()))
    chosen = kernel_greedy(together, target, FEATURES.gamma, 90)
    assert sorted(map(tuple, bought.points)) == sorted(map(tuple, together[chosen]))


def offered_rows(bought) -> dict:
    return {name: np.arange(count) for name, count in bought.offered.items()}


def test_rows_and_owners_name_the_points() -> None:
    target, owners = market()
    bought = buy(plan(), target, owners, randomness=Simulation(1))
    assert len(bought.rows) == len(bought.owners) == 30
    assert len(set(zip(bought.owners, bought.rows.tolist(), strict=True))) == 30
    for name, row, point in zip(bought.owners, bought.rows, bought.points, strict=True):
        assert (owners[name][row] == point).all()
    assert bought.parsimony <= 2
    assert bought.simulated
    assert not buy(plan(), target, owners).simulated


@pytest.mark.parametrize(
    ("agreed", "marking"),
    [
        (plan(), {"consumer", "owner0", "owner1", "owner2"}),
        (PrivateGreedy(FEATURES, 8, 50, 50), {"consumer", "curator"}),
    ],
    ids=["herding", "private greedy"],
)
def test_a_purchase_by_messages_is_marked_if_any_of_its_noise_is_simulated(agreed, marking: set[str]) -> None:
    """In herding the curator draws no noise, and in private greedy the owners draw none."""
    target, owners = market()

    def marked(*simulating: str) -> bool:
        source = {name: Simulation(1) for name in simulating}
        wanted = Consumer(agreed, target, randomness=source.get("consumer")).want()
        parties = {name: Owner(agreed, points, randomness=source.get(name)) for name, points in owners.items()}
        curator = curator_for(agreed, tuple(owners), wanted, source.get("curator"))
        deliveries = list(curator.begin())
        while deliveries:
            name, message = deliveries.pop(0)
            answer = parties[name].receive(message)
            deliveries += () if answer is None else curator.receive(name, answer)
        assert curator.purchase is not None
        return curator.purchase.simulated

    assert not marked()
    assert {name for name in ("consumer", "curator", *owners) if marked(name)} == marking


@pytest.mark.parametrize("epsilon", [2, 50])
def test_it_buys_nearly_what_greedy_would_and_far_better_than_uniform(epsilon: float) -> None:
    target, owners = market(3, (900, 900, 900), 400)
    fresh = market(4, (1,), 2000)[0]
    every = np.concatenate(list(owners.values()))
    greedy = mmd_squared(fresh, every[kernel_greedy(every, target, 1.0, 100)], 1.0)
    uniform = mmd_squared(fresh, np.concatenate([points[:33] for points in owners.values()]), 1.0)
    agreed = plan(points=100, target_points=400, epsilon=epsilon)
    found = mmd_squared(fresh, buy(agreed, target, owners, randomness=Simulation(2)).points, 1.0)
    assert found <= 2 * greedy
    assert found <= 0.3 * uniform


# ── what owners are told ────────────────────────────────────────────────────────────────────────────────────────────


def told(target: np.ndarray, owners: dict, seed: int, **changes) -> dict:
    """Every message to owners in a purchase, in order, where each party has its own fixed randomness."""
    agreed = plan(target_points=len(target), **changes)
    parties = {
        name: Owner(agreed, points, randomness=Simulation(seed + place))
        for place, (name, points) in enumerate(owners.items())
    }
    curator = HerdingCurator(agreed, tuple(owners), Consumer(agreed, target, randomness=Simulation(seed - 1)).want())
    heard: dict = {name: [] for name in owners}
    deliveries = list(curator.begin())
    while deliveries:
        following = []
        for name, message in deliveries:
            heard[name].append(message)
            following += curator.receive(name, parties[name].receive(message))
        deliveries = following
    return heard


def test_owners_hear_the_noisy_target_and_a_quota_and_nothing_else() -> None:
    for messages in told(*market(), seed=10).values():
        assert [type(message) for message in messages] == [Broadcast, Quota]
        assert messages[0].about == "target"


def test_what_is_offered_never_reaches_another_owner() -> None:
    """The same profile with other offers behind it: every message to the others is the same."""
    target, owners = market()
    agreed = plan(target_points=50)
    broadcast = Consumer(agreed, target, randomness=Simulation(9)).want().broadcast
    profile = Owner(agreed, owners["owner0"], randomness=Simulation(1)).receive(broadcast)
    quotas_told = []
    for offered in (owners["owner0"], np.random.default_rng(5).normal(7, 1, owners["owner0"].shape)):
        curator = HerdingCurator(agreed, tuple(owners), Consumer(agreed, target, randomness=Simulation(9)).want())
        curator.begin()
        deliveries = list(curator.receive("owner0", profile))
        for name in ("owner1", "owner2"):
            deliveries += curator.receive(
                name, Owner(agreed, owners[name], randomness=Simulation(2)).receive(broadcast)
            )
        quotas_told.append([message for _, message in deliveries])
        rows = np.arange(deliveries[0].message.points)
        assert curator.receive("owner0", Offer(rows, offered[rows])) == ()
    assert quotas_told[0] == quotas_told[1]


def test_an_attack_on_a_profile_finds_no_violation_and_one_without_the_count() -> None:
    """One record more: its hash and its count. Noise made for the hash alone forgets the count (length √2)."""
    agreed = plan(epsilon=1, delta=0.01, target_points=10_000)
    one = np.array([[0.3, 0.2, 0.1]])
    direction = np.append(FEATURES.of(one)[0], 1.0) / math.sqrt(2)

    def loss(length: float) -> float:
        noise = dataclasses.replace(agreed.owner_sum, max_norm=length)
        counted = np.append(FEATURES.of(one)[0], 1.0)[None] * (length / math.sqrt(2))
        source = Simulation(6)
        seen = [
            np.array([noise.of(table, source) @ direction for _ in range(8_000)])
            for table in (counted, np.empty((0, FEATURES.dimension + 1)))
        ]
        # What was left out of the noise is put back into the difference.
        return lower_bound(seen[0] + (math.sqrt(2) - length), seen[1], delta=0.01)

    assert loss(math.sqrt(2)) <= 1
    assert loss(0.5) > 1


def test_an_empty_owner_takes_part_like_any_other() -> None:
    """If it stayed away, the others' quotas would tell whether it has a record."""
    target, owners = market()
    owners["owner2"] = np.empty((0, 3))
    bought = buy(plan(), target, owners, randomness=Simulation(1))
    assert bought.offered["owner2"] == 0
    assert any("owner2 has no records" in note for note in bought.notes)
    assert len(bought.rows) == 30


def test_noise_is_drawn_once() -> None:
    """Asked again, consumer and owners say the very same; asked something else, nothing."""
    target, owners = market()
    agreed = plan()
    consumer = Consumer(agreed, target)
    assert consumer.want() is consumer.want()
    owner = Owner(agreed, owners["owner0"])
    broadcast = consumer.want().broadcast
    assert owner.receive(broadcast) is owner.receive(broadcast)
    other = Consumer(agreed, target).want().broadcast
    with pytest.raises(UnexpectedMessage, match="second broadcast"):
        owner.receive(other)
    offer = owner.receive(Quota(5))
    assert owner.receive(Quota(5)) is offer
    with pytest.raises(UnexpectedMessage, match="second quota"):
        owner.receive(Quota(6))


def test_nothing_prints_or_copies_what_it_holds() -> None:
    target, owners = market()
    consumer, owner = Consumer(plan(), target), Owner(plan(), owners["owner0"])
    wanted = consumer.want()
    profile, offer = owner.receive(wanted.broadcast), owner.receive(Quota(3))
    bought = buy(plan(), target, owners)
    for thing in (consumer, owner, wanted, profile, offer, bought):
        assert "0." not in repr(thing).replace(repr(wanted.broadcast), "").replace("deviation=0.", "")
        assert "array" not in repr(thing)
    for thing in (consumer, owner):
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(thing)


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_budgets_are_charged_once_each_and_say_what_is_promised(tmp_path: Path) -> None:
    target, owners = market()
    agreed = plan(epsilon=4)
    target_ledger = Ledger.open(tmp_path / "target", total=4, delta=1e-6)
    ledgers = {name: Ledger.open(tmp_path / name, total=4, delta=1e-6) for name in owners}
    buy(agreed, target, owners, target_ledger=target_ledger, owner_ledgers=ledgers)
    for ledger, adjacency in ((target_ledger, "replace-one"), (ledgers["owner1"], "add-remove")):
        (entry,) = ledger.entries()
        assert (entry.guarantee.unit.value, entry.guarantee.adjacency.value) == ("record", adjacency)
        assert "Not protected: what the curator sees" in str(entry.guarantee)
    with pytest.raises(BudgetExceeded):
        buy(agreed, target, owners, target_ledger=target_ledger, owner_ledgers=ledgers)
    assert all(len(ledger.entries()) == 1 for ledger in ledgers.values())


def test_consumer_and_owners_pay_before_anything_is_drawn(tmp_path: Path) -> None:
    """A source that fails wastes the charge: nothing was drawn before it."""

    class Broken(Simulation):
        def fill(self, _: np.ndarray) -> None:
            raise RuntimeError("no entropy")

    target, owners = market()
    agreed = plan(epsilon=4)
    ledgers = [Ledger.open(tmp_path / name, total=4, delta=1e-6) for name in ("target", "owner")]
    broadcast = Consumer(agreed, target).want().broadcast
    with pytest.raises(RuntimeError, match="no entropy"):
        Consumer(agreed, target, ledger=ledgers[0], randomness=Broken(1)).want()
    with pytest.raises(RuntimeError, match="no entropy"):
        Owner(agreed, owners["owner0"], ledger=ledgers[1], randomness=Broken(1)).receive(broadcast)
    assert [len(ledger.entries()) for ledger in ledgers] == [1, 1]


def test_an_owner_without_budget_is_left_out(tmp_path: Path) -> None:
    target, owners = market()
    poor = {"owner0": Ledger.open(tmp_path / "poor", total=1, delta=1e-6)}
    bought = buy(plan(), target, owners, owner_ledgers=poor)
    assert "owner0" not in bought.owners
    assert poor["owner0"].entries() == []
    assert any(note.startswith("owner0 does not take part") for note in bought.notes)


@pytest.mark.parametrize(("target", "epsilon"), [(3, 2), (50, 0.01), (50, 1e-6)])
def test_a_budget_without_signal_is_refused_and_nothing_is_charged(target: int, epsilon: float, tmp_path: Path) -> None:
    points, owners = market(target=target)
    ledger = Ledger.open(tmp_path / "ledger", total=10, delta=1e-6)
    weak = plan(target_points=target, epsilon=epsilon)
    assert weak.noise_to_signal > 1
    with pytest.raises(
        InvalidInput, match=r"times as long as the hash can be.*(take|or) epsilon .*Nothing was charged"
    ):
        buy(weak, points, owners, target_ledger=ledger)
    assert ledger.entries() == []


@pytest.mark.parametrize(("target", "epsilon"), [(10, 1), (30, 1), (30, 0.01), (50, 1e-6), (2, 20)])
def test_what_a_refusal_says_is_enough_and_a_little_less_is_not(target: int, epsilon: float) -> None:
    weak = plan(target_points=target, epsilon=epsilon)
    with pytest.raises(InvalidInput, match="or epsilon") as refused:
        weak.check_signal()
    for change in remedies(str(refused.value), FEATURES):
        dataclasses.replace(weak, **change).check_signal()
        less = {
            "target_points": lambda count: count - 1,
            "epsilon": lambda loss: float(loss) * 0.99,
            "features": lambda features: dataclasses.replace(features, frequencies=features.frequencies + 1),
        }
        with pytest.raises(InvalidInput):
            dataclasses.replace(weak, **{name: less[name](value) for name, value in change.items()}).check_signal()


@pytest.mark.parametrize("owners", [[[[0.0, 1.0]]], (), "ab"])
def test_owners_without_names_are_refused_in_a_sentence(owners: object) -> None:
    with pytest.raises(InvalidInput, match=r"owners, a mapping from names to points, is an? \w+; expected Mapping"):
        buy(plan(), np.zeros((40, 2)), owners)  # type: ignore[arg-type]


# ── owners that do not behave ───────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whoever_vanishes_or_talks_nonsense_the_purchase_is_made(data: st.DataObject) -> None:
    target, owners = market(sizes=(20, 30, 25, 15))
    agreed = plan()
    parties = {name: Owner(agreed, points, randomness=Simulation(3)) for name, points in owners.items()}
    curator = HerdingCurator(agreed, tuple(owners), Consumer(agreed, target, randomness=Simulation(2)).want())
    deliveries = list(curator.begin())
    behaved = set(owners)
    for _ in range(2):
        following = []
        for name, message in data.draw(st.permutations(deliveries)):
            manner = data.draw(st.sampled_from(["answer", "answer", "twice", "vanish", "nonsense", "stranger"]))
            if manner == "vanish":
                behaved.discard(name)
                continue
            if manner == "stranger":
                with pytest.raises(UnexpectedMessage):
                    curator.receive("nobody", parties[name].receive(message))
            answer = parties[name].receive(message)
            if manner == "nonsense":
                behaved.discard(name)
                answer = nonsense(answer)
            following += curator.receive(name, answer)
            if manner == "twice":
                with pytest.raises(UnexpectedMessage):
                    curator.receive(name, answer)
        deliveries = following or list(curator.close_step())
    bought = curator.purchase
    assert bought is not None
    assert set(bought.owners) <= behaved
    assert set(bought.offered) == behaved
    assert all(any(note.startswith(f"{name} is left out") for note in bought.notes) for name in set(owners) - behaved)


def nonsense(answer: Profile | Offer) -> Profile | Offer:
    if isinstance(answer, Profile):
        return Profile(np.full_like(answer.values, np.nan), 3.0, 1.0)
    rows = np.arange(10_000)
    return Offer(rows, np.zeros((10_000, 3)))


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (Offer(np.array([0, 0]), np.zeros((2, 3))), "the same row twice"),
        (Offer(np.array([0]), np.zeros((1, 2))), "have 2 columns"),
        (Offer(np.array([0]), np.full((1, 3), np.inf)), "not finite"),
        (Offer(np.array([0, 1]), np.zeros((1, 3))), "it offered 1 points with 2 row numbers, but at most"),
    ],
)
def test_an_offer_that_cannot_be_used_sets_its_owner_aside(offer: Offer, words: str) -> None:
    target, owners = market()
    agreed = plan()
    curator = HerdingCurator(agreed, tuple(owners), Consumer(agreed, target, randomness=Simulation(2)).want())
    parties = {name: Owner(agreed, points, randomness=Simulation(3)) for name, points in owners.items()}
    asked = [curator.receive(name, parties[name].receive(message)) for name, message in curator.begin()][-1]
    for name, message in asked:
        curator.receive(name, offer if name == "owner1" else parties[name].receive(message))
    assert curator.purchase is not None
    assert "owner1" not in curator.purchase.offered
    assert any(words in note for note in curator.purchase.notes)


def test_messages_out_of_turn_are_refused() -> None:
    target, owners = market()
    agreed = plan()
    curator = HerdingCurator(agreed, tuple(owners), Consumer(agreed, target).want())
    with pytest.raises(UnexpectedMessage, match="expected Profile"):
        curator.receive("owner0", Bid(1, 0.5))
    owner = Owner(agreed, owners["owner0"])
    for message in (Quota(3), Ask(1), Broadcast("summary", np.zeros(40), 0.1, 5)):
        with pytest.raises(UnexpectedMessage):
            owner.receive(message)
    owner.receive(curator.begin()[0].message)
    with pytest.raises(UnexpectedMessage, match="quota"):
        owner.receive(Quota(31))


def test_more_points_than_there_are() -> None:
    target, owners = market(sizes=(5, 6))
    bought = buy(plan(), target, owners, randomness=Simulation(1))
    assert len(bought.rows) <= 11
    assert any("Only" in note and "of 30 points" in note for note in bought.notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": 0}, "points is 0"),
        ({"target_points": 2.5}, "target_points is 2.5"),
        ({"seen": 0.5}, "seen is 0.5"),
        ({"seen": math.nan}, "seen is nan"),
        ({"epsilon": -1}, "epsilon is -1"),
        ({"delta": 0}, "delta is 0"),
        ({"features": "no"}, "features is a str"),
    ],
)
def test_absurd_plans_are_refused(change: dict, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        plan(**change)


def test_a_target_or_owner_of_another_shape_is_refused() -> None:
    target, owners = market()
    with pytest.raises(
        InvalidInput, match="target has 50 points, but the plan is for 49; make a plan with target_points=50"
    ):
        buy(plan(target_points=49), target, owners)
    with pytest.raises(InvalidInput, match=r"Owner owner1: .* 2 columns"):
        buy(plan(), target, owners | {"owner1": np.zeros((4, 2))})
    with pytest.raises(InvalidInput, match="at least one owner"):
        buy(plan(), target, {})
    with pytest.raises(InvalidInput, match="no owner; name ledgers after owners"):
        buy(plan(), target, owners, owner_ledgers={"nobody": None})


# ── the parts ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=40),
    st.integers(1, 2000),
    st.floats(1, 50),
    st.integers(0, 2**32),
)
def test_quotas_keep_their_limits(weights: list[float], points: int, seen: float, seed: int) -> None:
    parts = np.array(weights) + 1e-9
    parts /= parts.sum()
    sizes = np.random.default_rng(seed).normal(500, 600, len(parts))
    share = quotas(parts, sizes, points, seen)
    most = np.minimum(np.maximum(np.rint(sizes), 1), points)
    assert (share >= 0).all()
    assert (share <= most).all()
    assert share.sum() == min(math.floor(seen * points), int(most.sum()))


def test_the_mixture_finds_the_parts() -> None:
    means = FEATURES.of(np.array([[0.0, 0, 0], [1, 1, 1], [2, 0, 2]]))
    assert mixture(means, means.T @ [0.2, 0.8, 0.0]) == pytest.approx([0.2, 0.8, 0.0], abs=1e-3)
    assert mixture(means, -means.sum(axis=0)).sum() == pytest.approx(1)


def test_denoising_brings_a_noisy_mean_nearer_and_leaves_an_exact_one() -> None:
    features = Features(3, 1.0, frequencies=70, seed=5)
    rng = np.random.default_rng(3)
    hashes = features.of(rng.normal(0, 1, (2000, 3)))
    truth = features.of(rng.normal(0.4, 0.8, (300, 3))).mean(axis=0)
    assert denoise(truth, 0.0, hashes) == pytest.approx(truth, abs=1e-6)
    for deviation in (0.01, 0.05):
        noisy = truth + rng.normal(0, deviation, len(truth))
        before, after = ((given - truth) @ (given - truth) for given in (noisy, denoise(noisy, deviation, hashes)))
        assert after < 0.3 * before
    assert (denoise(noisy, 0.05, hashes[:1]) == noisy).all()


def test_the_quotas_follow_from_what_is_public() -> None:
    """The same broadcasts and profiles give the same quotas, whoever computes them."""
    target, owners = market()
    heard = [told(target, owners, seed=20), told(target, owners, seed=20)]
    for name in owners:
        first, second = heard[0][name], heard[1][name]
        assert (first[0].values == second[0].values).all()
        assert first[1] == second[1]
    assert len({told(target, owners, seed=seed, epsilon=10)["owner0"][1].points for seed in (20, 40, 60, 80)}) > 1
