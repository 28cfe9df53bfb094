"""Spark: for data bigger than one machine. Runs in the session there is, else in a quiet local one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heathaze.errors import InvalidInput, MissingExtra, UnreadableData
from heathaze.ingest.columns import VISITS, Flaw, Kind, locate
from heathaze.ingest.engine import SOURCE, Answer
from heathaze.ingest.engines.java import java_home
from heathaze.ingest.source import Files, Format

INTEGERS = ("tinyint", "smallint", "int", "bigint")


@contextlib.contextmanager
def open_spark() -> Iterator[Spark]:
    """The active session, which is left as it was, or one of our own, which is stopped afterwards."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtra(
            "The Spark engine needs pyspark; install pyspark (the extra 'spark'), or use the engine 'duckdb'."
        )
    with _quiet():
        from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    session = active or _local_session()
    engine = Spark(session)
    try:
        yield engine
    finally:
        engine.forget()
        if active is None:
            session.stop()


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

    def __init__(self, session: Any) -> None:
        self.session = session
        self.where = "The table"

    def attach(self, source: Files | Any, wanted: Sequence[str]) -> list[Kind]:
        """Make the source table out of files or of a table in memory."""
        with self._sentences():
            if isinstance(source, Files):
                self.where = repr(source.given)
                table = self._files(source, wanted)
            elif isinstance(source, str):
                self.where = repr(source)
                table = self._address(source, wanted)
            else:
                table = self._memory(source, wanted)
            chosen = [_canonical(f"c{place}", name) for place, (_, name) in enumerate(table.dtypes)]
            flaw = f"{Flaw.NONE:d}"
            if "variant" in dict(table.dtypes).values():
                # a number with a fraction, or one beyond 64 bits, is not an id
                exact = "c2 is null or schema_of_variant(c2) in ('STRING', 'BIGINT', 'BOOLEAN', 'VOID')"
                flaw = f"case when {exact} then 0 else {Flaw.FRACTIONAL_PERSON:d} end"
                # 1 and "1" would be one person as text; whether they are, nobody can know
                kind = "case schema_of_variant(c2) when 'STRING' then 1 when 'BOOLEAN' then 2 else 3 end as kind"
                filled = table.where("c2 is not null and schema_of_variant(c2) <> 'VOID'")
                if filled.selectExpr(kind).distinct().count() > 1:
                    raise UnreadableData(f"Column {wanted[2]!r} mixes numbers and text; write all ids in one way.")
            columns = [f"{sql} as c{place}" for place, (sql, _) in enumerate(chosen)]
            table.selectExpr(*columns, f"{flaw} as flaw").createOrReplaceTempView(SOURCE)
        return [kind for _, kind in chosen]

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
        for view in (VISITS, SOURCE):
            with contextlib.suppress(Exception):
                self.session.catalog.uncacheTable(view)
            with contextlib.suppress(Exception):
                self.session.catalog.dropTempView(view)

    def _files(self, source: Files, wanted: Sequence[str]) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType, VariantType

        paths = [_escaped(path) for path in source.paths]
        if source.format is Format.PARQUET:
            return _chosen(self.session.read.parquet(*paths), wanted, self.where)
        locate(source.names, wanted, self.where, text=True)
        if source.format is Format.CSV:
            schema = StructType([StructField(f"r{place}", StringType()) for place in range(len(source.names))])
            # A line is a row: what is split over lines by quotes is refused here, so that files can be read in parts.
            table = self.session.read.schema(schema).csv(
                paths,
                header=True,
                sep=source.separator,
                quote='"',
                escape='"',
                mode="FAILFAST",
                encoding="UTF-8",
                enforceSchema=True,
            )
            return _picked(table, locate(source.names, wanted, self.where))
        schema = StructType(
            [StructField(name, VariantType() if place == 2 else StringType()) for place, name in enumerate(wanted)]
        )
        return _picked(self.session.read.schema(schema).json(paths, mode="FAILFAST"), list(range(len(wanted))))

    def _address(self, source: str, wanted: Sequence[str]) -> Any:
        if not source.rstrip("/").endswith(".parquet"):
            raise InvalidInput(f"{source!r} is an address; of those only Parquet (.parquet) can be read.")
        return _chosen(self.session.read.parquet(source), wanted, self.where)

    def _memory(self, source: Any, wanted: Sequence[str]) -> Any:
        library = type(source).__module__.split(".")[0]
        if library == "pyspark":
            self.session = source.sparkSession
            return _chosen(source, wanted, self.where)
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingExtra("Giving Spark a table in memory needs pyarrow; install pyarrow, or use engine='duckdb'.")
        with _quiet():
            import pyarrow as arrow

            try:
                if library == "pandas" and hasattr(source, "iloc"):
                    table = source.iloc[:, locate([str(name) for name in source.columns], wanted, self.where)]
                    aliases = [f"c{place}" for place in range(len(wanted))]
                    table = arrow.Table.from_pandas(table.set_axis(aliases, axis=1), preserve_index=False)
                elif library == "pyarrow" and hasattr(source, "column_names"):
                    table = source.select(locate(source.column_names, wanted, self.where))
                elif isinstance(source, dict):
                    locate([str(name) for name in source], wanted, self.where)
                    table = arrow.table([arrow.array(source[name]) for name in wanted], names=list(wanted))
                else:
                    raise InvalidInput(
                        f"A {type(source).__name__} cannot be read by Spark; give a path, a Spark or pandas DataFrame, "
                        "an Arrow table or a dict of numpy arrays."
                    )
            except arrow.ArrowException:
                raise UnreadableData("A column of the table mixes several types; give each column one type.") from None
            table = table.rename_columns([f"c{place}" for place in range(len(wanted))])
            return self.session.createDataFrame(_plain(table))

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


def _plain(table: Any) -> Any:
    """Arrow's types that Spark does not know, brought to ones it does, exactly."""
    import pyarrow as arrow

    for place, field in enumerate(table.schema):
        kind = field.type
        if arrow.types.is_dictionary(kind):
            kind = kind.value_type
        if arrow.types.is_uint64(kind):
            kind = arrow.decimal128(20, 0)
        elif arrow.types.is_unsigned_integer(kind):
            kind = arrow.int64()
        elif arrow.types.is_float16(kind):
            kind = arrow.float32()
        elif arrow.types.is_timestamp(kind):
            # a wall clock is one in UTC; Spark would take it for one in the session's zone
            kind = arrow.timestamp("us", kind.tz or "UTC")
        if kind != field.type:
            column = table.column(place).cast(kind, safe=not arrow.types.is_timestamp(kind))
            table = table.set_column(place, field.name, column)
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
        return f"cast({column} as string)", Kind.TEXT
    if type_name == "timestamp":
        # an instant: its time of day in UTC, whatever zone the session is in
        return f"timestampadd(microsecond, unix_micros({column}), timestamp_ntz'1970-01-01 00:00:00')", Kind.TIME
    if type_name in ("date", "timestamp_ntz"):
        return column, Kind.TIME
    return column, Kind.OTHER


def _escaped(path: str) -> str:
    """A path without patterns, for Hadoop."""
    return "file://" + "".join("\\" + sign if sign in "*?[]{}\\" else sign for sign in path)
