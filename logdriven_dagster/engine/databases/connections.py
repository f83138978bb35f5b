"""JDBC options of connections, and type conversion between Spark and databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.connections import Connection, describe_missing_driver
from logdriven_dagster.config.server_limits import keep_alive
from logdriven_dagster.engine.failures import name_database
from logdriven_dagster.errors import TerminalStepError, UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType
    from sqlalchemy import URL, Engine
    from sqlalchemy.types import TypeEngine

_ALWAYS = {
    # As text, which SQL can compare and people can read; the driver's default is a number.
    "org.sqlite.JDBC": {"date_class": "TEXT"},
}
_WRITER = {
    # Times are sent as texts, which PostgreSQL converts to the column's type.
    "org.postgresql.Driver": {"reWriteBatchedInserts": "true", "stringtype": "unspecified"},
    # Timestamps are sent as texts in UTC, and values that do not fit are errors.
    "org.mariadb.jdbc.Driver": {
        "rewriteBatchedStatements": "true",
        "sessionVariables": "time_zone='+00:00',sql_mode='STRICT_ALL_TABLES'",
    },
    # SQLite allows one writer at a time; the others would fail as busy.
    "org.sqlite.JDBC": {"numPartitions": "1"},
}
"""Options for multi-row statements, which are four to five times as fast."""


def reader_options(connection: Connection) -> dict[str, str]:
    """Return Spark's options to access the database; they always name the driver."""
    always = _ALWAYS.get(connection.driver, {})
    return {"url": connection.jdbc_url, "driver": connection.driver} | always | connection.options


def as_subquery(query: str) -> str:
    """Return a query as Spark puts it into parentheses: without a semicolon at its end.

    A comment in its last line would include the parenthesis, and Spark trims line ends.
    """
    text = query.rstrip("; \t\r\n")
    last = text.rpartition("\n")[2]
    return f"{text}\n/**/" if "--" in last or "#" in last else text


def writer_options(connection: Connection) -> dict[str, str]:
    """Return Spark's options to load a table in large batches."""
    batches = {"batchsize": "10000", "numPartitions": "8"} | _WRITER.get(connection.driver, {})
    return batches | reader_options(connection)


@contextmanager
def database(connection: Connection) -> "Iterator[Engine]":
    """Provide an SQLAlchemy engine of the connection.

    Raises UsageError if its driver is not installed.
    """
    from sqlalchemy import NullPool, create_engine

    try:
        engine = create_engine(
            connection.url, poolclass=NullPool, connect_args=keep_alive(connection.url)
        )
    except ImportError as error:
        problem = describe_missing_driver(error)
        raise UsageError(f"connection {connection.name} {problem}") from None
    name_database(engine, f"connection {connection.name}")
    try:
        yield engine
    finally:
        engine.dispose()


def is_missing_file(url: "URL") -> bool:
    """Return whether this is an SQLite database that does not exist: opening it would create it."""
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file()


def custom_schema(schema: "StructType", backend: str) -> str:
    """Return Spark's `customSchema` that reads a table with the types that wrote it.

    It omits columns whose values it would change; `exact_columns` reads these.
    """
    apart = {"decimal", "timestamp", "timestamp_ntz"}
    apart |= {"date"} if backend == "sqlite" else set()
    return ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}"
        for field in schema.fields
        if field.dataType.typeName() not in apart
    )


def column_type(
    kind: "DataType", column: str, backend: str, collation: str | None = None
) -> "TypeEngine[Any]":
    """Return the SQLAlchemy type of a new column.

    `collation` applies to texts. Raises TerminalStepError for a type that databases lack.
    """
    import sqlalchemy as sa
    from pyspark.sql.types import DecimalType
    from sqlalchemy.dialects import mysql

    if isinstance(kind, DecimalType):
        return sa.Numeric(kind.precision, kind.scale)
    is_mysql = backend in ("mysql", "mariadb")
    types: dict[str, TypeEngine[Any]] = {
        "boolean": sa.Boolean(),
        "tinyint": sa.Integer(),
        "smallint": sa.Integer(),
        "int": sa.Integer(),
        "bigint": sa.BigInteger(),
        "float": sa.Double(),
        "double": sa.Double(),
        "date": sa.Date(),
        "timestamp": mysql.TIMESTAMP(fsp=6) if is_mysql else sa.DateTime(timezone=True),
        "timestamp_ntz": mysql.DATETIME(fsp=6) if is_mysql else sa.DateTime(),
        "string": mysql.LONGTEXT(collation=collation) if is_mysql else sa.Text(collation=collation),
        "binary": mysql.LONGBLOB() if is_mysql else sa.LargeBinary(),
    }
    name = kind.simpleString()
    if name not in types:
        raise TerminalStepError(
            f"column {column}: a database table cannot store {name}; cast it, or write it as text"
        )
    return types[name]


def get_replacement_types(backend: str) -> dict[str, str]:
    """Return replacement types of new columns: wall times, in databases without a timestamp type.

    MariaDB's TIMESTAMP ends in 2038 and may change by itself, so it is used only in existing
    columns.
    """
    without = ("sqlite", "mysql", "mariadb")
    return {"timestamp": "timestamp_ntz"} if backend in without else {}


def holds_instants(kind: "TypeEngine[Any]") -> bool:
    """Return whether a time column stores instants, and not wall clock times."""
    from sqlalchemy.dialects import mysql

    return isinstance(kind, mysql.TIMESTAMP) or bool(getattr(kind, "timezone", False))


def spark_type(kind: "TypeEngine[Any]", backend: str) -> str:
    """Return the DDL name of the type with which Spark reads a column; unknown types are text."""
    import sqlalchemy as sa

    is_flag = backend in ("mysql", "mariadb") and getattr(kind, "display_width", None) == 1
    if isinstance(kind, sa.Boolean) or is_flag:
        return "boolean"
    if isinstance(kind, sa.BigInteger) or (isinstance(kind, sa.Integer) and backend == "sqlite"):
        return "bigint"
    if isinstance(kind, sa.Float):
        return "double"
    if isinstance(kind, sa.Numeric):
        return _decimal(kind.precision, kind.scale or 0)
    if isinstance(kind, sa.DateTime):
        return "timestamp" if holds_instants(kind) else "timestamp_ntz"
    for family, name in ((sa.Integer, "int"), (sa.Date, "date")):
        if isinstance(kind, family):
            return name
    return "binary" if _is_binary(kind) else "string"


def _decimal(precision: int | None, scale: int) -> str:
    """Return the type with which `exact_columns` reads a database's decimal."""
    if precision is None:
        return "decimal(38,18)"
    return f"decimal({min(precision, 38)},{min(scale, 38)})"


def _is_binary(kind: "TypeEngine[Any]") -> bool:
    try:
        return kind.python_type is bytes
    except NotImplementedError:
        return False
