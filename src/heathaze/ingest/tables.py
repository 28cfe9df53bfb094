"""Files of rows, held with all of their columns, so that chosen rows can be written back whole.

file ─► Tables.read ─► Table, all columns ─► Tables.cells ─► some columns as arrays
                            └── the chosen rows ─► Tables.write ─► file, all columns and whose they were

DuckDB reads Parquet and CSV. In a CSV file that is written back, a column is numeric if all of its values are numbers
without leading zeros, and text otherwise; blanks around numbers and names of columns do not count. A column that has
different types in different files becomes one that holds all of them: whole numbers, floating-point numbers or text.
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
from heathaze.ingest.columns import locate
from heathaze.ingest.source import Format, check_parquet, find_files
from heathaze.privacy.randomness import Secret

NUMBER = r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""A number as text, without leading zeros: 00501 is a name."""

_ROW, _PLACE = "__heathaze_row", "__heathaze_place"
_INTEGERS = r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?"
_NUMBERS = rf"({_INTEGERS}|FLOAT|DOUBLE|DECIMAL\(.*\))$"
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = rf"^{NUMBER}$|^(?i:nan)$"


@dataclass(frozen=True)
class Table:
    """One file that was read: its columns with their DuckDB types. It prints no values.

    The cells of a CSV file are held as they are written, whatever the type of their column.

    Args:
        path: The file.
        number: Which of the tables of :class:`Tables` it is.
        types: DuckDB type of each column.
        rows: How many rows there are; secret.
        as_written: Whether cells are held as text.
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
    """Rows of files, held with all of their columns, so that chosen rows can be written back whole.

    CSV is held as text. A column is written back as numbers if all of its cells are numbers, perhaps with blanks around
    them, and none has a leading zero.
    """

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        self._connection.execute("set enable_progress_bar = false")
        # What a file says about its own values is not believed (docs/decisions/0019).
        self._connection.execute("set disabled_optimizers = 'statistics_propagation'")
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._connection.close()

    def read(self, path: str | Path) -> Table:
        """Read a Parquet or CSV file.

        Args:
            path: The file.

        Returns:
            What may be known about it; the rows stay here.

        Raises:
            UnreadableData: There is no such file, or it is damaged.
            UnknownFormat: It is neither of the two.
        """
        given = Path(path)
        if given.is_file() and not given.stat().st_size:
            raise UnreadableData(f"{given} is empty; a table has at least the names of its columns.")
        if not given.exists():
            raise UnreadableData(f"There is no file {given}; check the path.")
        files = find_files(str(given))
        if files.format is Format.JSON_LINES:
            raise UnknownFormat(f"{given} is neither Parquet nor CSV; convert it.")
        name = f"t{self._count}"
        place = _sql_text(glob.escape(files.paths[0]))
        with self._sentences(given):
            if files.format is Format.PARQUET:
                check_parquet(self._connection, files.paths, [], str(given))
                self._keep(name, f"select * from read_parquet({place}, hive_partitioning = false, can_have_nan = true)")
                described = self._connection.execute(f"describe {name}").fetchall()
                types = {column: str(kind) for column, kind, *_ in described if column != _ROW}
            else:
                names = _without_blanks(files.names)
                locate(names, [], str(given), text=True)
                columns = ", ".join(f"{_sql_text(column)}: 'VARCHAR'" for column in names)
                self._keep(
                    name,
                    f"select * from read_csv({place}, columns = {{{columns}}}, header = true, auto_detect = false, "
                    f"delim = {_sql_text(files.separator)}, quote = '\"', escape = '\"', hive_partitioning = false)",
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
        """Types of columns of text: a number type where all cells are numbers."""
        tests = ", ".join(
            f"bool_and(regexp_matches({_trimmed(_sql_name(name))}, '{pattern}'))"
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
        """Some columns of a table, cell by cell.

        Every cell is read alone, never by a type that the whole column has: one more cell would change that type, and
        with it how all the others are read. In a CSV file a cell that is no number is missing.

        Args:
            table: What :meth:`read` returned.
            numbers: Names of columns to read as numbers; columns of other types come as text.
            texts: Names of columns to read as text.

        Returns:
            An array for each name that the table has, in the order of the rows.

        Raises:
            UnreadableData: DuckDB cannot read a column.
        """
        found = {name: _number_cells(table, name) for name in numbers if name in table.types}
        found |= {name: f"cast({_sql_name(name)} as varchar)" for name in texts if name in table.types}
        wanted = ", ".join(f"{cell} as c{place}" for place, cell in enumerate(found.values()))
        with self._sentences(table.path):
            arrays = self._connection.execute(
                f"select {wanted or 'null as c0'} from t{table.number} order by {_ROW}"
            ).fetchnumpy()
        return {name: arrays[f"c{place}"] for place, name in enumerate(found)}

    def check_names(self, owners: Mapping[str, Table]) -> None:
        """Refuse tables whose rows could not stand in one file.

        Args:
            owners: The table of each owner.

        Raises:
            UnreadableData: A table has a column that the output needs for itself.
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
        """Write the chosen rows in the order of choice, with all columns, then ``owner`` and ``row`` (from 0).

        A column that only some owners have is empty for the others.

        Args:
            path: A file that ends in .parquet or .csv.
            owners: The table of each owner.
            names: The owner of each chosen row.
            rows: Which row of its owner each is, from 0.

        Raises:
            CannotWrite: The disk or the directory refuses.
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
                f"order by {_PLACE}) to {_sql_text(str(path))} ({how}, use_tmp_file false)"
            ).fetchall()

    @contextlib.contextmanager
    def _sentences(self, path: Path, kind: type[HeathazeError] = UnreadableData) -> Iterator[None]:
        """DuckDB's messages quote the data, so only the kind of the error comes through."""
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
    """A column of numbers, cell by cell; text that is no number is missing."""
    name = _sql_name(column)
    if table.as_written:
        return f"try_cast({_trimmed(name)} as double)"
    plain = table.is_number(column) or table.types[column] == "BOOLEAN"
    return name if plain else f"cast({name} as varchar)"


