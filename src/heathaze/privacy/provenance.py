"""Provenance: public facts on how a release was made, without any seed, row count, or name or hash of the input."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from heathaze.errors import InvalidInput
from heathaze.privacy.events import Event, event_to_dict
from heathaze.version import __version__


class Parameters(Protocol):
    """A mechanism of any model."""

    def parameters(self) -> dict[str, Any]:
        """The public parameters."""


@dataclass(frozen=True)
class Provenance:
    """Public facts on how a release was made.

    Args:
        mechanism: Name of the mechanism.
        parameters: The public parameters of the mechanism.
        weight: How one unit is counted, such as "share".
        at_most: The largest number of cells that count for one unit, or None for all its cells.
        event: The event of the release, as :func:`heathaze.privacy.events.event_to_dict` writes it.
        day: The day in UTC, such as "2026-01-31"; today if left out.
        version: The version of Heathaze.
        ledger_entry: Number and hash of the ledger's entry, or None without a ledger.
        simulated: Whether the noise came from simulated randomness, so that the result is not private.
        extra: Further public facts that only one model has.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    weight: str
    at_most: int | None
    event: Mapping[str, Any]
    day: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).date().isoformat())
    version: str = __version__
    ledger_entry: Mapping[str, Any] | None = None
    simulated: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_devices(
        cls, mechanism: Parameters, event: Event, simulated: bool, extra: Mapping[str, Any] | None = None
    ) -> Provenance:
        """The provenance of a map that a server made from what devices sent: every person has the same weight."""
        described = type(mechanism).__name__, mechanism.parameters(), "share", None, event_to_dict(event)
        return cls(*described, simulated=simulated, extra=extra or {})

    def to_dict(self) -> dict[str, Any]:
        """Convert the provenance to plain numbers and texts, for files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Provenance:
        """Build a provenance from the dictionary that :meth:`to_dict` returned.

        Args:
            fields: The dictionary. It may come from an unknown file, so every field is checked.

        Raises:
            InvalidInput: A field is unknown or has a wrong type, or there is no day.
        """
        known = {name: fields[name] for name in _KINDS if name in fields}
        if set(fields) - set(known) or any(not isinstance(value, _KINDS[name]) for name, value in known.items()):
            raise InvalidInput("The provenance has fields that no release has; the file is damaged or was edited.")
        if not _is_day(known.get("day", "")) or (known.get("at_most") or 1) < 1:
            raise InvalidInput(
                "The provenance lacks a day such as 2026-01-31, or allows a person less than one cell; the file is "
                "damaged or was edited."
            )
        return cls(**known)


def _is_day(text: str) -> bool:
    try:
        return bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text)) and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("mechanism", "weight", "day", "version"), str),
    **dict.fromkeys(("parameters", "event", "extra"), Mapping),
    "at_most": int | None,
    "ledger_entry": Mapping | None,
    "simulated": bool,
}
