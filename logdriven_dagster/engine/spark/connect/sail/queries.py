"""Queries on Sail: only those proven to return Spark's rows, rewritten to their proven form."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from logdriven_dagster.config.sql.proven import Type
from logdriven_dagster.config.sql.proven_casts import UnprovenError, type_named
from logdriven_dagster.config.sql.proven_queries import Columns, safe_query
from logdriven_dagster.config.sql.references import UnreadableSqlError, named_tables
from logdriven_dagster.engine.spark.connect.queries import query_over
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

    Raises TerminalStepError if the query is not proven on Sail, or if its result has other types
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
        safe = safe_query(sql, {name: dict(columns) for name, columns in tables})
    except UnprovenError as error:
        raise TerminalStepError(
            f"{error} is not supported on Sail; rewrite the query, or run the project "
            "on Spark (spark.engine: spark)"
        ) from None
    except UnreadableSqlError as error:
        raise TerminalStepError(f"the query cannot be read: {error}") from None
    known = {name.lower() for name, _ in tables}
    used: list[str] = []
    for name, table in list(named_tables(safe.tree)):
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
