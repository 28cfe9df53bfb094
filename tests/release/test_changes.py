"""Changes between two releases: noise is not called a change, and a district that moved is found."""

from __future__ import annotations

import csv
import dataclasses
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.quadtree import node_extent
from heathaze.errors import InvalidInput, SimulatedRelease, UnknownFormat
from heathaze.maps.changes import _classes
from heathaze.release.changes import compare_releases, save_changes

GRID = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=32)
PLACES = np.array([[9.93, 53.52], [9.97, 53.56], [10.0, 53.59], [10.03, 53.53], [10.06, 53.57], [10.08, 53.61]])


def city(people: int, first: tuple[float, float] = (9.93, 53.52)) -> hz.Counts:
    """People in six districts, of which the first lies where it is told to."""
    rng = np.random.default_rng(5)
    places = np.concatenate([[first], PLACES[1:]])[rng.integers(0, 6, people)]
    lon, lat = (places + rng.normal(0, (0.006, 0.004), (people, 2))).T
    return hz.count({"person": np.arange(people), "lon": lon, "lat": lat}, GRID, person="person")


def released(counts: hz.Counts, seed: int | None, epsilon: float = 1) -> hz.Release:
    bits = {} if seed is None else {"randomness": hz.Simulation(seed)}
    return hz.publish(hz.central.default(GRID, epsilon), counts, **bits)


def test_noise_is_not_called_a_change() -> None:
    """Two releases of the same data: at most one pair in ten shows any change."""
    releases = [released(city(600), seed) for seed in range(5)]
    pairs = [compare_releases(*pair) for pair in combinations(releases, 2)]
    assert sum(bool(pair.real.any()) for pair in pairs) <= 1


@pytest.mark.slow
def test_noise_is_not_called_a_change_in_many_pairs() -> None:
    counts = city(3000)
    pairs = [compare_releases(released(counts, 2 * k), released(counts, 2 * k + 1)) for k in range(100)]
    found = sum(bool(pair.real.any()) for pair in pairs)
    print(f"{found} of {len(pairs)} pairs show a change")
    assert found <= 10


def test_every_change_lies_in_the_class_that_the_legend_names() -> None:
    """Changes of very different size: the first of three classes then starts at zero."""
    moved = compare_releases(released(city(3000), 1), released(city(3000, (10.08, 53.515)), 2))
    for factor in (1.0, 1e-3):
        after = moved.people_after.copy()
        smallest = moved.largest()[-1]
        after[smallest] = moved.people_before[smallest] + factor * moved.change[smallest]
        changes = dataclasses.replace(moved, people_after=after)
        limits, kinds = _classes(changes)
        size = np.abs(changes.change / changes.area)
        assert len(limits) <= 3
        for k, limit in enumerate(limits, 1):
            here = np.abs(kinds) == k
            assert (size[here] >= limit).all()
            assert k == len(limits) or (size[here] < limits[k]).all()
        assert ((kinds != 0) == changes.real).all()
    assert limits[0] == 0


def test_a_district_that_moved_is_found() -> None:
    was, became = (9.93, 53.52), (10.08, 53.515)
    changes = compare_releases(released(city(3000, was), 1), released(city(3000, became), 2))
    assert changes.real.any()
    for (x, y), sign in ((was, -1), (became, 1)):
        west, south, east, north = changes.bounds().T
        here = (west <= x) & (x < east) & (south <= y) & (y < north)
        assert changes.real[here].all()
        assert (np.sign(changes.change[here]) == sign).all()
    # Nothing is said of the districts that stayed.
    for x, y in PLACES[1:]:
        here = (west <= x) & (x < east) & (south <= y) & (y < north)
        assert not changes.real[here].any()
    assert "changed by more than the noise of both maps explains (9 times in 10" in changes.summary()
    assert changes.cost.startswith("Together these 2 releases cost at most ε = 2 (unit: person")


def test_small_changes_of_many_squares_are_named_together() -> None:
    """People come to one place from everywhere: no square lost many, and all of them together did."""
    moved = compare_releases(released(city(3000), 1), released(city(3000, (10.08, 53.515)), 2))
    after = moved.people_before.copy()
    place = moved.largest()[0]
    others = np.arange(len(moved)) != place
    after[others] -= 400 / others.sum()
    after[place] += 400
    low, high = after - moved.people_before - 50, after - moved.people_before + 50
    changes = dataclasses.replace(moved, people_after=after, low=low, high=high)
    assert changes.real.sum() == 1
    assert "1 of" in changes.summary()
    assert "all other squares together fell by about 400 people; the noise hides in which" in changes.summary()
    after[others] += 395 / others.sum()
    few = dataclasses.replace(changes, people_after=after)
    assert "all other squares" not in few.summary()


def test_common_squares_cover_the_map_once_and_classes_are_shared() -> None:
    changes = compare_releases(released(city(3000), 1, 4), released(city(300), 2))
    covered = np.zeros(GRID.shape, np.int64)
    for top, bottom, left, right in zip(*node_extent(GRID, changes.levels, changes.codes), strict=True):
        covered[top:bottom, left:right] += 1
    assert (covered == 1).all()
    assert changes.before.classes == changes.after.classes
    assert changes.before.unit == changes.after.unit
    assert len(changes) <= min(len(changes.before), len(changes.after))
    assert changes.people_before.sum() == pytest.approx(changes.before.people.sum())
    assert (changes.low <= changes.change).all()
    assert (changes.change <= changes.high).all()


def test_a_release_does_not_differ_from_itself() -> None:
    one = released(city(300), 1)
    same = compare_releases(one, one)
    assert not same.real.any()
    assert not same.change.any()
    assert same.summary().startswith(f"No square of {len(same)} has a change")


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = released(city(300), 1)
    other = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=16)
    visits = {"person": [1], "lon": [9.95], "lat": [53.55]}
    coarse = hz.publish(hz.central.default(other, 1), hz.count(visits, other, person="person"))
    with pytest.raises(InvalidInput, match=r"different grids \(32 × 32 cells, .* and 16 × 16 cells"):
        compare_releases(one, coarse)
    single = hz.publish(hz.central.default(GRID, 1), hz.count(visits, GRID, person=None, unit="visit"))
    with pytest.raises(InvalidInput, match="counts people and the other visits"):
        compare_releases(one, single)
    plain = hz.publish(hz.central.Pyramid(GRID, 1), city(300))
    with pytest.raises(InvalidInput, match="A map by Pyramid has no error bars"):
        compare_releases(one, plain)
    changes = compare_releases(one, one)
    with pytest.raises(SimulatedRelease):
        save_changes(changes, one, one, tmp_path / "changes.png")
    with pytest.raises(UnknownFormat, match=r"choose \.png"):
        save_changes(changes, one, one, tmp_path / "changes.doc")
    assert list(tmp_path.iterdir()) == []


def test_picture_and_table(tmp_path: Path) -> None:
    before, after = released(city(3000), None), released(city(3000, (10.08, 53.515)), None)
    changes = compare_releases(before, after)
    for name, starts in (("c.png", b"\x89PNG"), ("c.svg", b"<?xml"), ("c.pdf", b"%PDF")):
        written = save_changes(changes, before, after, tmp_path / name, theme="dark", title="Moved $x$ <b>")
        assert written.read_bytes().startswith(starts)
    with save_changes(changes, before, after, tmp_path / "c.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(changes)
    assert sum(row["real"] == "yes" for row in rows) == int(changes.real.sum())
