"""DuckDB: the embedded default. One connection in memory per count, without network and without extensions to fetch."""

from __future__ import annotations

import contextlib
import glob
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heathaze.errors import InvalidInput, TooLarge, UnreadableData
from heathaze.ingest.columns import Flaw, Kind, locate
from heathaze.ingest.engine import SOURCE, Answer
from heathaze.ingest.source import Files, Format

RAW = "heathaze_raw"

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
WIDE = ("UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL", "UUID", "BOOLEAN", "ENUM", "VARCHAR")
"""Brought to text, exactly; what does not fit a bigint is told apart by its digits."""


@contextlib.contextmanager
def open_duckdb() -> Iterator[DuckDB]:
    """A connection, and a directory for what does not fit into memory; both are gone afterwards."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="heathaze-") as directory:
        connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "temp_directory": directory,
                "preserve_insertion_order": False,
                # objects become text and are read strictly, instead of a type guessed from the first thousand
                "pandas_analyze_sample": 0,
            },
        )
        try:
            # a setting of the session, which connect refuses to take
            connection.execute("set enable_progress_bar = false").fetchall()
            yield DuckDB(connection, directory)
        finally:
            connection.close()


class DuckDB:
    """See :class:`heathaze.ingest.engine.Engine`."""

    keep = "create temporary table {} as"

    def __init__(self, connection: Any, directory: str) -> None:
        self.connection = connection
        self.directory = directory
        self.where = "The table"

    def attach(self, source: Files | Any, wanted: Sequence[str]) -> list[Kind]:
        """Make the source table out of files or of a table in memory."""
        with self._sentences():
            if isinstance(source, Files):
                self.where = repr(source.given)
                places = self._files(source, wanted)
            else:
                places = self._memory(source, wanted)
            types = self._types()
            chosen = [_canonical(f"r{place}", types[place]) for place in places]
            flaw = f"{Flaw.NONE:d}"
            if isinstance(source, Files) and source.format is Format.JSON_LINES and len(wanted) > 2:
                # a number with a fraction, or one beyond 64 bits, is not an id
                exact = "r2 is null or json_type(r2) in ('VARCHAR', 'BIGINT', 'UBIGINT', 'BOOLEAN', 'NULL')"
                flaw = f"case when {exact} then 0 else {Flaw.FRACTIONAL_PERSON:d} end"
                chosen[2] = ("r2 ->> '$'", Kind.TEXT)
                self._check_json_ids(wanted[2])
            names = ", ".join(f"r{place}" for place in range(len(types)))
            columns = ", ".join(f"{sql} as c{place}" for place, (sql, _) in enumerate(chosen))
            self._execute(f"create view {SOURCE} as select {columns}, {flaw} as flaw from {RAW} as raw({names})")
        return [kind for _, kind in chosen]

    def _check_json_ids(self, name: str) -> None:
        """1 and "1" would be one person as text; whether they are, nobody can know."""
        kinds = "count(distinct case json_type(r2) when 'VARCHAR' then 1 when 'BOOLEAN' then 2 else 3 end)"
        names = ", ".join(f"r{place}" for place in range(len(self._types())))
        filled = f"from {RAW} as raw({names}) where r2 is not null and json_type(r2) <> 'NULL'"
        if self._execute(f"select {kinds} {filled}")[0][0] > 1:
            raise UnreadableData(f"Column {name!r} mixes numbers and text; write all ids in one way.")

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run a statement; integers come back, nulls as 0."""
        answer = self.fetch(sql, parameters)
        return {name: np.ma.filled(column, 0).astype(np.int64) for name, column in answer.items()}

    def fetch(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> dict[str, Any]:
        """Run a statement; its columns come back as they are."""
        with self._sentences():
            return dict(self.connection.execute(sql, list(parameters)).fetchnumpy())

    def _files(self, source: Files, wanted: Sequence[str]) -> list[int]:
        paths = [glob.escape(path) for path in source.paths]
        if source.format is Format.PARQUET:
            tables = [self.connection.read_parquet([path]) for path in paths]
            found = [(table, locate(table.columns, wanted, self.where)) for table in tables]
            if len({tuple(str(table.types[place]) for place in places) for table, places in found}) > 1:
                # DuckDB would cast all to the first file's types, which can merge two people's ids.
                raise UnreadableData(
                    f"The files of {self.where} hold the same columns in different types; write them with one type."
                )
            table = self.connection.read_parquet(paths)
            places = locate(table.columns, wanted, self.where)
        elif source.format is Format.CSV:
            places = locate(source.names, wanted, self.where, text=True)
            names = {f"r{place}": "VARCHAR" for place in range(len(source.names))}
            table = self.connection.read_csv(
                paths,
                columns=names,
                header=True,
                sep=source.separator,
                quotechar='"',
                escapechar='"',
                auto_detect=False,
            )
        else:
            locate(source.names, wanted, self.where, text=True)
            kinds = {name: "JSON" if place == 2 else "VARCHAR" for place, name in enumerate(wanted)}
            table = self.connection.read_json(paths, columns=kinds, format="newline_delimited")
            places = list(range(len(wanted)))
        table.create_view(RAW)
        return places

    def _memory(self, source: Any, wanted: Sequence[str]) -> list[int]:
        """Only the wanted columns, under names that need no quoting."""
        library = type(source).__module__.split(".")[0]
        aliases = [f"r{place}" for place in range(len(wanted))]
        if library == "pandas" and hasattr(source, "iloc"):
            table = source.iloc[:, locate([str(name) for name in source.columns], wanted, self.where)]
            _check_objects(wanted, [table.iloc[:, place].to_numpy() for place in range(len(wanted))])
            self.connection.register(RAW, table.set_axis(aliases, axis=1))
        elif library == "pyarrow" and hasattr(source, "column_names"):
            table = source.select(locate(source.column_names, wanted, self.where))
            self.connection.register(RAW, table.rename_columns(aliases))
        elif isinstance(source, dict):
            locate([str(name) for name in source], wanted, self.where)
            _check_objects(wanted, [np.asanyarray(source[name]) for name in wanted])
            self.connection.register(
                RAW, _arrays({alias: source[name] for alias, name in zip(aliases, wanted, strict=True)})
            )
        elif library in ("duckdb", "_duckdb") and hasattr(source, "write_parquet"):
            # A relation belongs to its own connection; a file in our directory carries it over, of any size.
            locate(source.columns, wanted, self.where)
            path = f"{self.directory}/relation.parquet"
            quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in wanted)
            source.project(quoted).write_parquet(path)
            self.connection.read_parquet([path]).create_view(RAW)
        else:
            raise InvalidInput(
                f"A {type(source).__name__} cannot be read as visits; give a path, a pandas DataFrame, an Arrow table, "
                "a DuckDB relation or a dict of numpy arrays."
            )
        return list(range(len(wanted)))

    def _types(self) -> list[str]:
        return [str(row[1]) for row in self._execute(f"describe {RAW}")]

    def _execute(self, sql: str) -> list[Any]:
        rows: list[Any] = self.connection.execute(sql).fetchall()
        return rows

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """DuckDB's own messages quote the data, so only what kind of trouble it was comes through."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException:
            raise TooLarge(f"{self.where} does not fit into memory; use a machine with more, or Spark.") from None
        except duckdb.Error as error:
            raise UnreadableData(
                f"{self.where} cannot be read ({type(error).__name__} of DuckDB); the file is damaged, its rows have "
                "different numbers of columns, or it is not what its ending says."
            ) from None


def _canonical(column: str, type_name: str) -> tuple[str, Kind]:
    """A column brought to one of the canonical types."""
    if type_name in INTEGERS:
        return f"cast({column} as bigint)", Kind.INTEGER
    if type_name in ("FLOAT", "DOUBLE"):
        return column, Kind.FLOATING
    if type_name.startswith(WIDE):
        return column if type_name == "VARCHAR" else f"cast({column} as varchar)", Kind.TEXT
    if type_name == "TIMESTAMP WITH TIME ZONE":
        return f"make_timestamp(epoch_us({column}))", Kind.TIME
    if type_name == "DATE" or type_name.startswith("TIMESTAMP"):
        return column, Kind.TIME
    return column, Kind.OTHER


def _check_objects(names: Sequence[str], columns: Sequence[Any]) -> None:
    """Ids in a column of Python objects are of one kind: as text, 7 and 7.0 would be two people, 1 and '1' one."""
    if len(names) > 2 and columns[2].dtype == object:
        kinds = {type(value) for value in columns[2]} - {type(None)}
        missing = {kind for kind in kinds if kind.__name__ in ("NAType", "NaTType")}
        if len(kinds - missing) > 1 or not kinds - missing <= {str, int, bool, uuid.UUID}:
            raise UnreadableData(
                f"Column {names[2]!r} mixes kinds of ids, or holds neither text nor whole numbers; convert it to one "
                "of them."
            )


def _arrays(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays of one length; numpy's own texts as objects, which DuckDB reads as text."""
    columns = {name: np.asanyarray(column) for name, column in arrays.items()}
    if len({column.shape for column in columns.values()}) != 1 or any(column.ndim != 1 for column in columns.values()):
        raise UnreadableData("The arrays have different lengths, or more than one dimension; give one value per visit.")
    return {name: column.astype(object) if column.dtype.kind in "US" else column for name, column in columns.items()}
