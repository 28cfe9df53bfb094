"""Days of visits: formats of times, epochs, and zones whose clocks change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.count import count
from heathaze.ingest.times import Clock

GRID = Grid.plane(x=(0, 1), y=(0, 1), size=1)
ZONES = ["Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "Africa/Monrovia", "UTC"]


def days(times: Any, **options: Any) -> int:
    """How many days one person has; each counts once."""
    n = len(times)
    table = {"who": ["a"] * n, "x": [0.5] * n, "y": [0.5] * n, "t": times}
    options = {"person": "who", "unit": "person-day", "time": "t", "mass": 1} | options
    return int(count(table, GRID, **options).mass.sum())


@settings(max_examples=12)
@given(
    st.sampled_from(ZONES),
    st.lists(st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2099, 12, 30)), min_size=1, max_size=20),
)
def test_the_day_of_an_instant_in_a_zone(zone: str, moments: list[dt.datetime]) -> None:
    instants = [moment.replace(microsecond=0, tzinfo=dt.UTC) for moment in moments]
    right = [instant.astimezone(ZoneInfo(zone)).date().toordinal() - 719163 for instant in instants]
    seconds = np.array([int(instant.timestamp()) for instant in instants])
    assert Clock("seconds", zone).local_days(seconds).tolist() == right
    expected = len(set(right))
    assert days(seconds, time_format="seconds", time_zone=zone) == expected
    assert days([f"{second}999" for second in seconds], time_format="milliseconds", time_zone=zone) == expected
    assert days([instant.isoformat() for instant in instants], time_zone=zone) == expected
    written = [instant.strftime("%d/%m/%Y %I.%M.%S%p%z") for instant in instants]
    assert days(written, time_format="%d/%m/%Y %I.%M.%S%p%z", time_zone=zone) == expected


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_local_time_belongs_to_its_written_day_where_clocks_change(zone: str | None) -> None:
    """On 2024-03-31 in Berlin there was no 02:30, and on 2024-10-27 it occurred twice: the date is written."""
    for day in ("31.03.2024", "27.10.2024"):
        times = [f"{day} {clock}" for clock in ("00:00", "02:30", "02:59", "03:00", "23:59")]
        assert days(times, time_format="%d.%m.%Y %H:%M", time_zone=zone) == 1
    assert days(["2024-03-31 02:30", "2024-03-31"], time_zone=zone) == 1


def test_typed_times_in_a_zone(tmp_path: Path) -> None:
    """23:30 and 01:30 in New York are the same day in UTC, and two days there."""
    instants = [dt.datetime(2024, 5, 1, 3, 30, tzinfo=dt.UTC), dt.datetime(2024, 5, 1, 5, 30, tzinfo=dt.UTC)]
    frame = pd.DataFrame({"who": ["a", "a"], "x": [0.5, 0.5], "y": [0.5, 0.5], "t": instants})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "v.parquet")
    naive = frame.assign(t=frame.t.dt.tz_localize(None))
    options: dict[str, Any] = {"person": "who", "unit": "person-day", "time": "t", "mass": 1}
    for source in (frame, pa.Table.from_pandas(frame), tmp_path / "v.parquet"):
        assert count(source, GRID, **options).mass.sum() == 1
        assert count(source, GRID, **options, time_zone="America/New_York").mass.sum() == 2
    for source in (naive, pa.Table.from_pandas(naive)):  # a time without a zone keeps its date
        assert count(source, GRID, **options, time_zone="America/New_York").mass.sum() == 1


@pytest.mark.parametrize(
    ("texts", "form", "expected"),
    [
        (["7.4.2012 1:42", "07.04.2012 23:59"], "%d.%m.%Y %H:%M", 1),
        (["4/7/2012 12:10:00 AM", "4/7/2012 12:10:00 PM"], "%m/%d/%Y %I:%M:%S %p", 1),
        (["070412", "080412", "080469"], "%d%m%y", 3),
        (["20120407T235900+0100", "20120407T235900-0100"], "%Y%m%dT%H%M%S%z", 2),
    ],
)
def test_formats(texts: list[str], form: str, expected: int) -> None:
    assert days(texts, time_format=form) == expected


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2012-04-07", "%d.%m.%Y"),
        ("31.02.2012", "%d.%m.%Y"),
        ("07.04.2012 24:00", "%d.%m.%Y %H:%M"),
        ("07.04.2012 13:00 PM", "%d.%m.%Y %I:%M %p"),
        ("07x04x2012", "%d.%m.%Y"),
        ("07.04.2012\n", "%d.%m.%Y"),
        ("1e9", "seconds"),
        ("99999999999999999", "seconds"),
        ("yesterday", "iso"),
    ],
)
def test_what_is_not_a_time(text: str, form: str) -> None:
    with pytest.raises(UnreadableData, match="Column 't' holds a value that is not"):
        days([text], time_format=form)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time_format": "%d.%m"}, "gives no date"),
        ({"time_format": "%Q"}, "unknown or repeated parts"),
        ({"time_format": "%Y-%m-%d'"}, "other signs"),
        ({"time_format": "%Y-%m-%d %I"}, "needs %p"),
        ({"time_zone": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis'"),
        ({"time_zone": "../etc/passwd"}, "no time zone"),
    ],
)
def test_formats_and_zones_that_there_are_not(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        days(["2024-05-01"], **options)


def test_numbers_need_to_be_declared_as_times() -> None:
    with pytest.raises(
        UnreadableData, match=r"Column 't' holds whole numbers; a time must be .* time_format='seconds'"
    ):
        days(np.array([1333834200]))


def test_a_missing_time_has_no_day() -> None:
    with pytest.raises(UnreadableData, match="A visit has no person 'who' or time 't'"):
        days(np.array([1.0, np.nan]), time_format="seconds")
