"""Privacy losses: exact where they can be, and never too low where they cannot."""

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import (
    BiasedSplits,
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialChoice,
    FineGaussian,
    LaplaceOnPaths,
    NoiseShares,
    PureSteps,
    RandomizedReport,
    event_from_dict,
    event_to_dict,
    flatten,
)

RATIONALS = st.fractions(min_value=Fraction(1, 1000), max_value=1000)
LAPLACE = st.builds(DiscreteLaplace, st.integers(1, 2**20), RATIONALS)
GAUSSIAN = st.builds(DiscreteGaussian, st.integers(1, 2**20), RATIONALS)
FINE = st.builds(FineGaussian, st.integers(1, 2**20), st.integers(2**16, 2**24), st.integers(1, 10**5))
CHOICE = st.builds(ExponentialChoice, st.integers(1, 2**40), RATIONALS)
SPLITS = st.builds(BiasedSplits, st.integers(1, 2**20), RATIONALS, st.integers(1, 2**30))
PATHS = st.builds(LaplaceOnPaths, st.integers(1, 2**20), RATIONALS)
REPORT = st.builds(RandomizedReport, RATIONALS, st.sampled_from([None, "metre", "unit of length"]))
SHARES = st.builds(NoiseShares, st.integers(1, 2**20), RATIONALS, RATIONALS)
EVENTS = st.recursive(
    LAPLACE | GAUSSIAN | FINE | SPLITS | CHOICE | PATHS | REPORT | SHARES,
    lambda inner: st.builds(Composition, st.lists(inner, max_size=3).map(tuple)),
)
DELTA = Fraction(1, 10**6)


@given(st.lists(LAPLACE, max_size=8))
def test_pure_losses_add_up_exactly(events: list[DiscreteLaplace]) -> None:
    assert compose(events).epsilon == sum((Fraction(e.sensitivity) / e.scale for e in events), Fraction(0))
    assert compose([Composition(tuple(events))]) == compose(events)
    assert compose(events).delta == 0


def test_ten_tenths_are_one() -> None:
    assert compose([DiscreteLaplace(1, Fraction(10))] * 10).epsilon == 1


@pytest.mark.parametrize("sigma", [1, 4, 20, 100])
@pytest.mark.parametrize("count", [1, 10])
def test_a_gaussian_loss_lies_between_the_exact_loss_and_the_simple_bound(sigma: int, count: int) -> None:
    rho = count / (2 * sigma**2)
    delta = float(DELTA)
    found = compose([DiscreteGaussian(1, Fraction(sigma))] * count, DELTA)
    # Bun and Steinke 2016, Proposition 1.3: ρ-zCDP is (ρ + 2 √(ρ ln 1/δ), δ)-DP.
    assert float(found.epsilon) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert float(found.epsilon) >= _least_gaussian_epsilon(math.sqrt(2 * rho), delta)
    assert found.delta == DELTA


