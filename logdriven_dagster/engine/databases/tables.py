"""Tables of a database as SQLAlchemy knows them: targets and staging tables."""

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.databases.connections import column_type, spark_type
from logdriven_dagster.engine.queries.schemas import WINDOW_START, ddl_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from sqlalchemy import Connection, Engine, Table


def define(
    name: str, schema: str | None, columns: "StructType", backend: str, key: tuple[str, ...]
) -> "Table":
    """Return a table for rows of this Spark schema; `key` columns can be indexed."""
    from sqlalchemy import Column, MetaData, String, Table

    short: dict[str, Any] = {WINDOW_START: String(32)}
    if backend in ("mysql", "mariadb"):
        # MariaDB indexes no text without a length.
        texts = {f.name for f in columns.fields if f.dataType.simpleString() == "string"}
        keys = {name.lower() for name in key}
        short |= {text: String(255) for text in texts if text.lower() in keys}
    made = [
        # Databases reserve more words than SQLAlchemy knows.
        Column(
            field.name,
            short.get(field.name) or column_type(field.dataType, field.name, backend),
            quote=True,
        )
        for field in columns.fields
    ]
    return Table(name, MetaData(), *made, schema=schema)


def reflected(name: str, schema: str | None, at: "Engine | Connection") -> "Table | None":
    """The table as the database has it, without the tables that it refers to; None: not there."""
    from sqlalchemy import MetaData, Table
    from sqlalchemy.exc import NoSuchTableError

    def quote(_inspector: Any, _table: Any, column: dict[str, Any]) -> None:
        column["quote"] = True

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


def utc_text(moment: datetime) -> str:
    """Return an instant as text that sorts like instants."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def column_of(table: "Table", name: str) -> Any:
    """Return the column of this name, whatever its case."""
    return next(column for column in table.columns if column.name.lower() == name.lower())
