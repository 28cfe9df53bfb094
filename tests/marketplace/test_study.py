"""The study: what is public becomes points, whatever stands in the data."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.errors import CannotWrite, InvalidInput, UnreadableData
from heathaze.marketplace.columns import CategoryColumn, NumberColumn
from heathaze.marketplace.features import Features
from heathaze.marketplace.study import Study, skeleton
from heathaze.privacy.randomness import Simulation

COLUMNS = {"age": (17, 90), "sex": ("Female", "Male")}


def _study(**settings: Any) -> Study:
    return Study.of(COLUMNS, **settings)


def _encode(column: str, values: object) -> np.ndarray:
    table = {"age": np.full(len(values), 40), "sex": np.full(len(values), "Male")} | {column: values}
    return _study().encode(table).points


# ── points ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_numbers_are_scaled_and_those_outside_are_moved_to_the_nearer_end() -> None:
    encoded = _study().encode({"age": [17, 53.5, 90, 200, -1, np.inf, -np.inf], "sex": ["Male"] * 7})
    assert encoded.points[:, 0].tolist() == [0, 0.5, 1, 1, 0, 1, 0]
    assert (encoded.fits["age"].rows, encoded.fits["age"].outside) == (7, 4)
    assert not {"4", "7"} & set(repr(encoded) + repr(encoded.fits["age"]))


@pytest.mark.parametrize(
    ("column", "values", "outside", "missing", "doubtful"),
    [
        ("age", [17, 200, None, 40], 1, 1, False),
        ("age", [17, 200, None], 1, 1, True),
        ("age", [np.nan, np.inf, 20.0], 1, 1, True),
        ("sex", ["Male", "male", None, " Female "], 1, 1, False),
        ("sex", ["Male", "male", "female"], 2, 0, True),
        ("sex", [], 0, 0, False),
    ],
)
def test_values_that_say_nothing_are_counted(
    column: str, values: list[Any], outside: int, missing: int, doubtful: bool
) -> None:
    table = {"age": [40] * len(values), "sex": ["Male"] * len(values)} | {column: values}
    fit = _study().encode(table).fits[column]
    assert (fit.rows, fit.outside, fit.missing, fit.doubtful) == (len(values), outside, missing, doubtful)


@pytest.mark.parametrize(
    "ages",
    [
        [17, None, 90],
        np.array([17, np.nan, 90]),
        np.ma.masked_array([17, 3, 90], mask=[False, True, False]),
        pd.Series([17, pd.NA, 90], dtype="Int64").to_numpy(),
        np.array([17, None, 90], dtype=object),
    ],
    ids=["list", "nan", "masked", "pandas", "objects"],
)
def test_a_missing_number_is_the_middle_of_the_range(ages: object) -> None:
    assert _encode("age", ages)[:, 0].tolist() == [0, 0.5, 1]


def test_huge_ranges_do_not_overflow() -> None:
    study = Study.of({"x": (-1.7e308, 1.7e308)})
    assert study.encode({"x": [-1.7e308, 0.0, 1.7e308]}).points.ravel().tolist() == [0, 0.5, 1]


def test_two_levels_are_at_distance_one_and_others_are_zeros() -> None:
    points = _encode("sex", ["Female", "Male", "unheard of", None])[:, 1:]
    assert np.linalg.norm(points[0] - points[1]) == pytest.approx(1)
    assert not points[2:].any()
    assert (points[:2] > 0).sum() == 2


@pytest.mark.parametrize(
    ("levels", "values", "places"),
    [
        (("1", "2"), [2, 1], [1, 0]),
        (("0", "2"), [-0.0, 0.0, 2.0], [0, 0, 1]),
        (("1", "true"), np.array([True, 1, True], dtype=object), [1, 0, 1]),
        (("2024-05-31",), np.array(["2024-05-31"], dtype="datetime64[ns]"), [0]),
        (("2024-05-31 07:00:00",), pd.Series(pd.to_datetime(["2024-05-31 07:00"])), [0]),
        (("2024-05-31",), [datetime(2024, 5, 31)], [0]),
        (("1", "2"), [2.0, np.nan], [1, None]),
        (("1.0", "2.0"), [2.0, 1.0], [1, 0]),
        (("1.5", "2"), [2, 1.5], [1, 0]),
        (("false", "true"), [True, False], [1, 0]),
        (("a", "b"), np.array([b"b", b"a"]), [1, 0]),
        (("a", "b"), pd.Categorical(["b", None]).to_numpy(), [1, None]),
        (("None", "nan"), [None, np.nan], [None, None]),
        (("2024-05-31",), np.array([date(2024, 5, 31), None], dtype=object), [0, None]),
        (("3", "4"), [3.0, "4.0", Decimal("3.00"), "+4", "03", "3 "], [0, 1, 0, 1, None, 0]),
        (("3.0", "03"), [3, "03", "3"], [0, 1, 0]),
        (("1", "2"), pa.array([2, None, 1]), [1, None, 0]),
        ((str(2**53 + 1), "1"), pa.array([2**53 + 1, None, 1]), [0, None, 1]),
        (("1", "2"), (2, np.int8(1)), [1, 0]),
    ],
)
def test_levels_are_found_whatever_the_kind(levels: tuple[str, ...], values: Any, places: list[int | None]) -> None:
    points = Study.of({"level": levels, "x": (0, 1)}).encode({"level": values, "x": [0] * len(places)}).points[:, :-1]
    assert [int(row.argmax()) if row.any() else None for row in points] == places


ODD = [
    3, 3.0, "3", "3.0", "+3", " 3", "03", True, False, "true", None, math.nan, "nan", "n/a", "", 2**53 + 1, 0.5, -1,
    2**63, 10**400, 10**5000, "1e99999999999999999999", Decimal("1.0"), Decimal("1.00"), b"a", "a", np.float32(0.1),
    np.int8(3), np.datetime64("3000-01-01"), np.datetime64("2024-01-01T00:00:00.000000001"), date(2024, 1, 1),
    datetime(2024, 1, 1), datetime(2024, 1, 1, 12, tzinfo=UTC),
    datetime(2024, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))), pd.NA, pd.NaT,
]  # fmt: skip
LEVELS = (
    "3", "1.0", "03", "true", "a", "nan", "0.5", str(2**53 + 1), "2024-01-01", "3000-01-01",
    "2024-01-01 12:00:00+00:00",
)  # fmt: skip


@given(st.lists(st.sampled_from(ODD), min_size=1, max_size=8), st.data())
def test_no_value_changes_how_another_one_is_read(values: list[Any], data: st.DataObject) -> None:
    """Two worlds that differ in one record encode all the others the same: whatever it holds."""
    left_out = data.draw(st.integers(0, len(values) - 1))
    fewer = [*values[:left_out], *values[left_out + 1 :]]
    study = Study.of({"level": LEVELS})
    together = study.encode({"level": values}).points
    assert np.array_equal(study.encode({"level": fewer}).points, np.delete(together, left_out, axis=0))
    alone = [study.encode({"level": [value]}).points for value in values]
    assert np.array_equal(np.vstack(alone), together)


def test_columns_keep_the_order_of_the_study() -> None:
    table = {"sex": ["Male"], "age": [90], "income": [3]}
    assert _study().encode(table).points.round(3).tolist() == [[1, 0, 0.707]]
    assert _study().names == ("age", "sex")
    assert _study(frequencies=9, seed=3, gamma=0.1).features == Features(3, gamma=0.1, frequencies=9, seed=3)


def test_a_data_frame_is_a_table() -> None:
    table = {"age": [17, 90], "sex": ["Male", "Female"]}
    assert np.array_equal(_study().encode(pd.DataFrame(table)).points, _study().encode(table).points)


def test_whoever_forgets_points_is_told() -> None:
    encoded = _study().encode({"age": [17, 90], "sex": ["Male", "Female"]})
    with pytest.raises(InvalidInput, match=r"encode rows with study\.encode\(table\)\.points first"):
        _study().features.of(encoded)  # type: ignore[arg-type]


def test_an_empty_table_has_no_points() -> None:
    assert _study().encode({"age": [], "sex": []}).points.shape == (0, 3)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"age": [1]}, "The table has no column 'sex'; give a table with all columns of the study, 'age', 'sex'"),
        ({}, "has no column 'age', 'sex'"),
        ({"age": [1, 2], "sex": ["Male"]}, "have different lengths"),
        (
            {"age": ["4711"], "sex": ["Male"]},
            "column 'age' of the table holds text; the study has a range for it, so give numbers",
        ),
        ({"age": [1, "4711"], "sex": ["Male"] * 2}, "column 'age' of the table holds text"),
        ({"age": np.array(["2024-05-31"], dtype="M8[D]"), "sex": ["Male"]}, "column 'age' of the table holds dates"),
        ({"age": np.array([[4711]]), "sex": ["Male"]}, "'age' of the table does not hold one value for each row"),
        (
            {"age": np.array([{"4711": 1}], dtype=object), "sex": ["Male"]},
            "'age' of the table holds lists or other collections",
        ),
        (
            {"age": np.array([object()], dtype=object), "sex": ["Male"]},
            "'age' of the table holds values that are not numbers",
        ),
        ({"age": [[4711], [1, 2]], "sex": ["Male"] * 2}, "'age' of the table does not hold one value for each row"),
        ({"age": [1, 1], "sex": "4711"}, "'sex' of the table does not hold one value for each row"),
        ({"age": [1, 1], "sex": np.array([["4711"], None], dtype=object)}, "'sex' of the table holds lists"),
    ],
)
def test_tables_that_do_not_fit_are_refused_without_a_value(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnreadableData, match=sentence) as caught:
        _study().encode(table)
    assert "4711" not in str(caught.value)


# ── the kernel's γ ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_gamma_follows_from_ranges_and_levels_alone() -> None:
    study = Study.of({"age": (17, 90), "built": (1880, 2024), "sex": ("f", "m"), "heating": ("gas", "oil", "none")})
    draws, count = Simulation(3), 200_000
    table = {
        "age": 17 + 73 * draws.uniforms(count),
        "built": 1880 + 144 * draws.uniforms(count),
        "sex": np.array(["f", "m"])[draws.below(2, count)],
        "heating": np.array(["gas", "oil", "none"])[draws.below(3, count)],
    }
    points = study.encode(table).points
    squares = ((points[: count // 2] - points[count // 2 :]) ** 2).sum(axis=1)
    off = study.gamma * (squares.mean() - 2 / study.gamma) / (study.gamma * squares.std() / np.sqrt(len(squares)))
    assert abs(off) < 4.9  # alpha 1e-6
    assert study.gamma == pytest.approx(2 / (1 / 6 + 1 / 6 + 1 / 2 + 2 / 3))


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    odd = {'"quoted" name': ("a", 'b"c', "d\\e", "ü\x7f\t", "😀"), "x.y": (-1e-9, 1e300), "": (0, 1), "plain-1": ("",)}
    for study in (_study(gamma=0.5, frequencies=20, seed=7), Study.of(odd)):
        study.write(tmp_path / "study.toml")
        assert Study.read(tmp_path / "study.toml") == study


def test_a_file_as_in_the_manual(tmp_path: Path) -> None:
    text = 'gamma = 0.5  # why\nfrequencies = 70\nseed = 7\n[columns]\nage = [17, 90]\nsex = ["Female", "Male"]\n'
    (tmp_path / "s.toml").write_text(text)
    assert Study.read(tmp_path / "s.toml") == Study(
        (NumberColumn("age", 17, 90), CategoryColumn("sex", ("Female", "Male"))), gamma=0.5, frequencies=70, seed=7
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("age = [1, 2]", "has 'age', which no study has"),
        ("seed = 1", r"has no table \[columns\]"),
        ("columns = 3", r"has no table \[columns\]"),
        ("[columns]", "has no columns"),
        ("[columns]\nage = [", "is not TOML"),
        ("[columns]\nage = []", "'age' has neither a range nor levels yet; fill them in"),
        ("[columns]\nage = [1, 2, 3]", "'age' has neither a range nor levels; give two numbers"),
        ('[columns]\nage = [1, "2"]', "'age' has neither a range nor levels; give two numbers"),
        ("[columns]\nage = [true, false]", "'age' has neither a range nor levels; give two numbers"),
        ("[columns]\nage = 3", "'age' has neither a range nor levels; give two numbers"),
        ('[columns]\nage = "ab"', "'age' has neither a range nor levels; give two numbers"),
        ("[columns]\nage = [90, 17]", r"range of the column 'age' is \[90, 17\]"),
        ("[columns]\nage = [0, inf]", "two finite numbers"),
        ('[columns]\nsex = ["m", "m"]', "'sex' has a level twice"),
        ('[columns]\nsex = ["1", "1.0"]', "'sex' has a level twice"),
        ('[columns]\nsex = ["m"]', "single level"),
        ("gamma = -1\n[columns]\nage = [1, 2]", "gamma is -1"),
        ('gamma = "x"\n[columns]\nage = [1, 2]', "gamma"),
        ("frequencies = 0\n[columns]\nage = [1, 2]", "frequencies is 0"),
        ("seed = -1\n[columns]\nage = [1, 2]", "seed is -1"),
    ],
)
def test_a_study_that_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(UnreadableData, match=sentence) as caught:
        Study.read(path)
    assert str(path) in str(caught.value)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(UnreadableData, match="no such file"):
        Study.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableData, match="is not text"):
        Study.read(tmp_path / "bytes.toml")
    with pytest.raises(CannotWrite, match="Cannot write"):
        _study().write(tmp_path / "nowhere" / "s.toml")


def test_the_same_column_twice() -> None:
    with pytest.raises(InvalidInput, match="a column twice"):
        Study((NumberColumn("a", 0, 1), NumberColumn("a", 0, 1)), gamma=1.0)


def test_a_skeleton_says_names_and_kinds_and_cannot_be_used_before_it_is_filled_in(tmp_path: Path) -> None:
    text = skeleton({"age": "number", "a b": "text", "born": "date"})
    assert "age = []   # number" in text
    assert '"a b" = []   # text' in text
    assert "born = []   # date: leave out, or turn into numbers first" in text
    assert "# Delete ids, names and the label" in text
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(UnreadableData, match="fill them in"):
        Study.read(tmp_path / "s.toml")
    filled = text.replace("age = []", "age = [1, 2]").replace('"a b" = []', '"a b" = ["x", "y"]')
    filled = "\n".join(line for line in filled.splitlines() if not line.startswith("born"))
    (tmp_path / "s.toml").write_text(filled)
    assert Study.read(tmp_path / "s.toml").names == ("age", "a b")
