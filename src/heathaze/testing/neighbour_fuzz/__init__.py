"""A net of hostile tables: it finds readers in which one person's rows change what others count.

A counting query has a bounded sensitivity only if every person's contribution follows from their own rows. Readers
break that silently: a quotation mark swallows somebody else's lines, a file's statistics switch a comparison off for
everybody, a folder called ``u=7`` gives all people one id. Symmetric data hide it. Here tables are generated with every
source, fault, id and position that is known to confuse an engine, and one property is checked on each, exactly:

    count(everybody) = Σ over people of count(that person alone)

    from heathaze.testing.neighbour_fuzz import Checker, hostile_table

    checker = Checker(tmp_path, "duckdb")
    for number in range(300):
        checker.check(hostile_table(14, number))
    checker.report.raise_if_any()

A reader of your own is a function from source, grid and options to Counts: ``Checker(tmp_path, read=mine)``. A failure
prints the seed and the number of its table; ``hostile_table(seed, number)`` makes it again. All values are made up.
"""

from heathaze.testing.neighbour_fuzz.check import Checker, PositionChecker, Refused, Report, Violation, shrunk
from heathaze.testing.neighbour_fuzz.generate import ROUND, hostile_table
from heathaze.testing.neighbour_fuzz.table import Recipe, Table, Visit

__all__ = [
    "ROUND",
    "Checker",
    "PositionChecker",
    "Recipe",
    "Refused",
    "Report",
    "Table",
    "Violation",
    "Visit",
    "hostile_table",
    "shrunk",
]
