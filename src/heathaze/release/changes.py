"""Compare two releases on one grid: which changes are real, and which the noise of the releases may explain.

The maps are compared on common squares: at each place the larger one of the two maps' certain squares. For a square
with the estimates a and b and their 90 % intervals, the change is b − a. Its interval has the distances

    below = √((b − low_b)² + (high_a − a)²)  and  above = √((high_b − b)² + (a − low_a)²),

as for the difference of two independent estimates (Zou and Donner 2008, "Construction of confidence limits about effect
measures"). The noise of the two releases is independent, even if the people are the same. All m squares are judged
together: each interval is made for the confidence 1 − α/m instead of 1 − α (Bonferroni). Laplace noise has exponential
tails, so the distances of the 90 % intervals are multiplied by ln(m/α) / ln(1/α). A change is real if its interval does
not contain zero. All of this is post-processing and costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from heathaze.checks import check_confidence
from heathaze.errors import InvalidInput, SimulatedRelease, UnknownFormat
from heathaze.files import csv_text, replacing
from heathaze.maps.backdrop import Backdrop, built_in_land
from heathaze.maps.backdrop_files import read_backdrop
from heathaze.maps.changes import Changes, draw_changes
from heathaze.maps.sheet import Look, Words
from heathaze.maps.squares import Squares
from heathaze.privacy.guarantee import cost_together
from heathaze.release.formats.cells import counted, has_deviations
from heathaze.release.formats.metadata import Contents
from heathaze.release.formats.pictures import words
from heathaze.release.release import Release
from heathaze.release.squares import Nodes, area_unit, gather, one_scale, step_limit
from heathaze.types import Floats, Integers

ENDINGS = (".png", ".svg", ".pdf", ".csv")


def compare_releases(before: Release, after: Release, confidence: float = 0.9) -> Changes:
    """Find the changes between two releases on the same grid that noise alone does not explain.

    Args:
        before: The first release.
        after: The second release.
        confidence: The probability that all intervals together contain the true changes, between 0 and 1.

    Returns:
        Both maps on one scale, and the change of each square with its interval.

    Raises:
        InvalidInput: The releases have different grids, count different things, or have no error bars.

    >>> import heathaze as hz
    >>> grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=16)
    >>> def release(lon, seed):
    ...     visits = {"person": range(900), "lon": [lon] * 900, "lat": [53.52] * 900}
    ...     counts = hz.count(visits, grid, person="person")
    ...     return hz.publish(hz.central.default(grid, epsilon=1), counts, randomness=hz.Simulation(seed))
    >>> changes = compare_releases(release(9.93, 1), release(10.07, 2))
    >>> int(changes.real.sum()) >= 2, changes.cost.split(" (")[0]
    (True, 'Together these 2 releases cost at most ε = 2')
    """
    check_confidence(confidence)
    if before.grid != after.grid:
        raise InvalidInput(
            f"The releases have different grids ({_grid(before)} and {_grid(after)}); publish both on the same "
            "grid, with the same bounds and number of cells, to compare them."
        )
    units = [counted(one.guarantee, one.provenance) for one in (before, after)]
    if units[0] != units[1]:
        raise InvalidInput(
            f"One release counts {units[0]} and the other {units[1]}; only like can be compared with like."
        )
    for one in (before, after):
        if not has_deviations(one.estimate):
            raise InvalidInput(
                f"A map by {one.provenance.mechanism} has no error bars, so no change can be judged; publish with "
                "hz.central.default(…) to get them."
            )
    nodes = [gather(one.estimate.posterior, 0.9) for one in (before, after)]
    first, maps = one_scale([one.estimate for one in (before, after)], units[0])
    levels, codes = _common(*maps)
    places = [_find(one, levels, codes) for one in nodes]
    stretch = math.log(len(codes) / (1 - confidence)) / math.log(10)
    people, below, above = zip(*(_ends(one, at, stretch) for one, at in zip(nodes, places, strict=True)), strict=True)
    change = people[1] - people[0]
    whole = [_ends(one, np.zeros(1, np.int64), math.log(1 / (1 - confidence)) / math.log(10)) for one in nodes]
    total = float(whole[1][0][0] - whole[0][0][0])
    return Changes(
        maps[0],
        maps[1],
        levels,
        codes,
        people[0],
        people[1],
        change - np.hypot(below[1], above[0]),
        change + np.hypot(above[1], below[0]),
        nodes[0].area[places[0]] / area_unit(before.grid, step_limit(first))[0],
        confidence,
        (
            total,
            total - math.hypot(whole[1][1][0], whole[0][2][0]),
            total + math.hypot(whole[1][2][0], whole[0][1][0]),
        ),
        cost_together([before.guarantee, after.guarantee]),
    )


def _grid(release: Release) -> str:
    grid = release.grid
    return f"{grid.rows} × {grid.cols} cells, {grid.x[0]:g} to {grid.x[1]:g} by {grid.y[0]:g} to {grid.y[1]:g}"


def _common(one: Squares, other: Squares) -> tuple[Integers, Integers]:
    """Choose at each place the larger of the two maps' squares; these lie in no larger square of the other map."""
    depth = one.grid.depth
    kept: list[tuple[Integers, Integers]] = []
    for mine, theirs in ((one, other), (other, one)):
        covered = np.zeros(len(mine), np.bool_)
        for level in np.unique(theirs.levels).tolist():
            finer = mine.levels > level
            ancestor = mine.codes >> (2 * np.maximum(mine.levels - level, 0))
            covered |= finer & np.isin(ancestor, theirs.codes[theirs.levels == level])
        kept.append((mine.levels[~covered], mine.codes[~covered]))
    levels, codes = (np.concatenate([kept[0][part], kept[1][part]]) for part in (0, 1))
    # The same square of both maps is kept once; squares are ordered by place.
    _, unique = np.unique(np.stack([codes << (2 * (depth - levels)), levels]), axis=1, return_index=True)
    return levels[unique], codes[unique]


