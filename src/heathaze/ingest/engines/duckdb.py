"""The engine DuckDB, which is the default: one connection in memory for each count, without network or downloads.

The statement that reads the data has no expression and no condition, only names of columns. It copies the columns into
a table in memory. All conditions that bound the influence of a person are computed on this table. See
docs/decisions/0019-kept-before-bounded.md.
"""

from __future__ import annotations

import contextlib
import glob
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from heathaze.errors import InvalidInput, TooLarge, UnreadableData
from heathaze.ingest.columns import PART, VISITS, Columns, Flaw, Kind, locate, sql_name, sql_text
from heathaze.ingest.dataframes import arrays, is_arrow, is_pandas, name_of
from heathaze.ingest.engines import RAW, SOURCE, Answer
from heathaze.ingest.source import Files, Format, check_parquet

GIVEN = "heathaze_given"

ROWS_A_PART = 2_000_000
MOST_PARTS = 5
"""The largest number of parts. Each part reads all visits again, so the number is bounded. Ten million visits are
counted in 5 parts, which takes 0.5 GB instead of 0.8 to 1.0 GB and the same time."""

LARGE = 2**30
"""If files have at least this many bytes together, their visits are kept in a database file instead of memory.

Such visits do not fit below the limit of memory. DuckDB would write them to the disk and read them back for every part,
which takes a third more time than reading its own file.
"""

ROOM = 4
"""The free space that the database file needs, divided by the size of the files: compressed files can grow."""

MEGABYTES_A_THREAD = 512
"""The memory that DuckDB may use for each thread; data beyond this limit goes to the disk.

Without a limit DuckDB takes up to 80 % of the machine's memory. Its documentation names 125 MB a thread as the minimum.
With 512 MB a count is hardly slower, because most of the memory is the table of visits, which is read in order.
"""

DAY = 86_400_000_000_000
"""The length of a day in nanoseconds."""

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
WIDE = ("UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL", "UUID", "BOOLEAN", "ENUM", "VARCHAR")
"""Types that are converted to text exactly, because their values may not fit into 64 bits."""


@contextlib.contextmanager
def open_duckdb() -> Iterator[DuckDB]:
    """Open the engine DuckDB, with a directory for data that exceeds memory; both are removed afterwards."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="heathaze-") as directory:
        connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "temp_directory": directory,
                "preserve_insertion_order": False,
                # Objects become text and are read strictly. Otherwise DuckDB guesses a type from the first thousand.
                "pandas_analyze_sample": 0,
            },
        )
        try:
            # This setting belongs to the session, and ``connect`` refuses it.
            connection.execute("set enable_progress_bar = false").fetchall()
            _limit_memory(connection)
            # DuckDB must not decide conditions from statistics (smallest and largest values) of files or tables.
            connection.execute("set disabled_optimizers = 'statistics_propagation'").fetchall()
            yield DuckDB(connection, directory)
        finally:
            connection.close()


def _limit_memory(connection: Any) -> None:
    """Limit DuckDB's memory to MEGABYTES_A_THREAD for each thread, unless its own limit is smaller."""
    threads, shown = connection.execute(
        "select current_setting('threads'), current_setting('memory_limit')"
    ).fetchall()[0]
    number, unit = shown.split()
    own = float(number) * 1024 ** (("KiB", "MiB", "GiB", "TiB").index(unit) - 1)
    if threads * MEGABYTES_A_THREAD < own:
        connection.execute(f"set memory_limit = '{threads * MEGABYTES_A_THREAD}MiB'").fetchall()