def _least_gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact ε of continuous Gaussian noise with sensitivity/σ = μ (Balle and Wang 2018, Theorem 8)."""
    from scipy.stats import norm

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        reached = norm.cdf(mu / 2 - middle / mu) - math.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if reached > delta else (low, middle)
    return low


def test_mixed_noise_costs_no_more_than_its_parts() -> None:
    pure, gaussian = DiscreteLaplace(1, Fraction(10)), DiscreteGaussian(1, Fraction(5))
    alone = compose([gaussian], DELTA).epsilon
    assert alone < compose([pure, gaussian], DELTA).epsilon <= alone + Fraction(1, 10)


def test_more_noise_costs_less() -> None:
    losses = [compose([DiscreteGaussian(1, Fraction(sigma))], DELTA).epsilon for sigma in (2, 4, 8, 16)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4


def test_gaussian_noise_needs_a_delta() -> None:
    with pytest.raises(InvalidInput, match="no pure epsilon; give the ledger a delta"):
        compose([DiscreteGaussian(1, Fraction(5))])


@pytest.mark.parametrize("event", [DiscreteLaplace(1, Fraction(0)), DiscreteGaussian(1, Fraction(0))])
def test_no_noise_has_an_infinite_loss(event: DiscreteLaplace | DiscreteGaussian) -> None:
    with pytest.raises(PromiseBroken, match="without noise has an infinite privacy loss"):
        compose([event], DELTA)


@given(EVENTS)
def test_descriptions_are_complete(event) -> None:
    import json

    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Unknown event 'teleport'"):
        event_from_dict({"kind": "teleport"})


@given(SPLITS)
def test_splits_cost_the_formula_rounded_up(event: BiasedSplits) -> None:
    """ε = B/λ · (1 + 1/(1 − exp(−δ/λ))); the exponential never rounded down, and by less than a float can show."""
    formula = event.sensitivity / float(event.scale) * (1 - 1 / math.expm1(-float(event.bias / event.scale)))
    assert float(event.epsilon) == pytest.approx(formula, rel=1e-9)
    assert event.epsilon > 2 * event.sensitivity / event.scale


def test_splits_with_the_papers_bias_cost_seven_thirds() -> None:
    """δ = λ ln 4 to eighteen digits: B/λ · 7/3, and not less."""
    event = BiasedSplits(1, 10**18 / Fraction(1_386_294_361_119_890_618), 1)
    ratio = event.epsilon * event.scale
    assert Fraction(7, 3) < ratio < Fraction(7, 3) + Fraction(1, 10**15)


def test_more_noise_or_more_bias_makes_splits_cheaper() -> None:
    def cost(scale: int, bias: int) -> Fraction:
        return compose([BiasedSplits(1, Fraction(scale), bias)]).epsilon

    assert cost(10, 14) > cost(20, 14) > cost(40, 14) > cost(40, 28) > cost(40, 10**6) > Fraction(2, 40)


@pytest.mark.parametrize("event", [BiasedSplits(1, Fraction(0), 5), BiasedSplits(1, Fraction(5), 0)])
def test_splits_without_noise_or_bias_have_an_infinite_loss(event: BiasedSplits) -> None:
    with pytest.raises(PromiseBroken, match="without noise or without bias has an infinite privacy loss"):
        compose([event])


def test_a_bias_far_below_the_noise_has_an_infinite_loss() -> None:
    with pytest.raises(PromiseBroken, match="too small beside its noise"):
        compose([BiasedSplits(1, Fraction(2**62), 1)])


@given(st.lists(REPORT, max_size=8))
def test_reports_add_up_exactly(events: list[RandomizedReport]) -> None:
    assert compose(events).epsilon == sum((event.epsilon for event in events), Fraction(0))
    assert compose(events).delta == 0
    assert flatten(Composition(tuple(events))) == events


def test_a_report_is_described_in_two_words() -> None:
    event = RandomizedReport(Fraction(7, 2))
    assert compose([event]).epsilon == Fraction(7, 2)
    assert event_to_dict(event) == {"kind": "randomized-report", "epsilon": "7/2"}
    assert event_from_dict({"kind": "randomized-report", "epsilon": "7/2"}) == event
    by_length = RandomizedReport(Fraction(1, 100), "metre")
    assert event_to_dict(by_length) == {"kind": "randomized-report", "epsilon": "1/100", "per": "metre"}
    assert event_from_dict(event_to_dict(by_length)) == by_length


def test_a_report_beside_gaussian_noise_costs_its_epsilon_on_top() -> None:
    gaussian = DiscreteGaussian(1, Fraction(5))
    alone = compose([gaussian], DELTA).epsilon
    assert compose([gaussian, RandomizedReport(Fraction(1, 2))], DELTA).epsilon == alone + Fraction(1, 2)


# ── a secure sum ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(SHARES)
def test_shares_cost_what_discrete_laplace_costs_or_are_refused(event: NoiseShares) -> None:
    """From shape 1 on the noise is discrete Laplace plus something independent; below it is less than promised."""
    if event.shape >= 1:
        assert compose([event]).epsilon == compose([DiscreteLaplace(event.sensitivity, event.scale)]).epsilon
        assert compose([event]).delta == 0
    else:
        with pytest.raises(PromiseBroken, match="needs at least 1; too few devices added their share"):
            compose([event])


def test_just_below_shape_one_is_refused() -> None:
    tiny = Fraction(1, 10**15)
    assert compose([NoiseShares(7, Fraction(7), Fraction(1))]).epsilon == 1
    assert compose([NoiseShares(7, Fraction(7), 1 + tiny)]).epsilon == 1
    for shape in (1 - tiny, Fraction(0)):
        with pytest.raises(PromiseBroken, match="must not be opened"):
            compose([NoiseShares(7, Fraction(7), shape)])


def test_a_broken_round_spoils_the_whole_composition() -> None:
    good, bad = NoiseShares(1, Fraction(2), Fraction(1)), NoiseShares(1, Fraction(2), Fraction(1, 2))
    assert compose([Composition((good, Composition((good,))))]).epsilon == 1
    with pytest.raises(PromiseBroken, match=r"shape 0\.5"):
        compose([Composition((good, Composition((good, bad))))])


def test_shares_without_noise_have_an_infinite_loss() -> None:
    with pytest.raises(PromiseBroken, match="without noise has an infinite privacy loss"):
        compose([NoiseShares(1, Fraction(0), Fraction(2))])


def test_shares_are_described_with_sensitivity_scale_and_shape() -> None:
    event = NoiseShares(10_000, Fraction(20_001, 2), Fraction(95, 70))
    wanted = {"kind": "noise-shares", "sensitivity": 10_000, "scale": "20001/2", "shape": "19/14"}
    assert event_to_dict(event) == wanted
    assert event_from_dict(wanted) == event


def test_shares_beside_gaussian_noise_cost_their_epsilon_on_top() -> None:
    gaussian = DiscreteGaussian(1, Fraction(5))
    alone = compose([gaussian], DELTA).epsilon
    assert compose([NoiseShares(1, Fraction(2), Fraction(1)), gaussian], DELTA).epsilon == alone + Fraction(1, 2)


# ── fine Gaussian noise ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (0.1, 1e-3, 17.404396203),
        (0.1, 1e-5, 30.749566132),
        (0.5, 1e-5, 7.031826676),
        (1, 1e-3, 2.574657019),
        (1, 1e-5, 3.730631635),
        (1, 1e-6, 4.224678889),
        (2, 1e-5, 1.993812446),
        (4, 0.1, 0.485540335),
        (10, 1e-3, 0.406059558),
    ],
)
def test_fine_noise_costs_what_continuous_noise_costs(epsilon: float, delta: float, sigma: float) -> None:
    """The errata's golden numbers; at ε = 10 the classical formula would have failed."""
    steps = 2**22
    found = float(compose([FineGaussian(round(steps / sigma), steps, 500)], Fraction(delta)).epsilon)
    assert found == pytest.approx(epsilon, rel=1e-5)
    assert found < float(compose([DiscreteGaussian(round(steps / sigma), Fraction(steps))], Fraction(delta)).epsilon)


