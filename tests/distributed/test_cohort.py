"""Who is asked: equal shards, and noise shaped on the fewest honest people a shard is opened with."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.distributed import Cohort, Survey, cohort
from heathaze.distributed.cohort import most_in_a_shard, planned_shards
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.accountant import compose
from heathaze.privacy.noise_shares import realised_epsilon, surviving_shape
from tests.distributed.parties import quadtree, question, run, spread

SHARES = st.fractions(0, Fraction(99, 100), max_denominator=1000)


@given(st.integers(1, 5000), st.integers(1, 20), SHARES, SHARES)
def test_whoever_is_lost_and_whoever_tells_the_noise_left_has_shape_one(
    shard: int, shards: int, dropout: Fraction, colluding: Fraction
) -> None:
    try:
        cohort = Cohort(shard * shards, shards, dropout, colluding)
    except InvalidInput:
        return
    assert (cohort.shard, cohort.shards * cohort.shard) == (shard, cohort.people)
    # In exact numbers: at least the tolerated share may be lost or collude.
    assert cohort.shard - cohort.threshold >= shard * dropout
    assert cohort.colluders >= shard * colluding
    assert 2 * cohort.threshold > shard
    assert surviving_shape(cohort.shape, cohort.threshold, cohort.colluders) == 1
    if cohort.threshold - 1 > cohort.colluders:
        assert surviving_shape(cohort.shape, cohort.threshold - 1, cohort.colluders) < 1
    assert Cohort.from_dict(json.loads(json.dumps(cohort.to_dict()))) == cohort


def test_a_partial_shard_is_refused() -> None:
    """Errata E3-2: 25,000 people in shards of 10,000 would leave one of 5,000 with half the noise."""
    with pytest.raises(InvalidInput, match=r"25000 people do not divide into 3 equal shards.*Ask 24999 or 25002"):
        Cohort(25_000, shards=3)
    assert Cohort(24_999, shards=3).shard == 8333
    # What it would have cost: the shape 0.526 of the 5,000, with the shape of a shard of 10,000.
    shape = surviving_shape(Fraction(1, 9500), 5000, 0)
    assert float(realised_epsilon(1, shape)) == pytest.approx(1.62, abs=0.01)


@given(st.integers(3, 10**7))
def test_shards_are_planned_as_large_as_the_list_of_survivors_allows(people: int) -> None:
    fewest = -(-people // 100_000)
    equal = [shards for shards in range(fewest, 2 * fewest) if people % shards == 0]
    if not equal:
        with pytest.raises(InvalidInput, match=f"Ask {people - people % fewest} or"):
            planned_shards(people)
        return
    assert planned_shards(people) == Cohort(people, dropout=0, colluding=0).shards == equal[0]
    assert people / equal[0] <= 100_000


def test_a_cohort_larger_than_mankind_is_refused_soon() -> None:
    with pytest.raises(InvalidInput, match="do not divide into"):
        Cohort(10**40 + 3)


@pytest.mark.parametrize(
    ("shard", "neighbours", "keys", "survivors"),
    [(1_000, 36, 11.1, 0.1), (10_000, 42, 12.8, 1.3), (100_000, 46, 13.9, 12.5), (1_000_000, 52, 15.5, 125.0)],
)
def test_the_bytes_of_larger_shards_are_those_of_the_guide(
    shard: int, neighbours: int, keys: float, survivors: float
) -> None:
    asked = question(cohort=Cohort(shard, 1))
    parameters = asked.plan_parameters()
    vector, bitmap = -(-asked.length * asked.bits // 8), -(-shard // 8)
    everything = parameters.bytes_sent + parameters.bytes_received
    assert parameters.neighbours == neighbours
    assert (round((everything - vector - bitmap) / 1000, 1), round(bitmap / 1000 + 1e-9, 1)) == (keys, survivors)


def test_colluders_are_paid_for_by_everybody_else() -> None:
    """Errata E3-5: with a quarter colluding the shares of all together have shape 1.43, not 1.05."""
    cohort = Cohort(10_000, dropout=0.05, colluding=0.25)
    assert (cohort.threshold, cohort.colluders) == (9500, 2500)
    assert float(cohort.shape * cohort.shard) == pytest.approx(1.43, abs=0.005)
    printed = surviving_shape(Fraction(1, 9500), 9500, 2500)
    assert printed < 1
    assert float(realised_epsilon(1, printed)) == pytest.approx(1.29, abs=0.01)


# ── several shards, dealt at random ─────────────────────────────────────────────────────────────────────────────────


def exactly_most(people: int, corrupt: int, shards: int) -> int:
    """The least c with shards · Pr[X > c] ≤ 2^−40, from exact binomials."""
    shard = people // shards
    ways = [math.comb(corrupt, x) * math.comb(people - corrupt, shard - x) for x in range(min(corrupt, shard) + 1)]
    allowed = Fraction(math.comb(people, shard), shards * 2**40)
    return next(c for c in range(len(ways)) if sum(ways[c + 1 :]) <= allowed)


@pytest.mark.parametrize(("shards", "most"), [(1, 500), (2, 327), (10, 104)])
def test_random_shards_hold_more_colluders_than_their_even_part(shards: int, most: int) -> None:
    """10,000 people, 500 of them corrupt: ten shards hold up to 104 of them and not 50, two up to 327 and not 250."""
    cohort = Cohort(10_000, shards, dropout=0.1, colluding=0.05)
    assert (cohort.corrupt, cohort.colluders) == (500, most)
    assert cohort.shape == Fraction(1, cohort.threshold - most)
    assert cohort.failure_probability == (0 if shards == 1 else Fraction(1, 2**40))
    if shards > 1:
        assert exactly_most(10_000, 500, shards) == most
    asked = question(cohort=cohort)
    assert (asked.guarantee.colluders, asked.guarantee.failure_probability) == (most, cohort.failure_probability)
    assert asked.plan_parameters().corrupt_at_most == most
    assert compose([asked.event()]).epsilon == 1


def test_noise_shaped_on_the_even_part_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """The known bug put back: ⌈colluding · shard⌉ colluders, whatever chance deals."""
    asked = question(cohort=Cohort(10_000, 10, dropout=0.1, colluding=0.05))
    monkeypatch.setattr(Cohort, "shape", property(lambda cohort: Fraction(1, cohort.threshold - 50)))
    with pytest.raises(PromiseBroken, match=r"shape 0\.9365 and needs at least 1"):
        compose([asked.event()])


@settings(deadline=None)
@given(st.integers(3, 60), st.integers(2, 12), st.data())
def test_the_bound_is_the_exact_tail(shard: int, shards: int, data: st.DataObject) -> None:
    people = shard * shards
    corrupt = data.draw(st.integers(0, people))
    assert most_in_a_shard(people, corrupt, shards) == exactly_most(people, corrupt, shards)


@pytest.mark.parametrize(
    ("people", "corrupt", "shards"), [(10**6, 5 * 10**4, 100), (10**6, 10**5, 2), (2**21, 2**20, 2)]
)
def test_large_shards_lie_between_the_even_part_and_the_simple_bound(people: int, corrupt: int, shards: int) -> None:
    found, shard = most_in_a_shard(people, corrupt, shards), people // shards
    spread = math.sqrt(shard * math.log(shards * 2**40) / 2)
    assert shard * corrupt / people + spread / 4 < found <= shard * corrupt / people + spread + 1


def test_an_absurd_crowd_is_bounded_at_once() -> None:
    """Cohorts come in questions of strangers: no loop may grow with them."""
    people, corrupt, shards = 10**18, 10**17, 10
    found = most_in_a_shard(people, corrupt, shards)
    assert 10**16 < found < 10**16 + 10**10
    assert most_in_a_shard(10**18, 0, 10) == 0
    assert most_in_a_shard(3 * 10**17, 10**17, 10**17) == 3


def test_dealing_really_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2^−10 for 2^−40, a thousand dealings: rarely more than the bound, often more than the even part."""
    monkeypatch.setattr(cohort, "FAILURE_PROBABILITY", Fraction(1, 2**10))
    most_in_a_shard.cache_clear()
    bound = most_in_a_shard(1000, 50, 10)
    most_in_a_shard.cache_clear()
    rng = np.random.default_rng(1)
    most = np.array([rng.permutation(np.arange(1000) < 50).reshape(10, 100).sum(axis=1).max() for _ in range(1000)])
    assert (most > 5).mean() > 0.99
    # About one of 1000 is expected; 12 would be as unlikely as 1e-9.
    assert (most > bound).sum() < 12


