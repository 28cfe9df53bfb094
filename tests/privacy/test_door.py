"""The door: what is refused is not charged, what is charged is paid for once, and a budget counts as a ledger does."""

import contextlib
import copy
import pickle
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heathaze as hz
from heathaze.errors import (
    AlreadyCharged,
    BudgetExceeded,
    HeathazeError,
    InvalidInput,
    LedgerMismatch,
    PromiseBroken,
    WeakPrivacy,
)
from heathaze.privacy.door import Receipt, pay
from heathaze.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, RandomizedReport, event_to_dict
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.ledger import Budget, Ledger
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.randomness import Randomness, SecureRandomness, Simulation

ONE = Fraction(1)
PROMISE = Guarantee(PrivacyLoss(ONE), Unit.PERSON)
EVENT = DiscreteLaplace(1, ONE)


@pytest.fixture(params=["ledger", "budget"])
def purse(request: pytest.FixtureRequest, tmp_path: Path) -> Budget:
    return Budget(2) if request.param == "budget" else Ledger.open(tmp_path / "visits.ledger", total=2)


def test_without_a_ledger_nothing_is_charged_and_there_is_randomness() -> None:
    receipt = pay(PROMISE, EVENT)
    assert receipt == Receipt(PROMISE, EVENT, None, receipt.randomness)
    assert type(receipt.randomness) is SecureRandomness
    assert len(receipt.randomness.words(3)) == 3
    facts = receipt.provenance("Flat", {"epsilon": "1"}, weight="share", at_most=20)
    assert (facts.ledger_entry, facts.simulated, facts.event) == (None, False, event_to_dict(EVENT))


def test_with_a_ledger_the_charge_is_there_before_the_randomness(purse: Budget) -> None:
    receipt = pay(PROMISE, EVENT, ledger=purse, note="first map")
    assert purse.entries() == [receipt.entry]
    assert receipt.entry is not None
    assert (receipt.entry.note, receipt.entry.guarantee, receipt.entry.event) == ("first map", PROMISE, EVENT)
    assert (purse.spent, purse.remaining, purse.unit) == (1, 1, Unit.PERSON)
    facts = receipt.provenance("Flat", {}, weight="share", at_most=None)
    assert facts.ledger_entry == receipt.entry.reference()
    assert (facts.mechanism, facts.weight, facts.at_most) == ("Flat", "share", None)


@pytest.mark.parametrize(
    ("guarantee", "event", "once", "refusal"),
    [
        (PROMISE, DiscreteLaplace(2, ONE), None, PromiseBroken),
        (PROMISE, DiscreteLaplace(1, Fraction(0)), None, PromiseBroken),
        (PROMISE, DiscreteGaussian(1, Fraction(50)), None, PromiseBroken),
        (Guarantee(PrivacyLoss(Fraction(3, 2)), Unit.PERSON), EVENT, None, BudgetExceeded),
        (Guarantee(PrivacyLoss(ONE), Unit.VISIT), EVENT, None, LedgerMismatch),
        (PROMISE, EVENT, "first ", AlreadyCharged),
    ],
    ids=["half the noise", "no noise", "Gaussian", "too much", "another unit", "twice"],
)
def test_nothing_is_charged_when_refused(
    purse: Budget, guarantee: Guarantee, event: Event, once: str | None, refusal: type[HeathazeError]
) -> None:
    pay(PROMISE, EVENT, ledger=purse, note="first map")
    randomness = Simulation(1)
    with pytest.raises(refusal):
        pay(guarantee, event, ledger=purse, randomness=randomness, once=once)
    assert (len(purse.entries()), purse.remaining) == (1, 1)
    assert (randomness.words(3) == Simulation(1).words(3)).all(), "nothing was drawn either"
    if refusal is PromiseBroken:
        with pytest.raises(PromiseBroken):
            pay(guarantee, event)


@pytest.mark.parametrize("ledger", ["visits.ledger", Path("visits.ledger"), 2, {}])
def test_only_a_ledger_can_be_charged(ledger: object) -> None:
    with pytest.raises(InvalidInput, match=r"ledger is .*; open it first: Ledger\.open"):
        pay(PROMISE, EVENT, ledger=ledger)  # type: ignore[arg-type]


class Weak(SecureRandomness):
    """A source that claims to be secure."""


