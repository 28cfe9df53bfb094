"""A self-contained HTML page with a map to pan and zoom. The page loads nothing from elsewhere and works offline."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from heathaze.domain.density import Density
from heathaze.domain.projection import EARTH_RADIUS_METRES
from heathaze.errors import InvalidInput
from heathaze.inference.interval import interval
from heathaze.maps.shade import colour_table, height_over_width, sigmas
from heathaze.maps.uncertainty import FAINTEST, PALETTE
from heathaze.types import Floats

PAGE_PALETTES = ("inferno", "cividis")
CONFIDENCE = 0.9
"""The confidence of the interval that the page shows for a cell."""

_STEPS = 16


def render_page(
    density: Density,
    *,
    title: str,
    total: float | None,
    total_unit: str,
    guarantee: str,
    facts: Mapping[str, str],
    deviations: Sequence[Floats] | None = None,
) -> str:
    """Make the HTML page of a map.

    Args:
        density: The map, with at most 1024 cells along a side to keep the page small.
        title: Heading of the page.
        total: Estimated total of the whole map, from which the page computes the amount in a cell; or ``None``.
        total_unit: The name of what is counted, in the plural: "people".
        guarantee: The guarantee as a sentence.
        facts: Name and value of each line of the details.
        deviations: Standard deviations of all cells: first of the map without smoothing, then after each smoothing that
            the page offers (:func:`heathaze.maps.shade.sigmas`). None if unknown; the page then shows no uncertainty.

    Returns:
        HTML.

    Raises:
        InvalidInput: The deviations do not fit the map.
    """
    data = _data(density, total, total_unit)
    if deviations is not None:
        data["sure"] = _sure(density, deviations)
    filled = {
        "title": html.escape(title),
        "guarantee": html.escape(guarantee),
        "facts": "\n".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>" for name, value in facts.items()
        ),
        "switches": "" if deviations is None else _text("switches.html").rstrip(),
        "data": _json_for_script(data),
    }
    # One pass: a title that looks like a placeholder is not filled in again.
    return re.sub(r"\{\{(title|guarantee|facts|switches|data)\}\}", lambda found: filled[found[1]], _text("page.html"))


def _text(name: str) -> str:
    return resources.files("heathaze.maps").joinpath(name).read_text(encoding="utf-8")


def _data(density: Density, total: float | None, total_unit: str) -> dict[str, Any]:
    encoding, packed = pack(density.values)
    return {
        "grid": density.grid.to_dict(),
        "heightOverWidth": height_over_width(density.grid),
        "earthRadius": EARTH_RADIUS_METRES,
        "total": total,
        "unit": total_unit,
        "smoothing": [0.0, *sigmas(density.grid)],
        "encoding": encoding,
        "values": base64.b64encode(packed).decode(),
        "palettes": {name: base64.b64encode(colour_table(name).tobytes()).decode() for name in PAGE_PALETTES},
    }


def _sure(density: Density, deviations: Sequence[Floats]) -> dict[str, Any]:
    """Make the page's data about uncertainty: deviations for each smoothing, and a table of intervals.

    The table gives the interval of a share for each ratio of standard deviation to share.
    """
    expected = 1 + len(sigmas(density.grid))
    if len(deviations) != expected or any(one.shape != density.grid.shape for one in deviations):
        raise InvalidInput(f"The page needs standard deviations of every cell for each of its {expected} smoothings.")
    relative = np.geomspace(1e-3, 1e2, 61)
    low, high = interval(np.ones(len(relative)), relative, CONFIDENCE)
    return {
        "deviations": [pack_steps(one) for one in deviations],
        "faintest": FAINTEST,
        "palette": PALETTE,
        "interval": {
            "confidence": CONFIDENCE,
            "relative": [float(relative[0]), float(relative[-1])],
            "low": low.round(5).tolist(),
            "high": high.round(5).tolist(),
        },
    }


def pack_steps(values: Floats) -> dict[str, Any]:
    """Pack the standard deviations of a page into one byte each, with a relative error of about 2 percent.

    A byte b stands for ``top`` · 2^(−b/16), where ``top`` is the largest number. 255 stands for zero, and 254 for all
    numbers that are at least 60,000 times smaller than ``top``.

    Args:
        values: Numbers that are not negative.

    >>> pack_steps(np.array([4.0, 2.0, 0.0]))
    {'top': 4.0, 'steps': 'ABD/'}
    """
    top = float(values.max(initial=0.0))
    held = values > 0
    halvings = np.log2(top / np.where(held, values, 1.0)) if top > 0 else np.zeros(values.shape)
    steps = np.where(held, np.clip(np.round(_STEPS * halvings), 0, 254), 255).astype(np.uint8)
    return {"top": top, "steps": base64.b64encode(steps.tobytes()).decode()}


def pack(values: Floats) -> tuple[str, bytes]:
    """Pack the values of a page's map row by row, as float32 (``"plain"``) or as runs of equal values (``"runs"``).

    Numbers are little-endian, and the shorter form is chosen. A run is its length, then its value. The length is a
    varint: 7 bits in each byte, the lowest bits first, and the high bit is set if another byte follows. Runs make maps
    that are mostly zero, or that consist of a few squares, much smaller.

    Args:
        values: The values of a map.

    Returns:
        ``"plain"`` or ``"runs"``, and the bytes.

    >>> pack(np.array([[0.0, 0.0, 0.0, 1.0]]))
    ('runs', b'\\x03\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x80?')
    """
    flat = values.ravel().astype("<f4")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    if 5 * len(starts) >= 4 * len(flat):
        return "plain", flat.tobytes()
    lengths = np.diff(np.append(starts, len(flat))).tolist()
    packed = bytearray()
    for start, length in zip(starts.tolist(), lengths, strict=True):
        while length >= 128:
            packed.append(length & 127 | 128)
            length >>= 7
        packed.append(length)
        packed += flat[start].tobytes()
    return "runs", bytes(packed)


def _json_for_script(data: Mapping[str, Any]) -> str:
    """Write the page's data as JSON in which no text can end the surrounding script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
