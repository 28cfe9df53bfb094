"""How places become entries: each touches just as many as promised, and nothing odd from a server is believed."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from heathaze.distributed.cohort import Cohort
from heathaze.distributed.device import encode
from heathaze.distributed.encodings import Encoding, Mesh, Regions, Sketch, Squares, encoding_from_dict
from heathaze.distributed.question import Part, Question
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition, cell_codes
from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Simulation

NAME = "0123456789abcdef" * 2
COHORT = Cohort(10, dropout=0, colluding=0)


def plane(rows: int, cols: int) -> Grid:
    return Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols))


def sketch(grid: Grid, levels: tuple[int, ...], width: int, depth: int, seed: int = 0) -> Sketch:
    words = Simulation(seed).words(2 * depth * len(levels)).reshape(len(levels), depth, 2).tolist()
    return Sketch(grid, levels, width, tuple(tuple((a, b) for a, b in rows) for rows in words))


def parts(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers)


SQUARE, OBLONG, DOT = plane(8, 8), plane(5, 7), plane(1, 1)
ENCODINGS: dict[str, Encoding] = {
    "regions": Regions(Partition(OBLONG, parts(0, 1, 3), parts(0, 1, 7))),
    "squares": Squares(SQUARE, 2),
    "squares with padding": Squares(OBLONG, 2),
    "cells": Squares(OBLONG, 3),
    "one cell": Squares(DOT, 0),
    "mesh": Mesh(SQUARE, 2, 3, parts(1, 2, 3, 4, 1, 2)),
    "mesh finer than its blocks": Mesh(OBLONG, 2, 2, parts(1, 7, 3, 5)),
    "mesh of one block": Mesh(OBLONG, 1, 1, parts(3)),
    "sketch": sketch(SQUARE, (1, 2, 3), 5, 4),
    "sketch of one level": sketch(OBLONG, (3,), 16, 2),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_place_touches_just_so_many_entries(name: str) -> None:
    encoding = ENCODINGS[name]
    entries = encoding.entries(cell_codes(encoding.grid))
    assert entries.shape == (encoding.grid.cells, encoding.touched)
    assert 0 <= entries.min() <= entries.max() < encoding.length
    # Distinct, so that no entry of a person holds more than their mass.
    assert all(len(set(row)) == encoding.touched for row in entries.tolist())


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_person_weighs_their_mass_in_every_touched_entry(name: str) -> None:
    """Sensitivity by enumeration: any one place, and any two."""
    encoding = ENCODINGS[name]
    codes = cell_codes(encoding.grid)
    question = Question(NAME, 1, (Part(encoding, 1),), COHORT, mass=7)
    owed = question.sensitivity(question.parts[0])
    assert owed == 7 * encoding.touched
    for code in codes:
        vector = encode(question, np.array([code]), False, Simulation(1))
        assert set(vector.tolist()) <= {0, 7}
        assert vector.sum() == owed
    for other in codes:
        vector = encode(question, np.array([codes[0], other]), False, Simulation(1))
        assert vector.min() >= 0
        assert vector.sum() == owed


@pytest.mark.parametrize("name", [name for name in ENCODINGS if "sketch" not in name])
def test_no_entry_is_without_a_place(name: str) -> None:
    encoding = ENCODINGS[name]
    held = np.bincount(encoding.entries(cell_codes(encoding.grid)).ravel(), minlength=encoding.length)
    assert held.min() >= 1
    if isinstance(encoding, Mesh):
        assert encoding.areas.tolist() == held.tolist()
        assert len(encoding.blocks) == encoding.length


@pytest.mark.parametrize("grid", [SQUARE, OBLONG])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_squares_are_the_regions_of_a_whole_level(grid: Grid, level: int) -> None:
    codes = cell_codes(grid)
    squares = Squares(grid, level).entries(codes)[:, 0]
    regions = Regions(Partition.whole_level(grid, level)).entries(codes)[:, 0]
    pairs = set(zip(squares.tolist(), regions.tolist(), strict=True))
    assert len(pairs) == len(set(squares)) == len(set(regions)) == Squares(grid, level).length


def test_pieces_of_a_mesh_are_rectangles_of_nearly_equal_sides() -> None:
    mesh = Mesh(plane(10, 10), 1, 2, parts(3, 2))
    drawn = mesh.entries(cell_codes(mesh.grid)).reshape(10, 10)
    assert drawn[:, 0].tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6, 6]  # borders at ⌊10k/3⌋
    assert drawn[0].tolist() == [0, 1, 1, 2, 2, 9, 9, 10, 10, 10]  # at ⌊5k/3⌋, then at ⌊5k/2⌋


def test_hashes_are_what_their_docstring_says() -> None:
    found = sketch(Grid.plane(x=(0, 1), y=(0, 1), size=2**20), (20,), 2000, 3, seed=4)
    codes = [0, 1, 12_345, 2**40 - 1]
    for code, row in zip(codes, found.named(20, np.array(codes)).tolist(), strict=True):
        for k, (a, b) in enumerate(found.keys[0]):
            top = ((a * code + b) % 2**64) >> 39
            assert row[k] == k * 2000 + 2000 * top // 2**25


def test_two_squares_seldom_meet_in_a_row() -> None:
    """At most as often as by chance, 1/width: 40,000 rows with their own keys, binomial at alpha 1e-6."""
    from scipy.stats import binom

    width, rows = 50, 4000
    met = 0
    for seed in range(10):
        entries = sketch(SQUARE, (3,), width, rows, seed).named(3, np.array([3, 62]))
        met += int((entries[0] == entries[1]).sum())
    low, high = binom.ppf([5e-7, 1 - 5e-7], 10 * rows, 1 / width)
    assert low <= met <= high


@pytest.mark.parametrize("name", ENCODINGS)
def test_questions_travel_as_json(name: str) -> None:
    encoding = ENCODINGS[name]
    question = Question(NAME, 1, (Part(encoding, 1),), COHORT)
    back = Question.from_dict(json.loads(json.dumps(question.to_dict())))
    codes = cell_codes(encoding.grid)
    assert back.parts[0].encoding.entries(codes).tolist() == encoding.entries(codes).tolist()
    assert back.fingerprint == question.fingerprint


DAMAGE: list[tuple[str, str, Any]] = [
    ("squares", "level", 4),
    ("squares", "level", -1),
    ("squares", "level", True),
    ("squares", "level", "2"),
    ("squares", "level", 2.0),
    ("mesh", "rows", 0),
    ("mesh", "rows", 9),
    ("mesh", "rows", 1.0),
    ("mesh", "cols", None),
    ("mesh", "cols", 2),
    ("mesh", "parts", []),
    ("mesh", "parts", [1, 2, 3]),
    ("mesh", "parts", [1, 2, 3, 4, 1, 0]),
    ("mesh", "parts", [1, 2, 3, 4, 1, 9]),
    ("mesh", "parts", [1, 2, 3, 4, 1, 2**70]),
    ("mesh", "parts", [1, 2, 3, 4, 1, 0.5]),
    ("mesh", "parts", [True] * 6),
    ("mesh", "parts", [[1, 2, 3], [4, 1]]),
    ("mesh", "parts", "123412"),
    ("sketch", "levels", []),
    ("sketch", "levels", [1, 2, 4]),
    ("sketch", "levels", [1, 2, 2]),
    ("sketch", "levels", [1, 2]),
    ("sketch", "levels", ["1", "2", "3"]),
    ("sketch", "width", 0),
    ("sketch", "width", 2**20 + 1),
    ("sketch", "width", 5.0),
    ("sketch", "keys", []),
    ("sketch", "keys", [[], [], []]),
    ("sketch", "keys", [[[1, 2]], [[1, 2]], [[1, 2], [3, 4]]]),
    ("sketch", "keys", [[[1, 2, 3]], [[1, 2]], [[1, 2]]]),
    ("sketch", "keys", [[[1, -2]], [[1, 2]], [[1, 2]]]),
    ("sketch", "keys", [[[1, 2**64]], [[1, 2]], [[1, 2]]]),
    ("sketch", "keys", [[[1, 0.5]], [[1, 2]], [[1, 2]]]),
    ("sketch", "keys", 7),
    ("sketch", "keys", [[[1, 2]] * 1366] * 3),
    ("regions", "levels", [0, 1]),
    ("squares", "kind", "cubes"),
    ("squares", "kind", None),
]


@pytest.mark.parametrize(("name", "field", "value"), DAMAGE)
def test_damaged_fields_are_refused(name: str, field: str, value: object) -> None:
    fields = copy.deepcopy(Question(NAME, 1, (Part(ENCODINGS[name], 1),), COHORT).to_dict())
    assert field in fields["parts"][0]["encoding"]
    fields["parts"][0]["encoding"][field] = value
    with pytest.raises(InvalidInput, match=r"[;,] ?(expected|give|it is)|needs|keys of a sketch|partition"):
        Question.from_dict(fields)


@pytest.mark.parametrize("name", ["squares", "mesh", "sketch"])
def test_missing_fields_are_refused(name: str) -> None:
    whole = Question(NAME, 1, (Part(ENCODINGS[name], 1),), COHORT).to_dict()
    for field in whole["parts"][0]["encoding"]:
        fields = copy.deepcopy(whole)
        del fields["parts"][0]["encoding"][field]
        with pytest.raises(InvalidInput, match="damaged"):
            Question.from_dict(fields)


def test_a_long_question_is_refused_before_anything_is_written_out() -> None:
    """A server may name a level of 2^40 squares, or blocks of 2^20 pieces a side, with a few letters."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2**20)
    for fields in (
        {"kind": "squares", "level": 20},
        {"kind": "mesh", "rows": 1, "cols": 1, "parts": [2**20]},
        {"kind": "mesh", "rows": 64, "cols": 64, "parts": [2**14] * 2**12},
    ):
        encoding = encoding_from_dict(grid, fields)
        with pytest.raises(InvalidInput, match=f"asks for {2**40} numbers; expected at most"):
            Question(NAME, 1, (Part(encoding, 1),), COHORT)
