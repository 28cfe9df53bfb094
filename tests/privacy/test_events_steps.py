"""Many small steps accounted together: the errata's numbers, and what a step's own part of δ does."""

import json
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.errors import InvalidInput
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import (
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    FineGaussian,
    PureSteps,
    event_from_dict,
    event_to_dict,
    needs_delta,
)
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss

DELTA = Fraction(1, 10**6)
STEPS = st.builds(
    PureSteps,
    st.fractions(min_value=Fraction(1, 1000), max_value=10),
    st.integers(0, 10**6),
    st.booleans(),
    st.fractions(min_value=0, max_value=Fraction(1, 2)),
)


def theorem_7(steps: Sequence[tuple[int, float]], delta: float) -> tuple[float, float, float]:
    """Advanced composition as the paper cites it (Kairouz, Oh, Viswanath 2017): the three bounds, of (how many, ε)."""
    squares = sum(2 * count * epsilon**2 for count, epsilon in steps)
    drift = sum(count * math.tanh(epsilon / 2) * epsilon for count, epsilon in steps)
    plain = sum(count * epsilon for count, epsilon in steps)
    second = drift + math.sqrt(squares * math.log(1 / delta))
    third = drift + math.sqrt(squares * math.log(math.e + math.sqrt(squares) / delta))
    return plain, second, third


# ── golden numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("steps", "delta", "found"),
    [
        ([(1656, 0.01)], 0.01, 1.2479),
        ([(3312, 0.01)], 0.01, 1.8790),
        ([(1656, 0.04), (1656, 0.02)], 0.01, 7.1789),
        ([(5000, 0.01 / math.sqrt(5000))], 1e-4, 0.03158),
        ([(1000, 0.01)], 1e-6, 1.66),
        ([(1000, 0.05)], 1e-6, 9.6),
    ],
)
def test_the_papers_accounting_recomputed(steps: list[tuple[int, float]], delta: float, found: float) -> None:
    """Errata E2-3, E2-6 and part 6: what the printed parameters cost by the paper's own theorem."""
    assert min(theorem_7(steps, delta)) == pytest.approx(found, abs=0.05 if found == 9.6 else 0.005, rel=1e-4)


@pytest.mark.parametrize(("delta", "epsilon"), [(Fraction(1, 100), 3.31), (DELTA, 6.13)])
def test_the_papers_target_costs_what_the_errata_say(delta: Fraction, epsilon: float) -> None:
    """1,656 steps at 0.01, replace-one: choices of 4 · 0.01, of bounded range, and numbers of 2 · 0.01 (E2-3)."""
    steps = Composition((PureSteps(Fraction(4, 100), 1656, True), PureSteps(Fraction(2, 100), 1656, False)))
    assert float(compose([steps], delta).epsilon) == pytest.approx(epsilon, abs=0.005)


def test_concentration_is_cheaper_than_the_papers_theorem() -> None:
    for epsilon in (0.01, 0.05):
        ours = float(compose([PureSteps(Fraction(str(epsilon)), 1000, False)], DELTA).epsilon)
        assert 0.8 * min(theorem_7([(1000, epsilon)], 1e-6)) < ours < min(theorem_7([(1000, epsilon)], 1e-6))


# ── the rules ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bounded_range_costs_a_quarter() -> None:
    epsilon = Fraction(1, 50)
    assert PureSteps(epsilon, 300, True).rho == Fraction(300, 2500 * 8)
    assert PureSteps(epsilon, 300, False).rho == 4 * PureSteps(epsilon, 300, True).rho
    assert compose([PureSteps(epsilon, 300, True)], DELTA) == compose([PureSteps(epsilon / 2, 300, False)], DELTA)


def test_steps_and_gaussian_noise_add_up_as_rho() -> None:
    steps, gaussian = PureSteps(Fraction(1, 10), 200, False), DiscreteGaussian(1, Fraction(1))
    assert (steps.rho, gaussian.rho) == (1, Fraction(1, 2))
    assert compose([steps, gaussian], DELTA) == compose([PureSteps(Fraction(1, 10), 300, False)], DELTA)
    assert compose([gaussian, gaussian], DELTA) == compose([steps], DELTA)


def test_fine_noise_beside_steps_is_accounted_by_concentration() -> None:
    fine, plain = FineGaussian(2**18, 2**20, 5), DiscreteGaussian(2**18, Fraction(2**20))
    steps = PureSteps(Fraction(1, 10), 5, True)
    assert compose([fine, steps], DELTA) == compose([plain, steps], DELTA)
    assert compose([fine], DELTA).epsilon < compose([plain], DELTA).epsilon


