"""The sentence says how much, to whom, against which change, trusting whom."""

import dataclasses
import json
from fractions import Fraction

import pytest

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import PrivacyLoss, decimal

VISITS = [Unit.PERSON, Unit.PERSON_DAY, Unit.VISIT]
LOSSES = [
    PrivacyLoss(Fraction(1)),
    PrivacyLoss(Fraction(1, 3)),
    PrivacyLoss(Fraction(5, 2), Fraction(1, 10**6)),
    PrivacyLoss(Fraction(100)),
]


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_sentence_says_everything(loss: PrivacyLoss, unit: Unit) -> None:
    sentence = str(Guarantee(loss, unit))
    assert f"ε = {decimal(loss.epsilon)} (" in sentence
    assert loss.delta == 0 or f"δ = {decimal(loss.delta)}" in sentence
    for part in (f"unit: {unit.value}", unit.described, "adjacency: add-remove", "trust: a trusted curator"):
        assert part in sentence
    assert sentence.endswith("other releases about the same people add up.")
    assert ("pure, δ = 0" in sentence) == (loss.delta == 0)


def test_epsilon_is_never_shown_smaller_than_it_is() -> None:
    assert "ε = 0.333334" in str(Guarantee(PrivacyLoss(Fraction(1, 3)), Unit.PERSON))


def test_the_factor_is_spelled_out() -> None:
    assert "e^1 ≈ 2.72" in str(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON))


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_round_trip(loss: PrivacyLoss, unit: Unit) -> None:
    guarantee = Guarantee(loss, unit)
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_the_caption_names_all_four() -> None:
    short = Guarantee(PrivacyLoss(Fraction(1)), Unit.VISIT).short
    assert all(part in short for part in ("ε = 1", "unit: visit", "adjacency: add-remove", "trust: central"))


def test_every_name_has_words() -> None:
    assert all(unit.described for unit in Unit)
    assert all(trust.described for trust in Trust)
    assert all(adjacency.described for adjacency in Adjacency)


def test_an_unknown_unit_is_refused() -> None:
    assert Unit.parse("person-day") is Unit.PERSON_DAY
    with pytest.raises(InvalidInput, match="There is no unit 'household'; choose 'person'"):
        Unit.parse("household")


# ── nobody is trusted ───────────────────────────────────────────────────────────────────────────────────────────────

LOCAL = [Adjacency.ANY_TWO, Adjacency.PER_METRE, Adjacency.PER_LENGTH]
WHOSE = {
    Unit.PERSON: "the position of one person ",
    Unit.PERSON_DAY: "the position of one person on one day ",
    Unit.VISIT: "the position of one visit ",
}


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.delta], ids=str)
def test_the_local_sentence_says_everything(loss: PrivacyLoss, unit: Unit) -> None:
    sentence = str(Guarantee(loss, unit, Adjacency.ANY_TWO, Trust.LOCAL))
    assert sentence.startswith(
        f"Local differential privacy with ε = {decimal(loss.epsilon)} (pure, δ = 0): exchanging "
    )
    for part in (
        f"{WHOSE[unit]}for any other changes the probability of any report by a factor of at most e^",
        f"unit: {unit.value}",
        "adjacency: any-two-positions",
        "trust: nobody; each device randomised its own position before anything left it",
    ):
        assert part in sentence
    assert sentence.endswith("for one report alone: each further report of the same person adds to it.")
    assert "curator" not in sentence


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize(
    ("adjacency", "length"), [(Adjacency.PER_METRE, "metre"), (Adjacency.PER_LENGTH, "unit of length")]
)
def test_the_sentence_of_a_price_for_each_metre_claims_no_more(adjacency: Adjacency, length: str, unit: Unit) -> None:
    guarantee = Guarantee(PrivacyLoss(Fraction(1, 5000)), unit, adjacency, Trust.LOCAL)
    sentence = str(guarantee)
    assert sentence.startswith(f"Geo-indistinguishability with ε = 0.0002 per {length} (no differential privacy across")
    assert f"moving {WHOSE[unit]}by r {length}s" in sentence
    assert "a factor of at most e^(0.0002 · r)" in sentence
    assert f"adjacency: {adjacency.value}" in sentence
    assert "Local differential privacy" not in sentence
    assert f"ε = 0.0002 per {length} geo-indistinguishability" in guarantee.short
    assert "differential privacy" not in guarantee.short


def test_the_caption_of_a_local_map() -> None:
    short = Guarantee(PrivacyLoss(Fraction(7, 2)), Unit.PERSON, Adjacency.ANY_TWO, Trust.LOCAL).short
    assert short == "ε = 3.5 differential privacy · unit: person · adjacency: any-two-positions · trust: local"


@pytest.mark.parametrize("adjacency", LOCAL)
@pytest.mark.parametrize("unit", VISITS)
def test_local_round_trip(adjacency: Adjacency, unit: Unit) -> None:
    guarantee = Guarantee(PrivacyLoss(Fraction(1, 3)), unit, adjacency, Trust.LOCAL)
    fields = json.loads(json.dumps(guarantee.to_dict()))
    assert (fields["trust"], fields["adjacency"]) == ("local", adjacency.value)
    assert fields["sentence"] == str(guarantee)
    assert Guarantee.from_dict(fields) == guarantee


def test_only_a_price_for_each_length_has_a_length() -> None:
    lengths = {adjacency: adjacency.length for adjacency in Adjacency if adjacency.length is not None}
    assert lengths == {Adjacency.PER_METRE: "metre", Adjacency.PER_LENGTH: "unit of length"}


