"""A synthetic data market: a small town that wants records similar to its own, and five owners who offer records.

A record is an invented household: the size of its home, the kind of heating, and the energy that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.errors import InvalidInput

Columns = dict[str, npt.NDArray[np.generic]]

HEATING = ("gas", "oil", "heat pump", "district")

RANGES: Mapping[str, tuple[float, float] | tuple[str, ...]] = MappingProxyType(
    {
        "area": (20, 240),  # square metres
        "built": (1880, 2024),
        "residents": (1, 8),
        "winter": (-10, 8),  # mean outdoor temperature of January, °C
        "heating": HEATING,
        "tenure": ("owned", "rented"),
    }
)
"""The public columns: ranges of numbers and levels of categories that are common knowledge about homes."""


@dataclass(frozen=True)
class _Region:
    """Parameters of the distribution of households in one region: mean and deviation, or probabilities."""

    area: tuple[float, float]
    built: tuple[float, float]
    residents: float
    winter: tuple[float, float]
    heating: tuple[float, float, float, float]
    owned: float


_REGIONS = {
    "coast": _Region((95, 25), (1975, 20), 2.3, (3.5, 1.2), (0.55, 0.25, 0.18, 0.02), 0.6),
    "harbour_city": _Region((62, 18), (1960, 30), 1.8, (2.0, 0.8), (0.30, 0.02, 0.03, 0.65), 0.2),
    "plain": _Region((115, 28), (1988, 16), 2.8, (0.0, 1.0), (0.60, 0.22, 0.17, 0.01), 0.7),
    "hills": _Region((130, 32), (1950, 34), 2.9, (-4.0, 1.5), (0.15, 0.60, 0.24, 0.01), 0.8),
    "new_suburbs": _Region((120, 22), (2012, 7), 3.4, (-1.0, 1.0), (0.14, 0.01, 0.70, 0.15), 0.75),
}


@dataclass(frozen=True, eq=False)
class Market:
    """A synthetic data market: the town's own records, the records of each owner, and the public columns."""

    target: Columns
    owners: Mapping[str, Columns]
    columns: Mapping[str, tuple[float, float] | tuple[str, ...]]


def market(seed: int = 0, target: int = 400, each: int = 2000, *, hills: float = 0.7) -> Market:
    """Make a synthetic data market whose town resembles no single owner.

    The town has old homes in the hills and new suburbs below. Every table has the public columns and ``kwh``, the
    energy that a household uses in a year. ``kwh`` is for a model to predict and does not affect the choice of records.

    Args:
        seed: The seed of the market; the same seed gives the same rows.
        target: The number of households of the town.
        each: The number of households of every owner.
        hills: The share of the town's households in the hills, from 0 to 1; the others are in new suburbs.

    Returns:
        The tables of the town and of the owners, and the public columns.

    Raises:
        InvalidInput: A number is out of range.

    >>> made = market()
    >>> sorted(made.owners), len(made.target["kwh"])
    (['coast', 'harbour_city', 'hills', 'new_suburbs', 'plain'], 400)
    """
    target, each = whole(target, "target", "how many households"), whole(each, "each", "how many households")
    if not 0 <= hills <= 1:
        raise InvalidInput(f"hills is {hills!r}; give a part from 0 to 1.")
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    owners = {name: _households(rng, region, each) for name, region in _REGIONS.items()}
    high = round(hills * target)
    parts = [_households(rng, _REGIONS["hills"], high), _households(rng, _REGIONS["new_suburbs"], target - high)]
    order = rng.permutation(target)
    town = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    return Market(town, owners, RANGES)


def _households(rng: np.random.Generator, region: _Region, count: int) -> Columns:
    """Draw synthetic households of one region. Some values lie outside the public ranges, as in real data."""
    area = np.maximum(rng.normal(*region.area, count), 12).round(0)
    built = np.minimum(rng.normal(*region.built, count), 2024).round(0)
    residents = 1 + rng.poisson(region.residents - 1, count)
    winter = rng.normal(*region.winter, count).round(1)
    heating = rng.choice(len(HEATING), count, p=region.heating)
    owned = rng.random(count) < region.owned
    # Old homes lose heat faster. A heat pump makes three units of heat from one unit of energy.
    per_area = np.clip(210 - 1.3 * (built - 1950), 45, 260) * (18 - winter) / 18
    kwh = area * per_area / np.array([1.0, 1.1, 3.0, 1.05])[heating] + 900 * residents
    table: dict[str, Any] = {
        "area": area,
        "built": built.astype(np.int64),
        "residents": residents.astype(np.int64),
        "winter": winter,
        "heating": np.array(HEATING, dtype=object)[heating],
        "tenure": np.where(owned, "owned", "rented").astype(object),
        "kwh": (kwh * rng.lognormal(0, 0.15, count)).round(0),
    }
    return table