def _find(nodes: Nodes, levels: Integers, codes: Integers) -> Integers:
    """Find the positions of squares among the nodes of a map."""
    found = np.zeros(len(codes), np.int64)
    for level in np.unique(levels).tolist():
        here, start = levels == level, nodes.starts[level]
        found[here] = start + np.searchsorted(nodes.codes[start : nodes.starts[level + 1]], codes[here])
    assert np.array_equal(nodes.codes[found], codes)
    assert np.array_equal(nodes.levels[found], levels)
    return found


def _ends(nodes: Nodes, at: Integers, stretch: float) -> tuple[Floats, Floats, Floats]:
    """Return the people of some nodes, and how far the true numbers may lie below (at least 0 people) and above."""
    people = nodes.people[at]
    below = np.minimum(stretch * np.maximum(people - nodes.low[at], 0), people)
    return people, below, stretch * np.maximum(nodes.high[at] - people, 0)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def save_changes(
    changes: Changes,
    before: Release,
    after: Release,
    path: str | Path,
    *,
    names: tuple[str, str] = ("Before", "After"),
    title: str = "",
    subtitle: str = "",
    source: str = "",
    theme: str | None = None,
    dpi: int = 150,
    backdrop: Backdrop | Sequence[str | Path] | None = None,
) -> Path:
    """Write the changes between two releases as a picture or a table, completely or not at all.

    Args:
        changes: The changes, from :func:`compare_releases`.
        before: The first release.
        after: The second release.
        path: The file: a picture (.png, .svg, .pdf) or a table of all squares (.csv).
        names: Names of the two maps.
        title: Text above the maps; if empty, the picture names itself.
        subtitle: Text below the title; if empty, it says how many changes are real.
        source: Where the data come from.
        theme: ``"light"`` or ``"dark"``; light if left out.
        dpi: Dots per inch of a PNG.
        backdrop: Public geography: files, or a backdrop that was read before.

    Returns:
        The path.

    Raises:
        SimulatedRelease: A release was made with simulated randomness.
        UnknownFormat: The ending is none of these.
        CannotWrite: The file cannot be written.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise UnknownFormat(f"{target} has an ending that changes are not written to; choose {', '.join(ENDINGS)}.")
    if before.simulated or after.simulated:
        raise SimulatedRelease(
            "One of these maps was made with simulated randomness, whose noise anyone can repeat; publish it again "
            "without randomness=Simulation(…) to save a comparison."
        )
    if ending == ".csv":
        with replacing(target) as (part,):
            part.write_text(table(changes), encoding="utf-8")
        return target
    if backdrop is not None and not isinstance(backdrop, Backdrop):
        backdrop = read_backdrop(backdrop, changes.grid)
    look = Look(title, subtitle, source, "squares", theme, dpi, backdrop or built_in_land(changes.grid))
    first, second = (words(Contents(one.estimate, one.guarantee, one.provenance)) for one in (before, after))
    promise = first.promise if first.promise == second.promise else f"{first.promise} {second.promise}"
    exact = first.guarantee if first.guarantee == second.guarantee else f"{first.guarantee} {second.guarantee}"
    sentences = Words(
        f"Change in the density of {changes.before.counted}",
        changes.summary(),
        promise.replace("this map", "these maps").replace("it would", "each would"),
        f"{changes.cost} Each map: {exact}",
        first.made if first.made == second.made else f"Before: {first.made} After: {second.made}",
    )
    picture = BytesIO()
    draw_changes(changes, names, sentences, look, picture, ending[1:])
    with replacing(target) as (part,):
        part.write_bytes(picture.getbuffer())
    return target


def table(changes: Changes) -> str:
    """Write the changes of all squares as CSV, with the borders of each square.

    Args:
        changes: The changes.
    """
    name = changes.before.counted.replace("-", "_")
    header = ["west", "south", "east", "north"]
    header += [f"{name}_{part}" for part in ("before", "after", "change", "change_low", "change_high")] + ["real"]
    columns = (changes.people_before, changes.people_after, changes.change, changes.low, changes.high)
    rows = (
        [*(repr(one) for one in bounds), *(f"{one:.6g}" for one in numbers), "yes" if real else "no"]
        for bounds, numbers, real in zip(
            changes.bounds().tolist(), np.stack(columns, axis=1).tolist(), changes.real.tolist(), strict=True
        )
    )
    return csv_text(header, rows)