# ── a sum is trusted ────────────────────────────────────────────────────────────────────────────────────────────────


def summed(epsilon: Fraction = Fraction(1), colluders: int = 500, unit: Unit = Unit.PERSON) -> Guarantee:
    return Guarantee(PrivacyLoss(epsilon), unit, Adjacency.ZERO_OUT, Trust.SECURE_SUM, colluders)


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize("colluders", [0, 500])
def test_the_sentence_of_a_secure_sum_says_everything(unit: Unit, colluders: int) -> None:
    sentence = str(summed(Fraction(1, 3), colluders, unit))
    assert sentence.startswith(
        "Computational differential privacy with ε = 0.333334 (pure, δ = 0): replacing by nothing "
    )
    for part in (
        f"what is sent about {unit.described}, changes the probability",
        f"unit: {unit.value}",
        "adjacency: zero-out",
        "trust: a secure sum; the server follows the protocol and sees only noisy sums of many devices",
        f"and at most {colluders} devices of a shard tell it their noise",
    ):
        assert part in sentence
    assert sentence.endswith("other releases about the same people add up.")
    for word in ("curator", "adding or removing", "Local"):
        assert word not in sentence, "it claims what another kind of promise claims"


def test_only_a_secure_sum_speaks_of_colluders_and_of_computation() -> None:
    for trust in (Trust.CENTRAL, Trust.LOCAL):
        guarantee = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ANY_TWO, trust)
        assert "omputational" not in str(guarantee)
        assert "tell it their noise" not in str(guarantee)
        assert "colluders" not in guarantee.to_dict()


def test_the_chance_of_more_colluders_is_in_the_sentence_and_the_file() -> None:
    certain = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM, 104)
    likely = dataclasses.replace(certain, failure_probability=Fraction(6, 2**40))
    assert "tell it their noise, which random shards exceed with probability at most 5.5e-12;" in str(likely)
    assert "exceed" not in str(certain)
    assert "failure_probability" not in certain.to_dict()
    assert likely.to_dict()["failure_probability"] == "3/549755813888"
    assert Guarantee.from_dict(json.loads(json.dumps(likely.to_dict()))) == likely


@pytest.mark.parametrize(
    "wrong",
    [
        {"colluders": -1},
        {"colluders": 1.5},
        {"colluders": True},
        {"failure_probability": Fraction(-1, 2)},
        {"failure_probability": Fraction(1)},
    ],
)
def test_impossible_colluders_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidInput, match="expected a whole number, 0 or larger, and a probability below 1"):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM, **wrong)
    with pytest.raises((InvalidInput, PromiseBroken)):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, **wrong)


def test_nobody_colludes_with_a_curator() -> None:
    for more in ({"colluders": 1}, {"failure_probability": Fraction(1, 2)}):
        with pytest.raises(PromiseBroken, match="Colluders belong to the trust 'secure-sum'"):
            Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, **more)


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize("colluders", [0, 1, 2500])
def test_secure_sum_round_trip(unit: Unit, colluders: int) -> None:
    guarantee = summed(Fraction(2, 7), colluders, unit)
    fields = json.loads(json.dumps(guarantee.to_dict()))
    assert (fields["trust"], fields["adjacency"], fields["colluders"]) == ("secure-sum", "zero-out", colluders)
    assert fields["sentence"] == str(guarantee)
    assert Guarantee.from_dict(fields) == guarantee
    assert guarantee != summed(Fraction(2, 7), colluders + 1, unit)


def test_the_caption_of_a_secure_sum() -> None:
    assert summed().short == "ε = 1 differential privacy · unit: person · adjacency: zero-out · trust: secure-sum"


# ── sensors ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def hidden(trust: Trust = Trust.SENSORS, reach: str = "0.5 metres") -> Guarantee:
    loss = PrivacyLoss(Fraction(1), Fraction(1, 10**5))
    return Guarantee(loss, Unit.SOURCE, Adjacency.EARTH_MOVER, trust, reach=reach)


@pytest.mark.parametrize("trust", [Trust.CENTRAL, Trust.SENSORS, Trust.ESCROW])
def test_the_sentence_of_readings_says_what_is_not_protected(trust: Trust) -> None:
    sentence = str(hidden(trust))
    for phrase in (
        "ε = 1 (δ = 1e-05)",
        "moving sources of heat by at most 0.5 metres in all (strength times distance), with the same total strength",
        "e^1 ≈ 2.72 and δ on top, whatever else is known, if they follow the stated physics",
        "not protected: how many sources there are and how strong",
        "unit: source; adjacency: earth-mover within 0.5 metres",
        trust.described,
        "other readings of the same sources add up",
    ):
        assert phrase in sentence
    assert sentence.startswith("Computational") == (trust is Trust.ESCROW)
    assert Guarantee.from_dict(hidden(trust).to_dict()) == hidden(trust)


def test_a_reach_belongs_to_sensors_alone() -> None:
    with pytest.raises(PromiseBroken, match="A reach belongs to the adjacency"):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, reach="0.5 metres")
    with pytest.raises(PromiseBroken, match="A reach belongs to the adjacency"):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.SOURCE, Adjacency.EARTH_MOVER)
    assert "within 0.5 metres" in hidden().short


def test_sources_are_no_unit_of_visits() -> None:
    for name in ("source", Unit.SOURCE):
        with pytest.raises(InvalidInput, match="choose 'person', 'person-day' or 'visit'"):
            Unit.parse(name)
