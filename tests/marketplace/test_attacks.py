"""Holes that were found once: rounding that decides a purchase, parties that do not keep to one plan, odd answers."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heathaze.errors import InvalidInput, UnexpectedMessage
from heathaze.marketplace import AskPublicFew, Consumer, LogisticAuction, Owner, PrivateGreedy, buy, curator_for
from heathaze.marketplace.messages import Bid, FromOwner, Offer, Profile, Quota, Wanted
from heathaze.marketplace.plan import Plan
from heathaze.marketplace.private_greedy_parties import Cache
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.randomness import Simulation
from tests.marketplace.market import FEATURES, market, plan
from tests.marketplace.worlds import FEATURES as PLANE
from tests.marketplace.worlds import play, scripted, swaps

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: next to no noise, so that numbers can be told exactly."""

# ── equal points ────────────────────────────────────────────────────────────────────────────────────────────────────


def most_swaps(pairs: int) -> int:
    """By how many members summaries differ at most, where owners share points and only some of them are asked."""
    most = 0
    for number in range(pairs):
        rng = np.random.default_rng(number)
        shared = rng.uniform(0, 6, (6, 2))
        owners = {name: shared[rng.permutation(6)[:5]] for name in "abcd"}
        more = owners | {"b": np.insert(owners["b"], rng.integers(5), rng.uniform(0, 6, (1, 2)), axis=0)}
        target, script = rng.normal(0, 0.4, PLANE.dimension), rng.normal(0, 0.4, (16, PLANE.dimension))
        asked = scripted(16, auction=AskPublicFew(2, seed=number))
        here, there = (play(asked, world, target, script)[0] for world in (owners, more))
        most = max(most, *(max(swaps(a, b)) for a, b in zip(here, there, strict=True)))
    return most


def test_equal_points_of_two_owners_do_not_make_two_swaps_of_one() -> None:
    assert most_swaps(30) == 1