def test_a_survey_counts_every_dealing() -> None:
    survey = run(Survey(quadtree(), Cohort(10_000, 10)), spread)
    rounds = len(survey.rounds)
    assert rounds > 1
    assert survey.guarantee.failure_probability == Fraction(rounds, 2**40)
    assert "at most 104 devices of a shard reveal their noise to the server (random shards hold more" in str(
        survey.guarantee
    )
    assert survey.estimate(draws=0).guarantee == survey.guarantee


def test_noise_shaped_on_those_invited_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """The known bug put back: the shape of a share made from the shard, not from its threshold."""
    asked = question(cohort=Cohort(20, dropout="1/5", colluding="1/10"))
    assert compose([asked.event()]).epsilon == 1
    monkeypatch.setattr(Cohort, "shape", property(lambda cohort: Fraction(1, cohort.shard)))
    with pytest.raises(PromiseBroken, match=r"shape 0\.7 and needs at least 1"):
        compose([asked.event()])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"people": 0}, "people is 0; give a whole number"),
        ({"people": 10.0}, r"people is 10\.0"),
        ({"people": True}, "people is True"),
        ({"people": 10, "shards": 0}, "shards is 0"),
        ({"people": 10, "shards": 3}, "Ask 9 or 12"),
        (
            {"people": 4, "shards": 2},
            "4 people in 2 shards leave fewer than 3 in a shard, and a sum over fewer than 3 hides no one",
        ),
        ({"people": 100, "dropout": 0.5}, "opened with 50 people; more than half must be left"),
        ({"people": 100, "dropout": 1}, "dropout is 1; give a share"),
        ({"people": 100, "dropout": -0.1}, "dropout is -0.1"),
        ({"people": 100, "dropout": float("nan")}, "dropout is nan"),
        ({"people": 100, "dropout": "much"}, "dropout is 'much'"),
        ({"people": 100, "colluding": None}, "colluding is None"),
        ({"people": 100, "dropout": 0.1, "colluding": 0.89}, "89 may collude; at least 2 honest ones"),
    ],
)
def test_cohorts_that_hide_nobody_are_refused(fields: dict, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Cohort(**fields)


def test_a_tenth_means_a_tenth() -> None:
    """0.1 in binary is a little more than a tenth, and ⌈30 · 0.1⌉ would be 4."""
    cohort = Cohort(30, dropout=0.1, colluding=0.1)
    assert (cohort.threshold, cohort.colluders) == (27, 3)


@pytest.mark.parametrize("text", ["1e9", "0.1", "-1/10", " 1/10", "1/10/2", "", "٣", 0.1, None, "9" * 300])
def test_shares_of_strangers_are_read_as_they_were_written_or_not_at_all(text: object) -> None:
    """``Fraction`` would take 1e999999999 too, and compute for years."""
    fields = {**Cohort(100).to_dict(), "dropout": text}
    with pytest.raises(InvalidInput, match="expected digits, as 1 or 1/10"):
        Cohort.from_dict(fields)
