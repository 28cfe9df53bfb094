"""The sentence says how much, to whom, against which change, trusting whom."""

import json
from fractions import Fraction

import pytest

from heathaze.errors import InvalidInput
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.loss import Loss, decimal
from heathaze.privacy.trust import Adjacency, Trust
from heathaze.privacy.unit import Unit

LOSSES = [Loss(Fraction(1)), Loss(Fraction(1, 3)), Loss(Fraction(5, 2), Fraction(1, 10**6)), Loss(Fraction(100))]


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_sentence_says_everything(loss: Loss, unit: Unit) -> None:
    sentence = str(Guarantee(loss, unit))
    assert f"ε = {decimal(loss.epsilon)} (" in sentence
    assert loss.delta == 0 or f"δ = {decimal(loss.delta)}" in sentence
    for part in (f"unit: {unit.value}", unit.described, "adjacency: add-remove", "trust: a trusted curator"):
        assert part in sentence
    assert sentence.endswith("other releases about the same people add up.")
    assert ("pure, δ = 0" in sentence) == (loss.delta == 0)


def test_epsilon_is_never_shown_smaller_than_it_is() -> None:
    assert "ε = 0.333334" in str(Guarantee(Loss(Fraction(1, 3)), Unit.PERSON))


def test_the_factor_is_spelled_out() -> None:
    assert "e^1 ≈ 2.72" in str(Guarantee(Loss(Fraction(1)), Unit.PERSON))


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_round_trip(loss: Loss, unit: Unit) -> None:
    guarantee = Guarantee(loss, unit)
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_the_caption_names_all_four() -> None:
    short = Guarantee(Loss(Fraction(1)), Unit.VISIT).short
    assert all(part in short for part in ("ε = 1", "unit: visit", "adjacency: add-remove", "trust: central"))


def test_every_name_has_words() -> None:
    assert all(unit.described for unit in Unit)
    assert all(trust.described for trust in Trust)
    assert all(adjacency.described for adjacency in Adjacency)


def test_an_unknown_unit_is_refused() -> None:
    assert Unit.parse("person-day") is Unit.PERSON_DAY
    with pytest.raises(InvalidInput, match="There is no unit 'household'; choose 'person'"):
        Unit.parse("household")
