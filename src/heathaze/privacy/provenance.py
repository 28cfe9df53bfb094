"""How a release was made, in public facts only: no seed, no count of rows, no name or hash of the input."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heathaze.errors import InvalidInput
from heathaze.version import __version__


@dataclass(frozen=True)
class Provenance:
    """The public facts of a release.

    Args:
        mechanism: Name of the mechanism.
        parameters: Its public parameters.
        weight: How one unit is counted, such as "share".
        at_most: The largest number of cells of one unit that count, or None for all.
        event: The event of the release, as :func:`heathaze.privacy.events.event_to_dict` writes it.
        day: The day in UTC, such as "2026-01-31"; today if left out.
        version: The version of Heathaze.
        ledger_entry: Number and hash of the ledger's entry, or None without a ledger.
        simulated: Whether the noise could be repeated, so that this is not a release.
        extra: More public facts of one model.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts, for files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Provenance:
        """Return the provenance that :meth:`to_dict` described.

        Args:
            fields: What :meth:`to_dict` returned. They may come from an unknown file, so each is checked.

        Raises:
            InvalidInput: A field is unknown or has a wrong type, or there is no day.
        """
        known = {name: fields[name] for name in _KINDS if name in fields}
        if set(fields) - set(known) or any(not isinstance(value, _KINDS[name]) for name, value in known.items()):
            raise InvalidInput("The provenance has fields that no release has; the file is damaged or was edited.")
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", known.get("day", "")):
            raise InvalidInput("The provenance has no day such as 2026-01-31; the file is damaged or was edited.")
        return cls(**known)


_KINDS: dict[str, Any] = {
    "mechanism": str,
    "parameters": Mapping,
    "weight": str,
    "at_most": int | None,
    "event": Mapping,
    "day": str,
    "version": str,
    "ledger_entry": Mapping | None,
    "simulated": bool,
    "extra": Mapping,
}