def test_scores_that_depend_on_the_place_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The known bug: a matrix product rounds equal hashes by where they stand."""

    tell = Cache.rescore

    def rounded(cache: Cache, summary: np.ndarray) -> None:
        tell(cache, summary)
        cache._similarity_to_summary += 1e-14 * (7 * np.arange(len(cache._similarity_to_summary)) % 11)

    monkeypatch.setattr(Cache, "rescore", rounded)
    assert most_swaps(30) > 1


# ── points so far away that a hash is rounding ──────────────────────────────────────────────────────────────────────


def test_points_whose_hash_would_be_rounding_are_refused() -> None:
    for far in (1e5, 1e12, 1e308):
        with pytest.raises(InvalidInput, match=r"kernel widths \(1/√gamma\) from 0"):
            FEATURES.of([[0.0, far, 0.0]])
    # As far as is allowed, a hash is still that of the angle.
    points = np.random.default_rng(1).normal(size=(500, 3))
    points *= 9_999 / np.linalg.norm(points, axis=1, keepdims=True) / np.sqrt(FEATURES.gamma)
    angles = points @ FEATURES.omega
    straight = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(FEATURES.frequencies)
    assert np.abs(FEATURES.of(points) - straight).max() < 0.1


# ── what a consumer may send ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("agreed", [plan(), PrivateGreedy(FEATURES, 30, 50, 50)])
@pytest.mark.parametrize(
    "change",
    [
        {"values": np.full(40, 3.0)},
        {"values": np.full(40, np.nan)},
        {"values": np.zeros(39)},
        {"values": "no"},
        {"about": "summary"},
        {"deviation": 0.0},
        {"deviation": np.nan},
        {"members": 51},
        {"plan": "another"},
    ],
)
def test_a_wish_that_does_not_fit_the_plan_is_refused(agreed: Plan, change: dict[str, Any]) -> None:
    target, owners = market()
    wanted = Consumer(agreed, target, randomness=Simulation(1)).want()
    curator_for(agreed, tuple(owners), wanted)
    forged = Wanted(wanted.points, dataclasses.replace(wanted.broadcast, **change))
    with pytest.raises(InvalidInput, match="does not fit the plan"):
        curator_for(agreed, tuple(owners), forged)
    for points in (wanted.points[:-1], wanted.points[:, :2], wanted.points * np.nan):
        with pytest.raises(InvalidInput):
            curator_for(agreed, tuple(owners), Wanted(points, wanted.broadcast))


# ── one plan for all ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("agreed", "other"),
    [
        (PrivateGreedy(FEATURES, 30, 50, 40), PrivateGreedy(FEATURES, 30, 50, 60)),
        (PrivateGreedy(FEATURES, 30, 50, 60), PrivateGreedy(FEATURES, 30, 50, 60, broadcasts=2)),
        (PrivateGreedy(FEATURES, 30, 50, 60), PrivateGreedy(FEATURES, 30, 50, 60, initial=np.zeros((3, 3)))),
        (
            PrivateGreedy(FEATURES, 30, 50, 60, initial=np.ones((3, 3))),
            PrivateGreedy(FEATURES, 30, 50, 60, initial=np.zeros((3, 3))),
        ),
        (plan(epsilon=40), plan(epsilon=60)),
        (plan(), plan(seen=3)),
        (plan(), plan(features=dataclasses.replace(FEATURES, seed=6))),
    ],
)
def test_an_owner_under_another_plan_says_nothing_and_pays_nothing(agreed: Plan, other: Plan, tmp_path: Path) -> None:
    target, owners = market()
    ledger = Ledger.open(tmp_path / "ledger", total=100, delta=1e-6)
    owner = Owner(agreed, owners["owner0"], ledger=ledger)
    broadcast = Consumer(other, target, randomness=Simulation(1)).want().broadcast
    with pytest.raises(UnexpectedMessage, match="plan of a broadcast is another one"):
        owner.receive(broadcast)
    with pytest.raises(UnexpectedMessage, match="expected the broadcast of the target"):
        owner.receive(Quota(3))
    assert ledger.entries() == []
    with pytest.raises(InvalidInput, match="does not fit the plan"):
        curator_for(agreed, tuple(owners), Wanted(target, broadcast))


def test_a_plan_in_an_older_format_and_a_plan_of_another_kind_are_refused_by_name() -> None:
    target, owners = market()
    wanted = Consumer(plan(), target, randomness=Simulation(1)).want()
    old = dataclasses.replace(wanted.broadcast, plan="0" * 64)
    with pytest.raises(UnexpectedMessage, match=r"in another format than 2, .* use one version of Heathaze everywhere"):
        Owner(plan(), owners["owner0"]).receive(old)
    with pytest.raises(InvalidInput, match="plan is of the type str; expected Herding or PrivateGreedy"):
        curator_for("herding", tuple(owners), wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("agreed", "owners"),
    [(plan(), ()), (PrivateGreedy(FEATURES, 30, 50, 50), ()), (None, ("a", "b", "c"))],
)
def test_whatever_is_refused_is_refused_before_the_target_is_charged(
    agreed: Plan | None, owners: tuple[str, ...], tmp_path: Path
) -> None:
    target, _ = market()
    ledger = Ledger.open(tmp_path / "ledger", total=100, delta=1e-6)
    chosen = agreed or PrivateGreedy(FEATURES, 30, 50, 50, auction=LogisticAuction("1/10", owners=2))
    with pytest.raises(InvalidInput, match=r"at least one owner|the auction covers 2"):
        buy(chosen, target, {name: np.zeros((2, 3)) for name in owners}, target_ledger=ledger)
    assert ledger.entries() == []


# ── what an owner may send ──────────────────────────────────────────────────────────────────────────────────────────

ODD_PROFILES: list[Callable[[Profile], Any]] = [
    lambda said: Profile(said.values, None, 1.0),  # type: ignore[arg-type]
    lambda said: Profile(said.values, 10**400, 1.0),
    lambda said: Profile(said.values, float("inf"), 1.0),
    lambda said: Profile(said.values, 1e300, 1.0),
    lambda said: Profile(said.values * 1e200, said.count, 1.0),
    lambda said: Profile(said.values[:-1], said.count, 1.0),
    lambda said: Profile("text", said.count, 1.0),  # type: ignore[arg-type]
]

ODD_OFFERS: list[Callable[[Offer], Any]] = [
    lambda said: Offer(None, said.points),  # type: ignore[arg-type]
    lambda said: Offer(said.rows + 0.5, said.points),
    lambda said: Offer(-1 - said.rows, said.points),
    lambda said: Offer(said.rows + 2**62, said.points),
    lambda said: Offer(said.rows[:, None], said.points),
    lambda said: Offer(np.array([2**70] * len(said.rows), dtype=object), said.points),
    lambda said: Offer(said.rows, "text"),  # type: ignore[arg-type]
    lambda said: Offer(said.rows, said.points * 1e300),
]


@pytest.mark.parametrize("odd", [*ODD_PROFILES, *ODD_OFFERS])
def test_odd_answers_in_herding_set_their_owner_aside(odd: Callable[[Any], Any]) -> None:
    target, owners = market()
    kind = Profile if odd in ODD_PROFILES else Offer
    bought = _bought(plan(), target, owners, lambda said: odd(said) if type(said) is kind else said)
    assert "owner1" not in bought.owners
    assert any(note.startswith("owner1 is left out") for note in bought.notes)
    assert len(bought.rows) == 30


def test_the_deviation_of_a_profile_is_that_of_the_plan() -> None:
    target, owners = market()

    def with_deviation(one: float) -> dict[str, int]:
        def change(said: FromOwner) -> FromOwner:
            return dataclasses.replace(said, deviation=one) if isinstance(said, Profile) else said

        return dict(_bought(plan(), target, owners, change).offered)

    assert with_deviation(1.0) == with_deviation(-3.0) == with_deviation(float("nan"))


@pytest.mark.parametrize("odd", [*ODD_OFFERS, *(lambda _, s=s: Bid(1, s) for s in (10**400, "x", float("nan"), [1.0]))])
def test_odd_answers_in_rounds_set_their_owner_aside(odd: Callable[[Any], Any]) -> None:
    target, owners = market()
    kind = Offer if odd in ODD_OFFERS else Bid
    agreed = PrivateGreedy(FEATURES, 20, 50, 90)
    bought = _bought(agreed, target, owners, lambda said: odd(said) if type(said) is kind and _first(said) else said)
    assert "owner1" not in bought.owners
    assert any(note.startswith("owner1 is left out from round 1") for note in bought.notes)
    assert len(bought.rows) == 20


def _first(said: FromOwner) -> bool:
    return not isinstance(said, Bid) or said.round == 1


def _bought(agreed: Plan, target: np.ndarray, owners: dict, change: Callable[[FromOwner], FromOwner]) -> Any:
    """A purchase in which one owner says something else than it should."""
    parties = {name: Owner(agreed, points, randomness=Simulation(3)) for name, points in owners.items()}
    curator = curator_for(
        agreed, tuple(owners), Consumer(agreed, target, randomness=Simulation(2)).want(), Simulation(4)
    )
    deliveries = list(curator.begin())
    while curator.purchase is None:
        following: list = []
        for name, message in deliveries:
            answer = parties[name].receive(message)
            if answer is not None:
                following += curator.receive(name, change(answer) if name == "owner1" else answer)
        deliveries = following or list(curator.close_step())
    return curator.purchase


def test_a_broadcast_without_an_end_is_no_mean_hash() -> None:
    target, owners = market()
    broadcast = Consumer(plan(), target).want().broadcast
    with pytest.raises(UnexpectedMessage, match="of something else"):
        Owner(plan(), owners["owner0"]).receive(dataclasses.replace(broadcast, values=broadcast.values * np.inf))
