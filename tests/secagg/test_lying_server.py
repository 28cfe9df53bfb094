"""The numbers in PROMISE.md on a server that lies: an analysis of seats and shares, kept true."""

from fractions import Fraction

import pytest

from heathaze.distributed import Cohort
from heathaze.privacy.noise_shares import realised_epsilon, surviving_shape
from heathaze.secagg import Parameters

PARAMETERS = Parameters.plan(1000, length=1000, bits=32, dropout=0.1, corruption=0.05)
ROW = 20
SIX_ROUNDS = [Fraction(part, 10_000) for part in (31, 123, 422, 1303, 2859, 5262)]
"""What the rounds of a survey of 10,000 people with ε = 1 cost: `heathaze rehearse` on a 256 × 256 map of New York."""


def around(seat: int) -> set[int]:
    """The neighbours of a seat on the circle."""
    half = PARAMETERS.neighbours // 2
    return {(seat + step) % PARAMETERS.clients for step in range(-half, half + 1)} - {seat % PARAMETERS.clients}


def test_the_parameters_are_those_of_the_promise() -> None:
    assert (PARAMETERS.neighbours, PARAMETERS.shares_needed, PARAMETERS.survivors_at_least) == (36, 19, 900)
    assert PARAMETERS.corrupt_at_most == 50
    assert PARAMETERS.shares_needed + 1 == ROW, "in a clique of 20 each has 19 neighbours, enough to open a mask"


@pytest.mark.parametrize("accomplices", [True, False])
def test_two_accomplices_are_enough_to_cut_off_a_row(accomplices: bool) -> None:
    half = PARAMETERS.neighbours // 2
    row = set(range(100, 100 + ROW))
    lost = set(range(100 - half, 100)) | set(range(100 + ROW, 100 + ROW + half))
    there = set(range(PARAMETERS.clients)) - lost
    assert len(there) >= PARAMETERS.survivors_at_least
    assert all(around(seat) & there <= row for seat in row), "no mask leads out of the row"
    assert all(len(around(seat) & there) >= PARAMETERS.shares_needed for seat in lost), (
        "masks with the lost can be opened"
    )
    helping = there | ({100 - half, 100 + ROW + half - 1} if accomplices else set())
    short = [seat for seat in sorted(row) if len(around(seat) & helping) < PARAMETERS.shares_needed]
    assert short == ([] if accomplices else [min(row), max(row)])


def test_six_rounds_that_promise_1_are_then_worth_36() -> None:
    cohort = Cohort(10_000)
    parameters = Parameters.plan(10_000, length=1000, bits=32, dropout=0.1, corruption=0.05)
    assert (parameters.survivors_at_least, parameters.shares_needed) == (cohort.threshold, 22)
    left = surviving_shape(cohort.shape, parameters.shares_needed + 1, 0)
    worth = [float(realised_epsilon(part, left)) for part in SIX_ROUNDS]
    assert sum(SIX_ROUNDS) == 1
    assert (round(min(worth), 1), round(max(worth), 1)) == (5.9, 6.4)
    assert round(sum(worth), 1) == 36.5
