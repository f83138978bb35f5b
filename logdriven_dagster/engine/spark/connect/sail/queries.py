"""Queries on Sail: only what is proven to give Spark's rows, in the form in which it does."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.config.sql.proven_casts import UnprovenError, type_named
from logdriven_dagster.config.sql.proven_queries import Columns, SafeQuery, safe_query
from logdriven_dagster.config.sql.references import UnreadableSqlError, named_tables
from logdriven_dagster.engine.spark.connect.queries import query_over
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sail_query(spark: "SparkSession", sql: str, frames: "Mapping[str, DataFrame]") -> "DataFrame":
    """Return the result of a query over these frames.

    TerminalStepError for what is not proven, and for a result of other types than Spark's.
    """
    named = {name.lower(): frame for name, frame in frames.items()}
    safe = proven(sql, {name: columns_of(frame) for name, frame in frames.items()})
    used: dict[str, DataFrame] = {}
    for name, table in list(named_tables(safe.tree)):
        if frame := named.get(name.lower()):
            place = f"t{len(used)}"
            used[place] = frame
            _rename(table, place)
    made = query_over(spark, safe.tree.sql("spark"), {}, used)
    refuse_other_types(made, safe.columns)
    return made


def proven(sql: str, tables: Mapping[str, Columns]) -> SafeQuery:
    """Return the query in its safe form; TerminalStepError for what is not proven."""
    try:
        return safe_query(sql, tables)
    except UnprovenError as error:
        raise TerminalStepError(
            f"{error} is not proven to be on Sail what it is on Spark; write the query otherwise, "
            "or run the project on Spark (spark.engine: spark)"
        ) from None
    except UnreadableSqlError as error:
        raise TerminalStepError(f"the query cannot be read: {error}") from None


def columns_of(frame: "DataFrame") -> Columns:
    """Return the columns of a frame; TerminalStepError for a type that is not proven."""
    try:
        return {
            field.name: type_named(field.dataType.simpleString()) for field in frame.schema.fields
        }
    except UnprovenError as error:
        raise TerminalStepError(f"{error} is not proven on Sail") from None


def refuse_other_types(frame: "DataFrame", columns: Columns) -> None:
    """TerminalStepError for a frame that has not exactly these columns."""
    found = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    wanted = [(name, str(kind)) for name, kind in columns.items()]
    if found != wanted:
        differing = next(pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1])
        raise TerminalStepError(
            f"Sail makes {' '.join(differing[0])} where Spark makes {' '.join(differing[1])}; run "
            "the project on Spark (spark.engine: spark)"
        )


def _rename(table, place: str) -> None:  # type: ignore[no-untyped-def]
    """Let a table of a query be read by another name, under the alias that it had."""
    from sqlglot import exp

    alias = table.alias or table.name
    table.replace(exp.to_table(place).as_(alias, quoted=True, table=True))