@pytest.mark.parametrize(
    ("randomness", "simulated"),
    [(None, False), (SecureRandomness(), False), (Simulation(1), True), (Randomness(bytes(32)), True), (Weak(), True)],
)
def test_only_bits_of_the_operating_system_are_no_simulation(randomness: Randomness | None, simulated: bool) -> None:
    receipt = pay(PROMISE, EVENT, randomness=randomness)
    assert receipt.simulated is simulated
    assert receipt.provenance("Flat", {}, weight="share", at_most=None).simulated is simulated


# ── a budget counts as a ledger does ────────────────────────────────────────────────────────────────────────────────

CHARGES = st.tuples(
    st.fractions(min_value=Fraction(1, 1000), max_value=2),
    st.sampled_from([Fraction(1, 2), ONE, Fraction(2)]),
    st.sampled_from([Unit.PERSON, Unit.PERSON, Unit.VISIT]),
    st.sampled_from([Trust.CENTRAL, Trust.CENTRAL, Trust.LOCAL]),
    st.sampled_from([0, Fraction(1, 10**6)]),
    st.sampled_from(["a map", "another map", 7]),
    st.sampled_from([None, "a map", "a"]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fractions(min_value=Fraction(1, 10), max_value=3), st.lists(CHARGES, max_size=6))
def test_a_budget_behaves_as_a_ledger(tmp_path: Path, total: Fraction, charges: list) -> None:
    (tmp_path / "a.ledger").unlink(missing_ok=True)
    budget, ledger = Budget(total), Ledger.open(tmp_path / "a.ledger", total)
    for epsilon, noise, unit, trust, delta, note, once in charges:
        local = trust is Trust.LOCAL
        guarantee = Guarantee(
            PrivacyLoss(epsilon, Fraction(delta)), unit, Adjacency.ANY_TWO if local else Adjacency.ADD_REMOVE, trust
        )
        event = RandomizedReport(epsilon / noise) if local else DiscreteLaplace(1, noise / epsilon)
        outcomes = []
        for purse in (budget, ledger):
            try:
                entry = pay(guarantee, event, ledger=purse, note=note, once=once).entry
                assert entry is not None
                outcomes.append((entry.number, entry.guarantee, entry.event, entry.note))
            except HeathazeError as refusal:
                outcomes.append((type(refusal), str(refusal).replace(f"ledger {ledger.path}", "budget")))
        assert outcomes[0] == outcomes[1]
        assert (budget.spent, budget.remaining) == (ledger.spent, ledger.remaining)
        assert (budget.unit, budget.adjacency) == (ledger.unit, ledger.adjacency)
    assert ledger.spent <= total


def test_threads_cannot_overspend_a_budget_together() -> None:
    """With a switch of threads at nearly every step, unlocked checks overspend in one run of three."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            budget, barrier = Budget(1), threading.Barrier(4)

            def spend(budget: Budget = budget, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                with contextlib.suppress(BudgetExceeded):
                    pay(PROMISE, EVENT, ledger=budget)

            threads = [threading.Thread(target=spend) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(budget.entries()) == 1
    finally:
        sys.setswitchinterval(before)


def test_a_budget_cannot_be_copied_and_spent_twice() -> None:
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.deepcopy(Budget(1))
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(Budget(1))


@pytest.mark.parametrize("randomness", [7, Simulation, object()])
def test_what_is_no_source_of_bits_is_refused_before_anything_is_charged(randomness: Any) -> None:
    budget = Budget(1)
    with pytest.raises(InvalidInput, match="randomness is"):
        pay(PROMISE, EVENT, ledger=budget, randomness=randomness)
    assert budget.spent == 0


def test_a_subclass_that_skips_the_checks_is_refused_at_the_door() -> None:
    grid = hz.Grid.plane(x=(0, 4), y=(0, 4), size=4)
    counts = hz.count({"person": [1, 2], "x": [1.0, 2.0], "y": [1.0, 2.0]}, grid, person="person")

    @dataclass(frozen=True)
    class Unchecked(hz.central.Flat):
        tag: str = "a"

    with pytest.warns(WeakPrivacy), pytest.raises(InvalidInput, match="epsilon is above 1000"):
        hz.publish(Unchecked(grid, Fraction(5000)), counts)
    with pytest.raises(InvalidInput, match="give exact fractions"):
        hz.publish(Unchecked(grid, 0.1), counts)
