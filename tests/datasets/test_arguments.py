"""Arguments that no synthetic dataset has are refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import heathaze as hz
from heathaze.errors import InvalidInput


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (hz.datasets.city, {"people": "a"}, "people is 'a'; give synthetic people, a whole number of at least 10"),
        (hz.datasets.city, {"people": 100, "visits": 499}, "visits is 499; give five visits or more for each person"),
        (hz.datasets.city, {"people": 9.5}, "people is 9.5"),
        (hz.datasets.city, {"seed": "a"}, "seed is 'a'; give a whole number of at least 0"),
        (hz.datasets.rides, {"seed": -1}, "seed is -1"),
        (hz.datasets.room, {"seed": None}, "seed is None"),
        (hz.datasets.market, {"seed": 0.5}, "seed is 0.5"),
        (hz.datasets.mixture, {"people": 10, "clusters": 3, "sparsity": 0.02, "size": 64, "seed": "a"}, "seed is 'a'"),
    ],
)
def test_a_wrong_argument_is_refused(make: Callable[..., Any], arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make(**arguments)
