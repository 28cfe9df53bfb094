"""One self-contained page with a map to pan and zoom. It loads nothing from elsewhere, so it works offline."""

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
"""Of the interval that the page shows for a cell."""

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
    """The page as text.

    Args:
        density: The map, at most 1024 cells a side to stay light.
        title: Heading of the page.
        total: Estimated amount on the whole map, so that a cell can say about how many it holds; or ``None``.
        total_unit: What is counted, in the plural: "people".
        guarantee: What is promised, in words.
        facts: Name and value of each line of the details.
        deviations: Standard deviation of every cell: of the map as it is, and after each smoothing that the page offers
            (:func:`heathaze.maps.shade.sigmas`). None where they are not known; the page then shows no uncertainty.

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
    """Standard deviations for each smoothing, and the table that turns one and a share into an interval."""
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
    """Numbers to 2 percent in a byte each: the largest (``top``), and by how many 16ths of a halving each is smaller.

    255 stands for zero, and 254 for everything that is 60,000 times smaller than the top.

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
    """The values row by row, as little-endian float32: one each (``"plain"``), or as runs where that is shorter.

    A run (``"runs"``) is its length as a varint (7 bits a byte, lowest first, the high bit says that more follow), then
    its value. Maps that are mostly zero, or drawn from a few squares, become much smaller.

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
    """JSON that cannot end the script element it stands in, whatever the texts hold."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
