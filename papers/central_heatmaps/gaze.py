"""Gaze data for appendix E.2: the fixations of the OSIE data set, which stand for SALICON, or a made-up gaze set.

OSIE has 15 viewers of each image, and the paper draws 50 of at least 50. A viewer's fixations of an image are therefore
dealt in turn into four parts, and each part counts as a person: 57 to 60 people an image, of about two fixations each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Person, x and y of each fixation; x and y in pixels."""


def fixations(source: str, image: int, config: Mapping[str, Any]) -> Columns:
    """The fixations of one image of "gaze" (the real file) or "made-up gaze"; images are numbered in random order."""
    made = config["gaze"]
    if source == "made-up gaze":
        return _made_up(image, made["pixels"], made["parts"])
    path = data_file(made["file"])
    assert path is not None
    return _dealt(path, made["parts"])[image]


@functools.cache
def _dealt(path: Path, parts: int) -> list[Columns]:
    """All images of the file in an order drawn once; the viewers of each image dealt into parts."""
    viewer, image, turn, x, y = columns_of(path, "user_id", "image", "fix_no", "x", "y")
    _, which = np.unique(image, return_inverse=True)
    person = viewer.astype(np.int64) * parts + turn % parts
    order = np.random.default_rng(seed_of("images")).permutation(which.max() + 1)
    by_image = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    rows = [by_image[end - size : end] for end, size in zip(ends, np.bincount(which), strict=True)]
    return [(person[rows[one]], x[rows[one]].astype(float), y[rows[one]].astype(float)) for one in order]


def _made_up(image: int, pixels: list[int], parts: int) -> Columns:
    """15 viewers with about 9 fixations each: most on a few objects and in the middle, a tenth anywhere."""
    rng = np.random.default_rng(seed_of("made-up gaze", image))
    sides = np.array(pixels)
    objects = np.vstack([sides / 2, rng.uniform(0.15, 0.85, (rng.integers(2, 6), 2)) * sides])
    spread = rng.uniform(0.02, 0.06, len(objects)) * sides[0]
    viewer = np.repeat(np.arange(15), rng.integers(6, 13, 15))
    seen = rng.choice(len(objects), len(viewer), p=rng.dirichlet(np.full(len(objects), 2.0)))
    place = objects[seen] + rng.normal(0, 1, (len(viewer), 2)) * spread[seen, None]
    anywhere = rng.random(len(viewer)) < 0.1
    place[anywhere] = rng.uniform(0, 1, (anywhere.sum(), 2)) * sides
    place = np.clip(place, 0, sides - 1e-6)
    turn = np.arange(len(viewer)) - np.searchsorted(viewer, viewer)
    return viewer * parts + turn % parts, place[:, 0], place[:, 1]
