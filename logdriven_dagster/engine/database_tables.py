"""Tables of a database as SQLAlchemy knows them: targets, staging tables, commit markers."""

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.connections import column_type, spark_type
from logdriven_dagster.engine.schemas import WINDOW_START, ddl_type
from logdriven_dagster.engine.staging import StagedRows, is_newer
from logdriven_dagster.model.windows import TimeWindow, range_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from sqlalchemy import Connection, Engine, Table


def define(
    name: str, schema: str | None, columns: "StructType", backend: str, key: tuple[str, ...]
) -> "Table":
    """A table for rows of this Spark schema; `key` columns can be indexed."""
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


def reflected(name: str, schema: str | None, engine: "Engine") -> "Table | None":
    """The table as the database has it, or None."""
    from sqlalchemy import MetaData, Table
    from sqlalchemy.exc import NoSuchTableError

    def quote(_inspector: Any, _table: Any, column: dict[str, Any]) -> None:
        column["quote"] = True

    listeners = [("column_reflect", quote)]
    try:
        return Table(name, MetaData(), schema=schema, autoload_with=engine, listeners=listeners)
    except NoSuchTableError:
        return None


def schema_of(table: "Table", backend: str) -> "StructType":
    """The schema with which Spark reads a table."""
    from pyspark.sql.types import StructField, StructType

    types = {column.name: spark_type(column.type, backend) for column in table.columns}
    return StructType([StructField(name, ddl_type(kind)) for name, kind in types.items()])


def utc_text(moment: datetime) -> str:
    """An instant as text that sorts like instants."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def column_of(table: "Table", name: str) -> Any:
    """The column of this name, whatever its case."""
    return next(column for column in table.columns if column.name.lower() == name.lower())


def markers_in(schema: str | None) -> "Table":
    """`logdriven_commit`: one row for each window of each target, with who published it."""
    from sqlalchemy import BigInteger, Column, DateTime, MetaData, String, Table

    return Table(
        "logdriven_commit",
        MetaData(),
        Column("target_table", String(128), primary_key=True),
        Column("data_range_start", String(32), primary_key=True),
        Column("data_range_end", String(32), nullable=False),
        Column("table_name", String(128), nullable=False),
        Column("job_id", BigInteger, nullable=False),
        Column("staging", String(64), nullable=False),
        Column("row_count", BigInteger),
        Column("committed_at", DateTime, nullable=False),
        schema=schema,
    )


def is_published(conn: "Connection", markers: "Table", staged: StagedRows) -> bool:
    """Whether these very rows were moved into place already."""
    from sqlalchemy import select

    mine = select(markers.c.job_id).where(markers.c.staging == staged.location)
    return conn.execute(mine).first() is not None


def has_newer(conn: "Connection", markers: "Table", target: str, window: TimeWindow) -> bool:
    """Whether a newer window was published to this target."""
    from sqlalchemy import select

    starts = select(markers.c.data_range_start).where(markers.c.target_table == target)
    return any(is_newer(start, window) for start in conn.scalars(starts))


def mark(conn: "Connection", markers: "Table", staged: StagedRows, target: str) -> None:
    """Say in the same transaction that these rows are the window's."""
    from sqlalchemy import delete, func, insert

    window = staged.stamp.window
    key = {"target_table": target, "data_range_start": range_text(window.start)}
    same = [markers.c[name] == value for name, value in key.items()]
    conn.execute(delete(markers).where(*same))
    conn.execute(
        insert(markers).values(
            **key,
            data_range_end=range_text(window.end),
            table_name=staged.stamp.table,
            job_id=staged.stamp.job_id,
            staging=staged.location,
            row_count=staged.rows,
            committed_at=func.current_timestamp(),
        )
    )
