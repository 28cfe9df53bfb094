"""What a server asks: complete, priced, bound to a fingerprint, and never a surprise to whoever reads it."""

import copy
import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.distributed import Cohort, Question
from heathaze.distributed.encodings import Regions
from heathaze.distributed.question import LONGEST, Part
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.errors import HeathazeError, InvalidInput, PromiseBroken, TooLarge
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import NoiseShares, flatten
from heathaze.privacy.guarantee import Adjacency, Trust
from tests.distributed.parties import COHORT, GRID, question

QUARTERS, CELLS = Partition.whole_level(GRID, 1), Partition.whole_level(GRID, 3)


def two_parts() -> Question:
    parts = (Part(Regions(QUARTERS), Fraction(1, 3)), Part(Regions(CELLS), Fraction(1, 2)))
    return question(parts=parts, mass=7, flagged=True)


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_lie_one_after_the_other_and_add_up() -> None:
    asked = two_parts()
    assert (asked.lengths, asked.length, asked.epsilon) == ([8, 128], 136, Fraction(5, 6))
    assert asked.grid == GRID
    assert [float(7 / scale) for scale in asked.scales] == pytest.approx([1 / 3, 1 / 2])
    assert asked.guarantee.loss.epsilon == Fraction(5, 6)
    assert (asked.guarantee.adjacency, asked.guarantee.trust) == (Adjacency.ZERO_OUT, Trust.SECURE_SUM)
    assert asked.guarantee.colluders == COHORT.colluders == 2


@given(st.fractions(Fraction(1, 1000), 20, max_denominator=10**6), st.integers(1, 2**20))
def test_the_event_never_costs_more_than_is_declared_and_little_less(epsilon: Fraction, mass: int) -> None:
    asked = question(epsilon=epsilon, mass=mass)
    cost = compose([asked.event()]).epsilon
    assert epsilon * (1 - Fraction(1, 10**6)) <= cost <= epsilon


def test_the_event_is_restated_from_those_who_delivered() -> None:
    asked = two_parts()
    for delivered, shape in ((16, 1), (18, Fraction(16, 14)), (20, Fraction(18, 14))):
        events = flatten(asked.event(delivered))
        assert events == [NoiseShares(7, scale, Fraction(shape)) for scale in asked.scales], (
            "sensitivity, scale and shape of every part"
        )
    assert asked.event() == asked.event(16)
    for delivered in (15, 2, 1):
        with pytest.raises(PromiseBroken, match="must not be opened"):
            compose([asked.event(delivered)])


@pytest.mark.parametrize("shard", [20, 2000])
def test_sums_have_room_for_everybody_and_the_noise(shard: int) -> None:
    asked = question(cohort=Cohort(shard), epsilon=Fraction(1, 10), mass=5)
    assert 2**asked.bits > 5 * shard + 2 * 50 * 40 * math.log(2) / 2
    assert question(cohort=Cohort(shard), epsilon=Fraction(1, 1000), mass=5).bits > asked.bits


# ── a question that cannot be answered does not exist ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"survey": "0" * 31}, "expected 32 hexadecimal digits"),
        ({"survey": "X" * 32}, "expected 32 hexadecimal digits"),
        ({"survey": "0" * 32 + "\n"}, "expected 32 hexadecimal digits"),
        ({"number": 0}, "number is 0; give the number of the round, a whole number from 1"),
        ({"number": True}, "number is True; give the number of the round"),
        ({"number": 10**18}, "number is 1000000000000000000; give the number of the round"),
        ({"mass": 0}, "mass is 0; give the integer mass of one person, a whole number from 1 to 1,073,741,824"),
        ({"mass": 2**30 + 1}, "mass is 1073741825; give the integer mass of one person"),
        ({"mass": 1.0}, r"mass is 1\.0; give the integer mass of one person"),
        ({"parts": ()}, "at least one part"),
    ],
)
def test_bad_fields_are_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        question(**changed)


def test_parts_on_different_grids_are_refused() -> None:
    other = Partition.whole_level(Grid.plane(x=(0, 9), y=(0, 8), size=8), 1)
    with pytest.raises(InvalidInput, match="all its parts on the same grid"):
        question(parts=(Part(Regions(QUARTERS), Fraction(1)), Part(Regions(other), Fraction(1))))


def test_a_vector_that_is_too_long_is_refused() -> None:
    fine = Partition.whole_level(Grid.plane(x=(0, 1), y=(0, 1), size=1024), 10)
    assert question(fine).length == LONGEST // 2
    assert question(fine, flagged=True).length == LONGEST
    with pytest.raises(InvalidInput, match="asks for 2097156 numbers; expected at most 2097152"):
        question(
            parts=(
                Part(Regions(fine), Fraction(1)),
                Part(Regions(fine), Fraction(1)),
                Part(Regions(Partition.whole_level(fine.grid, 1)), Fraction(1)),
            )
        )


@pytest.mark.parametrize("epsilon", [0, -1, 1001, Fraction(1, 10**7)])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidInput, match="epsilon is"):
        question(epsilon=epsilon)


def test_noise_that_cannot_be_drawn_is_refused_before_anyone_answers() -> None:
    with pytest.raises(InvalidInput, match="does not fit into 64 bits"):
        question(epsilon=Fraction(1, 10**6), mass=2**30)
    with pytest.raises(TooLarge, match="133 bits"):
        question(cohort=Cohort(10**40, 1))
    with pytest.raises(InvalidInput, match="shape of a noise share is 5000"):
        question(cohort=Cohort(10_000, dropout=0.4, colluding=0.5998))


