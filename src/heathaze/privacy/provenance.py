"""How a release came about, in public facts only: no seed, row count, input name or hash, no data-derived bound."""

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
    """Mechanism and parameters, how a person's contribution was bounded, version, day, and the ledger's entry."""

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
        """Plain numbers and texts, for files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Provenance:
        """Undo :meth:`to_dict`; the fields may come from a stranger's file, so each is looked at."""
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
