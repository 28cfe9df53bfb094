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
    assert f"Exact terms: differential privacy with ε = {decimal(loss.epsilon)} (" in sentence
    assert loss.delta == 0 or f"(δ = {decimal(loss.delta)})" in sentence
    for part in (f"unit: {unit.value}; adjacency: add-remove; trust: a curator", f"Protected: {unit.described}."):
        assert part in sentence
    assert sentence.endswith(" Other releases about the same people add to this privacy loss.")
    assert ("pure, δ = 0" in sentence) == (loss.delta == 0)


def test_epsilon_is_never_shown_smaller_than_it_is() -> None:
    assert "ε = 0.333334" in str(Guarantee(PrivacyLoss(Fraction(1, 3)), Unit.PERSON))


@pytest.mark.parametrize(
    ("loss", "factor"),
    [
        (PrivacyLoss(Fraction(1)), "2.72."),
        (PrivacyLoss(Fraction(7, 10)), "2.02."),
        (PrivacyLoss(Fraction(10)), "22,100."),
        (PrivacyLoss(Fraction(100)), "e^100."),
        (PrivacyLoss(Fraction(1), Fraction(1, 10**6)), "2.72, plus at most 1e-06."),
    ],
    ids=str,
)
def test_the_factor_is_a_number_rounded_up(loss: PrivacyLoss, factor: str) -> None:
    wanted = "Whether any one person is in the data changes the chance of any result by at most a factor of "
    assert str(Guarantee(loss, Unit.PERSON)).startswith(f"{wanted}{factor} Protected: ")


PLAIN = {
    (Unit.PERSON, Adjacency.ADD_REMOVE, Trust.CENTRAL): "Whether any one person is in the data changes the chance of",
    (Unit.PERSON_DAY, Adjacency.ADD_REMOVE, Trust.CENTRAL): "Whether any one day of a person is in the data changes",
    (Unit.VISIT, Adjacency.ADD_REMOVE, Trust.CENTRAL): "Whether any one visit is in the data changes the chance of",
    (Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM): "If one person's vector is replaced by zeros, the chance of",
    (Unit.PERSON_DAY, Adjacency.ZERO_OUT, Trust.SECURE_SUM): "If one person's vector on one day is replaced by zeros, ",
    (
        Unit.PERSON,
        Adjacency.ANY_TWO,
        Trust.LOCAL,
    ): "If one person's position is replaced by any other, the chance of any",
    (Unit.VISIT, Adjacency.ANY_TWO, Trust.LOCAL): "If the position of one visit is replaced by any other, the chance",
    (
        Unit.PERSON,
        Adjacency.ANY_TWO_JOURNEYS,
        Trust.CENTRAL,
    ): "If all journeys of one person are replaced by any others, the chance",
    (Unit.TRIP, Adjacency.ANY_TWO_JOURNEYS, Trust.CENTRAL): "If one journey is replaced by any other, the chance",
    (Unit.PERSON, Adjacency.PER_METRE, Trust.LOCAL): "If one person's position moves by r metres, from cell to cell, ",
    (Unit.PERSON, Adjacency.PER_LENGTH, Trust.LOCAL): "If one person's position moves by r units of length, from cell",
    (Unit.SOURCE, Adjacency.EARTH_MOVER, Trust.SENSORS): "If sources of heat move by at most 1 metre in all (strength",
    (Unit.SOURCE, Adjacency.EARTH_MOVER, Trust.ESCROW): "If sources of heat move by at most 1 metre in all (strength",
    (
        Unit.RECORD,
        Adjacency.ADD_REMOVE,
        Trust.CURATOR,
    ): "Whether any one record is in the data changes the chance of any "
    "messages to the other owners, even taken together, by at most",
    (Unit.RECORD, Adjacency.REPLACE, Trust.CURATOR): "If any one record is replaced by another, the chance of any "
    "messages to the owners, even taken together, changes by at most",
}


