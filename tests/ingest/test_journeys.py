"""Reading journeys: the rules for every kind of bad input, and no influence of one person on another's journeys."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from time import tzset

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.journeys import LONGEST, Journeys, read_journeys
from heathaze.privacy.guarantee import Unit
from heathaze.trajectories.facts import MASS, count_facts
from heathaze.trajectories.frame import Frame

PLANE = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
ROWS = {
    "who": ["a", "a", "a", "b", "b"],
    "ride": [1, 1, 2, 1, 1],
    "t": [5, 1, 9, 2, 2],
    "x": [3.0, 1.0, 5.0, 6.0, 2.0],
    "y": [3.0, 1.0, 5.0, 6.0, 2.0],
}


def read(rows: dict, **options) -> Journeys:
    return read_journeys(rows, PLANE, **{"person": "who", "trip": "ride", "time": "t", **options})


def points(journeys: Journeys) -> list[list[float]]:
    return [part.tolist() for part in np.split(journeys.lines.x, journeys.lines.offsets[1:-1])]


def test_rows_are_ordered_by_time_and_equal_times_by_place() -> None:
    found = read(ROWS)
    assert points(found) == [[1.0, 3.0], [5.0], [2.0, 6.0]]
    assert found.owner.tolist() == [0, 0, 1]
    backwards = {name: column[::-1] for name, column in ROWS.items()}
    assert points(read(backwards)) == points(found)


def test_two_people_may_use_one_trip_id_and_a_trip_may_be_its_own_unit() -> None:
    assert read(ROWS).units == 2
    assert read(ROWS, unit="trip").owner.tolist() == [0, 1, 2]
    # Without people, one trip id is one journey.
    assert points(read(ROWS, unit="trip", person=None)) == [[1.0, 2.0, 6.0, 3.0], [5.0]]


@pytest.mark.parametrize("options", [{"person": "who", "trip": "ride"}, {"person": None, "trip": "ride"}])
@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("a.jsonl", ["1", '"1"']),
        ("a.jsonl", ["false", '"false"']),
        ("a.jsonl", ["0.12345678901234567890", "0.12345678901234567891"]),
        ("a.jsonl", ["1.0", "2.0"]),
        ("a.jsonl", ['{"a":1}', '{"a": 1}']),
        ("a.csv", ["J\ufffdrg", "J\ufffdrg"]),
    ],
)
def test_two_journeys_never_become_one(tmp_path: Path, name: str, ids: list[str], options: dict) -> None:
    # A journey can be the protected unit, so its ids obey the rules of ids of people.
    if name.endswith("csv"):
        lines = ["who,ride,t,x,y", *(f"ann,{one},{at},1,{at}" for at, one in enumerate(ids))]
    else:
        lines = [f'{{"who": 1, "ride": {one}, "t": {at}, "x": 1, "y": {at}}}' for at, one in enumerate(ids)]
    (tmp_path / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    with pytest.raises(UnreadableData, match=r"mixes numbers and text|holds numbers with a fraction|not UTF-8"):
        read_journeys(tmp_path / name, PLANE, time="t", unit="trip", **options)


def test_a_journey_is_cut_at_pauses() -> None:
    rows = {"who": ["a"] * 4, "t": [0, 10, 100, 105], "x": [1.0, 2.0, 3.0, 4.0], "y": [1.0] * 4}
    assert points(read(rows, trip=None, pause=60)) == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(InvalidInput, match="--trip COLUMN"):
        read(rows, trip=None)


def test_times_have_many_forms(tmp_path: Path) -> None:
    expected = points(read(ROWS))
    stamps = np.array("2024-05-31T23:59:58", "datetime64[us]") + np.array(ROWS["t"]).astype("timedelta64[s]")
    assert points(read(ROWS | {"t": stamps})) == expected
    assert points(read(ROWS | {"t": [str(stamp) for stamp in stamps]})) == expected
    import pandas

    frame = pandas.DataFrame(ROWS | {"t": pandas.to_datetime(stamps).tz_localize("Europe/Berlin")})
    assert points(read(frame)) == expected
    frame.to_parquet(tmp_path / "rides.parquet")
    assert points(read(str(tmp_path / "rides.parquet"))) == expected
    frame.to_csv(tmp_path / "rides.csv", index=False)
    assert points(read(str(tmp_path / "rides.csv"))) == expected
    import pyarrow

    assert points(read(pyarrow.Table.from_pandas(frame))) == expected


def test_one_persons_rows_never_change_anothers_journeys() -> None:
    """Long and short numbers and far places of one person leave the journeys of others as they were."""
    others = {"who": ["b"] * 4, "ride": [1] * 4, "t": ["0", "10", "100", "105"], "x": [1.0, 2.0, 3.0, 4.0]}
    others["y"] = [1.0] * 4
    alone = points(read(others, pause=60))
    for time in ("1e17", "-5", "0"):
        added = {name: [*column, value] for (name, column), value in zip(
            others.items(), ("a", 1, time, 7.9, 7.9), strict=True
        )}  # fmt: skip
        assert points(read(added, pause=60))[1:] == alone


def test_times_and_plain_numbers_in_one_column_are_a_sentence(tmp_path: Path) -> None:
    mixed = "who,ride,t,x,y\na,1,2024-05-31T12:00:00,1,1\na,1,17,2,1\n"
    (tmp_path / "mixed.csv").write_text(mixed)
    with pytest.raises(UnreadableData, match="times in some rows and plain numbers in others") as refused:
        read(str(tmp_path / "mixed.csv"))
    assert "17" not in str(refused.value)
    (tmp_path / "header.csv").write_text("who,ride,t,x,y\n")
    with pytest.raises(UnreadableData, match="not a single row of data; there is nothing to count"):
        read(str(tmp_path / "header.csv"))
    (tmp_path / "nobody.csv").write_text(mixed.replace("\na,1,17", "\n,1,2024-05-31"))
    with pytest.raises(UnreadableData, match="A position has no person"):
        read(str(tmp_path / "nobody.csv"))


def test_a_long_journey_is_cut_by_a_public_rule_and_far_points_are_left_out() -> None:
    many = 100_000
    rows = {"who": np.ones(many, np.int64), "ride": np.ones(many, np.int64), "t": np.arange(many)}
    rows |= {"x": np.linspace(0, 8, many), "y": np.full(many, 4.0)}
    found = read(rows)
    assert found.lines.counts.tolist() == [LONGEST]
    rows["x"] = np.where(np.arange(many) == 7, 1e9, np.nan)
    with pytest.raises(UnreadableData, match="No position lies inside the box"):
        read(rows)
    turned = {"who": [1], "ride": [1], "t": [1], "x": [-3.0], "y": [2.0]}
    below = hz.Grid.plane(x=(0, 8), y=(-8, 0), size=8)
    with pytest.raises(UnreadableData, match="the columns, or the bounds of the box, are probably swapped"):
        read_journeys(turned, below, person="who", trip="ride", time="t")
    with pytest.raises(UnreadableData, match=r"No row fits the row filter \(only\): 'who' is '7'"):
        read(turned, only={"who": 7})


@pytest.mark.parametrize(
    ("column", "values", "sentence"),
    [
        ("who", ["a", None, "a", "b", "b"], "has no person"),
        ("ride", ["1", None, "2", "1", "1"], "has no trip 'ride'"),
        ("t", ["1", "soon", "2", "3", "4"], "neither a time nor a number"),
        ("x", ["1", "west", "2", "3", "4"], "not a number"),
    ],
)
def test_bad_rows_are_refused_with_a_sentence_that_quotes_no_data(column, values, sentence) -> None:
    with pytest.raises(UnreadableData, match=sentence) as error:
        read(ROWS | {column: values})
    assert "soon" not in str(error.value)
    assert "west" not in str(error.value)


def test_units_need_their_columns() -> None:
    with pytest.raises(InvalidInput, match="--person COLUMN"):
        read(ROWS, person=None)
    with pytest.raises(InvalidInput, match="no unit 'day'"):
        read(ROWS, unit="day")
    assert repr(read(ROWS)) == "<Journeys: secret, on 8 × 8 cells, unit person>"


# ── bad input, from the rows to the counts ──────────────────────────────────────────────────────────────────────────

FRAME = Frame(PLANE, 3, 2)
CROWD = {"who": ["b", "b", "c"], "ride": [1, 1, 1], "t": [1, 2, 3], "x": [1.0, 2.0, 3.0], "y": [1.0, 5.0, 3.0]}
MANY = 100_000
STRANGE = {
    "a journey of one position": ([1], [5.0], [4.0]),
    "a journey of 100,000 positions": (np.arange(MANY), np.tile([0.5, 7.5], MANY // 2), np.full(MANY, 4.0)),
    "times that are not sorted": ([9, 1, 5], [7.0, 1.0, 4.0], [7.0, 1.0, 4.0]),
    "equal times": ([3, 3, 3], [7.0, 1.0, 4.0], [7.0, 1.0, 4.0]),
    "jumps across the map": (np.arange(50), np.tile([0.1, 7.9], 25), np.tile([7.9, 0.1], 25)),
    "positions outside the map": ([1, 2, 3], [-99.0, 4.0, 1e300], [4.0, 4.0, 4.0]),
    "times before 1970, and far ahead": ([-1e12, 0, 1e17], [1.0, 4.0, 7.0], [1.0, 4.0, 7.0]),
}


def facts(rows: dict) -> dict[str, np.ndarray]:
    found = count_facts(read(rows), FRAME, hours=True)
    return {name: getattr(found, name).dense() for name in ("visits", "pairs", "shapes", "hours")}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_journeys_follow_a_rule_and_have_no_more_influence_than_others(name: str) -> None:
    times, x, y = STRANGE[name]
    strange = {"who": ["a"] * len(times), "ride": [1] * len(times), "t": times, "x": x, "y": y}
    before, after = facts(CROWD), facts({column: [*CROWD[column], *strange[column]] for column in CROWD})
    for table in before:
        assert 0 < np.abs(after[table] - before[table]).sum() <= MASS, table


def test_two_trips_with_one_id_are_one_journey_and_two_people_with_one_id_are_two() -> None:
    """The rows of both trips are put in the order of time; a pause divides them again."""
    rows = {"who": ["a"] * 4, "ride": [1] * 4, "t": [0, 10, 5000, 5010], "x": [1.0, 2.0, 6.0, 7.0], "y": [1.0] * 4}
    assert points(read(rows)) == [[1.0, 2.0, 6.0, 7.0]]
    assert points(read(rows, pause=600)) == [[1.0, 2.0], [6.0, 7.0]]
    assert points(read(rows | {"who": ["a", "a", "b", "b"]})) == [[1.0, 2.0], [6.0, 7.0]]
    joined = count_facts(read(rows | {"who": ["a", "a", "b", "b"]}, unit="trip", person=None), FRAME)
    assert joined.units == 1
    assert int(joined.pairs.mass.sum()) == MASS


def test_the_time_of_the_first_position_is_that_of_the_journey() -> None:
    assert read(ROWS).begins.tolist() == [1.0, 9.0, 2.0]
    stamps = [f"2024-05-31T0{hour}:59:58" for hour in (5, 1, 9, 2, 2)]
    hours = count_facts(read(ROWS | {"t": stamps}), FRAME, hours=True).hours.dense().ravel()
    assert np.flatnonzero(hours).tolist() == [1, 2, 9]
    assert hours[2] == MASS
    with pytest.raises(InvalidInput, match="one finite time"):
        dataclasses.replace(read(ROWS), begins=np.array([1.0, np.nan, 2.0]))


def test_an_error_about_a_data_frame_has_no_rows() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS | {"x": [3.0625] * 5})
    twice = pandas.concat([frame, frame[["who"]]], axis=1)
    for refused in (lambda: read(twice), lambda: hz.count(twice, PLANE, person="who")):
        with pytest.raises(UnreadableData, match=r"^The table has several columns 'who'; rename all but one\.$"):
            refused()


def test_times_of_every_unit_are_read_and_none_is_quoted() -> None:
    arrow = pytest.importorskip("pyarrow")
    late, early = 1_717_158_600_123_456_789, 1_717_158_600_123_450_001
    nanoseconds = arrow.array([late, early], arrow.int64()).cast(arrow.timestamp("ns"))
    seconds = arrow.array([2**60, 7], arrow.int64()).cast(arrow.timestamp("s"))
    base = {"who": [1, 1], "ride": [1, 1], "x": [1.0, 7.0], "y": [1.0, 7.0]}
    for column in (nanoseconds, nanoseconds.dictionary_encode(), seconds):
        assert points(read(arrow.table({**base, "t": column}))) == [[7.0, 1.0]]
    for column in (arrow.array([1, 2], arrow.time64("us")), arrow.array([1, 2], arrow.duration("s"))):
        with pytest.raises(UnreadableData, match="neither a time nor a number"):
            read(arrow.table({**base, "t": column}))
    with pytest.raises(UnreadableData):
        read({**base, "t": [[1], [2, 3]]})
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UnreadableData):
        read(pandas.DataFrame(base).assign(t=pandas.PeriodIndex(["2024-01", "2024-02"], freq="M")))


def test_a_time_with_a_zone_counts_in_utc_on_every_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    monkeypatch.setenv("TZ", "America/New_York")
    tzset()
    try:
        moment = arrow.array([1_717_158_600_250_000], arrow.int64()).cast(arrow.timestamp("us", tz="Europe/Berlin"))
        table = arrow.table({"who": [1], "ride": [1], "x": [1.0], "y": [1.0], "t": moment})
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
        for source in (tmp_path / "a.parquet", table):
            assert read(source).begins.tolist() == [1_717_158_600.25]
    finally:
        monkeypatch.undo()
        tzset()


def test_an_offset_in_text_counts_and_the_name_of_a_zone_is_refused(tmp_path: Path) -> None:
    noon = 1_717_156_800.0  # 2024-05-31T12:00:00Z
    for text in (
        "2024-05-31T12:00:00Z", "2024-05-31T14:00:00+02:00", "2024-05-31 07:00:00.000-0500",
        "2024-05-31 17:30:00+05:30", "2024-05-31 12:00 UTC", "2024-05-31T14:00+02", "2024-05-31T12:00:00", "1717156800",
    ):  # fmt: skip
        (tmp_path / "a.csv").write_text(f"who,ride,t,x,y\n1,1,{text},1,1\n")
        assert read(tmp_path / "a.csv").begins.tolist() == [noon], text
    for text in ("2024-05-31 12:00:00 America/New_York", "epoch", "infinity", "12:00:00"):
        (tmp_path / "a.csv").write_text(f"who,ride,t,x,y\n1,1,{text},1,1\n")
        with pytest.raises(UnreadableData, match="neither a time nor a number"):
            read(tmp_path / "a.csv")


def nanoseconds_in_a_list() -> list:
    return [np.datetime64(1_717_158_600_123_456_000 + 10**9 * k, "ns") for k in range(4)]


@pytest.mark.parametrize(
    "odd", ["2024-05-31", datetime.date(2024, 5, 31), np.datetime64(1, "as"), np.datetime64("2024-05-31")]
)
def test_the_time_of_one_person_never_changes_how_the_times_of_others_are_read(odd: object) -> None:
    pandas = pytest.importorskip("pandas")
    rows = {"who": ["a", "a", "b", "b"], "t": nanoseconds_in_a_list(), "x": [1.0, 2, 3, 4], "y": [1.0, 2, 3, 4]}
    zoned = pandas.to_datetime(rows["t"]).tz_localize("America/New_York")
    for times in (rows["t"], list(zoned)):
        alone = read_journeys({**rows, "t": times}, PLANE, person="who", pause=60, time="t")
        more = {name: [*column, value] for (name, column), value in zip(
            {**rows, "t": times}.items(), ("z", odd, 5.0, 5.0), strict=True
        )}  # fmt: skip
        found = read_journeys(more, PLANE, person="who", pause=60, time="t")
        assert points(alone) == points(found)[:2] == [[1.0, 2.0], [3.0, 4.0]]
        assert alone.begins.tolist() == found.begins.tolist()[:2]
    # pandas makes one column of objects of times with a zone and anything else.
    typed = read_journeys(pandas.DataFrame({**rows, "t": zoned}), PLANE, person="who", pause=60, time="t")
    assert typed.begins.tolist() == alone.begins.tolist()


def test_a_masked_time_is_missing() -> None:
    times = np.ma.MaskedArray(np.array(nanoseconds_in_a_list()), mask=[0, 0, 0, 1])
    with pytest.raises(UnreadableData, match="neither a time nor a number"):
        read({"who": [1] * 4, "ride": [1] * 4, "t": times, "x": [1.0] * 4, "y": [1.0] * 4})


def test_ids_of_trips_are_of_one_kind() -> None:
    for ride in ([1, 1, "1", 1, 1], [1.5, 1, 2, 1, 1], [float("nan"), 1, 2, 1, 1]):
        with pytest.raises(UnreadableData, match="mixes kinds of ids"):
            read(ROWS | {"ride": ride})


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"owner": np.array([0.0, 1.0])}, "whole numbers from 0"),
        ({"owner": np.array([0, 5 * 10**9])}, "whole numbers from 0"),
        ({"owner": ["alice", "bob"]}, "whole numbers from 0"),
        ({"owner": np.array([-1, 0])}, "whole numbers from 0"),
        ({"owner": np.array([[0, 1]])}, "one owner"),
        ({"lines": None}, "The journeys"),
        ({"unit": Unit.VISIT}, "a person or a trip"),
        ({"begins": np.array(["noon", "night"])}, "one finite time"),
        ({"begins": np.array([0.0, np.inf])}, "one finite time"),
    ],
)
def test_journeys_that_do_not_fit_together_are_a_sentence_without_values(changed: dict, match: str) -> None:
    lines = hz.trajectories.Lines.from_points([[(1, 1)], [(2, 2)]])
    given = {"grid": PLANE, "lines": lines, "owner": [0, 1], "unit": Unit.PERSON, "begins": [0, 1]}
    assert Journeys(**given).units == 2
    with pytest.raises(InvalidInput, match=match) as refused:
        Journeys(**given | changed)
    assert not any(value in str(refused.value) for value in ("alice", "noon", "5000000000"))


def test_positions_outside_are_kept_if_asked_for() -> None:
    away = ROWS | {"x": [3.0, 1.0, 50.0, float("nan"), float("inf")]}
    assert points(read(away)) == [[1.0, 3.0]]
    assert points(read(away, outside=True)) == [[1.0, 3.0], [50.0]]
    assert points(read(ROWS | {"x": [3.0, 1.0, 5.0, -60.0, 1e308]}, outside=True))[2] == [-60.0, 1e308]
