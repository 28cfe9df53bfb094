"""Layouts and readings on disk: what is read is what was written, and what cannot be read is told in a sentence."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.errors import CannotWrite, InvalidInput, UnreadableData
from heathaze.mechanisms.sensors.diffusion import Graph, Line, Plate
from heathaze.mechanisms.sensors.layout import Layout
from heathaze.mechanisms.sensors.readings_file import ReadingsFile

SECRET = "31.41592"


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ── layouts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plate_from_positions(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffSensor, X ,y\n a,1,2\n\nb,3.5,1\n# a remark\n")
    layout = Layout.read(path)
    assert layout.names == ("a", "b")
    field = layout.field([10, 20], diffusivity=0.05, size=(4, 3), walls="insulated")
    plates = [Plate((4, 3), [(1, 2), (3.5, 1)], T, walls="insulated") for T in (0.5, 1.0)]
    where = np.array([[2.0, 1.5]])
    assert np.array_equal(field.responses(where), np.concatenate([plate.responses(where) for plate in plates]))
    one = layout.field([10], diffusivity=0.05, size=(4, 3), sensors=["b"])
    assert np.array_equal(one.responses(where), Plate((4, 3), [(3.5, 1)], 0.5).responses(where))


def test_a_line_from_positions(tmp_path: Path) -> None:
    layout = Layout.read(written(tmp_path, "sensor,x\na,1\nb,2\n"))
    field = layout.field([1], diffusivity=0.5, size=[3])
    assert isinstance(field, Line)
    assert field.sensors.tolist() == [[1], [2]]


def test_a_graph_from_edges(tmp_path: Path) -> None:
    layout = Layout.read(written(tmp_path, "from,to,weight,length\nx,y,2,10\ny,z,1,5\n"))
    assert layout.names == ("x", "y", "z")
    field = layout.field([2], diffusivity=0.25, sensors=["z", "x"])
    assert isinstance(field, Graph)
    assert field.tau == 0.5
    assert field.sensors.tolist() == [2, 0]
    assert field.network.weights.tolist() == [2, 1]
    assert field.network.lengths.tolist() == [10, 5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no rows"),
        ("sensor,x\n", "has no rows"),
        ("name,x\na,1\n", "a layout has sensor, x"),
        ("sensor,x\na,1\na,2\n", "names the sensor 'a' twice"),
        ("sensor,x\na,left\n", "has x 'left'; expected a number"),
        ("sensor,x\na,nan\n", "has x 'nan'"),
        ("sensor,x\na\n", "Row 1 of .* has another number of fields"),
        ("sensor,x\na,1,2\n", "Row 1 of .* has another number of fields"),
        ("sensor,x,x\na,1,2\n", "has a column twice"),
        ("from,to\na,b\na,a\n", "loop|itself"),
        ("from,to\na,b\nc,d\n", "2 parts|connected"),
        ("from,to,weight\na,b,-1\n", "weight"),
    ],
)
def test_a_layout_that_is_none_is_told_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Layout.read(written(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableData, match=r"Cannot read .*: no such file"):
        Layout.read(tmp_path / "none.csv")
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UnreadableData, match="is not text"):
        Layout.read(tmp_path / "picture.csv")


def test_physics_that_cannot_be_is_told_in_a_sentence() -> None:
    plate = Layout(("a", "b"), np.array([[1.0, 2.0], [3.0, 1.0]]))
    line = Layout(("a",), np.array([[1.0]]))
    for layout, arguments, words in (
        (plate, {"times": [0.0]}, "A time is 0; heat needs time to spread"),
        (plate, {"times": [-1.0]}, "A time is -1"),
        (plate, {"diffusivity": 0.0}, "The diffusivity is 0"),
        (plate, {"size": None}, "give the size, its width and height in metres"),
        (plate, {"size": (2.0, 2.0)}, "outside|beyond"),
        (plate, {"sensors": ["c"]}, "There is no sensor 'c' in the layout"),
        (plate, {"walls": "glass"}, "walls is 'glass'"),
        (line, {"size": [2.0], "walls": "insulated"}, "A line has open ends"),
    ):
        given_ = {"times": [1.0], "diffusivity": 0.5, "size": (4.0, 3.0), "walls": "open"} | arguments
        with pytest.raises(InvalidInput, match=words):
            layout.field(**given_)  # type: ignore[arg-type]


# ── readings ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_readings_come_time_by_time_and_holes_stay_holes(tmp_path: Path) -> None:
    path = written(tmp_path, "sensor,time,value\nb,2,5\na,1,3\nb,1,\na,2,4\nc,2,6\n")
    found = ReadingsFile.read(path)
    assert found.sensors == ("b", "a", "c")
    assert found.times == (1.0, 2.0)
    assert np.array_equal(found.values, [np.nan, 3, np.nan, 5, 4, 6], equal_nan=True)
    assert repr(found) == "<ReadingsFile: 3 sensors, 2 times, raw>"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1), min_size=1, max_size=4),
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=3, unique=True),
    st.data(),
)
def test_what_is_written_is_read_again(
    tmp_path: Path, names: list[str], times: list[float], data: st.DataObject
) -> None:
    sensors = tuple(dict.fromkeys(name.strip() for name in names if name.strip() and not name.strip().startswith("#")))
    if not sensors:
        return
    count = len(sensors) * len(times)
    values = np.array(data.draw(st.lists(st.floats(-1e300, 1e300), min_size=count, max_size=count)))
    about = {"deviation": 0.5, "physics": {"size": [1.0, 2.0]}}
    file = ReadingsFile(sensors, tuple(sorted(times)), values, about)
    file.write(tmp_path / "readings.csv")
    again = ReadingsFile.read(tmp_path / "readings.csv")
    assert (again.sensors, again.times, again.about) == (file.sensors, file.times, about)
    assert np.array_equal(again.values, values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sensor,value\na,1\n", "lacks the column 'time'"),
        (f"sensor,time,value\na,1,{SECRET}x\n", "The value in row 1 of .* is not a finite number"),
        (f"sensor,time,value\na,1,{SECRET}\na,1,2\n", "Row 2 of .* is a second reading of the same sensor and time"),
        ("sensor,time,value\na,noon,1\n", "The time in row 1"),
        ("sensor,time,value\na,1,inf\n", "The value in row 1"),
        ("# heathaze readings {broken\nsensor,time,value\na,1,1\n", "The first line of .* cannot be read"),
        ("# heathaze readings []\nsensor,time,value\na,1,1\n", "The first line of .* cannot be read"),
        ('# heathaze readings {"version": 9}\nsensor,time,value\na,1,1\n', "is of version 9"),
    ],
)
def test_readings_that_are_none_are_told_without_their_values(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as error:
        ReadingsFile.read(written(tmp_path, text))
    assert SECRET not in str(error.value)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="no such file"):
        ReadingsFile(("a",), (1.0,), np.zeros(1)).write(tmp_path / "none" / "readings.csv")