def test_pure_noise_costs_its_epsilon_on_top() -> None:
    steps = PureSteps(Fraction(1, 10), 50, True)
    alone = compose([steps], DELTA).epsilon
    assert compose([steps, DiscreteLaplace(1, Fraction(4))], DELTA).epsilon == alone + Fraction(1, 4)


def test_together_many_steps_cost_far_less_than_one_by_one() -> None:
    assert compose([PureSteps(Fraction(1, 10), 0, True)], DELTA).epsilon < Fraction(1, 1000)
    assert compose([PureSteps(Fraction(1, 100), 10**4, True)], DELTA).epsilon < 3


# ── a part of δ ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_probability_is_taken_from_delta() -> None:
    """δ covers (1 + e^ε) times the failure probability, with the ε of all events together."""
    failure = DELTA / 100
    found = compose([PureSteps(Fraction(1, 10), 100, True, failure)], DELTA)
    assert found.delta == DELTA
    left = float(DELTA) - float(failure) * (1 + math.exp(float(found.epsilon)))
    exactly = compose([PureSteps(Fraction(1, 10), 100, True)], Fraction(left)).epsilon
    assert exactly <= found.epsilon <= exactly * Fraction(1001, 1000)
    assert found.epsilon > compose([PureSteps(Fraction(1, 10), 100, True)], DELTA).epsilon


def test_a_second_purchase_makes_the_first_failure_probability_cost_more() -> None:
    """At twice the loss the same failure probability takes more of δ; a pure charge beside it counts as well."""
    failure = DELTA / 10**5
    auction = PureSteps(Fraction(1, 10), 400, True, failure)
    together = compose([auction, auction], DELTA).epsilon
    beside = compose([auction, DiscreteLaplace(1, Fraction(1, 2))], DELTA)
    for loss, failures, conversion in (
        (together, 2 * failure, together),
        (beside.epsilon, failure, beside.epsilon - 2),
    ):
        left = float(DELTA) - float(failures) * (1 + math.exp(float(loss)))
        steps = PureSteps(Fraction(1, 10), 800 if loss is together else 400, True)
        assert left > 0
        assert compose([steps], Fraction(left)).epsilon <= conversion


@pytest.mark.parametrize(("failure", "more"), [(DELTA, 0), (DELTA / 1000, 8), (Fraction(1, 10**320), 750)])
def test_nothing_left_of_delta_is_refused(failure: Fraction, more: int) -> None:
    events = [PureSteps(Fraction(1, 10), 3, True, failure)]
    if more:
        events.append(DiscreteLaplace(more, Fraction(1)))
    with pytest.raises(InvalidInput, match=r"have a failure probability of .* give a larger delta"):
        compose(events, DELTA)


def test_steps_need_a_delta() -> None:
    assert needs_delta(PureSteps(Fraction(1), 1, True))
    with pytest.raises(InvalidInput, match="give the ledger a delta"):
        compose([PureSteps(Fraction(1), 1, True)])


@pytest.mark.parametrize(
    "wrong", [(Fraction(0), 1, True), (Fraction(-1), 1, True), (Fraction(1), -1, True), (Fraction(1), 1, True, 1)]
)
def test_impossible_steps_are_no_event(wrong: tuple[Fraction, int, bool]) -> None:
    with pytest.raises(InvalidInput, match=r"(epsilon|steps|failure_probability) of PureSteps is .*; give"):
        PureSteps(*wrong)


@given(STEPS)
def test_descriptions_of_steps_are_complete(event: PureSteps) -> None:
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_a_ledger_adds_steps_up_with_everything_else(tmp_path) -> None:
    ledger = Ledger.open(tmp_path / "records.ledger", total=5, delta=DELTA)
    steps = PureSteps(Fraction(1, 10), 100, True, DELTA / 1000)
    cost = compose([steps], DELTA).epsilon
    ledger.charge(Guarantee(PrivacyLoss(cost, DELTA), Unit.PERSON), steps)
    ledger.charge(Guarantee(PrivacyLoss(cost, DELTA), Unit.PERSON), steps)
    assert cost < ledger.spent < 2 * cost
    assert ledger.spent == compose([steps, steps], DELTA).epsilon