class DuckDB:
    """The engine DuckDB; see :class:`heathaze.ingest.engines.Engine`."""

    keep = "create temporary table {} as"
    day_number = "date_diff('day', date '1970-01-01', {})"

    def __init__(self, connection: Any, directory: str) -> None:
        self.connection = connection
        self.directory = directory
        self.where = "The table"
        self.rows = 0

    def attach(self, source: Files | Any, columns: Columns) -> list[Kind]:
        """Copy the wanted columns of the source, and make the source view of them."""
        with self._sentences():
            if isinstance(source, Files):
                self.where = repr(source.given)
                table, names = self._files(source, columns)
            else:
                self.where = name_of(source)
                table, names = self._memory(source, columns)
            if isinstance(source, Files) and source.size >= LARGE:
                self._keep_on_disk(source.size)
            chosen = ", ".join(f"{sql_name(name)} as c{place}" for place, name in enumerate(names))
            self._execute(f"{self.keep.format(RAW)} select {chosen} from {table}")
            self.rows = self._execute(f"select count(*) from {RAW}")[0][0]
            types = [str(row[1]) for row in self._execute(f"describe {RAW}")]
            typed = [self._canonical(f"c{place}", name) for place, name in enumerate(types)]
            flaw = f"{Flaw.NONE:d}"
            if isinstance(source, Files) and source.format is Format.JSON_LINES and columns.ids:
                exact = []
                for name in columns.ids:
                    # An id must not be a number with a fraction or beyond 64 bits.
                    id_ = f"c{columns.place(name)}"
                    whole = (
                        f"json_type({id_}) in ('BIGINT', 'UBIGINT') and try_cast({id_} ->> '$' as bigint) is not null"
                    )
                    exact.append(f"({id_} is null or json_type({id_}) in ('VARCHAR', 'BOOLEAN', 'NULL') or ({whole}))")
                    typed[columns.place(name)] = (f"{id_} ->> '$'", Kind.TEXT)
                    self._check_json_ids(id_, name)
                flaw = f"case when {' and '.join(exact)} then 0 else {Flaw.FRACTIONAL_ID:d} end"
            canonical = ", ".join(f"{sql} as c{place}" for place, (sql, _) in enumerate(typed))
            moment = ""
            if columns.moment is not None:
                place = columns.place(columns.moment)
                seconds, numbered = _moment(f"c{place}", types[place])
                moment = f", {seconds} as moment, {numbered} as numbered"
            self._execute(f"create temporary view {SOURCE} as select {canonical}, {flaw} as flaw{moment} from {RAW}")
        return [kind for _, kind in typed]

    def _keep_on_disk(self, size: int) -> None:
        """Keep tables in a file of our directory, if the disk has room for it."""
        if shutil.disk_usage(self.directory).free > ROOM * size:
            self._execute(f"attach {sql_text(self.directory + '/visits.duckdb')} as visits_on_disk")
            self._execute("use visits_on_disk")
            self.keep = "create table {} as"

    def check(self, source: Files, columns: Columns) -> None:
        """Refuse files that DuckDB cannot read, before another engine, which would accept them, reads them."""
        with self._sentences():
            self.where = repr(source.given)
            table, _ = self._files(source, columns)
            if source.format is Format.JSON_LINES:
                self._execute(f"select {', '.join(f'max({sql_name(name)})' for name in columns.wanted)} from {table}")

    def _check_json_ids(self, id_: str, name: str) -> None:
        """Refuse JSON ids that mix numbers and text, because 1 and "1" may be one person (or journey) or two."""
        kinds = f"count(distinct case json_type({id_}) when 'VARCHAR' then 1 when 'BOOLEAN' then 2 else 3 end)"
        filled = f"{id_} is not null and json_type({id_}) <> 'NULL'"
        if self._execute(f"select {kinds} from {RAW} where {filled}")[0][0] > 1:
            raise UnreadableData(f"Column {name!r} mixes numbers and text; write all ids in one way.")

    def forget_source(self) -> None:
        """Drop the table of :meth:`attach`, once the visits are stored in a table of their own."""
        self._execute(f"drop view {SOURCE}")
        self._execute(f"drop table {RAW}")

    def parts(self) -> Iterator[None]:
        """Divide units into parts by a hash: about ROWS_A_PART visits in a part, and at most MOST_PARTS parts."""
        parts = min(max(1, round(self.rows / ROWS_A_PART)), MOST_PARTS)
        for part in range(parts):
            chosen = f"select * from {VISITS} where hash(unit) % {parts} = {part}"
            self._execute(f"create or replace temporary view {PART} as {chosen}")
            yield

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run an SQL statement and return its integer columns; nulls become 0."""
        answer = self.fetch(sql, parameters)
        return {name: np.ma.filled(column, 0).astype(np.int64) for name, column in answer.items()}

    def fetch(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> dict[str, Any]:
        """Run an SQL statement and return its columns unchanged."""
        with self._sentences():
            return dict(self._with_memory(lambda: self.connection.execute(sql, list(parameters)).fetchnumpy()))

    def _files(self, source: Files, wanted: Columns) -> tuple[str, list[str]]:
        """Return the SQL table function that reads files, and the wanted columns' names in it.

        A folder with a name such as ``u=7`` never adds a column to the files in it.
        """
        paths = "[" + ", ".join(sql_text(glob.escape(path)) for path in source.paths) + "], hive_partitioning = false"
        if source.format is Format.PARQUET:
            check_parquet(self.connection, source.paths, wanted.wanted, self.where)
            return f"read_parquet({paths}, can_have_nan = true)", wanted.wanted
        places = locate(source.names, wanted.wanted, self.where, text=True)
        if source.format is Format.CSV:
            columns = ", ".join(f"r{place}: 'VARCHAR'" for place in range(len(source.names)))
            dialect = (
                f"header = true, auto_detect = false, delim = {sql_text(source.separator)}, quote = '\"', escape = '\"'"
            )
            return f"read_csv({paths}, columns = {{{columns}}}, {dialect})", [f"r{place}" for place in places]
        kinds = {name: "JSON" if name in wanted.ids else "VARCHAR" for name in wanted.wanted}
        columns = ", ".join(f"{sql_name(name)}: '{kind}'" for name, kind in kinds.items())
        return f"read_json({paths}, columns = {{{columns}}}, format = 'newline_delimited')", wanted.wanted

    def _memory(self, source: Any, wanted: Columns) -> tuple[str, list[str]]:
        """Register the wanted columns of a table in memory, under names that need no quoting."""
        aliases = [f"r{place}" for place in range(len(wanted.wanted))]
        if is_arrow(source):
            from heathaze.ingest.dataframes import plain_table

            self.connection.register(GIVEN, plain_table(source, wanted, self.where).rename_columns(aliases))
        elif is_pandas(source) or isinstance(source, dict):
            columns = arrays(source, wanted, self.where)
            self.connection.register(GIVEN, dict(zip(aliases, columns, strict=True)))
        elif type(source).__module__.split(".")[0] in ("duckdb", "_duckdb") and hasattr(source, "write_parquet"):
            return f"read_parquet({sql_text(self._carried_over(source, wanted.wanted))}, can_have_nan = true)", aliases
        else:
            raise InvalidInput(
                f"A {type(source).__name__} cannot be read as visits; give a path, a pandas DataFrame, an Arrow table, "
                "a DuckDB relation or a dict of numpy arrays."
            )
        return GIVEN, aliases

    def _carried_over(self, relation: Any, wanted: Sequence[str]) -> str:
        """Copy a DuckDB relation, which belongs to another connection, through a Parquet file in our directory."""
        places = locate(relation.columns, wanted, self.where)
        columns = []
        for number, (name, place) in enumerate(zip(wanted, places, strict=True)):
            # Parquet has no integers beyond 64 bits, and DuckDB would write them as floats.
            is_huge = str(relation.types[place]) in ("HUGEINT", "UHUGEINT")
            columns.append(f"{f'cast({sql_name(name)} as varchar)' if is_huge else sql_name(name)} as r{number}")
        path = f"{self.directory}/relation.parquet"
        relation.project(", ".join(columns)).write_parquet(path)
        return path

    def _canonical(self, column: str, type_name: str) -> tuple[str, Kind]:
        """Write SQL that converts a column to one of the canonical types."""
        if type_name in INTEGERS:
            return f"cast({column} as bigint)", Kind.INTEGER
        if type_name in ("FLOAT", "DOUBLE"):
            return column, Kind.FLOATING
        if type_name.startswith(WIDE) and not type_name.endswith("]"):
            return column if type_name == "VARCHAR" else f"cast({column} as varchar)", Kind.TEXT
        if type_name == "TIMESTAMP_NS":
            # A cast to a date would round towards 1970 instead of down.
            since = f"epoch_ns({column})"
            return f"({since} - ({since} % {DAY} + {DAY}) % {DAY}) // {DAY}", Kind.TIME
        if type_name == "TIMESTAMP WITH TIME ZONE":
            since = f"epoch_us({column})"
            return f"({since} - ({since} % 1000000 + 1000000) % 1000000) // 1000000", Kind.INSTANT
        if type_name != "DATE" and not type_name.startswith("TIMESTAMP"):
            return column, Kind.OTHER
        return self.day_number.format(f"cast({column} as date)"), Kind.TIME

    def _execute(self, sql: str) -> list[Any]:
        rows: list[Any] = self._with_memory(lambda: self.connection.execute(sql).fetchall())
        return rows

    def _with_memory(self, run: Callable[[], Any]) -> Any:
        """Run a statement; if it exceeds the memory limit, run it again with DuckDB's own, larger limit."""
        import duckdb

        try:
            return run()
        except duckdb.OutOfMemoryException:
            self.connection.execute("reset memory_limit").fetchall()
            return run()

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """Replace errors of DuckDB, whose messages quote data, with sentences that name only the class of the error."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException:
            raise TooLarge(f"{self.where} does not fit into memory; use a machine with more, or Spark.") from None
        except duckdb.Error as error:
            raise UnreadableData(
                f"{self.where} cannot be read ({type(error).__name__} of DuckDB); the file is damaged, or it is not "
                "what its ending says."
            ) from None


_WITH_OFFSET = "^(.*:[0-9.]+) ?([+-])([0-9]{2})(?::?([0-9]{2}))?$"
"""A time with an offset from UTC: the time, the sign, hours and minutes."""


def _moment(column: str, type_name: str) -> tuple[str, str]:
    """Write SQL for the time of a position in seconds (since 1970 for a time, or the number itself), and for the kind.

    The time is null for a value that is neither a time nor a number. The result depends on the value of the row alone,
    so one person's rows never change how the journeys of others are cut and ordered. The kind tells whether the value
    is a plain number.
    """
    if type_name == "TIMESTAMP WITH TIME ZONE":  # a cast to a timestamp would depend on the zone of this machine
        return f"epoch_us({column}) / 1e6", "false"
    if type_name.startswith(("TIMESTAMP", "DATE")):
        return f"epoch_us(cast({column} as timestamp)) / 1e6", "false"
    if type_name in INTEGERS or type_name in ("FLOAT", "DOUBLE", "UBIGINT") or type_name.startswith("DECIMAL"):
        return f"cast({column} as double)", "true"
    text = f"trim(cast({column} as varchar), ' \"')"
    # The offset is subtracted here, because a cast to a timestamp ignores it, and names of zones too; they are refused.
    sign, *ahead = (f"regexp_extract({text}, '{_WITH_OFFSET}', {group})" for group in (2, 3, 4))
    hours, minutes = (f"coalesce(try_cast({part} as int), 0)" for part in ahead)
    offset = f"case when {sign} = '-' then -60 else 60 end * ({hours} * 60 + {minutes})"
    clock = f"regexp_replace(regexp_replace({text}, '{_WITH_OFFSET}', '\\1'), ' ?(Z|UTC|GMT)$', '')"
    plain = f"case when not regexp_matches({clock}, '[A-Za-z]{{2}}') then {clock} end"
    number = f"try_cast({text} as double)"
    seconds = f"coalesce({number}, epoch_us(try_cast({plain} as timestamp)) / 1e6 - {offset})"
    return seconds, f"{number} is not null"