@given(st.lists(FINE, min_size=1, max_size=4))
def test_fine_noise_never_costs_more_than_its_concentration(events: list[FineGaussian]) -> None:
    plain = [DiscreteGaussian(event.sensitivity, Fraction(event.sigma)) for event in events]
    assert compose(events, DELTA).epsilon <= compose(plain, DELTA).epsilon
    assert compose(events, DELTA).epsilon >= 0


def test_fine_releases_compose_to_one() -> None:
    """Four releases are one with half the noise, but for what the integers may add."""
    four = compose([FineGaussian(1000, 2**22, 10)] * 4, DELTA).epsilon
    one = compose([FineGaussian(2000, 2**22, 40)], DELTA).epsilon
    assert float(four) == pytest.approx(float(one), rel=1e-6)
    other = compose([FineGaussian(1000, 2**22, 10), DiscreteGaussian(1000, Fraction(2**22))], DELTA).epsilon
    assert other == compose([DiscreteGaussian(1000, Fraction(2**22))] * 2, DELTA).epsilon


def test_the_loss_of_fine_noise_covers_the_discrete_law() -> None:
    """The coarsest noise that is allowed, one number: δ summed over all integers, at the ε of the event."""
    sigma, sensitivity = 2**16, 2**15
    epsilon = float(compose([FineGaussian(sensitivity, sigma, 1)], DELTA).epsilon)
    x = np.arange(-12 * sigma, 12 * sigma + 1)
    weight = np.exp(-(x**2) / (2.0 * sigma**2))
    loss = (2.0 * x * sensitivity + sensitivity**2) / (2.0 * sigma**2)  # against noise moved by the sensitivity
    delta = (weight * np.maximum(0, -np.expm1(epsilon - loss))).sum() / weight.sum()
    assert 0.99 * float(DELTA) < delta <= float(DELTA)


