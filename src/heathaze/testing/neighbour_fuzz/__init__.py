"""Fuzz tests of readers: find readers in which the rows of one person change the counts of other people.

A counting query has a bounded sensitivity only if the contribution of each person depends on this person's rows alone.
Readers may break this condition silently. A quotation mark swallows lines of other people, wrong statistics in a file
disable a comparison for everybody, or a folder called ``u=7`` gives all people the same id. In symmetric test data such
errors cancel out. This package generates hostile tables, with sources, faults, ids and positions that are known to
confuse an engine. On each table it checks one property exactly:

    count(everybody) = Σ over people of count(that person alone)

    from heathaze.testing.neighbour_fuzz import Checker, hostile_table

    checker = Checker(tmp_path, "duckdb")
    for number in range(300):
        checker.check(hostile_table(14, number))
    checker.report.raise_if_any()

To check your own reader, give a function from source, grid and options to Counts: ``Checker(tmp_path, read=mine)``. A
failure prints the seed and the number of its table, and ``hostile_table(seed, number)`` makes this table again. All
values are synthetic.
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
