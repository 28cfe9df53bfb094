"""The picture of a map beside how sure it is: certain squares, and how near each number is to the truth."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from heathaze.maps.mosaic import draw_classes, draw_mosaic, draw_swatch, legend_length
from heathaze.maps.sheet import PAPER, Look, WideSheet, Words, wrapped
from heathaze.maps.squares import HATCHING, OTHER_MAPS, UNKNOWN, WHITE, Squares, how_sure
from heathaze.types import Integers

NEAR = (0.3, 0.5, 0.7)
"""Limits of the classes of nearness: the farther end of the interval is at most this far off, relative to the number.

An interval may be longer above the number than below it."""

BLUES = {"light": ("#08519c", "#4a98c9", "#a6cee4", "#dfebf7"), "dark": ("#d6e6f4", "#7fb9da", "#2e7ebc", "#1a446e")}
"""Colours of the classes of nearness, from the nearest, which differs most from the paper."""

_SIDE = 5.2  # inches


def nearness(squares: Squares) -> Integers:
    """Find how near the number of each coloured square is to the truth.

    Args:
        squares: The squares, with error bars.

    Returns:
        The class among :data:`NEAR`, from 0 (nearest) to 3. White and unknown squares keep their kind.
    """
    people = np.where(squares.kinds >= 0, squares.people, 1.0)
    off = np.maximum(squares.high - people, people - squares.low) / people
    return np.where(squares.kinds >= 0, np.searchsorted(NEAR, off), squares.kinds)


def draw_pair(squares: Squares, words: Words, look: Look, path: Path | BinaryIO, kind: str = "png") -> None:
    """Draw certain squares, and beside them how near each number is to the truth.

    Args:
        squares: The squares, with error bars.
        words: The texts that come from the release.
        look: The texts and the look that the user chose.
        path: A file, or a binary stream.
        kind: ``"png"``, ``"svg"`` or ``"pdf"``.
    """
    theme, blues = look.paper, BLUES[look.paper]
    headings = ("Map", f"How near to the truth, {how_sure(squares.confidence)}?")
    height = 0.3 + max(legend_length(squares, look.backdrop), 0.4 + 0.32 * (len(blues) + 2))
    sheet = WideSheet(squares.grid, words, look, headings, height, _SIDE)
    left, right = sheet.maps
    draw_mosaic(left, squares, look, sheet.width, sheet.height)
    draw_mosaic(right, squares, look, sheet.width, sheet.height, (nearness(squares), blues))
    end = draw_classes(sheet, squares, *sheet.column)
    small = "\n".join(wrapped(OTHER_MAPS, max(sheet.width, 3.2), 8.5))
    sheet.text(sheet.column[0], end, small, size=8.5, linespacing=1.35, faint=True)
    at, top = sheet.lefts[1], sheet.column[1]
    sheet.text(at, top - 0.02, "Distance of the truth from the number", size=11, weight="bold")
    top += 0.32
    names = [f"at most {100 * limit:.0f} % of it" for limit in NEAR] + [f"more than {100 * NEAR[-1]:.0f} % of it"]
    for colour, name in zip(blues, names, strict=True):
        top = draw_swatch(sheet, at, top, "", [name], colour)
    top = draw_swatch(sheet, at, top, "", [f"surely {squares.name(WHITE)} {squares.unit}"], PAPER[theme])
    draw_swatch(sheet, at, top, "unknown", [squares.name(UNKNOWN)], HATCHING[theme][0])
    sheet.save(path, kind)
