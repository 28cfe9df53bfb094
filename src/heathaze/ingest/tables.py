"""Tables of the marketplace: read files with all their columns, and write the chosen rows to a file.

file ─► Tables.read ─► Table, all columns ─► Tables.cells ─► some columns as arrays
                            └── the chosen rows ─► Tables.write ─► file, all columns and whose they were

DuckDB reads Parquet and CSV. A column of a CSV file is written as numbers if all its values are numbers without leading
zeros, and as text otherwise. Blanks around numbers and names of columns are ignored. If a column has different types in
different files, the output has a type that can hold all values: whole numbers, floating-point numbers or text.
The output has two more columns: ``owner``, and ``row``, the index of the row in the owner's file, from 0.
"""

from __future__ import annotations

import contextlib
import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.errors import CannotWrite, HeathazeError, TooLarge, UnknownFormat, UnreadableData
from heathaze.ingest.columns import locate, sql_name, sql_text
from heathaze.ingest.source import Format, check_parquet, find_files
from heathaze.privacy.randomness import Secret

NUMBER = r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""Matches a number as text, without leading zeros: 00501 is a name and not a number."""

_ROW, _PLACE = "__heathaze_row", "__heathaze_place"
_INTEGERS = r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?"
_NUMBERS = rf"({_INTEGERS}|FLOAT|DOUBLE|DECIMAL\(.*\))$"
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = rf"^{NUMBER}$|^(?i:nan)$"


@dataclass(frozen=True)
class Table:
    """Description of one file that :class:`Tables` has read: its columns with their DuckDB types, but no values.

    The cells of a CSV file are kept as text, whatever the type of their column.

    Args:
        path: The file.
        number: The index of the table in :class:`Tables`.
        types: DuckDB type of each column.
        rows: The number of rows, which is secret.
        as_written: Whether cells are kept as text.
    """

    path: Path
    number: int
    types: Mapping[str, str]
    rows: int = field(repr=False)
    as_written: bool = False

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers."""
        return re.match(_NUMBERS, self.types[name]) is not None

    def kind(self, name: str) -> str:
        """Whether a column holds a "number", a "date" or anything else, which counts as "text"."""
        if self.is_number(name):
            return "number"
        return "date" if self.types[name].startswith(("DATE", "TIME")) else "text"