def _typed(table: Table, name: str, of: str = "") -> str:
    """A column in its own type."""
    place, kind = of + _sql_name(name), table.types[name]
    return f"cast({_trimmed(place)} as {kind})" if table.as_written and kind != "VARCHAR" else place


def _union(owners: Mapping[str, Table]) -> str:
    """The picked rows of all owners; columns of different types are cast to one, since DuckDB's choice may fail."""
    types: dict[str, set[str]] = {}
    for table in owners.values():
        for column, kind in table.types.items():
            types.setdefault(column.lower(), set()).add(kind)
    selects = []
    for name, table in owners.items():
        columns = [
            f"{_brought(_typed(table, column, of='t.'), types[column.lower()])} as {_sql_name(column)}"
            for column in table.types
        ]
        selects.append(
            f"select {', '.join(columns)}, p.owner, p.row, p.{_PLACE} from t{table.number} t join picks p "
            f"on p.row = t.{_ROW} and p.owner = {_sql_text(name)}"
        )
    return " union all by name ".join(selects)


def _brought(value: str, types: set[str]) -> str:
    """A value cast to one type that can hold all of the given types."""
    if len(types) == 1 or all(re.fullmatch(_INTEGERS, kind) for kind in types):
        return value
    if all(re.match(_NUMBERS, kind) for kind in types):
        return f"cast({value} as double)"
    return f"cast({value} as varchar)"


def _without_blanks(names: Sequence[str]) -> list[str]:
    """Names of columns without the blanks that may follow a comma, if all names still differ."""
    plain = [name.strip() for name in names]
    return plain if len({name.lower() for name in plain}) == len(plain) and all(plain) else list(names)


def _trimmed(place: str) -> str:
    """A text without blanks around it, and NULL if nothing is left."""
    return f"nullif(trim({place}), '')"


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