def test_a_delta_that_the_integers_use_up_falls_back() -> None:
    tiny = Fraction(1, 2**100)
    fine, plain = FineGaussian(2**19, 2**20, 3), DiscreteGaussian(2**19, Fraction(2**20))
    assert compose([fine], tiny) == compose([plain], tiny)
    # So does a sensitivity so small that the difference of two normal probabilities would be rounding alone.
    fine, plain = FineGaussian(1, 2**20, 3), DiscreteGaussian(1, Fraction(2**20))
    assert compose([fine], DELTA) == compose([plain], DELTA)


def test_coarse_noise_is_not_fine() -> None:
    with pytest.raises(PromiseBroken, match="has σ = 65535 steps; it needs at least 65536"):
        FineGaussian(1, 2**16 - 1, 1)


# ── events that cannot be ───────────────────────────────────────────────────────────────────────────────────────────

ONE = Fraction(1)
GOOD: list[Any] = [
    DiscreteLaplace(1, ONE),
    DiscreteGaussian(1, ONE),
    FineGaussian(1, 2**16, 1),
    LaplaceOnPaths(1, ONE),
    BiasedSplits(1, ONE, 1),
    ExponentialChoice(1, ONE),
    RandomizedReport(ONE),
    NoiseShares(1, ONE, ONE),
    PureSteps(ONE, 1, True),
]
WHOLE = {"sensitivity": 1, "numbers": 1, "sigma of FineGaussian": 2**16, "bias": 0, "steps": 0}
"""The least that a whole number may be."""
MAY_BE_ZERO = {"scale", "sigma", "shape", "failure_probability"}


def _fields(kind: str) -> list[Any]:
    return [
        pytest.param(event, field.name, id=f"{type(event).__name__}-{field.name}")
        for event in GOOD
        for field in dataclasses.fields(event)
        if field.type == kind
    ]


def test_two_paths_of_opposite_losses_do_not_cancel() -> None:
    """The known bug: −5 beside 5 was charged as zero."""
    assert compose([LaplaceOnPaths(1, Fraction(5))]).epsilon == 5
    with pytest.raises(InvalidInput, match="epsilon of LaplaceOnPaths is -5; give an exact fraction above 0"):
        LaplaceOnPaths(1, Fraction(-5))
    described = {"kind": "laplace-on-paths", "sensitivity": 1, "epsilon": "-5"}
    with pytest.raises(InvalidInput, match="epsilon of LaplaceOnPaths is -5"):
        event_from_dict({"kind": "composition", "events": [described | {"epsilon": "5"}, described]})


@pytest.mark.parametrize(("event", "name"), _fields("int"))
def test_whole_numbers_that_cannot_be_are_refused(event: Any, name: str) -> None:
    least = WHOLE.get(f"{name} of {type(event).__name__}", WHOLE.get(name))
    assert least is not None
    for wrong in (least - 1, -5, True, 1.0, math.nan, math.inf, "1", None, Fraction(1)):
        with pytest.raises((InvalidInput, PromiseBroken)) as refusal:
            dataclasses.replace(event, **{name: wrong})
        assert str(refusal.value).endswith(".")
        with pytest.raises((InvalidInput, PromiseBroken)):
            event_from_dict(event_to_dict(event) | {name: wrong})
    assert event_from_dict(event_to_dict(event) | {name: least}) == dataclasses.replace(event, **{name: least})


@pytest.mark.parametrize(("event", "name"), _fields("Fraction"))
def test_rationals_that_cannot_be_are_refused(event: Any, name: str) -> None:
    for wrong in (Fraction(-1), -5, True, 0.5, math.nan, math.inf, "1", None, 1j):
        with pytest.raises(InvalidInput, match=rf"{name} of {type(event).__name__} is .*; give an exact fraction"):
            dataclasses.replace(event, **{name: wrong})
    for wrong in ("-1", "1/0", "1e999999999", "0.5", "nan", "inf", "", "1/2/3", " 1", "٣", "9" * 5000, 0.5, True, None):
        with pytest.raises(InvalidInput, match=rf"{name} of {type(event).__name__} is .*; give an exact fraction"):
            event_from_dict(event_to_dict(event) | {name: wrong})
    if name in MAY_BE_ZERO:
        assert getattr(dataclasses.replace(event, **{name: 0}), name) == 0
    else:
        with pytest.raises(InvalidInput, match="give an exact fraction above 0"):
            dataclasses.replace(event, **{name: Fraction(0)})


