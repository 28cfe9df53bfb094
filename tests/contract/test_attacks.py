"""Attacks that once worked, kept so that they never work again."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heathaze as hz
from heathaze.domain.quadtree import interleave
from heathaze.errors import HeathazeError, InvalidInput, LedgerError, SimulatedRelease, UnreadableData
from heathaze.ingest.count import SALT
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Randomness

DIGITS = str.maketrans("abcdef", "012345")
GRID = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)


def change(first: hz.Counts, second: hz.Counts) -> int:
    """ℓ1 distance of two counts."""
    return int(np.abs(first.dense() - second.dense()).sum())


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize(("person", "weight"), [("who", "share"), ("who", "presence"), (None, "share")])
def test_one_outlier_does_not_decide_whether_nan_rows_count(
    tmp_path: Path, axis: str, person: str | None, weight: str
) -> None:
    """A Parquet file's statistics leave NaN out; with all else in the box, an engine may drop the comparison."""

    def counted(name: str, extra: bool) -> hz.Counts:
        table = {"who": np.arange(101), "x": np.full(101, 3.5), "y": np.full(101, 3.5)}
        table[axis][:100] = np.nan
        if extra:
            table = {key: np.append(column, column.dtype.type(999)) for key, column in table.items()}
        pq.write_table(
            pa.table({key: pa.array(column, from_pandas=False) for key, column in table.items()}), tmp_path / name
        )
        return hz.count(tmp_path / name, GRID, person=person, weight=weight, at_most=3)

    without, with_one = counted("without.parquet", extra=False), counted("with.parquet", extra=True)
    assert change(without, with_one) == 0
    assert without.mass.sum() == without.one


@pytest.mark.parametrize(
    "second",
    [np.array([1.2, 1.4]), np.array(["01", "1"], dtype=object), np.array([True, False])],
    ids=["fractions", "text", "truth values"],
)
def test_files_that_tell_people_apart_by_different_types_are_refused(tmp_path: Path, second: np.ndarray) -> None:
    for name, ids in (("a", np.array([7, 8])), ("b", second)):
        place = np.array([0.5, 1.5])
        pq.write_table(pa.table({"who": ids, "x": place, "y": place}), tmp_path / f"{name}.parquet")
    with pytest.raises(UnreadableData, match="different types"):
        hz.count(tmp_path / "*.parquet", GRID, person="who")


@pytest.mark.parametrize(
    "ids", [[7, 7.0], [1, "1"], [True, "True"], [1.5, 2.5], [np.arange(2), "a"]], ids=["7", "1", "True", "1.5", "array"]
)
def test_objects_that_are_no_plain_ids_are_refused(ids: list[object]) -> None:
    column = np.empty(2, dtype=object)
    column[:] = ids
    place = np.array([0.5, 1.5])
    for table in ({"who": column, "x": place, "y": place}, pd.DataFrame({"who": column, "x": place, "y": place})):
        with pytest.raises(UnreadableData, match="mixes kinds"):
            hz.count(table, GRID, person="who")


@pytest.mark.parametrize(
    "ids", [["a", None], [3, None], [uuid.UUID(int=1), uuid.UUID(int=2)]], ids=["text", "int", "uuid"]
)
def test_objects_of_one_kind_are_read(ids: list[object]) -> None:
    column = np.empty(2, dtype=object)
    column[:] = ids
    table = {"who": column, "x": np.array([0.5, 1.5]), "y": np.array([0.5, 1.5])}
    if None in ids:
        with pytest.raises(UnreadableData, match="no person"):
            hz.count(table, GRID, person="who")
    else:
        assert hz.count(table, GRID, person="who").mass.sum() == 2 * 2**20


def test_json_ids_in_two_ways_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    path.write_text('{"who": 1, "x": 1, "y": 1}\n{"who": "1", "x": 2, "y": 2}\n', encoding="utf-8")
    with pytest.raises(UnreadableData, match="mixes numbers and text"):
        hz.count(path, GRID, person="who")