@pytest.mark.parametrize(("unit", "adjacency", "trust"), PLAIN)
def test_every_guarantee_begins_with_a_sentence_for_everybody(unit: Unit, adjacency: Adjacency, trust: Trust) -> None:
    reach = "1 metre" if adjacency is Adjacency.EARTH_MOVER else None
    sentence = str(Guarantee(PrivacyLoss(Fraction(1)), unit, adjacency, trust, reach=reach))
    assert sentence.startswith(PLAIN[unit, adjacency, trust])
    first, rest = sentence.split(". ", 1)
    assert " by at most a factor of " in first
    assert not any(sign in first for sign in "εδ;:")
    assert f"; unit: {unit.value}; adjacency: {adjacency.value}" in rest
    assert f"; trust: {trust.described}" in rest


def test_every_combination_has_a_sentence() -> None:
    for unit in Unit:
        for adjacency in Adjacency:
            for trust in Trust:
                reach = "1 metre" if adjacency is Adjacency.EARTH_MOVER else None
                sentence = str(Guarantee(PrivacyLoss(Fraction(1)), unit, adjacency, trust, reach=reach))
                assert sentence.endswith(" to this privacy loss.")


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


def test_an_unknown_unit_is_refused() -> None:
    assert Unit.parse("person-day") is Unit.PERSON_DAY
    with pytest.raises(InvalidInput, match="There is no unit 'household'; choose 'person'"):
        Unit.parse("household")


def test_reports_of_journeys_speak_of_journeys() -> None:
    guarantee = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ANY_TWO_JOURNEYS, Trust.LOCAL)
    assert "each device randomised its own journeys before anything left it" in str(guarantee)
    assert "position" not in str(guarantee) + guarantee.plain


# ── nobody is trusted ───────────────────────────────────────────────────────────────────────────────────────────────

LOCAL = [Adjacency.ANY_TWO, Adjacency.PER_METRE, Adjacency.PER_LENGTH]
WHOSE = {
    Unit.PERSON: "one person's position",
    Unit.PERSON_DAY: "one person's position on one day",
    Unit.VISIT: "the position of one visit",
}


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.delta], ids=str)
def test_the_local_sentence_says_everything(loss: PrivacyLoss, unit: Unit) -> None:
    sentence = str(Guarantee(loss, unit, Adjacency.ANY_TWO, Trust.LOCAL))
    assert sentence.startswith(
        f"If {WHOSE[unit]} is replaced by any other, the chance of any report changes by at most a factor of "
    )
    for part in (
        f"Exact terms: local differential privacy with ε = {decimal(loss.epsilon)} (pure, δ = 0)",
        f"unit: {unit.value}",
        "adjacency: any-two-positions",
        "trust: nobody, because each device randomised its own position before anything left it",
    ):
        assert part in sentence
    assert sentence.endswith("Each further report of the same person adds to this privacy loss.")
    assert "curator" not in sentence


@pytest.mark.parametrize("unit", VISITS)
@pytest.mark.parametrize(
    ("adjacency", "length", "lengths"),
    [(Adjacency.PER_METRE, "metre", "metres"), (Adjacency.PER_LENGTH, "unit of length", "units of length")],
)
def test_the_sentence_of_an_epsilon_per_metre_claims_no_more(
    adjacency: Adjacency, length: str, lengths: str, unit: Unit
) -> None:
    guarantee = Guarantee(PrivacyLoss(Fraction(1, 5000)), unit, adjacency, Trust.LOCAL)
    sentence = str(guarantee)
    assert (
        f"Exact terms: geo-indistinguishability with ε = 0.0002 per {length} (no differential privacy across"
        in sentence
    )
    assert sentence.startswith(f"If {WHOSE[unit]} moves by r {lengths}, ")
    assert "by at most a factor of e^(0.0002 · r)." in sentence
    assert f"adjacency: {adjacency.value}" in sentence
    assert "local differential privacy" not in sentence
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


