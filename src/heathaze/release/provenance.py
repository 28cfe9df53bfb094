"""How a release came about, in public facts only: no seed, no row count, no input name or hash, no bound from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heathaze.version import __version__


@dataclass(frozen=True)
class Provenance:
    """Mechanism and parameters, how a person's contribution was bounded, version, day, and the ledger's entry."""

    mechanism: str
    parameters: Mapping[str, Any]
    weight: str
    at_most: int | None
    event: Mapping[str, Any]
    day: str
    version: str = __version__
    ledger_entry: Mapping[str, Any] | None = None
    simulated: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Provenance:
        """Undo :meth:`to_dict`."""
        return cls(**fields)
