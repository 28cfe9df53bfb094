"""Whom a guarantee protects: the rows that count as one."""

from __future__ import annotations

import enum

from heathaze.errors import InvalidInput


class Unit(enum.Enum):
    """The protected unit: everything of one unit may change, and the release hardly notices."""

    PERSON = "person"
    PERSON_DAY = "person-day"
    VISIT = "visit"
    SOURCE = "source"
    RECORD = "record"

    @classmethod
    def parse(cls, name: str | Unit) -> Unit:
        """A unit of visits by its name; sensors (sources) and marketplaces (records) name their unit themselves.

        >>> Unit.parse("person-day")
        <Unit.PERSON_DAY: 'person-day'>
        """
        unit = next((unit for unit in (cls.PERSON, cls.PERSON_DAY, cls.VISIT) if name in (unit, unit.value)), None)
        if unit is None:
            raise InvalidInput(f"There is no unit {name!r}; choose 'person', 'person-day' or 'visit'.")
        return unit

    @property
    def described(self) -> str:
        """What is protected, in words that end in 'in the data'."""
        return {
            Unit.PERSON: "one person, with all of their visits",
            Unit.PERSON_DAY: "one day of one person, with all visits of that day (a person's days add up)",
            Unit.VISIT: "one single visit (a person's visits add up)",
            Unit.SOURCE: "sources of heat",
            Unit.RECORD: "one record (a person's records add up)",
        }[self]
