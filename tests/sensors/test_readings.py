"""Readings keep their promise on the worst neighbours, and known bugs are caught."""

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heathaze.errors import BudgetExceeded, InvalidInput, LedgerMismatch, PromiseBroken, SimulatedRelease, TooLarge
from heathaze.privacy.accountant import compose
from heathaze.privacy.audit import lower_bound
from heathaze.privacy.guarantee import Trust
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.noise import discrete_gaussian, discrete_laplace
from heathaze.privacy.randomness import SecureRandomness, Simulation
from heathaze.sensors import readings as readings_module
from heathaze.sensors.device import Sensor
from heathaze.sensors.physics import Graph, Line, Linear, Snapshots
from heathaze.sensors.readings import Readings

LINE = Line(100, 50, 0.05)
DELTA = 1e-5


def two_sources() -> np.ndarray:
    strengths = np.zeros(100)
    strengths[[23, 75]] = 1
    return LINE.apply(strengths)


# ── how much noise ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("reach", "sigma"), [(0.003, 0.1521), (0.01, 0.5070), (0.02, 1.0141), (0.05, 2.5353)])
def test_the_noise_is_that_of_the_analytic_mechanism(reach: float, sigma: float) -> None:
    mechanism = Readings(LINE, reach, epsilon=1, delta=DELTA)
    assert mechanism.deviation == pytest.approx(3.730631635 * 13.591716849 * reach, rel=1e-4)
    assert mechanism.deviation == pytest.approx(sigma, rel=1e-3)


@pytest.mark.parametrize("delta", [0, 1e-9, 1e-5, 0.1])
@pytest.mark.parametrize("epsilon", ["1/10", 1, 8, 40])
def test_the_event_never_costs_more_than_declared_and_hardly_less(epsilon: Any, delta: float) -> None:
    mechanism = Readings(LINE, 0.01, epsilon, delta)
    cost = compose([mechanism.event], mechanism.delta).epsilon
    assert mechanism.epsilon * Fraction(999, 1000) < cost <= mechanism.epsilon