def test_only_an_epsilon_per_length_has_a_length() -> None:
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
        f"If {WHOSE[unit].replace('position', 'vector')} is replaced by zeros, the chance of any "
    )
    for part in (
        f"Protected: {unit.described}.",
        "Exact terms: computational differential privacy (for observers who cannot break keys) with ε = 0.333334 (pur",
        f"unit: {unit.value}",
        "adjacency: zero-out",
        "trust: a secure sum, whose server follows the protocol and sees only noisy sums of many devices",
        f"; at most {colluders} devices of a shard reveal their noise to the server",
    ):
        assert part in sentence
    assert sentence.endswith("Other releases about the same people add to this privacy loss.")
    for word in ("curator", "is in the data", "local"):
        assert word not in sentence, "it claims what another kind of promise claims"


def test_only_a_secure_sum_speaks_of_colluders_and_of_computation() -> None:
    for trust in (Trust.CENTRAL, Trust.LOCAL):
        guarantee = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ANY_TWO, trust)
        assert "omputational" not in str(guarantee)
        assert "reveal their noise" not in str(guarantee)
        assert "colluders" not in guarantee.to_dict()


def test_the_chance_of_more_colluders_is_in_the_sentence_and_the_file() -> None:
    certain = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM, 104)
    likely = dataclasses.replace(certain, failure_probability=Fraction(6, 2**40))
    wanted = "reveal their noise to the server (random shards hold more with probability at most 5.5e-12)."
    assert wanted in str(likely)
    assert "random shards" not in str(certain)
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
    with pytest.raises(InvalidInput, match="give a whole number of at least 0, and a probability below 1"):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM, **wrong)
    with pytest.raises((InvalidInput, PromiseBroken)):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, **wrong)


def test_nobody_colludes_with_a_curator() -> None:
    for more in ({"colluders": 1}, {"failure_probability": Fraction(1, 2)}):
        with pytest.raises(PromiseBroken, match="Only the trust 'secure-sum' has colluders, and this one is 'central'"):
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
        "If sources of heat move by at most 0.5 metres in all (strength times distance) and keep their total strength,",
        "the chance of any readings changes by at most a factor of 2.72, plus at most 1e-05.",
        "This holds whatever else is known, if the readings follow the stated physics.",
        "Not protected: how many sources there are and how strong they are.",
        "unit: source; adjacency: earth-mover within 0.5 metres",
        trust.described,
        "Other readings of the same sources add to this privacy loss.",
    ):
        assert phrase in sentence
    assert ("computational" in sentence) == (trust is Trust.ESCROW)
    assert Guarantee.from_dict(hidden(trust).to_dict()) == hidden(trust)


def test_a_reach_belongs_to_sensors_alone() -> None:
    with pytest.raises(PromiseBroken, match="'earth-mover' needs a reach, and no other adjacency has one"):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON, reach="0.5 metres")
    with pytest.raises(PromiseBroken, match="'earth-mover' needs a reach, and no other adjacency has one"):
        Guarantee(PrivacyLoss(Fraction(1)), Unit.SOURCE, Adjacency.EARTH_MOVER)
    assert "within 0.5 metres" in hidden().short


def test_sources_are_no_unit_of_visits() -> None:
    for name in ("source", Unit.SOURCE):
        with pytest.raises(InvalidInput, match="choose 'person', 'person-day' or 'visit'"):
            Unit.parse(name)


@pytest.mark.parametrize("field", ["epsilon", "delta"])
@pytest.mark.parametrize("text", ["1e8000000", "0.5", 1, None])
def test_a_number_in_a_file_is_a_fraction_of_whole_numbers(field: str, text: object) -> None:
    # Fraction would accept the first, and compute for seconds or years.
    fields = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON).to_dict() | {field: text}
    with pytest.raises(ValueError, match="fraction of whole numbers"):
        Guarantee.from_dict(fields)
