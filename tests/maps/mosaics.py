"""Squares and backdrops made by hand, for tests and benchmarks of pages: no release is needed."""

from __future__ import annotations

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, node_extent
from heathaze.maps.backdrop import Backdrop, Label, Shape
from heathaze.maps.shade import height_over_width
from heathaze.maps.squares import UNKNOWN, WHITE, Squares

CLASSES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


def mosaic(grid: Grid, count: int = 60, seed: int = 5) -> Squares:
    """Divide the squares with the most people until there are about ``count`` of them; every kind of square occurs."""
    rng = np.random.default_rng(seed)
    levels, codes, people = np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([5000.0])
    while len(codes) < count - 2 and (levels < grid.depth).any():
        (divisible,) = np.nonzero(levels < grid.depth)
        fullest = divisible[np.argsort(-people[divisible], kind="stable")]
        parents = fullest[: max(1, min(len(codes) // 8, (count - len(codes)) // 3))]
        below = children(codes[parents])
        level = np.repeat(levels[parents] + 1, 4)
        share = rng.dirichlet([0.4] * 4, len(parents)).ravel() * np.repeat(people[parents], 4)
        there = exists(grid, level, below)
        keep = np.setdiff1d(np.arange(len(codes)), parents)
        levels, codes, people = (
            np.concatenate([old[keep], new[there]]) for old, new in ((levels, level), (codes, below), (people, share))
        )
    top, bottom, left, right = node_extent(grid, levels, codes)
    height, width = grid.cell_size
    area = (bottom - top) * (right - left) * height * width / (1e6 if grid.projection.is_geographic else 1.0)
    density = people / area
    # The classes are shifted by a factor, so that all of them occur on every grid.
    factor = float(np.quantile(density, 0.98)) / CLASSES[-1]
    classes = tuple(float(f"{limit * factor:.1g}") for limit in CLASSES)
    kinds = np.searchsorted(classes, density, side="right") - 1
    unknown = (rng.random(len(codes)) < 0.2) & (kinds < 3)
    kinds = np.where(unknown, UNKNOWN, np.where(kinds < 0, WHITE, kinds)).astype(np.int64)
    spread = np.where(unknown, 3.0, 0.2) * people
    return Squares(
        grid, classes, "people per km²" if grid.projection.is_geographic else "people per cell", levels, codes, kinds,
        people, np.maximum(0, people - spread), people + spread, density, 0.9,
    )  # fmt: skip


def island(grid: Grid, corners: int = 400) -> Backdrop:
    """Make a round island with a lake, a river, a street and two named districts."""
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    coast = np.column_stack([0.5 + (0.42 + 0.03 * np.sin(9 * angle)) * f(angle) for f in (np.cos, np.sin)])
    lake = np.column_stack([0.62 + 0.06 * np.cos(angle), 0.66 + 0.05 * np.sin(angle)])
    west, east = (np.array([[x, 0.2], [x + 0.25, 0.2], [x + 0.25, 0.8], [x, 0.8]]) for x in (0.25, 0.5))
    street, river = np.array([[0.1, 0.45], [0.9, 0.55]]), np.array([[0.62, 0.66], [0.55, 0.8], [0.5, 0.97]])
    shapes = (
        Shape("land", True, (coast,)), Shape("water", True, (lake,)), Shape("water", False, (river,)),
        Shape("street", False, (street,)), Shape("border", True, (west,), "West End"),
        Shape("border", True, (east,), "Møller & Sons"),
    )  # fmt: skip
    labels = (Label("Lighthouse", 0.3, 0.12), Label("West End", 0.37, 0.7), Label("Møller & Sons", 0.62, 0.3))
    return Backdrop(shapes, labels, height_over_width(grid))
