"""The audit accuses no correct mechanism, and finds that half the noise is missing."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.privacy.audit import Audit, audit, lower_bound
from heathaze.privacy.noise import discrete_gaussian, discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness, Simulation

RUNS = 200_000
BOUND = 2**20


def _outcomes(scale: Fraction, seed: int, bound: int = BOUND) -> tuple[np.ndarray, np.ndarray]:
    """A count with one unit less and with it, all of its mass in the cell that is looked at."""
    randomness = Simulation(seed)
    return discrete_laplace(scale, RUNS, randomness), bound + discrete_laplace(scale, RUNS, randomness)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)], ids=str)
@pytest.mark.parametrize("bound", [1, 3, BOUND])
def test_no_violation_where_the_noise_is_right(epsilon: Fraction, bound: int) -> None:
    found = lower_bound(*_outcomes(laplace_scale(bound, epsilon), 1, bound))
    # Laplace noise uses its whole budget, so a good attack comes close from below.
    assert 0.4 * epsilon < found <= epsilon


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)], ids=str)
@pytest.mark.parametrize("bound", [1, 3, BOUND])
def test_half_the_noise_is_found(epsilon: Fraction, bound: int) -> None:
    assert lower_bound(*_outcomes(laplace_scale(bound, epsilon) / 2, 2, bound)) > epsilon


def test_a_tenth_less_noise_is_found() -> None:
    assert lower_bound(*_outcomes(laplace_scale(BOUND, Fraction(1)) * Fraction(9, 10), 3)) > 1


def test_one_sided_noise_is_found() -> None:
    first, second = _outcomes(laplace_scale(BOUND, Fraction(1)), 4)
    assert lower_bound(np.abs(first), BOUND + np.abs(second - BOUND)) > 5


def test_the_direction_does_not_matter() -> None:
    first, second = _outcomes(laplace_scale(BOUND, Fraction(1)) / 2, 5)
    assert lower_bound(second, first) > 1


def test_delta_excuses_rare_events() -> None:
    # With probability 1/100 the raw number is shown.
    first, second = _outcomes(laplace_scale(BOUND, Fraction(1)), 6)
    leaks = np.arange(RUNS) % 101 < 1
    first[leaks], second[leaks] = 10**12, -(10**12)
    assert lower_bound(first, second) > 3
    assert lower_bound(first, second, delta=0.02) <= 1


def test_gaussian_noise_holds_its_delta() -> None:
    randomness = Simulation(7)
    first, second = discrete_gaussian(5, RUNS, randomness), 1 + discrete_gaussian(5, RUNS, randomness)
    assert lower_bound(first, second, delta=1e-6) <= 1.0


def test_the_same_data_betray_nothing() -> None:
    drawn = discrete_laplace(3, 2 * RUNS, Simulation(8))
    assert lower_bound(drawn[:RUNS], drawn[RUNS:]) < 0.1
    assert lower_bound(np.zeros(1000), np.zeros(1000)) == 0


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"confidence": 0.0}, {"delta": 1.0}, {"delta": -0.1}])
def test_bad_arguments_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="confidence is"):
        lower_bound(np.zeros(10), np.zeros(10), **wrong)


@pytest.mark.parametrize("outcomes", [[1.0, 2.0], [np.nan] * 10, [[1.0] * 10] * 10])
def test_bad_outcomes_are_refused(outcomes: list[float]) -> None:
    with pytest.raises(InvalidInput, match="at least four results"):
        lower_bound(outcomes, np.zeros(10))


@dataclass(frozen=True)
class Count:
    """The smallest mechanism: one number and its noise."""

    epsilon: Fraction
    missing: int = 1

    def run(self, counts: int, randomness: Randomness) -> int:
        return counts + int(discrete_laplace(laplace_scale(1, self.epsilon) / self.missing, 1, randomness)[0])


@pytest.mark.parametrize(("missing", "violated"), [(1, False), (2, True)])
def test_auditing_a_mechanism(missing: int, violated: bool) -> None:
    found = audit(Count(Fraction(1), missing), 0, 1, float, runs=5000, randomness=Simulation(1))
    assert isinstance(found, Audit)
    assert (found.violated, found.declared, found.runs) == (violated, 1.0, 5000)
    assert found.lower_bound > 0.5
    assert ("breaks the guarantee" in str(found)) == violated
