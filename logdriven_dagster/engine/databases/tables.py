"""SQLAlchemy tables of a database: targets and staging tables."""

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.databases.connections import column_type, spark_type
from logdriven_dagster.engine.databases.exact_values import MOST_DIGITS
from logdriven_dagster.engine.queries.schemas import WINDOW_START, ddl_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from sqlalchemy import Connection, Engine, FromClause, Table


_QUOTES = '"`'
_PART = r'"[^"]+"|`[^`]+`|[^"`.]+'
_QUOTED = re.compile(f"(?:(?P<schema>{_PART})[.])?(?P<name>{_PART})")
"""Digits of Spark's longest decimal."""
TRANSACTIONAL: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
"""Options of tables that we create: InnoDB, also if the server's default differs."""


def define(  # noqa: PLR0917 - the parts of a table
    name: str,
    schema: str | None,
    columns: "StructType",
    backend: str,
    key: tuple[str, ...],
    collations: Mapping[str, str] = MappingProxyType({}),
) -> "Table":
    """Return a new table for rows of this Spark schema; `key` columns can be indexed.

    `collations` are those of text columns, by lower-case name; other columns have the database's.
    Raises TerminalStepError for a type that the database lacks.
    """
    from sqlalchemy import Column, MetaData, String, Table

    short: dict[str, Any] = {WINDOW_START: String(32, collations.get(WINDOW_START))}
    if backend in ("mysql", "mariadb"):
        # MariaDB cannot index a text without a length.
        texts = {f.name for f in columns.fields if f.dataType.simpleString() == "string"}
        keys = {name.lower() for name in key}
        short |= {
            text: String(255, collations.get(text.lower()))
            for text in texts
            if text.lower() in keys
        }
    made = [
        # Databases reserve more words than SQLAlchemy knows.
        Column(
            field.name,
            short.get(field.name)
            or column_type(field.dataType, field.name, backend, collations.get(field.name.lower())),
            quote=True,
        )
        for field in columns.fields
    ]
    return Table(name, MetaData(), *made, schema=schema, **TRANSACTIONAL)


def reflect_table(name: str, schema: str | None, at: "Engine | Connection") -> "Table | None":
    """Return the table as the database `at` has it, or None if it does not exist.

    Tables that it refers to are not loaded.
    """
    from sqlalchemy import MetaData, Table
    from sqlalchemy.exc import NoSuchTableError

    def quote(_inspector: Any, _table: Any, column: dict[str, Any]) -> None:
        column["quote"] = True
        # A domain holds the values of its base type.
        column["type"] = getattr(column["type"], "data_type", column["type"])

    how: dict[str, Any] = {"listeners": [("column_reflect", quote)], "resolve_fks": False}
    try:
        return Table(name, MetaData(), schema=schema, autoload_with=at, **how)
    except NoSuchTableError:
        return None


def schema_of(table: "Table", backend: str) -> "StructType":
    """Return the schema with which Spark reads a table."""
    from pyspark.sql.types import StructField, StructType

    types = {column.name: spark_type(column.type, backend) for column in table.columns}
    return StructType([StructField(name, ddl_type(kind)) for name, kind in types.items()])


def schema_for(table: "Table", backend: str, given: "StructType") -> "StructType":
    """Return the schema in which a table accepts rows of the schema `given`.

    It is `schema_of`, except that decimals without limits, or with more than Spark's 38 digits,
    keep the type of the rows.
    """
    from pyspark.sql.types import DecimalType, StructField, StructType

    rows = {field.name.lower(): field.dataType for field in given.fields}

    def choose_field(field: StructField) -> StructField:
        kind: Any = column_of(table, field.name).type
        new = rows.get(field.name.lower())
        if not isinstance(field.dataType, DecimalType) or not isinstance(new, DecimalType):
            return field
        if kind.precision is not None:
            places = kind.scale or 0
            room = kind.precision - places
            if (
                kind.precision <= MOST_DIGITS
                or new.scale > places
                or new.precision - new.scale > room
            ):
                return field
        return StructField(field.name, new)

    return StructType([choose_field(field) for field in schema_of(table, backend).fields])


def utc_text(instant: datetime) -> str:
    """Return an instant as text that sorts chronologically."""
    return f"{instant.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def column_of(table: "FromClause", name: str) -> Any:
    """Return the column of this name, in any case."""
    return next(column for column in table.columns if column.name.lower() == name.lower())


def plain_quoted(at: "Engine | Connection", *names: str | None) -> str:
    """Return names joined by dots and quoted for SQL that goes to the driver unchanged.

    SQLAlchemy's own quoting doubles the percent signs of names for drivers that need this.
    """
    quote = at.dialect.identifier_preparer
    start, end = quote.initial_quote, quote.final_quote
    escaped, by = quote.escape_quote, quote.escape_to_quote
    return ".".join(f"{start}{name.replace(escaped, by)}{end}" for name in names if name)


def split_name(text: str) -> tuple[str | None, str]:
    """Split a target's `table` into its schema, or None, and its name.

    Either may be quoted, as a name with a dot must be: `shop."daily.sales"`.
    """
    if quoted := _QUOTED.fullmatch(text):
        schema, name = quoted["schema"], quoted["name"]
        return schema and schema.strip(_QUOTES), name.strip(_QUOTES)
    schema, _, name = text.rpartition(".")
    return schema or None, name
