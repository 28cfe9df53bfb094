"""Layouts and readings on disk: what is read is what was written, and what cannot be read is told in a sentence."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.errors import CannotWrite, InvalidInput, UnreadableData
from heathaze.ingest.readings import RawReadings
from heathaze.sensors.layout import Layout
from heathaze.sensors.noisy_readings import NoisyReadings, NoisyTable
from heathaze.sensors.physics import Graph, Line, Plate
from heathaze.sensors.readings import Readings

SECRET = "31.41592"


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ── layouts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plate_from_positions(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeff# a remark\n\nSensor, X ,y\n a,1,2\n\nb,3.5,1\n  \n")
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
        ("name,x\na,1\n", "give the columns sensor,x or sensor,x,y"),
        ("sensor,x\na,1\na,2\n", "names the sensor 'a' twice"),
        ("sensor,x\n,1\n,2\n", "names the sensor '' twice"),
        ("# a\n\nsensor,x\n\na,left\n", "Line 5 of .* has x 'left' for the sensor 'a'; expected a number"),
        ("sensor,x\na,nan\n", "Line 2 of .* has x 'nan' for the sensor 'a'"),
        ("sensor,x,y\na,1,2\nb,1,\n", "Line 3 of .* has no y for the sensor 'b'; expected a number"),
        ('sensor,x\na,"1,5"\n', "Line 2 of .* has x '1,5' .*; expected a number with a point, not a comma"),
        ("from,to,weight\na,b,\n", "Line 2 of .* has no weight; expected a number"),
        ("sensor,x\na\n", "Line 2 of .* has another number of fields than the header: 1, not 2; give one field"),
        ("sensor,x\r\n\r\na,1,5\r\n", "Line 3 of .* another number of fields .*; if numbers have decimal commas"),
        ("sensor,x,y\n# a remark\na,1,2\n", "Line 2 of .*; lines that begin with # are skipped only before the header"),
        ('sensor,x\n"a\nb",1\nc,left\n', "Line 2 of .*: a quotation mark is not closed on the line"),
        ("sensor,x,note\na,1,b\rc,2,d\n", "Line 2 of .* has a carriage return inside; end lines with LF or CRLF"),
        ('sensor,x\na,1\n"b" c,2\n', "Line 3 of .*: a quotation mark .* stands inside a field"),
        ("# a remark\nsensor;x\na;1,5\n", "is separated by semicolons; save it with commas, and points in numbers"),
        ("sensor\tx\na\t1\n", "is separated by tabs; save it with commas"),
        ("a,1.5\nb,2.5\n", "has no header; begin it with sensor,x"),
        ("sensor,x,x\na,1,2\n", "has two columns of the same name; give each column its own name"),
        ("from,to\na,b\na,a\n", "loop|itself"),
        ("from,to\na,b\nc,d\n", "2 parts|connected"),
        ("from,to,weight\na,b,-1\n", "weight"),
    ],
)
def test_a_layout_that_is_none_is_told_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Layout.read(written(tmp_path, text))


def test_fields_and_brackets_without_end(tmp_path: Path) -> None:
    for text, words in (
        (f"sensor,x\na,{'1' * 140_000}\n", "Line 2 of .* cannot be read as CSV: .* a field has more than 131072"),
        (f"sensor,{'x' * 140_000}\na,1\n", "Line 1 of .* cannot be read as CSV"),
    ):
        with pytest.raises(UnreadableData, match=words):
            Layout.read(written(tmp_path, text))
    deep = f"# heathaze readings {'[' * 100_000}\nsensor,time,value\na,1,2\n"
    with pytest.raises(UnreadableData, match=r"The first line of .* cannot be read"):
        NoisyTable.read(written(tmp_path, deep))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableData, match=r"Cannot read .*: no such file"):
        Layout.read(tmp_path / "none.csv")
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UnreadableData, match="is not written in UTF-8"):
        Layout.read(tmp_path / "picture.csv")


def test_physics_that_cannot_be_is_told_in_a_sentence() -> None:
    plate = Layout(("a", "b"), np.array([[1.0, 2.0], [3.0, 1.0]]))
    line = Layout(("a",), np.array([[1.0]]))
    twins = Layout(("a", "b", "c"), np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 2.0]]))
    for layout, arguments, words in (
        (plate, {"times": [0.0]}, "A time is 0; give a positive time since"),
        (plate, {"times": [-1.0]}, "A time is -1"),
        (plate, {"diffusivity": 0.0}, "The diffusivity is 0"),
        (plate, {"size": None}, "give the size, its width and height in metres"),
        (plate, {"size": (2.0, 2.0)}, r"The sensor 'b' lies at \(3, 1\), outside of the plate, .* to \(2, 2\)"),
        (line, {"size": [0.5]}, r"The sensor 'a' lies at 1, outside of the line, which reaches from 0 to 0\.5"),
        (twins, {}, r"The sensors 'a' and 'c' both lie at \(1, 2\)"),
        (plate, {"sensors": ["a", "b", "a"]}, "The sensor 'a' is named twice"),
        (plate, {"size": 1.0}, r"the size is 1\.0; give the size, its width and height in metres"),
        (line, {"size": 1.0}, "give the size, its length in metres"),
        (plate, {"size": (10**400, 1)}, "A side of the size is 1000"),
        (plate, {"size": ("wide", 1)}, "A side of the size is 'wide'"),
        (plate, {"times": [10**400]}, "A time is 1000"),
        (plate, {"times": ["noon"]}, "A time is 'noon'; give a positive time"),
        (plate, {"diffusivity": 10**400}, "The diffusivity is 1000"),
        (plate, {"diffusivity": 1e300, "times": [1e300]}, "T is inf"),
        (plate, {"sensors": ["c"]}, "There is no sensor 'c' in the layout"),
        (plate, {"walls": "glass"}, "walls is 'glass'"),
        (line, {"size": [2.0], "walls": "insulated"}, "but a line always has open ends; leave walls out"),
    ):
        given_ = {"times": [1.0], "diffusivity": 0.5, "size": (4.0, 3.0), "walls": "open"} | arguments
        with pytest.raises(InvalidInput, match=words):
            layout.field(**given_)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [SECRET, "31,4", "-3", ".5", "1e-3", " 7 ", "21.5 °C", "1.024,5", "nan"])
def test_what_may_be_a_reading_is_not_quoted_as_the_name_of_a_sensor(name: str) -> None:
    layout = Layout(("a",), np.array([[1.0]]))
    with pytest.raises(InvalidInput, match="its name looks like a number, so check whether columns") as error:
        layout.number_of(name)
    assert name.strip() not in str(error.value)
    assert "A sensor in the readings is not in the layout" in str(error.value)
    with pytest.raises(InvalidInput, match="A node is not in the layout; its name looks like a number"):
        layout.number_of(name, what="node")


def test_other_names_are_quoted() -> None:
    layout = Layout(("a", "7"), np.array([[1.0], [2.0]]))
    assert (layout.number_of("7"), layout.number_of("a", what="node")) == (1, 0)
    with pytest.raises(InvalidInput, match="There is no sensor 'north door' in the layout; add it"):
        layout.number_of("north door")
    with pytest.raises(InvalidInput, match="There is no node 'b' in the layout; add it, or leave it out"):
        layout.number_of("b", what="node")


# ── readings ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_readings_come_time_by_time_and_holes_stay_holes(tmp_path: Path) -> None:
    path = written(tmp_path, "sensor,time,value\nb,2,5\na,1,3\nb,1,\na,2,4\nc,2,6\n")
    for found in (RawReadings.read(path), NoisyTable.read(path)):
        assert found.sensors == ("b", "a", "c")
        assert found.times == (1.0, 2.0)
        assert np.array_equal(found.values, [np.nan, 3, np.nan, 5, 4, 6], equal_nan=True)
    assert repr(RawReadings.read(path)) == "<RawReadings: 3 sensors, 2 times>"
    assert NoisyTable.read(path).header == {}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1), min_size=1, max_size=4),
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=3, unique=True),
    st.data(),
)
def test_what_is_written_is_read_again(
    tmp_path: Path, names: list[str], times: list[float], data: st.DataObject
) -> None:
    sensors = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not sensors:
        return
    count = len(sensors) * len(times)
    values = np.array(data.draw(st.lists(st.floats(-1e300, 1e300), min_size=count, max_size=count)))
    header = {"deviation": 0.5, "physics": {"size": [1.0, 2.0]}}
    file = NoisyTable(sensors, tuple(sorted(times)), values, header)
    file.write(tmp_path / "readings.csv")
    again = NoisyTable.read(tmp_path / "readings.csv")
    assert (again.sensors, again.times, again.header) == (file.sensors, file.times, header)
    assert np.array_equal(again.values, values)


def test_a_sensor_may_be_named_like_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    NoisyTable(("#a", "b"), (1.0,), np.array([3.0, 4.0]), {}).write(path)
    assert NoisyTable.read(path).sensors == RawReadings.read(path).sensors == ("#a", "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sensor,value\na,1\n", "lacks the column 'time'"),
        (f"sensor,time,value\na,1,{SECRET}x\n", "The value in line 2 of .* is not a finite number"),
        (f"sensor,time,value\na,1,{SECRET}\na,1,2\n", "Line 3 of .* is a second reading of the same sensor and time"),
        ("sensor,time,value\na,noon,1\n", "The time in line 2"),
        ("# a\nsensor,time,value\n\na,1,inf\n", "The value in line 4"),
        (
            f"sensor,time,value\na,2024-05-01T12:00:00,{SECRET}\n",
            "The time in line 2 .*; give times as numbers, counted from the release of heat",
        ),
        ("sensor,time,value\na,,1\n", "The time in line 2 .*; give times as numbers, counted from the release of heat"),
        ('sensor,time,value\na,1,"31,41592"\n', "The value in line 2 .*; write a point, not a comma"),
        (
            "sensor,time,value\na,1,31,41592\n",
            "Line 2 of .* another number of fields .*; if numbers have decimal commas",
        ),
        ("sensor;time;value\na;1;31,41592\n", "is separated by semicolons; save it with commas, and points in numbers"),
    ],
)
def test_readings_that_are_none_are_told_without_their_values(tmp_path: Path, text: str, words: str) -> None:
    for read in (RawReadings.read, NoisyTable.read):
        with pytest.raises(InvalidInput, match=words) as error:
            read(written(tmp_path, text))
        assert SECRET not in str(error.value)
        assert "41592" not in str(error.value)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("{broken", "The first line of .* cannot be read"),
        ("[]", "The first line of .* cannot be read"),
        ('{"version": 9}', "has version 9, but this program reads version 1"),
        ('{"version": 1, "deviation": "x"}', "The first line of .* was edited"),
        ('{"version": 1, "guarantee": {"epsilon": "1/0"}}', "The first line of .* was edited"),
        ('{"version": 1, "physics": {"sensors": ["a"]}}', "The first line of .* was edited"),
    ],
)
def test_a_first_line_that_is_none_is_told(tmp_path: Path, first: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as error:
        NoisyTable.read(written(tmp_path, f"# heathaze readings {first}\nsensor,time,value\na,1,{SECRET}\n"))
    assert SECRET not in str(error.value)


def test_what_readings_promise_is_read_again(tmp_path: Path) -> None:
    layout = Layout(("a", "b"), np.array([[0.2], [0.8]]))
    physics = {"diffusivity": 0.05, "size": [1.0], "walls": "open"}
    mechanism = Readings(layout.field([1.0, 2.0], **physics), reach=0.1, epsilon=1)
    noisy = mechanism.protect([1.0, 2.0, np.nan, 4.0])
    path = tmp_path / "protected.csv"
    noisy.save(path, layout.names, [1.0, 2.0], physics=physics)
    again = NoisyReadings.load(path, layout)
    assert np.array_equal(again.values, noisy.values, equal_nan=True)
    assert (again.deviation, again.guarantee, again.simulated) == (noisy.deviation, noisy.guarantee, False)
    assert np.array_equal(again.field.responses([[0.4]]), noisy.field.responses([[0.4]]))
    other = NoisyReadings.load(path, layout, deviation=3.0, diffusivity=0.1)
    assert other.deviation == 3.0
    assert not np.array_equal(other.field.responses([[0.4]]), noisy.field.responses([[0.4]]))


def test_readings_of_unknown_origin_have_no_guarantee(tmp_path: Path) -> None:
    layout = Layout(("a", "b"), np.array([[0.2], [0.8]]))
    path = written(tmp_path, "sensor,time,value\na,1,3\nb,1,4\n")
    with pytest.raises(InvalidInput, match="does not state the standard deviation of its noise"):
        NoisyReadings.load(path, layout)
    with pytest.raises(InvalidInput, match="does not state how fast heat spreads; give the diffusivity"):
        NoisyReadings.load(path, layout, deviation=0.5)
    noisy = NoisyReadings.load(path, layout, deviation=0.5, diffusivity=0.1, size=[1.0])
    assert noisy.guarantee is None
    assert "no guarantee" in repr(noisy)
    with pytest.raises(InvalidInput, match="carry no guarantee"):
        noisy.save(tmp_path / "again.csv", ("a", "b"), [1.0])


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="there is no directory"):
        NoisyTable(("a",), (1.0,), np.zeros(1), {}).write(tmp_path / "none" / "readings.csv")
