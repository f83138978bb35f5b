"""Queries on Sail: only those proven to return Spark's rows, rewritten to their proven form."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from logdriven_dagster.config.sql.references import UnreadableSqlError, find_named_tables
from logdriven_dagster.engine.spark.connect.queries import query_over
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.sail.supported_casts import UnprovenError, type_named
from logdriven_dagster.plugins.sail.supported_queries import Columns, build_safe_query
from logdriven_dagster.plugins.sail.supported_sql import Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True, slots=True)
class ProvenQuery:
    """A query in its proven form, whose tables are renamed to t0, t1, and so on."""

    text: str
    tables: tuple[str, ...]
    """Original names of t0, t1, and so on, in lower case."""
    columns: Columns
    is_projection: bool
    """True if each row of its only table yields one row."""


def sail_query(spark: "SparkSession", sql: str, frames: "Mapping[str, DataFrame]") -> "DataFrame":
    """Return the result of the query `sql`, whose tables are `frames` by name.

    Raises TerminalStepError if the query is not supported on Sail, or if its result has other types
    than on Spark.
    """
    query, named = proven(sql, frames), {name.lower(): frame for name, frame in frames.items()}
    used = {f"t{n}": named[name] for n, name in enumerate(query.tables)}
    made = query_over(spark, query.text, {}, used)
    refuse_other_types(made, query.columns)
    return made


def proven(sql: str, frames: "Mapping[str, DataFrame]") -> ProvenQuery:
    """Return a query over these frames in its proven form.

    Raises TerminalStepError if it has none.
    """
    tables = tuple((name, tuple(columns_of(frame).items())) for name, frame in frames.items())
    return _proven(sql, tables)


@lru_cache(maxsize=128)
def _proven(sql: str, tables: tuple[tuple[str, tuple[tuple[str, Type], ...]], ...]) -> ProvenQuery:
    """Parse a query once: a table's windows usually have the same query, and need it twice."""
    try:
        safe = build_safe_query(sql, {name: dict(columns) for name, columns in tables})
    except UnprovenError as error:
        raise TerminalStepError(
            f"{error} is not supported on Sail; rewrite the query, or run the project "
            "on Spark (spark.engine: spark)"
        ) from None
    except UnreadableSqlError as error:
        raise TerminalStepError(f"the query cannot be read: {error}") from None
    known = {name.lower() for name, _ in tables}
    used: list[str] = []
    for name, table in list(find_named_tables(safe.tree)):
        if name.lower() in known:
            _rename(table, f"t{len(used)}")
            used.append(name.lower())
    return ProvenQuery(safe.tree.sql("spark"), tuple(used), safe.columns, safe.is_projection)


def columns_of(frame: "DataFrame") -> Columns:
    """Return the columns of a frame; raise TerminalStepError for a type that is not proven."""
    try:
        return {
            field.name: type_named(field.dataType.simpleString()) for field in frame.schema.fields
        }
    except UnprovenError as error:
        raise TerminalStepError(f"{error} is not supported on Sail") from None


@lru_cache
def parse_supported_columns(ddl: str) -> "StructType":
    """Parse the columns of a DDL text; TerminalStepError for an unsupported type.

    PySpark would parse the text in the process's only session.
    """
    from pyspark.sql.types import StructField, StructType

    from logdriven_dagster.plugins.sail.supported_projects import (
        parse_declared_columns,
    )

    try:
        columns = parse_declared_columns(ddl)
    except UnprovenError as error:
        raise TerminalStepError(f"{error} is not supported on Sail") from None
    return StructType([StructField(name, _spark_type(kind)) for name, kind in columns.items()])


def _spark_type(found: Type) -> "DataType":
    from pyspark.sql import types as ty

    if found.kind == "decimal":
        return ty.DecimalType(found.precision, found.scale)
    simple = {
        "boolean": ty.BooleanType,
        "int": ty.IntegerType,
        "bigint": ty.LongType,
        "double": ty.DoubleType,
        "string": ty.StringType,
        "date": ty.DateType,
        "timestamp": ty.TimestampType,
    }
    return simple[found.kind]()


def refuse_other_types(frame: "DataFrame", columns: Columns) -> None:
    """Raise TerminalStepError if a frame does not have exactly these columns."""
    found = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    wanted = [(name, str(kind)) for name, kind in columns.items()]
    if found != wanted:
        differing = next(pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1])
        raise TerminalStepError(
            f"the result has {' '.join(differing[0])} on Sail, but "
            f"{' '.join(differing[1])} on Spark; run the project on Spark "
            "(spark.engine: spark)"
        )


def _rename(table, place: str) -> None:  # type: ignore[no-untyped-def]
    """Replace a table of a query by another name, under the alias that it had."""
    from sqlglot import exp

    alias = table.alias or table.name
    table.replace(exp.to_table(place).as_(alias, quoted=True, table=True))
