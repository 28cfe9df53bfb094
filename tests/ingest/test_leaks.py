"""Ways in which one person's rows once changed what others counted, each by itself, on both engines.

Every case gives the visits with and without one person. Either both engines refuse the table in a sentence, or the
counts of both change by exactly what that person weighs alone: at most the bound, and nobody else changes.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.ingest.count import count
from heathaze.ingest.positions import positions

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("plain_plans"),
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

LINE = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
ENGINES = ("duckdb", "spark")
NAN = float("nan")

Rows = list[tuple[Any, float, float]]
Writer = Callable[[Path, Rows], Any]


def counted(tools: Any, source: Any, engine: str, **options: Any) -> dict[int, int] | str:
    """Mass by cell, or the sentence of a refusal."""
    options.setdefault("person", "u")
    grid = options.pop("grid", LINE)
    try:
        return tools.as_cells(count(source, grid, engine=engine, mass=12, **options))
    except UnreadableData as refusal:
        sentence = str(refusal)
    return (
        {}
        if "lies inside the box" in sentence or "No row fits" in sentence or "not a single row" in sentence
        else sentence
    )


def change(first: dict[int, int], second: dict[int, int]) -> int:
    return sum(abs(first.get(cell, 0) - second.get(cell, 0)) for cell in first.keys() | second.keys())


def parquet(folder: Path, rows: Rows, **options: Any) -> str:
    folder.mkdir(parents=True)
    who, xs, ys = zip(*rows, strict=True)
    pq.write_table(pa.table({"u": pa.array(who), "x": xs, "y": ys}), folder / "v.parquet", **options)
    return str(folder / "v.parquet")


def csv(folder: Path, rows: Rows) -> str:
    folder.mkdir(parents=True)
    lines = [f"{who},{x},{y},hi\n" for who, x, y in rows]
    (folder / "v.csv").write_text("u,x,y,note\n" + "".join(lines))
    return str(folder / "v.csv")


def jsonl(folder: Path, rows: Rows) -> str:
    folder.mkdir(parents=True)
    lines = [json.dumps({"u": who, "x": x, "y": y}) for who, x, y in rows]
    (folder / "v.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder / "v.jsonl")


# ── 1: NaN and the statistics of Parquet ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("engine", "unit", "hole"),
    [
        *(("duckdb", unit, hole) for unit in ("person", "visit") for hole in ((NAN, NAN), (NAN, 0.5), (1.5, NAN))),
        ("spark", "person", (NAN, NAN)),
    ],
)
def test_somebody_outside_does_not_bring_others_without_a_position_in(
    spark: Any, tools: Any, tmp_path: Path, engine: str, unit: str, hole: tuple[float, float]
) -> None:
    rows = [row for who in range(50) for row in ((who, who % 4 + 0.5, who % 7 / 7), (who, *hole))]
    with_them, without = (
        counted(tools, parquet(tmp_path / name, each), engine, unit=unit)
        for name, each in (("with", [*rows, (99, 99.0, -3.0)]), ("without", rows))
    )
    right = tools.plain_count(LINE, range(50), *zip(*[row[1:] for row in rows[::2]], strict=True), mass=12)
    assert with_them == right
    assert without == right


# ── 2 and 3: folders named like columns ─────────────────────────────────────────────────────────────────────────────

ROWS: Rows = [("a", 0.5, 0.5), ("a", 1.5, 0.5), ("b", 1.5, 0.25), ("c", 2.5, 0.75)]
NAMES = ("u=7", "x=3.5", "u=7/x=3.5", "r0=3.5", "r1=3.5", "c0=1", "flaw=1", "unit=7")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("write", [jsonl, csv, parquet])
def test_names_of_folders_say_nothing_about_visits(
    spark: Any, tools: Any, tmp_path: Path, engine: str, write: Writer
) -> None:
    right = tools.plain_count(LINE, *zip(*ROWS, strict=True), mass=12)
    # Spark takes longer, and its faults do not depend on the name: one path with the names of two columns
    for name in NAMES if engine == "duckdb" else NAMES[2:3]:
        assert counted(tools, write(tmp_path / name, ROWS), engine) == right, name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", [jsonl, csv, parquet])
def test_names_of_folders_say_nothing_about_positions(tmp_path: Path, name: str, write: Writer) -> None:
    path = write(tmp_path / name, ROWS)
    assert sorted(map(tuple, positions(path, LINE, person=None).tolist())) == sorted((x, y) for _, x, y in ROWS)
    assert len(positions(path, LINE, person="u")) == 3


# ── 5 and 8: quotation marks in CSV ─────────────────────────────────────────────────────────────────────────────────


def assert_refused_or_additive(tools: Any, header: str, lines: dict[str, list[tuple[int, str]]], folder: Path) -> None:
    """Lines of each person with their places in the file: all are refused on both engines, or the sum holds on both."""

    def file(name: str, people: Any) -> str:
        chosen = sorted(line for person in people for line in lines[person])
        (folder / name).write_text(header + "".join(text for _, text in chosen))
        return str(folder / name)

    path = file("all.csv", lines)
    everybody = {engine: counted(tools, path, engine) for engine in ENGINES}
    if all(isinstance(found, str) for found in everybody.values()):
        return
    assert everybody["duckdb"] == everybody["spark"]
    for engine in ENGINES:
        total: Counter[int] = Counter()
        for number, person in enumerate(lines):
            alone = counted(tools, file(f"{number}.csv", [person]), engine)
            assert isinstance(alone, dict), f"{person} alone is refused, and not among others"
            assert sum(alone.values()) <= 12
            total.update(alone)
        assert dict(total) == everybody[engine]


def test_a_quoted_line_break_forges_nobodys_rows(spark: Any, tools: Any, tmp_path: Path) -> None:
    lines = {
        "bob": [(0, "bob,0.5,0.5,hi\n")],
        "alice": [(1, 'alice,1.5,0.5,"hello\nbob,3.5,0.5,x"\n')],
    }
    assert_refused_or_additive(tools, "u,x,y,note\n", lines, tmp_path)


def test_one_person_cannot_forge_rows_of_fifty(spark: Any, tools: Any, tmp_path: Path) -> None:
    note = "".join(f"\np{who},3.5,0.5,x" for who in range(50))
    for name, rest in (("with", f'eve,1.5,0.5,"hello{note}"\n'), ("without", "")):
        honest = "".join(f"p{who},{who % 3}.5,0.5,hi\n" for who in range(50))
        (tmp_path / f"{name}.csv").write_text(f"u,x,y,note\n{honest}{rest}")
    found = {
        engine: [counted(tools, tmp_path / f"{name}.csv", engine) for name in ("with", "without")] for engine in ENGINES
    }
    assert found["duckdb"][1] == found["spark"][1]
    with_them = [pair[0] for pair in found.values()]
    if not all(isinstance(each, str) for each in with_them):
        for pair in found.values():
            assert change(*pair) <= 12


@pytest.mark.parametrize(
    ("opening", "closing"), [('"hi', 'x"'), ('5" pipe', '7" pipe'), ('"', '"'), ("''", '"'), ('"hi"x', "x")]
)
def test_a_stray_quotation_mark_swallows_nobodys_rows(
    spark: Any, tools: Any, tmp_path: Path, opening: str, closing: str
) -> None:
    lines = {f"p{who}": [(who + 1, f"p{who},{who % 4}.5,0.5,hi\n")] for who in range(3)}
    lines["eve"] = [(0, f"eve,0.5,0.5,{opening}\n"), (99, f"eve,1.5,0.5,{closing}\n")]
    assert_refused_or_additive(tools, "u,x,y,note\n", lines, tmp_path)


# ── 6: folders named after people ───────────────────────────────────────────────────────────────────────────────────


def by_person(root: Path, rows: dict[str, float], inside: bool) -> str:
    for name, x in rows.items():
        (root / f"u={name}").mkdir(parents=True)
        columns = {"x": [x], "y": [0.5], **({"u": [f"{name}!"]} if inside else {})}
        pq.write_table(pa.table(columns), root / f"u={name}" / "part.parquet")
    return str(root)


@pytest.mark.parametrize("inside", [True, False])
def test_folders_of_people_merge_nobody(spark: Any, tools: Any, tmp_path: Path, inside: bool) -> None:
    rows = {"1": 0.5, "01": 1.5, "1.0": 2.5}
    sets = {"without": rows, "with": {**rows, "alice": 3.5}, **{name: {name: x} for name, x in rows.items()}}
    for engine in ENGINES:
        found = {}
        for name, people in sets.items():
            root = by_person(tmp_path / engine / f"{name}.parquet", people, inside)
            source = Path(root).as_uri() if engine == "spark" else f"{root}/*/part.parquet"
            found[name] = counted(tools, source, engine)
        if not inside:
            # whoever is named by a folder alone is named nowhere
            assert all(isinstance(each, str) for each in found.values()), engine
        else:
            assert found["without"] == {0: 12, 1: 12, 2: 12}, engine
            assert found["with"] == {0: 12, 1: 12, 2: 12, 3: 12}, engine


# ── 7: ids of several kinds in one list ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ids", [[1, "1"], [True, 1], [1, 1.0], ["1", b"1"], [0, False], ["a", 1], [1, None, "1"]])
@pytest.mark.parametrize("engine", ENGINES)
def test_ids_of_several_kinds_in_a_list_are_refused(spark: Any, tools: Any, engine: str, ids: list[Any]) -> None:
    n = len(ids)
    found = counted(tools, {"u": ids, "x": [0.5, 1.5, 2.5][:n], "y": [0.5] * n}, engine)
    assert isinstance(found, str)


@pytest.mark.parametrize("ids", [["a", "a\0"], ["a\0", "a\0\0"], [2**53, 2**53 + 1], [2**63, 2**63 - 1], [1, 2**64]])
@pytest.mark.parametrize("engine", ENGINES)
def test_ids_in_a_list_stay_as_they_are(spark: Any, tools: Any, engine: str, ids: list[Any]) -> None:
    source = {"u": [ids[0], ids[0], ids[1]], "x": [0.5, 1.5, 1.5], "y": [0.5, 0.5, 0.5]}
    found = counted(tools, source, engine)
    # two people: one in two cells, one in one; a refusal is no leak
    assert isinstance(found, str) or found == {0: 6, 1: 18}


# ── 9: names of columns that differ in case ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("person", ["u", "U", "u_1"])
@pytest.mark.parametrize("write", ["parquet", "csv", "jsonl", "arrow", "dict"])
def test_columns_that_differ_in_case_are_refused(
    spark: Any, tools: Any, tmp_path: Path, engine: str, person: str, write: str
) -> None:
    columns: dict[str, list[Any]] = {"U": ["z"] * 3, "u": ["a", "b", "c"], "u_1": ["p", "p", "q"]}
    columns |= {"x": [0.5, 1.5, 2.5], "y": [0.5] * 3}
    source: Any = tmp_path / f"v.{write}"
    if write == "parquet":
        pq.write_table(pa.table(columns), source)
    elif write == "csv":
        rows = zip(*columns.values(), strict=True)
        source.write_text("\n".join(",".join(map(str, row)) for row in (columns, *rows)) + "\n")
    elif write == "jsonl":
        source.write_text(
            "".join(
                json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
            )
        )
    else:
        source = pa.table(columns) if write == "arrow" else {name: np.array(value) for name, value in columns.items()}
    assert isinstance(counted(tools, source, engine, person=person), str)


# ── 10: statistics that are wrong ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lie", [(100.0, 101.0), (1.25, 1.75)])
@pytest.mark.parametrize("page_index", [True, False])
def test_statistics_that_are_wrong_change_nothing(
    spark: Any, tools: Any, tmp_path: Path, engine: str, lie: tuple[float, float], page_index: bool
) -> None:
    rows: Rows = [("a", 0.5, 0.5), ("a", 3.5, 0.25), ("b", 1.5, 0.75), ("c", 9.0, 0.5), ("c", NAN, 0.5)]
    path = Path(parquet(tmp_path / "v", rows, use_dictionary=False, write_page_index=page_index))
    data = path.read_bytes()
    # behind the pages stand the indexes and the footer; the values themselves stand before
    column = pq.ParquetFile(path).metadata.row_group(0).column(2)
    end = column.data_page_offset + column.total_compressed_size
    tail = data[end:]
    for true, false in zip((0.5, 9.0), lie, strict=True):
        assert struct.pack("<d", true) in tail
        tail = tail.replace(struct.pack("<d", true), struct.pack("<d", false))
    path.write_bytes(data[:end] + tail)
    found = counted(tools, path, engine)
    assert found == {0: 6, 3: 6, 1: 12}


# ── where the engines differed ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "lines",
    [
        "a,0.5,0.5\nb,1.5\n",
        "a,0.5,0.5\nb,1.5,0.5,more\n",
        "a,0.5,0.5\r\nb,1.5,0.5\n",
        "a,0.5,0.5\rb,1.5,0.5\r",
        "a,0.5,0.5\n\n\nb,1.5,0.5\n\n",
        'a,0.5,0.5\n"b,1.5,0.5\n',
        "a,0.5,0.5\nb,\u00a01.5,0.5\n",
        'a,0.5,0.5\n"b\rc",1.5,0.5\n',
        'a,0.5,0.5\n"b\nc",1.5,0.5\n',
        "a,0.5,0.5\nb\0,1.5,0.5\n",
    ],
)
def test_both_engines_read_odd_lines_alike(spark: Any, tools: Any, tmp_path: Path, lines: str) -> None:
    (tmp_path / "v.csv").write_bytes(f"u,x,y\n{lines}".encode())
    first, second = (counted(tools, tmp_path / "v.csv", engine) for engine in ENGINES)
    assert first == second or (isinstance(first, str) and isinstance(second, str))


def test_both_engines_skip_blank_lines(spark: Any, tools: Any, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("u,x,y\n\na,0.5,0.5\n\n\nb,1.5,0.5\n\n")
    for engine in ENGINES:
        assert counted(tools, tmp_path / "v.csv", engine) == {0: 12, 1: 12}


@pytest.mark.parametrize("at_most", [None, 1, 2])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "Asia/Tokyo")])
def test_days_of_all_years_are_units_on_both_engines(spark: Any, tools: Any, at_most: int | None, kind: Any) -> None:
    # the first and last days that both calendars can write, those beyond, and the days around 1970
    days = [-1_000_000, -719163, -719162, -1, 0, 2932896, 2932897, 4_000_000]
    values = [day if kind == pa.date32() else day * 86_400_000_000 + 5 for day in days for _ in range(3)]
    table = pa.table(
        {
            "u": ["a"] * len(values),
            "x": [place + 0.5 for _ in days for place in range(3)],
            "y": [0.5] * len(values),
            "t": pa.array(values, kind),
        }
    )
    options = {"unit": "person-day", "time": "t", "at_most": at_most}
    first, second = (counted(tools, table, engine, **options) for engine in ENGINES)
    assert first == second or (isinstance(first, str) and isinstance(second, str))
    if isinstance(first, dict):
        assert sum(first.values()) == 12 * len(days)


@pytest.mark.parametrize("kind", ["uint64", "string_view", "large_string", "dictionary", "decimal"])
def test_ids_of_unusual_types_count_alike(spark: Any, tools: Any, kind: str) -> None:
    ids: Any = {
        "uint64": pa.array([2**63, 2**63, 2**64 - 1], pa.uint64()),
        "string_view": pa.array(["a", "a", "b"], pa.string_view()),
        "large_string": pa.array(["a", "a", "b"], pa.large_string()),
        "dictionary": pa.array(["a", "a", "b"]).dictionary_encode(),
        "decimal": pa.array([10**30, 10**30, 10**30 + 1], pa.decimal128(38, 0)),
    }[kind]
    table = pa.table({"u": ids, "x": [0.5, 1.5, 1.5], "y": [0.5] * 3})
    found = [counted(tools, table, engine) for engine in ENGINES]
    assert found[0] == found[1] or all(isinstance(each, str) for each in found)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ids", [[2**63, 2**63 + 1], [-(2**63) - 1, 1], [2**64, 2**64 + 1]])
def test_huge_ids_never_end_in_a_raw_error(spark: Any, tools: Any, tmp_path: Path, engine: str, ids: list[int]) -> None:
    lines = [json.dumps({"u": who, "x": place + 0.5, "y": 0.5}) for place, who in enumerate(ids)]
    (tmp_path / "v.jsonl").write_text("\n".join(lines) + "\n")
    for source in (tmp_path / "v.jsonl", {"u": ids, "x": [0.5, 1.5], "y": [0.5, 0.5]}):
        found = counted(tools, source, engine)
        assert isinstance(found, str) or found == {0: 12, 1: 12}
