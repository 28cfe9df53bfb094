"""Catalogue of all local mechanisms, and how to rebuild a mechanism from its description in a file."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from heathaze.domain.grid import Grid
from heathaze.errors import HeathazeError, UnreadableData
from heathaze.local.disk_area import DiskArea
from heathaze.local.hybrid_uniform_exponential import HybridUniformExponential
from heathaze.local.local_hashing import LocalHashing
from heathaze.local.mechanism import Estimator, fingerprint, fingerprint_of_text, parameter_names
from heathaze.local.mixture import Mixture
from heathaze.local.planar_laplace import PlanarLaplace
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.local.square_wave import SquareWave2D
from heathaze.local.subset_exponential import SubsetExponential
from heathaze.local.unary_encoding import UnaryEncoding

MECHANISMS = (
    DiskArea,
    HybridUniformExponential,
    LocalHashing,
    Mixture,
    PlanarLaplace,
    RandomizedResponse,
    SquareWave2D,
    SubsetExponential,
    UnaryEncoding,
)
"""The classes of all local mechanisms; a file of reports may name any of them."""

_RATIONAL = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?")


def mechanism_from_dict(fields: Mapping[str, Any], source: object) -> Estimator:
    """Rebuild the local mechanism that a file of reports describes. The fields may come from a hostile sender.

    Args:
        fields: The fields that :func:`heathaze.local.mechanism.mechanism_to_dict` returned, and ``fingerprint``.
            Further fields are ignored.
        source: The origin of the fields, such as the path of a file; errors name it.

    Returns:
        The mechanism.

    Raises:
        UnreadableData: The fields describe no mechanism, or their fingerprint does not match them.

    >>> from heathaze.local.mechanism import mechanism_to_dict
    >>> coin = RandomizedResponse(Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), epsilon=1)
    >>> fields = mechanism_to_dict(coin) | {"fingerprint": fingerprint(coin)}
    >>> mechanism_from_dict(fields, "this example") == coin
    True
    """
    mechanism: Estimator = mechanism_among(MECHANISMS, fields, source)
    return mechanism


def mechanism_among(kinds: tuple[type[Any], ...], fields: Mapping[str, Any], source: object) -> Any:
    """Rebuild a mechanism of one of several classes; see :func:`mechanism_from_dict`.

    Args:
        kinds: The classes that the fields may name.
        fields: The description and its fingerprint.
        source: The origin of the fields; errors name it.

    Raises:
        UnreadableData: The fields describe no mechanism of these classes, or their fingerprint does not match them.
    """
    try:
        text = json.dumps({name: fields[name] for name in ("mechanism", "parameters", "grid")}, sort_keys=True)
        mechanism = _built(text, kinds)
    except HeathazeError as problem:
        raise UnreadableData(f"{source} describes a mechanism that cannot be built: {problem}") from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise damaged(source) from None
    # The fingerprint must match both the text of the file and the mechanism that was built from the text.
    if not fields.get("fingerprint") == fingerprint_of_text(text) == fingerprint(mechanism):
        raise UnreadableData(
            f"{source} does not match its own fingerprint: it was edited, or made by another version of Heathaze; "
            "fetch it again."
        )
    return mechanism


def damaged(source: object) -> UnreadableData:
    """The error for a file of reports whose fields contradict each other."""
    return UnreadableData(f"{source} is damaged or was edited: its parts do not fit together; fetch it again.")


@functools.lru_cache(maxsize=64)
def _built(text: str, kinds: tuple[type[Any], ...]) -> Any:
    """Build a mechanism from its JSON description. The cache helps because many files have the same description."""
    fields = json.loads(text)
    kind = {kind.__name__: kind for kind in kinds}[fields["mechanism"]]
    parameters = dict(fields["parameters"])
    plain = all(type(value) in (int, bool) or _is_plain(value) for value in parameters.values())
    # Every parameter must be given, because the server would need a long search to find the default of a missing
    # parameter.
    if set(parameters) != set(parameter_names(kind)) or not plain or not _RATIONAL.fullmatch(parameters["epsilon"]):
        raise ValueError
    return kind(Grid.from_dict(fields["grid"]), **parameters)


def _is_plain(value: object) -> bool:
    """Whether a parameter is a word or a fraction. Other text is refused: 1e999999999 alone would fill the memory."""
    return isinstance(value, str) and bool(re.fullmatch(r"[a-z-]{1,62}", value) or _RATIONAL.fullmatch(value))
