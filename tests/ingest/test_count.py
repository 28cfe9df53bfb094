"""count on DuckDB: by hand, against plain Python, and on neighbours."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heathaze.ingest.count as module
import heathaze.ingest.engines.duckdb as duckdb_engine
from heathaze.domain.grid import Grid
from heathaze.errors import SensitivityExceeded
from heathaze.ingest.count import count
from heathaze.privacy.guarantee import Unit

LINE = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
NAMES = st.sampled_from(["anna", "Zoë", "山田", "a|b", "O'Neil", '"quoted"', "-- x", "😀", " anna", "ANNA"])


def visits(*rows: tuple[Any, float]) -> dict[str, np.ndarray]:
    who, xs = zip(*rows, strict=True)
    return {"who": np.array(who), "x": np.array(xs, dtype=float), "y": np.full(len(rows), 0.5)}


# ── by hand ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_shares_of_a_person_are_floors_of_the_mass() -> None:
    counts = count(visits((1, 0.5), (1, 0.6), (1, 1.5), (2, 1.5)), LINE, person="who", mass=100)
    # person 1: ⌊100·2/3⌋ = 66 and ⌊100·1/3⌋ = 33; person 2: 100
    assert counts.dense().tolist() == [[66, 133, 0, 0]]
    assert (counts.bound, counts.one, counts.unit, counts.weight, counts.at_most) == (
        100,
        100,
        Unit.PERSON,
        "share",
        None,
    )


def test_the_mass_is_two_to_the_twenty_unless_said_otherwise() -> None:
    counts = count(visits((1, 0.5)), LINE, person="who")
    assert counts.mass.tolist() == [2**20]
    assert counts.bound == counts.one == 2**20


def test_presence_is_one_in_each_distinct_cell() -> None:
    counts = count(visits((1, 0.5), (1, 0.6), (1, 1.5), (2, 1.5)), LINE, person="who", weight="presence", at_most=2)
    assert counts.dense().tolist() == [[1, 2, 0, 0]]
    assert (counts.bound, counts.one, counts.at_most) == (2, 1, 2)


def test_each_row_is_a_unit_without_persons() -> None:
    table = visits((1, 0.5), (1, 0.6), (1, 1.5), (2, 1.5))
    for options in ({"person": None}, {"person": "who", "unit": "visit"}, {"person": None, "unit": Unit.VISIT}):
        counts = count(table, LINE, mass=7, **options)
        assert counts.dense().tolist() == [[14, 14, 0, 0]]
        assert (counts.bound, counts.one, counts.unit) == (7, 7, Unit.VISIT)
    counts = count(table, LINE, person=None, weight="presence")
    assert counts.dense().tolist() == [[2, 2, 0, 0]]
    assert (counts.bound, counts.one) == (1, 1)


def test_days_of_a_person_are_units_of_their_own() -> None:
    table = {
        **visits((1, 0.5), (1, 1.5), (1, 2.5)),
        "t": np.array(["2024-03-01T23:30", "2024-03-02T00:30", "2024-03-02T23:59:59"], dtype="M8[ns]"),
    }
    counts = count(table, LINE, person="who", unit="person-day", time="t", mass=10)
    assert counts.dense().tolist() == [[10, 5, 5, 0]]
    assert counts.unit is Unit.PERSON_DAY


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2024-03-01", "2024-03-01T23:59:59.999Z", True),
        ("2024-03-01", "2024-03-02", False),
        ("2024-03-01 22:30-02:00", "2024-03-02T00:10", True),
        ("2024-03-01T00:30+0100", "2024-02-29", True),
        ("2023-12-31T23:30:00-00:30", "2024-01-01T00:00:00+00:00", True),
        ("2024-03-01T00:30+01:00", "2024-03-01T00:30+00:30", False),
    ],
)
def test_the_day_of_a_text_is_that_of_utc(first: str, second: str, same: bool) -> None:
    table = {**visits((1, 0.5), (1, 1.5)), "t": np.array([first, second], dtype=object)}
    counts = count(table, LINE, person="who", unit="person-day", time="t", mass=10)
    assert counts.dense().tolist() == [[5, 5, 0, 0] if same else [10, 10, 0, 0]]


def test_instants_and_wall_clocks_fall_on_their_utc_day() -> None:
    zoned = pa.array([1_709_335_800_000_000, 1_709_335_800_000_000 + 3_600_000_000], pa.timestamp("us", "America/Lima"))
    # 2024-03-01 23:30 and 2024-03-02 00:30 in UTC, one evening in Lima
    table = pa.table({"who": [1, 1], "x": [0.5, 1.5], "y": [0.5, 0.5], "t": zoned})
    for column in (zoned, zoned.cast(pa.timestamp("us")), zoned.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)):
        counts = count(table.set_column(3, "t", column), LINE, person="who", unit="person-day", time="t", mass=10)
        assert counts.dense().tolist() == [[10, 10, 0, 0]]


def test_what_lies_outside_or_nowhere_is_absent() -> None:
    rows = [(1, 0.5), (1, -0.1), (1, 4.1), (1, math.nan), (1, math.inf), (1, -math.inf), (2, 9.0)]
    assert count(visits(*rows), LINE, person="who", mass=10).dense().tolist() == [[10, 0, 0, 0]]


def test_the_box_is_closed_and_cells_own_their_lower_border() -> None:
    counts = count(visits((1, 0.0), (2, 1.0), (3, 4.0)), LINE, person="who", mass=1)
    assert counts.dense().tolist() == [[1, 1, 0, 1]]


def test_row_zero_is_north_on_the_globe_and_smallest_y_on_a_plane() -> None:
    globe = Grid.over(lon=(0, 1), lat=(0, 2), shape=(2, 1))
    plane = Grid.plane(x=(0, 1), y=(0, 2), shape=(2, 1))
    one = np.array([0.5])
    assert count({"lon": one, "lat": one + 1}, globe, person=None, mass=1).dense().tolist() == [[1], [0]]
    assert count({"x": one, "y": one + 1}, plane, person=None, mass=1).dense().tolist() == [[0], [1]]


def test_at_most_keeps_that_many_cells_and_the_whole_mass() -> None:
    xs = (np.arange(100) + 0.5) / 25
    grid = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 100))
    table = {"who": np.zeros(100, dtype=int), "x": xs, "y": np.full(100, 0.5)}
    counts = count(table, grid, person="who", at_most=8, mass=80)
    assert counts.mass.tolist() == [10] * 8
    present = count(table, grid, person="who", at_most=8, weight="presence")
    assert present.codes.tolist() == counts.codes.tolist()
    assert present.mass.tolist() == [1] * 8


def test_the_cells_kept_are_even_over_cells_and_differ_between_people(tools: Any) -> None:
    # 4,000 people in the same 40 cells, 10 kept: each cell is kept by a quarter, alike for all cells.
    people, cells, k = 4000, 40, 10
    kept = Counter()
    pairs = Counter()
    for unit in range(people):
        chosen = list(tools.kept(unit, Counter(dict.fromkeys(range(1000, 1000 + cells), 1)), k))
        kept.update(chosen)
        pairs[1000 in chosen, 1001 in chosen] += 1
    assert sum(kept.values()) > 0.999 * people * k
    expected = people * k / cells
    # Σ (O − E)²/E, scaled for drawing without replacement, is χ² with 39 degrees; its 1 − 1e-6 point is 103.
    statistic = sum((kept[cell] - expected) ** 2 for cell in range(1000, 1000 + cells)) / expected
    assert statistic / (1 - k / cells) * (cells - 1) / cells < 103
    # neighbours are kept together as often as chance has it: P = (10·9)/(40·39), within 5 standard deviations
    together = k * (k - 1) / (cells * (cells - 1))
    assert abs(pairs[True, True] - people * together) < 5 * math.sqrt(people * together)


def test_a_unit_that_weighs_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    original = module._sql
    monkeypatch.setattr(module, "_sql", lambda name: original(name).replace("% whole) / whole", "% whole) / part"))
    with pytest.raises(SensitivityExceeded, match="more than the bound 100"):
        count(visits((1, 0.5), (1, 1.5)), LINE, person="who", mass=100)


@pytest.mark.parametrize(("weight", "at_most"), [("share", None), ("share", 20), ("presence", 3)])
def test_units_counted_part_by_part_weigh_the_same(
    weight: str, at_most: int | None, monkeypatch: pytest.MonkeyPatch, tools: Any
) -> None:
    rng = np.random.default_rng(6)
    table = {"who": rng.integers(0, 40, 3000), "x": rng.uniform(0, 4, 3000), "y": rng.uniform(0, 1, 3000)}
    named = table | {"who": np.array([f"person {number}" for number in table["who"]])}
    grid = Grid.plane(x=(0, 4), y=(0, 1), shape=(30, 30))
    for each in (table, named):
        whole = count(each, grid, person="who", weight=weight, at_most=at_most)
        with monkeypatch.context() as patched:
            patched.setattr(duckdb_engine, "ROWS_A_PART", 500)
            assert tools.as_cells(count(each, grid, person="who", weight=weight, at_most=at_most)) == (
                tools.as_cells(whole)
            )


def test_visits_without_a_cell_are_added_up_over_the_parts() -> None:
    cells = np.array([3, module.NO_CELL, module.HEAVIEST_UNIT])
    parts = [{"cell": cells, "mass": np.array(mass)} for mass in ([7, 5, 10], [8, 5, 10])]
    found, masses = module._added_up(parts, bound=10)
    assert (found.tolist(), masses.tolist()) == ([3], [15])
    with pytest.raises(SensitivityExceeded):
        module._added_up([*parts, {"cell": cells[1:2], "mass": np.array([1])}], bound=10)
    with pytest.raises(SensitivityExceeded):
        module._added_up([*parts, {"cell": cells[2:], "mass": np.array([11])}], bound=10)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_large_files_are_kept_on_the_disk_and_weigh_the_same(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Any
) -> None:
    rng = np.random.default_rng(8)
    table = {"who": rng.integers(0, 40, 3000), "x": rng.uniform(0, 4, 3000), "y": rng.uniform(0, 1, 3000)}
    path = tmp_path / f"visits.{ending}"
    (pq.write_table if ending == "parquet" else pa_csv.write_csv)(pa.table(table), path)
    grid = Grid.plane(x=(0, 4), y=(0, 1), shape=(30, 30))
    kept: list[str] = []
    execute = duckdb_engine.DuckDB._execute
    monkeypatch.setattr(duckdb_engine, "LARGE", 0)
    monkeypatch.setattr(
        duckdb_engine.DuckDB, "_execute", lambda engine, sql: kept.append(sql.split(" as ")[0]) or execute(engine, sql)
    )
    assert tools.as_cells(count(path, grid, person="who", at_most=20)) == (
        tools.as_cells(count(table, grid, person="who", at_most=20))
    )
    assert "create table heathaze_raw" in kept
    monkeypatch.setattr(duckdb_engine, "ROOM", 2**60)  # no disk has so much room
    kept.clear()
    count(path, grid, person="who", at_most=20)
    assert "create temporary table heathaze_raw" in kept


def test_a_count_that_exceeds_its_memory_uses_more(monkeypatch: pytest.MonkeyPatch, tools: Any) -> None:
    rng = np.random.default_rng(7)
    table = {"who": rng.permutation(200_000), "x": rng.uniform(0, 4, 200_000), "y": rng.uniform(0, 1, 200_000)}
    grid = Grid.plane(x=(0, 4), y=(0, 1), shape=(30, 30))
    whole = count(table, grid, person="who")
    monkeypatch.setattr(duckdb_engine, "MEGABYTES_A_THREAD", 1)
    assert tools.as_cells(count(table, grid, person="who")) == tools.as_cells(whole)


def test_the_same_rows_in_another_order_count_the_same(tools: Any) -> None:
    rng = np.random.default_rng(5)
    table = {"who": rng.integers(0, 40, 3000), "x": rng.uniform(0, 4, 3000), "y": rng.uniform(0, 1, 3000)}
    grid = Grid.plane(x=(0, 4), y=(0, 1), shape=(30, 30))
    order = rng.permutation(3000)
    shuffled = {name: column[order] for name, column in table.items()}
    first, second = (count(each, grid, person="who", at_most=20) for each in (table, shuffled))
    assert tools.as_cells(first) == tools.as_cells(second)


# ── against plain Python ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["globe", "mercator", "plane", "huge"])
@pytest.mark.parametrize(("weight", "at_most"), [("share", None), ("share", 3), ("presence", 2)])
def test_duckdb_counts_as_plain_python_does(name: str, weight: str, at_most: int | None, tools: Any) -> None:
    grid = tools.grids[name]

    @settings(max_examples=15, deadline=None, database=None)
    @given(tools.visits_on(grid, NAMES), st.sampled_from([1, 100, 2**20, 2**30]))
    def check(rows: list[tuple[str, float | None, float | None]], mass: int) -> None:
        counts = count(
            tools.table(rows, grid, pa.string()), grid, person="who", weight=weight, at_most=at_most, mass=mass
        )
        expected = tools.plain_count(grid, *zip(*rows, strict=True), weight=weight, at_most=at_most, mass=mass)
        assert tools.as_cells(counts) == expected

    check()


@settings(max_examples=25, deadline=None, database=None)
@given(st.data())
def test_adding_or_removing_one_unit_changes_the_counts_by_at_most_the_bound(tools: Any, data: st.DataObject) -> None:
    grid = tools.grids["globe"]
    weight, at_most = data.draw(st.sampled_from([("share", None), ("share", 2), ("presence", 3)]))
    rows = data.draw(tools.visits_on(grid, st.integers(0, 3)))
    stay = [(9, -74.0, -40.7), *[row for row in rows if row[0] != 0]]

    def counted(visits: list[tuple[Any, ...]]) -> tuple[dict[int, int], int]:
        table = tools.table(visits, grid, pa.int64())
        counts = count(table, grid, person="who", weight=weight, at_most=at_most, mass=1000)
        return tools.as_cells(counts), counts.bound

    (with_them, bound), (without, _) = counted([(9, -74.0, -40.7), *rows]), counted(stay)
    cells = with_them.keys() | without.keys()
    assert sum(abs(with_them.get(cell, 0) - without.get(cell, 0)) for cell in cells) <= bound