def test_a_whole_number_becomes_a_fraction() -> None:
    """1 / 3 of Python's integers is a float; a privacy loss never is."""
    event = DiscreteLaplace(1, 3)  # type: ignore[arg-type]
    assert compose([event]).epsilon == Fraction(1, 3)
    assert isinstance(event.scale, Fraction)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PureSteps(ONE, 1, 1), "bounded_range of PureSteps is an int; expected bool"),
        (lambda: PureSteps(ONE, 1, True, ONE), "failure_probability of PureSteps is 1; give a probability below 1"),
        (lambda: RandomizedReport(ONE, "mile"), "per of RandomizedReport is 'mile'; give metre or unit of length"),
        (lambda: Composition([DiscreteLaplace(1, ONE)]), "list of events is a list; expected tuple"),
        (lambda: Composition((DiscreteLaplace(1, ONE), ONE)), "A part of a composition is a Fraction"),
        (lambda: event_from_dict(None), "The description of an event is None; expected Mapping"),
        (lambda: event_from_dict({}), "Unknown event None"),
        (lambda: event_from_dict({"kind": ["composition"]}), "Unknown event"),
        (lambda: event_from_dict({"kind": "composition", "events": "all"}), "list of events is a str"),
        (
            lambda: event_from_dict({"kind": "composition", "events": ["all"]}),
            "The description of an event is a str; expected Mapping",
        ),
        (
            lambda: event_from_dict({"kind": "discrete-laplace", "scale": "1"}),
            "described by 'scale'; give scale, sens",
        ),
        (
            lambda: event_from_dict({"kind": "randomized-report", "epsilon": "1", "seed": 7}),
            "described by 'epsilon', 'seed",
        ),
        (
            lambda: event_from_dict(event_to_dict(PureSteps(ONE, 1, True)) | {"bounded_range": "false"}),
            "bounded_range of PureS",
        ),
    ],
)
def test_what_is_no_event_is_refused(make: Callable[[], Event], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make()


# ── absurd numbers ──────────────────────────────────────────────────────────────────────────────────────────────────

HUGE = 10**4000


@pytest.mark.parametrize(("event", "name"), _fields("int") + _fields("Fraction"))
@pytest.mark.parametrize("huge", [HUGE, Fraction(1, HUGE), Fraction(HUGE + 1, HUGE)], ids=["huge", "tiny", "long"])
@pytest.mark.parametrize("delta", [DELTA, Fraction(1, HUGE)], ids=["delta", "tiny delta"])
def test_absurd_numbers_are_accounted_for_or_refused_in_a_sentence(
    event: Any, name: str, huge: int | Fraction, delta: Fraction
) -> None:
    """Such an event may come from a file; neither computing nor printing its loss may fail with anything else."""
    described = event_to_dict(event) | {name: huge if isinstance(huge, int) else str(huge)}
    try:
        sentence = f"{compose([event_from_dict(described)], delta)}."
    except (InvalidInput, PromiseBroken) as refusal:
        sentence = str(refusal)
    assert sentence.endswith(".")
    assert len(sentence) < 300


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian(HUGE, ONE),
        DiscreteGaussian(1, Fraction(1, HUGE)),
        FineGaussian(1, 2**16, HUGE),
        PureSteps(ONE, HUGE, True),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_loss_beyond_the_range_of_floats_is_refused(event: Event) -> None:
    with pytest.raises(InvalidInput, match="cannot be computed, because their numbers are beyond the range of floats"):
        compose([event], DELTA)


def test_thousands_of_nested_compositions_are_refused() -> None:
    described = event_to_dict(DiscreteLaplace(1, ONE))
    event: Event = DiscreteLaplace(1, ONE)
    for _ in range(100):
        described, event = {"kind": "composition", "events": [described]}, Composition((event,))
    assert event_from_dict(described) == event
    assert compose([event]).epsilon == 1
    with pytest.raises(InvalidInput, match="more than 100 compositions inside each other; list its parts in one"):
        Composition((event,))
    for _ in range(4900):
        described = {"kind": "composition", "events": [described]}
    with pytest.raises(InvalidInput, match="more than 100 compositions inside each other"):
        event_from_dict(described)
