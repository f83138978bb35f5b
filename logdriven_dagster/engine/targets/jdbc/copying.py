"""Loading rows of Parquet files into a PostgreSQL table by COPY, without Spark.

Arrow writes the CSV for COPY. If PostgreSQL rejects a value, its error names the line and the
column.
"""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.databases.tables import plain_quoted
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_checks
from logdriven_dagster.engine.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlalchemy import URL, Connection, Table

_ROWS = 64 * 1024
"""Rows per batch, some megabytes."""

_FORMS = {
    "float": "CAST({v} AS DOUBLE)",  # the shortest text of a float is that of another double
    "binary": r"concat('\\x', hex({v}))",
}
"""Conversions by type, so that the CSV text of a value is valid in PostgreSQL."""


def has_copy(url: "URL") -> bool:
    """Return True if the driver of a database supports COPY as `copy_in` needs it."""
    return url.drivername == "postgresql+psycopg"


def copyable(frame: "DataFrame") -> "DataFrame":
    """Convert the frame into the form whose files `copy_in` accepts."""
    changes = {
        name: sf.expr(_FORMS[kind].format(v=quote_name(name)))
        for name, kind in frame.dtypes
        if kind in _FORMS
    }
    return frame.withColumns(changes) if changes else frame


def copy_in(conn: "Connection", table: "Table", files: Sequence[str], storage: Storage) -> int:
    """Append the rows of files to a table within a transaction, and return their number.

    The checks that watch this thread's work are called for every batch.
    """
    from sqlalchemy.exc import DBAPIError

    columns = ", ".join(plain_quoted(conn, column.name) for column in table.columns)
    name = plain_quoted(conn, table.schema, table.name)
    statement = f"COPY {name} ({columns}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')"
    psycopg = conn.dialect.loaded_dbapi
    driver = conn.connection.driver_connection
    assert driver is not None
    try:
        with driver.cursor() as cursor:
            with cursor.copy(statement) as copy:
                for text in _texts(files, storage, table.columns.keys()):
                    run_checks()
                    copy.write(text)
            return int(cursor.rowcount)
    except psycopg.Error as error:
        # Raise the same error as SQLAlchemy's own statements.
        raise DBAPIError.instance(
            statement, None, error, psycopg.Error, dialect=conn.dialect
        ) from error


def _texts(files: Sequence[str], storage: Storage, columns: Sequence[str]) -> Iterator[memoryview]:
    """Yield the rows as CSV, batch by batch. NULL is an empty field, and an empty text is `""`."""
    from pyarrow import csv, parquet

    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    for path in files:
        with storage.open(path) as file, parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_ROWS, columns=list(columns)):
                text = io.BytesIO()
                csv.write_csv(batch.select(columns), text, options)
                yield text.getbuffer()