class Tables(Secret):
    """The rows of several files with all their columns, of which chosen rows can be written to a file.

    CSV cells are kept as text. A column is written as numbers if all its cells are numbers without leading zeros,
    perhaps with blanks around them.
    """

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        self._connection.execute("set enable_progress_bar = false")
        # DuckDB must not rely on a file's statistics of its values, which may be wrong (docs/decisions/0019).
        self._connection.execute("set disabled_optimizers = 'statistics_propagation'")
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._connection.close()

    def read(self, path: str | Path) -> Table:
        """Read a Parquet or CSV file and keep its rows.

        Args:
            path: The file.

        Returns:
            A description of the table without its rows.

        Raises:
            UnreadableData: There is no such file, or it is damaged.
            UnknownFormat: The file is neither Parquet nor CSV.
        """
        given = Path(path)
        if given.is_file() and not given.stat().st_size:
            raise UnreadableData(f"{given} is empty; a table has at least the names of its columns.")
        if not given.exists():
            raise UnreadableData(f"There is no file {given}; check the path.")
        files = find_files(str(given))
        if files.format not in (Format.PARQUET, Format.CSV):
            raise UnknownFormat(f"{given} is neither Parquet nor CSV; convert it.")
        name = f"t{self._count}"
        place = sql_text(glob.escape(files.paths[0]))
        with self._sentences(given):
            if files.format is Format.PARQUET:
                check_parquet(self._connection, files.paths, [], str(given))
                self._keep(name, f"select * from read_parquet({place}, hive_partitioning = false, can_have_nan = true)")
                described = self._connection.execute(f"describe {name}").fetchall()
                types = {column: str(kind) for column, kind, *_ in described if column != _ROW}
            else:
                names = _without_blanks(files.names)
                locate(names, [], str(given), text=True)
                columns = ", ".join(f"{sql_text(column)}: 'VARCHAR'" for column in names)
                self._keep(
                    name,
                    f"select * from read_csv({place}, columns = {{{columns}}}, header = true, auto_detect = false, "
                    f"delim = {sql_text(files.separator)}, quote = '\"', escape = '\"', hive_partitioning = false)",
                )
                types = self._narrowed(name, names)
            (rows,) = self._connection.execute(f"select count(*) from {name}").fetchall()[0]
        self._count += 1
        return Table(given, self._count - 1, types, rows, files.format is Format.CSV)

    def _keep(self, name: str, select: str) -> None:
        self._connection.execute(
            f"create or replace temporary table {name} as select row_number() over () - 1 as {_ROW}, * from ({select})"
        )

    def _narrowed(self, table: str, names: Sequence[str]) -> dict[str, str]:
        """Return a type for each column of a CSV table: a number type if all its cells are numbers, else text."""
        tests = ", ".join(
            f"bool_and(regexp_matches({_trimmed(sql_name(name))}, '{pattern}'))"
            for name in names
            for pattern in (_INTEGER, _NUMBER)
        )
        found = self._connection.execute(f"select {tests} from {table}").fetchall()[0]
        return {
            name: "BIGINT" if whole else "DOUBLE" if number else "VARCHAR"
            for name, whole, number in zip(names, found[::2], found[1::2], strict=True)
        }

    def cells(
        self, table: Table, *, numbers: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> dict[str, npt.NDArray[Any]]:
        """Return some columns of a table as arrays, with each cell converted independently.

        The type of the whole column is not used. Otherwise a single cell could change this type, and with it the values
        of all other cells. In a CSV file, a cell that is not a number counts as missing.

        Args:
            table: The table, from :meth:`read`.
            numbers: Names of columns to read as numbers; columns of other types are returned as text.
            texts: Names of columns to read as text.

        Returns:
            An array for each name that the table has, in the order of the rows.

        Raises:
            UnreadableData: DuckDB cannot read a column.
        """
        found = {name: _number_cells(table, name) for name in numbers if name in table.types}
        found |= {name: f"cast({sql_name(name)} as varchar)" for name in texts if name in table.types}
        wanted = ", ".join(f"{cell} as c{place}" for place, cell in enumerate(found.values()))
        with self._sentences(table.path):
            arrays = self._connection.execute(
                f"select {wanted or 'null as c0'} from t{table.number} order by {_ROW}"
            ).fetchnumpy()
        return {name: arrays[f"c{place}"] for place, name in enumerate(found)}

    def check_names(self, owners: Mapping[str, Table]) -> None:
        """Refuse tables of owners whose rows cannot be written to one file.

        Args:
            owners: The table of each owner.

        Raises:
            UnreadableData: A table has a column with a name that the output adds, such as ``owner``.
        """
        for table in owners.values():
            taken = [
                name
                for name in table.types
                if name.lower() in ("owner", "row") or name.lower().startswith("__heathaze_")
            ]
            if taken:
                raise UnreadableData(
                    f"{table.path} has a column {taken[0]!r}, a name that the output needs to say whose rows were "
                    "bought; rename it."
                )

    def write(self, path: Path, owners: Mapping[str, Table], names: Sequence[str], rows: npt.ArrayLike) -> None:
        """Write the chosen rows to a file in the order of choice, with all columns, then ``owner`` and ``row``.

        A column that an owner does not have is empty in the rows of this owner.

        Args:
            path: A file that ends in .parquet or .csv.
            owners: The table of each owner.
            names: The owner of each chosen row.
            rows: The index of each chosen row in its owner's table, from 0.

        Raises:
            CannotWrite: The file cannot be written.
        """
        picks = {
            "owner": np.array(list(names), dtype=object),
            "row": np.asarray(rows, dtype=np.int64),
            _PLACE: np.arange(len(names)),
        }
        self._connection.register("picks", picks)
        chosen = {name: table for name, table in owners.items() if name in set(names)}
        how = "format parquet, compression zstd" if path.suffix.lower() == ".parquet" else "format csv, header"
        with self._sentences(path, CannotWrite):
            self._connection.execute(
                f"copy (select * exclude (owner, row, {_PLACE}), owner, row from ({_union(chosen)}) "
                f"order by {_PLACE}) to {sql_text(str(path))} ({how}, use_tmp_file false)"
            ).fetchall()

    @contextlib.contextmanager
    def _sentences(self, path: Path, kind: type[HeathazeError] = UnreadableData) -> Iterator[None]:
        """Replace errors of DuckDB, whose messages quote data, with sentences that name only the class of the error."""
        import duckdb

        done = "written" if kind is CannotWrite else "read"
        try:
            yield
        except duckdb.OutOfMemoryException:
            raise TooLarge(f"{path} does not fit into memory; use a machine with more.") from None
        except duckdb.IOException:
            raise kind(f"{path} cannot be {done}; the disk or the system refused.") from None
        except duckdb.Error as error:
            raise kind(
                f"{path} cannot be {done} ({type(error).__name__} of DuckDB); "
                "a file is damaged, has rows of different lengths, or is not what its ending says."
            ) from None


def _number_cells(table: Table, column: str) -> str:
    """Write SQL that reads each cell of a column as a number; a text that is not a number becomes null."""
    name = sql_name(column)
    if table.as_written:
        return f"try_cast({_trimmed(name)} as double)"
    plain = table.is_number(column) or table.types[column] == "BOOLEAN"
    return name if plain else f"cast({name} as varchar)"


def _typed(table: Table, name: str, of: str = "") -> str:
    """Write SQL that converts a column to the type of the table's description."""
    place, kind = of + sql_name(name), table.types[name]
    return f"cast({_trimmed(place)} as {kind})" if table.as_written and kind != "VARCHAR" else place


def _union(owners: Mapping[str, Table]) -> str:
    """Write SQL that joins the chosen rows of all owners. Columns of different types are cast to a common type."""
    types: dict[str, set[str]] = {}
    for table in owners.values():
        for column, kind in table.types.items():
            types.setdefault(column.lower(), set()).add(kind)
    selects = []
    for name, table in owners.items():
        columns = [
            f"{_brought(_typed(table, column, of='t.'), types[column.lower()])} as {sql_name(column)}"
            for column in table.types
        ]
        selects.append(
            f"select {', '.join(columns)}, p.owner, p.row, p.{_PLACE} from t{table.number} t join picks p "
            f"on p.row = t.{_ROW} and p.owner = {sql_text(name)}"
        )
    return " union all by name ".join(selects)


def _brought(value: str, types: set[str]) -> str:
    """Write SQL that casts a value to a type that can hold the values of all given types."""
    if len(types) == 1 or all(re.fullmatch(_INTEGERS, kind) for kind in types):
        return value
    if all(re.match(_NUMBERS, kind) for kind in types):
        return f"cast({value} as double)"
    return f"cast({value} as varchar)"


def _without_blanks(names: Sequence[str]) -> list[str]:
    """Remove blanks around the names of columns, if all names still differ without them."""
    plain = [name.strip() for name in names]
    return plain if len({name.lower() for name in plain}) == len(plain) and all(plain) else list(names)


def _trimmed(place: str) -> str:
    """Write SQL that removes blanks around a text; an empty text becomes NULL."""
    return f"nullif(trim({place}), '')"