# ── as it travels ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_arrives_as_it_was_sent() -> None:
    for asked in (question(), two_parts(), dataclasses.replace(two_parts(), final=True, number=3)):
        again = Question.from_dict(json.loads(json.dumps(asked.to_dict())))
        assert again.to_dict() == asked.to_dict()
        assert again.fingerprint == asked.fingerprint
        assert (again.bits, again.scales, again.length) == (asked.bits, asked.scales, asked.length)


def test_every_field_changes_the_fingerprint() -> None:
    asked = two_parts()
    parts = asked.parts
    wider = Grid.plane(x=(0, 9), y=(0, 8), size=8)
    changes: list[dict[str, Any]] = [
        {"survey": "f" * 32},
        {"number": 2},
        {"parts": parts[:1]},
        {"parts": parts[::-1]},
        {"parts": (dataclasses.replace(parts[0], epsilon=Fraction(1, 4)), parts[1])},
        {"parts": tuple(Part(Regions(Partition.whole_level(wider, k)), Fraction(1)) for k in (1, 3))},
        {"cohort": Cohort(20, dropout="1/5", colluding="1/20")},
        {"cohort": Cohort(40, shards=2, dropout="1/5", colluding="1/10")},
        {"mass": 8},
        {"flagged": False},
        {"final": True},
    ]
    prints = [dataclasses.replace(asked, **change).fingerprint for change in changes]
    assert len({asked.fingerprint, *prints}) == len(changes) + 1


PATHS: list[tuple[Any, ...]] = [
    *[(name,) for name in ("heathaze question", "survey", "number", "grid", "parts", "cohort")],
    *[(name,) for name in ("mass", "flagged", "final")],
    *[("grid", name) for name in ("x", "y", "rows", "cols", "projection")],
    ("grid", "x", 0),
    ("parts", 0),
    ("parts", 0, "epsilon"),
    ("parts", 0, "encoding"),
    ("parts", 1, "encoding", "kind"),
    ("parts", 0, "encoding", "levels"),
    ("parts", 1, "encoding", "codes"),
    ("parts", 0, "encoding", "levels", 3),
    ("parts", 1, "encoding", "codes", 7),
    *[("cohort", name) for name in ("people", "shards", "dropout", "colluding")],
]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-5, 5)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["1e999999999", "1/0", "-1", "1e-99999999", "regions", "squares", "mesh", "sketch", "plane"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
GONE = object()


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PATHS), JSON | st.just(GONE)), min_size=1, max_size=3))
def test_a_damaged_question_is_refused_with_a_sentence_or_is_another_whole_question(damages: list) -> None:
    fields = copy.deepcopy(two_parts().to_dict())
    for path, value in damages:
        place: Any = fields
        try:
            for step in path[:-1]:
                place = place[step]
            if value is GONE:
                del place[path[-1]]
            else:
                place[path[-1]] = value
        except (LookupError, TypeError):
            continue  # an earlier damage took the place away
    try:
        found = Question.from_dict(fields)
    except HeathazeError:
        return
    assert found.length <= LONGEST
    assert compose([found.event()]).epsilon <= found.epsilon
    assert Question.from_dict(found.to_dict()).fingerprint == found.fingerprint


@pytest.mark.parametrize("fields", [None, [], "question", 5, {}, {"heathaze question": 2}, {"heathaze question": "1"}])
def test_what_is_no_question_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidInput, match=r"This is a question of version .*, and this device reads version 1"):
        Question.from_dict(fields)


def test_an_encoding_of_a_newer_version_is_named() -> None:
    fields = question().to_dict()
    fields["parts"][0]["encoding"]["kind"] = "hexagons"
    with pytest.raises(InvalidInput, match="Unknown encoding 'hexagons'; expected regions, squares, mesh or sketch"):
        Question.from_dict(fields)


def test_true_is_not_one() -> None:
    for name, value in (("flagged", 1), ("final", 0), ("final", "true")):
        with pytest.raises(InvalidInput, match="damaged or was edited"):
            Question.from_dict({**question().to_dict(), name: value})


def test_arrays_of_a_question_cannot_be_changed_under_it() -> None:
    partition = question().parts[0].encoding.partition
    with pytest.raises(ValueError, match="read-only"):
        partition.codes[0] = 1
    assert np.array_equal(partition.codes, QUARTERS.codes)


def test_a_question_is_quickly_looked_at() -> None:
    """Few parts, short fractions: nobody makes a device compute for minutes."""
    with pytest.raises(InvalidInput, match="has 65 parts; expected at most 64"):
        question(parts=question().parts * 65)
    long = question().to_dict()
    long["parts"][0]["epsilon"] = "1/" + "3" * 21
    with pytest.raises(InvalidInput, match="A rational is written as"):
        Question.from_dict(long)
    with pytest.raises(InvalidInput, match="a denominator of more than 20 digits"):
        question(epsilon=Fraction(1, 10**20 + 1) + 1)


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2])
def test_a_version_is_a_whole_number(version: Any) -> None:
    with pytest.raises(InvalidInput, match="question of version"):
        Question.from_dict(question().to_dict() | {"heathaze question": version})


def test_an_endless_name_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        question(survey="x" * 10**6)
    assert len(str(refused.value)) < 200