def test_noise_that_starts_too_small_is_raised_to_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price decides, and not the formula that noise starts from: here one of three fifths the size."""
    ratio = readings_module._gaussian_ratio
    monkeypatch.setattr(readings_module, "_gaussian_ratio", lambda *told: ratio(*told) * 0.6)
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    assert compose([mechanism.event], mechanism.delta).epsilon <= 1


def test_the_step_is_a_power_of_two_far_below_the_noise() -> None:
    for delta in (0, DELTA):
        mechanism = Readings(LINE, 0.01, 1, delta)
        assert math.frexp(mechanism.step)[0] == 0.5
        assert mechanism.deviation / mechanism.step > 2**20


def test_times_are_paid_for_together() -> None:
    """Stacked snapshots need more noise than one, and less than their sum (errata E4-3)."""
    fields = [Line(100, 50, T) for T in (0.05, 0.1, 0.2)]
    alone = [Readings(field, 0.01, 1, DELTA).deviation for field in fields]
    together = Readings(Snapshots(fields), 0.01, 1, DELTA).deviation
    assert max(alone) < together <= math.hypot(*alone) * (1 + 1e-5) < sum(alone)


# ── the promise ─────────────────────────────────────────────────────────────────────────────────────────────────────


def observed_loss(sigma: float, reach: float, runs: int, seed: int) -> float:
    """The most that an attacker sees who knows both neighbours: a unit source where readings change fastest, or not."""
    worst = readings_module.sensitivity(LINE, reach).where
    here, there = LINE.responses(np.array([worst, np.array(worst) + reach])).T
    direction = (here - there) / np.linalg.norm(here - there)
    step = sigma / 2**20
    source = Simulation(seed)
    outcomes = []
    for truth in (here, there):
        noise = discrete_gaussian(2**20, runs * 50, source).reshape(runs, 50)
        outcomes.append((np.rint(truth / step) + noise) @ direction * step)
    return lower_bound(*outcomes, delta=DELTA)


def test_the_worst_neighbours_cannot_be_told_apart_better_than_promised() -> None:
    sigma = Readings(LINE, 0.01, 1, DELTA).deviation
    found = observed_loss(sigma, 0.01, 20_000, seed=1)
    assert 0.05 < found <= 1


def test_the_printed_formula_without_n_is_caught() -> None:
    """Known bug put back (errata E4-2): the noise is n times too small, and the audit sees it at once."""
    sigma = Readings(LINE, 0.01, 1, DELTA).deviation / 100
    assert observed_loss(sigma, 0.01, 2000, seed=2) > 3


def test_calibrating_each_reading_alone_is_caught() -> None:
    """Known bug put back (errata E4-3): enough noise for one reading is far too little for all fifty."""
    slopes = np.abs(LINE.jacobian(np.linspace(0, 1, 2001)[:, None]))
    alone = 3.730631635 * 0.01 * float(slopes.max())
    assert observed_loss(alone, 0.01, 20_000, seed=3) > 2


def test_laplace_noise_keeps_a_pure_promise() -> None:
    mechanism = Readings(LINE, 0.01, 1, delta=0)
    worst = mechanism.sensitivity.rate_l1.where
    here, there = LINE.responses(np.array([worst, np.array(worst) + 0.01])).T
    scale = mechanism._noise[2] * mechanism.step
    # No outcome can betray more than the sum of the shifts over the scale, and that is nearly all that was declared.
    assert 0.97 < np.abs(here - there).sum() / scale <= 1
    noise = discrete_laplace(mechanism._noise[2], 10_000 * 50, Simulation(4)).reshape(-1, 50) * mechanism.step
    ratio = [
        (np.abs(truth + noise - there) - np.abs(truth + noise - here)).sum(axis=1) / scale for truth in (here, there)
    ]
    assert lower_bound(*ratio) <= 1


# ── protecting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_noise_readings_come_back_to_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "discrete_gaussian", lambda _scale, size, _source: np.zeros(size, np.int64))
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    truth = two_sources()
    truth[[3, 17]] = np.nan
    found = mechanism.protect(truth, randomness=Simulation(1)).values
    assert np.array_equal(np.isnan(found), np.isnan(truth))
    there = np.isfinite(truth)
    assert np.abs(found[there] - truth[there]).max() <= mechanism.step / 2


@pytest.mark.parametrize("delta", [0, DELTA])
def test_the_noise_is_as_wide_as_it_says(delta: float) -> None:
    mechanism = Readings(LINE, 0.01, 1, delta)
    truth, source = two_sources(), Simulation(5)
    noise = np.concatenate([mechanism.protect(truth, randomness=source).values - truth for _ in range(200)])
    assert noise.std() == pytest.approx(mechanism.deviation, rel=0.05)
    assert abs(noise.mean()) < 5 * mechanism.deviation / math.sqrt(noise.size)


def test_simulated_readings_are_marked() -> None:
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    assert mechanism.protect(two_sources(), randomness=Simulation(1)).simulated
    assert not mechanism.protect(two_sources()).simulated
    assert not mechanism.protect(two_sources(), randomness=SecureRandomness()).simulated


def test_simulated_readings_are_never_saved(tmp_path: Path) -> None:
    noisy = Readings(LINE, 0.01, 1, DELTA).protect(two_sources(), randomness=Simulation(1))
    with pytest.raises(SimulatedRelease, match="simulated randomness, whose noise anyone can repeat"):
        noisy.save(tmp_path / "out.csv", [f"s{place}" for place in range(50)], [0.0])
    assert not (tmp_path / "out.csv").exists()


def test_the_ledger_is_charged_before_any_noise_and_refuses_what_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(tmp_path / "sources.ledger", total=1.5, delta=DELTA)
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    mechanism.protect(two_sources(), ledger=ledger)
    mechanism.protect(two_sources(), ledger=ledger)  # twice is 1.44, by the square
    assert 1.3 < float(ledger.spent) < 1.5

    def never(*_: Any) -> None:
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(readings_module, "discrete_gaussian", never)
    with pytest.raises(BudgetExceeded):
        mechanism.protect(two_sources(), ledger=ledger)
    with pytest.raises(LedgerMismatch, match="reach"):
        Readings(LINE, 0.02, "1/100", DELTA).protect(two_sources(), ledger=ledger)
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(49), "Got 49 readings for a field of 50 rows; give one reading per row"),
        (np.full(50, np.inf), "Some readings are infinite; give finite numbers"),
        (np.full(50, np.nan), r"All readings are missing \(NaN\); give at least one"),
        (["x"] * 50, "Some readings are not numbers; give numbers"),
        ([10**400] * 50, "Some readings are not numbers; give numbers"),
        (np.zeros((5, 10)), r"have the shape \(5, 10\), but must have \(50,\)"),
        (np.full(50, 1e30), r"A reading is larger than 2\^50 rounding steps"),
        (np.full(50, 1e300), r"A reading is larger than 2\^50 rounding steps"),
    ],
)
def test_bad_readings_are_refused_and_cost_nothing(tmp_path: Path, values: Any, words: str) -> None:
    ledger = Ledger.open(tmp_path / "sources.ledger", total=1, delta=DELTA)
    with pytest.raises(InvalidInput, match=words):
        Readings(LINE, 0.01, 1, DELTA).protect(values, ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"reach": 0}, "reach is 0; give a positive number"),
        ({"reach": -1}, "reach is -1"),
        ({"reach": math.nan}, "reach is nan"),
        ({"reach": math.inf}, "reach is inf"),
        ({"reach": "far"}, "reach is 'far'"),
        ({"reach": 10**400}, "reach is above 1e100; give a number between"),
        ({"reach": 10**5000}, "reach is above 1e100"),
        ({"reach": 1e101}, "reach is above 1e100"),
        ({"reach": 1e-101}, "reach is below 1e-100"),
        ({"epsilon": 0}, "epsilon is 0"),
        ({"delta": 1}, "delta is 1"),
        ({"delta": -1e-5}, "delta is -1e-05"),
        ({"delta": 1e-60}, "delta is 1e-60"),
        ({"delta": "no"}, "delta is 'no'"),
    ],
)
def test_parameters_that_promise_nothing_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Readings(**({"field": LINE, "reach": 0.01, "epsilon": 1, "delta": DELTA} | changed))


# ── in the field ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("delta", [0, DELTA])
def test_sensors_alone_do_what_a_curator_would(delta: float) -> None:
    times = [Line(100, 50, T) for T in (0.05, 0.1)]
    mechanism = Readings(Snapshots(times), 0.01, 1, delta)
    card = mechanism.card()
    assert card.times == 2
    truth = np.concatenate([field.apply(np.eye(100)[30]) for field in times])
    sensors = [Sensor(card) for _ in range(50)]
    answers = [sensor.read(truth[50 * time + place], time) for time in (0, 1) for place, sensor in enumerate(sensors)]
    found = mechanism.collected(answers, card)
    noise = found.values - truth
    assert found.guarantee.trust is Trust.SENSORS
    assert found.guarantee.loss == mechanism.guarantee().loss
    assert 0.6 < noise.std() / mechanism.deviation < 1.5
    assert np.array_equal(np.rint(found.values / mechanism.step) * mechanism.step, found.values)
    again = Readings(Snapshots(times), 0.01, 1, delta).collected(answers, card)
    assert np.array_equal(again.values, found.values)


def test_a_card_with_less_noise_than_is_owed_is_refused() -> None:
    small, large = Readings(LINE, 0.01, 1, DELTA), Readings(LINE, 0.02, 1, DELTA)
    with pytest.raises(PromiseBroken, match="The sensors' card has gaussian noise that costs ε = 2"):
        large.collected(np.zeros(50), small.card())
    assert small.collected(np.zeros(50), large.card()).deviation == pytest.approx(large.deviation)
    with pytest.raises(PromiseBroken, match="but laplace noise of ε = 1 is promised"):
        Readings(LINE, 0.01, 1, 0).collected(np.zeros(50), small.card())


def test_a_card_covers_the_times_of_the_field() -> None:
    """The field knows its times; nobody else is asked."""
    once = Readings(LINE, 0.01, 1, DELTA)
    thrice = Readings(Snapshots([Line(100, 50, T) for T in (0.05, 0.1, 0.2)]), 0.01, 1, DELTA)
    uneven = Readings(Snapshots([Line(100, 50, 0.05), Line(100, 20, 0.05)]), 0.01, 1, DELTA)
    assert [mechanism.card().times for mechanism in (once, thrice, uneven)] == [1, 3, 1]
    with pytest.raises(TypeError):
        once.card(2)  # type: ignore[call-arg, arg-type]
    assert once.card().name != once.card().name


def test_a_card_for_other_times_is_refused() -> None:
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    with pytest.raises(PromiseBroken, match="card covers 50 times, but the field has 1"):
        mechanism.collected(np.zeros(50), dataclasses.replace(mechanism.card(), times=50))


@pytest.mark.parametrize(("escrow", "trust"), [(False, Trust.SENSORS), (True, Trust.ESCROW)])
def test_a_card_is_charged_before_it_exists(tmp_path: Path, escrow: bool, trust: Trust) -> None:
    ledger = Ledger.open(tmp_path / "sources.ledger", total=1, delta=DELTA)
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    card = mechanism.card(escrow=escrow, ledger=ledger)
    (entry,) = ledger.entries()
    assert entry.guarantee == mechanism.collected(np.zeros(50), card).guarantee
    assert entry.guarantee.trust is trust
    assert entry.event == mechanism.event
    with pytest.raises(BudgetExceeded):
        mechanism.card(escrow=escrow, ledger=ledger)
    assert len(ledger.entries()) == 1


def test_answers_are_whole_numbers_or_missing() -> None:
    mechanism = Readings(LINE, 0.01, 1, DELTA)
    card = mechanism.card()
    answers = np.arange(50.0)
    answers[7] = np.nan
    found = mechanism.collected(answers, card).values
    assert np.isnan(found[7])
    assert found[8] == 8 * mechanism.step
    for wrong in (0.5, 2.0**53):
        answers[3] = wrong
        with pytest.raises(InvalidInput, match="An answer is not a whole number"):
            mechanism.collected(answers, card)
    with pytest.raises(InvalidInput, match=r"The answers have the shape \(1, 50\), but must have \(50,\)"):
        mechanism.collected(np.zeros((1, 50)), card)


def test_readings_are_saved_with_as_many_names_as_there_are(tmp_path: Path) -> None:
    noisy = Readings(LINE, 0.01, 1, DELTA).protect(two_sources())
    names = [f"s{place}" for place in range(50)]
    for sensors, times in ((names[:49], [0.0]), (names, [0.0, 1.0]), ([], [])):
        with pytest.raises(InvalidInput, match=f"There are {len(sensors)} sensors and {len(times)} times, but 50"):
            noisy.save(tmp_path / "out.csv", sensors, times)
    assert not (tmp_path / "out.csv").exists()
    noisy.save(tmp_path / "out.csv", names, [0.0])


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("delta", [0, DELTA])
def test_rounding_is_in_the_sensitivity_also_that_of_the_floats(delta: float) -> None:
    """The worst floats below 2^50 steps: each an eighth of a step off, and then rounded, away from each other."""
    mechanism = Readings(LINE, 0.01, 1, delta)
    steps = mechanism._noise[0]
    change = mechanism.sensitivity.l2 if delta else mechanism.sensitivity.l1
    rounding = 1.25 * (math.sqrt(50) if delta else 50)
    assert mechanism._counted(steps) >= math.ldexp(change, -steps) + rounding
    top = 2.0**50 - 0.125
    assert top - math.nextafter(top, 0) == 0.125


@pytest.mark.parametrize("delta", [0, 1e-20, 1e-5])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-4])
def test_a_small_epsilon_gets_its_noise_or_a_sentence_at_once(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, delta: float
) -> None:
    turns = 0

    def counted(*told: Any) -> Any:
        nonlocal turns
        turns += 1
        assert turns < 30
        return compose(*told)

    monkeypatch.setattr(readings_module, "compose", counted)
    mechanism = Readings(LINE, 0.02, epsilon, delta)
    try:
        _, sensitivity, scale = mechanism._noise
    except TooLarge as refusal:
        assert "give a larger epsilon, or protect fewer readings" in str(refusal)  # noqa: PT017
    else:
        assert scale.bit_length() <= 24
        assert compose([mechanism._event(sensitivity, scale)], mechanism.delta).epsilon <= mechanism.epsilon


def test_a_price_that_never_falls_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readings, "_price", lambda *_: Fraction(1000001, 1000000))
    with pytest.raises(TooLarge, match=r"50 readings at ε = 1, δ = 1e-05 need noise of more than 2\^24 steps"):
        Readings(LINE, 0.02, 1, DELTA).card()


@pytest.mark.parametrize(
    ("reach", "text"),
    [
        ("0.9999991", "0.9999991 metres"),
        ("1/3", "1/3 metres"),
        (1, "1 metre"),
        ("1.0000001", "1.0000001 metres"),
        (0.01, "0.01 metres"),
        ("12345678", "12345678 metres"),
        (1e-100, "1e-100 metres"),
    ],
)
def test_the_reach_is_promised_as_it_is(reach: Any, text: str) -> None:
    """Rounded up, it would promise more than the noise keeps."""
    assert Readings(LINE, reach, 1, DELTA).guarantee().reach == text


@pytest.mark.parametrize("size", [1e-110, 1e110])
@pytest.mark.parametrize("delta", [0, DELTA])
def test_absurd_units_are_refused(size: float, delta: float) -> None:
    field = Linear(size * np.eye(3), np.array([[0.0], [1.0], [2.0]]))
    with pytest.raises(
        InvalidInput, match=r"must be between 1e-100 and 1e100; check the units of lengths, times and readings"
    ):
        Readings(field, 1, 1, delta).card()


def test_on_a_graph_the_reach_is_counted_in_edges() -> None:
    ring = Graph([(i, (i + 1) % 12) for i in range(12)], tau=0.5)
    mechanism = Readings(ring, 1, 4, 0.1)
    assert "at most 1 unit of edge length in all" in str(mechanism.guarantee())
    assert mechanism.deviation == pytest.approx(0.485540335 * mechanism.sensitivity.l2, rel=1e-4)
    assert repr(mechanism) == "<Readings: 12 readings, reach 1, ε = 4, δ = 0.1>"