def test_ties_on_huge_grids_do_not_depend_on_other_people() -> None:
    """Two cells 2^32 apart can have the same draw; which of them a unit keeps must not depend on the order of rows."""
    grid = hz.Grid.plane(x=(0, 2**20), y=(0, 2**20), size=2**20)
    people, prime = 20_000, 2**31 - 1
    digits = [hashlib.md5(f"{SALT}|{who}".encode()).hexdigest().translate(DIGITS) for who in range(people)]
    # draw(c) = ((c + s)² + s)² mod p, and 2^32 ≡ 2 mod p: c + s ≡ −1 and c + 2^32 + s ≡ 1 have equal squares
    cell = (prime - 1 - np.array([int(text[:9]) for text in digits])) % prime
    who, cells = np.tile(np.arange(people), 2), np.concatenate([cell, cell + 2**32])
    rows, cols = np.divmod(cells, 2**20)
    found = []
    for order in (np.arange(2 * people), np.random.default_rng(1).permutation(2 * people)):
        table = {"who": who[order], "x": cols[order] + 0.5, "y": rows[order] + 0.5}
        found.append(hz.count(table, grid, person="who", at_most=1, weight="presence"))
    assert (found[0].codes == np.sort(interleave(*np.divmod(np.unique(cell), 2**20)))).all()
    assert (found[0].codes == found[1].codes).all()


@pytest.mark.parametrize(
    "line", ["alice,-7.398e1,4.075e1", "bob,40.75N,-73.98W", "carl,POINT(-73.98 40.75),x", "dora,home,work"]
)
def test_a_file_without_a_header_is_not_quoted(tmp_path: Path, line: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(HeathazeError) as refusal:
        hz.count(path, hz.Grid.over(lon=(-75, -73), lat=(40, 41), size=8), person="user_id")
    for part in line.split(","):
        assert part not in str(refusal.value)
    assert "first line" in str(refusal.value)


def test_a_ledger_under_two_names_is_refused(tmp_path: Path) -> None:
    """SQLite names its journal after the path, so a crash through one name would undo charges of the other."""
    ledger = hz.Ledger.open(tmp_path / "a.ledger", total=1)
    os.link(tmp_path / "a.ledger", tmp_path / "b.ledger")
    for use in (lambda: ledger.spent, lambda: hz.Ledger.open(tmp_path / "b.ledger")):
        with pytest.raises(LedgerError, match="second name"):
            use()
    (tmp_path / "b.ledger").unlink()
    assert ledger.spent == 0


def test_a_draft_left_by_a_killed_creator_does_no_harm(tmp_path: Path) -> None:
    hz.Ledger.open(tmp_path / "a.ledger", total=1)
    os.link(tmp_path / "a.ledger", tmp_path / ".a.ledger.0123456789abcdef.new")
    assert hz.Ledger.open(tmp_path / "a.ledger").spent == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a.ledger"]


def test_a_key_of_ones_own_makes_no_release(tmp_path: Path) -> None:
    counts = hz.Counts.from_cells(GRID, [0], [0], [2**20], bound=2**20, one=2**20, unit=Unit.PERSON)
    release = hz.publish(hz.central.Flat(GRID, 1), counts, randomness=Randomness(bytes(32)))
    assert release.simulated
    assert release.provenance.simulated
    with pytest.raises(SimulatedRelease):
        release.save(tmp_path / "map.npz")


def test_noise_beyond_64_bits_is_refused_before_it_is_paid(tmp_path: Path) -> None:
    ledger = hz.Ledger.open(tmp_path / "a.ledger", total=1)
    counts = hz.Counts.from_cells(GRID, [0], [0], [2**30], bound=2**30, one=2**30, unit=Unit.PERSON)
    with pytest.raises(InvalidInput, match="larger epsilon"):
        hz.publish(hz.central.Pyramid(GRID, "0.000001"), counts, ledger=ledger)
    assert ledger.spent == 0


def test_a_factor_at_most_is_rounded_up() -> None:
    from fractions import Fraction

    from heathaze.privacy.guarantee import Guarantee
    from heathaze.privacy.loss import PrivacyLoss

    assert "by at most a factor of 2.02." in str(Guarantee(PrivacyLoss(Fraction(7, 10)), Unit.PERSON))
    assert "by at most a factor of 1.01." in str(Guarantee(PrivacyLoss(Fraction(1, 1000)), Unit.PERSON))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: hz.publish(hz.central.Flat(GRID, 1), {"x": 1}),
    ],
)
def test_publish_names_what_it_got(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="not a dict"):
        wrong()  # type: ignore[operator]
