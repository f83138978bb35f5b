"""Database tables: Spark loads a staging table, one transaction moves its rows into place.

`_window_start` is text here, in UTC (`2013-01-01T00:00:00Z`), because some databases have no times
with a zone, and without one an hour exists twice when clocks go back. The table `logdriven_commit`
says which attempt published each window.
"""

import uuid
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.steps import JdbcTarget
from logdriven_dagster.engine.connections import (
    column_type,
    custom_schema,
    database,
    reader_options,
    spark_type,
    writer_options,
)
from logdriven_dagster.engine.schemas import WINDOW_START, conform, ddl, window_column
from logdriven_dagster.engine.session import option_text
from logdriven_dagster.engine.staging import Place, StagedRows, Stamp, write
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow, range_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from sqlalchemy import ColumnElement, Connection, Engine, Table

_LONGEST_NAME = 63


class JdbcTable:
    """A target of type `jdbc`; see `Store`."""

    def __init__(self, place: Place, table: str, target: JdbcTarget) -> None:
        self._place, self._target = place, target
        self._connection = place.project.connection(target.connection)
        self._backend = self._connection.url.get_backend_name()
        schema, _, self._name = target.table.rpartition(".")
        self._schema = schema or None

    def stage(self, frame: "DataFrame", stamp: Stamp) -> StagedRows:
        """Load a new table beside the target."""
        from pyspark.sql import functions as F

        for name, kind in frame.dtypes:
            if name == WINDOW_START:
                frame = frame.withColumn(name, F.lit(utc_text(stamp.window.start)))
            elif kind == "timestamp_ntz":
                frame = frame.withColumn(name, F.col(f"`{name}`").cast("timestamp"))
        with database(self._connection) as engine:
            frame = self._conformed(frame, engine)
            staging = self._define(self._staging_name(stamp), frame.schema)
            staging.create(engine)
            try:
                return self._load(frame, stamp, staging, engine)
            except BaseException:
                staging.drop(engine, checkfirst=True)
                raise

    def _load(
        self, frame: "DataFrame", stamp: Stamp, staging: "Table", engine: "Engine"
    ) -> StagedRows:
        from sqlalchemy import func, select

        options = writer_options(self._connection)
        options |= {name: option_text(value) for name, value in self._target.options.items()}
        writer = frame.write.format("jdbc").mode("append").options(**options)
        writer = writer.option("dbtable", self._quoted(staging, engine))
        counts = write(frame, stamp, writer.save)
        with engine.connect() as conn:
            # Spark keeps no number of rows for JDBC; the staging table knows them.
            rows = conn.scalar(select(func.count()).select_from(staging))
            self._refuse_bad_keys(conn, staging)
        return StagedRows(stamp, staging.name, frame.schema, counts.source, rows)

    def _refuse_bad_keys(self, conn: "Connection", staging: "Table") -> None:
        from sqlalchemy import func, or_, select

        if self._target.mode != "upsert":
            return
        key = [_column(staging, name) for name in self._target.key]
        twice = select(*key, func.count().label("n")).group_by(*key)
        empty = or_(*(column.is_(None) for column in key))
        for row in conn.execute(twice.having(or_(func.count() > 1, empty)).limit(1)):
            *values, number = row
            shown = ", ".join(f"{name}={v!r}" for name, v in zip(self._target.key, values))
            problem = "a key must not be null" if None in values else f"{number} rows have one key"
            raise TerminalStepError(f"{self._target.table}: {problem}: {shown}")

    def staged_frame(self, staged: StagedRows) -> "DataFrame":
        """The staging table, read with the types that wrote it."""
        with database(self._connection) as engine:
            table = self._quoted(self._define(staged.location, staged.schema), engine)
        return self._reader(table, custom_schema(staged.schema))

    def publish(self, staged: StagedRows) -> Published:
        """Move the rows in one transaction, whose marker makes repeating it harmless."""
        done = Published(
            staged.stamp.step_id,
            self._target.table,
            rows=None if self._target.mode == "upsert" else staged.rows,
        )
        with database(self._connection) as engine:
            markers, staging = _markers(self._schema), self._define(staged.location, staged.schema)
            # Changing a table commits by itself in MariaDB, so it happens before the transaction.
            markers.create(engine, checkfirst=True)
            target = self._grown(engine, staged.schema)
            with engine.begin() as conn:
                if not _is_published(conn, markers, staged):
                    self._move(conn, staging, target, staged.stamp)
                    _mark(conn, markers, staged, self._target.table)
            staging.drop(engine, checkfirst=True)
        return done

    def _move(self, conn: "Connection", staging: "Table", target: "Table", stamp: Stamp) -> None:
        from sqlalchemy import and_, delete, exists, insert, select, text

        for statement in self._target.pre_sql:
            conn.execute(text(statement))
        names = [column.name for column in staging.columns]
        rows = select(*staging.columns)
        if self._target.mode == "upsert":
            pairs = [(_column(target, name), _column(staging, name)) for name in self._target.key]
            same = reduce(and_, (old == new for old, new in pairs))
            older = target.c[WINDOW_START] <= staging.c[WINDOW_START]
            conn.execute(delete(target).where(exists().where(same, older)))
            # What is still there was written by a newer window.
            rows = rows.where(~exists().where(same))
        else:
            conn.execute(delete(target).where(*self._replaced(target, stamp.window)))
        columns = [_column(target, name) for name in names]
        conn.execute(insert(target).from_select(columns, rows))

    def _replaced(self, target: "Table", window: TimeWindow) -> "list[ColumnElement[bool]]":
        """The rows that the new ones replace, by mode."""
        if self._target.mode == "overwrite":
            return []
        if self._target.mode == "append":
            return [target.c[WINDOW_START] == utc_text(window.start)]
        column = _column(target, window_column(self._target))
        start, end = (self._bound(column, moment) for moment in (window.start, window.end))
        return [column >= start, column < end]

    def _bound(self, column: Any, moment: datetime) -> Any:
        """A window's bound as a value of the column's type."""
        import sqlalchemy as sa

        if column.name == WINDOW_START:
            return utc_text(moment)
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        if isinstance(column.type, sa.Date):
            moment = moment if moment == midnight else midnight + timedelta(days=1)
            return sa.literal(f"{moment:%Y-%m-%d}") if self._backend == "sqlite" else moment.date()
        if self._backend == "sqlite":
            # Without a fraction: a prefix of the text of this very instant, so never after it.
            return sa.literal(f"{moment:%Y-%m-%d %H:%M:%S}")
        return moment if getattr(column.type, "timezone", False) else moment.replace(tzinfo=None)

    def discard(self, staged: StagedRows) -> None:
        """Drop the staging table."""
        with database(self._connection) as engine:
            self._define(staged.location, staged.schema).drop(engine, checkfirst=True)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """The target's rows; Spark leaves the restriction to the database."""
        with database(self._connection) as engine:
            target = self._existing(engine)
            if target is None:
                raise TerminalStepError(f"{self._target.table} does not exist yet")
            frame = self._reader(
                self._quoted(target, engine), custom_schema(self._schema_of(target))
            )
        if window is None:
            return frame
        column = window_column(self._target)
        bounds: list[Any] = [window.start, window.end]
        if column == WINDOW_START:
            bounds = [utc_text(moment) for moment in bounds]
        return frame.where((frame[column] >= bounds[0]) & (frame[column] < bounds[1]))

    def _reader(self, table: str, schema: str) -> "DataFrame":
        options = reader_options(self._connection) | {"dbtable": table, "customSchema": schema}
        return self._place.spark.read.format("jdbc").options(**options).load()

    def _conformed(self, frame: "DataFrame", engine: "Engine") -> "DataFrame":
        """The frame with the columns and types of the target, new columns last."""
        target = self._existing(engine)
        if target is None:
            return conform(frame, None, self._target.table)
        known = self._schema_of(target)
        fitting = conform(frame, known, self._target.table)
        for old, new in zip(known.fields, fitting.schema.fields):
            if old.dataType != new.dataType:
                raise TerminalStepError(
                    f"{self._target.table}: column {old.name} is too narrow for the result\n"
                    f"  table:  {ddl(known)}\n  result: {ddl(frame.schema)}"
                )
        return fitting

    def _grown(self, engine: "Engine", schema: "StructType") -> "Table":
        """The target with every column of the schema; created if it is not there."""
        from sqlalchemy import DDL, Index

        target = self._existing(engine)
        if target is None:
            target = self._define(self._name, schema)
            if WINDOW_START in target.c:
                Index(f"ix_{self._name}{WINDOW_START}"[:_LONGEST_NAME], target.c[WINDOW_START])
            if self._target.key:
                key = [_column(target, name) for name in self._target.key]
                Index(f"ix_{self._name}_key"[:_LONGEST_NAME], *key)
            target.create(engine, checkfirst=True)
            return target
        known = {column.name.lower() for column in target.columns}
        wanted = self._define(self._name, schema)
        quote = engine.dialect.identifier_preparer.quote
        for column in wanted.columns:
            if column.name.lower() not in known:
                kind = column.type.compile(engine.dialect)
                name = quote(column.name).replace("%", "%%")
                with engine.begin() as conn:
                    conn.execute(
                        DDL(f"ALTER TABLE {self._quoted(target, engine)} ADD COLUMN {name} {kind}")
                    )
        grown = self._existing(engine)
        assert grown is not None
        return grown

    def _existing(self, engine: "Engine") -> "Table | None":
        from sqlalchemy import MetaData, Table
        from sqlalchemy.exc import NoSuchTableError

        def quote(_inspector: Any, _table: Any, column: dict[str, Any]) -> None:
            column["quote"] = True

        listeners = [("column_reflect", quote)]
        try:
            return Table(
                self._name,
                MetaData(),
                schema=self._schema,
                autoload_with=engine,
                listeners=listeners,
            )
        except NoSuchTableError:
            return None

    def _define(self, name: str, schema: "StructType") -> "Table":
        from sqlalchemy import Column, MetaData, String, Table

        short = {WINDOW_START: String(32)}
        if self._backend in ("mysql", "mariadb"):
            # MariaDB indexes no text without a length.
            strings = {f.name for f in schema.fields if f.dataType.simpleString() == "string"}
            keys = {key.lower() for key in self._target.key}
            short |= {text: String(255) for text in strings if text.lower() in keys}
        columns: list[Column[Any]] = []
        for field in schema.fields:
            kind = short.get(field.name) or column_type(field.dataType, field.name, self._backend)
            # Databases reserve more words than SQLAlchemy knows.
            columns.append(Column(field.name, kind, quote=True))
        return Table(name, MetaData(), *columns, schema=self._schema)

    def _schema_of(self, table: "Table") -> "StructType":
        from pyspark.sql.types import StructField, StructType, _parse_datatype_string

        return StructType(
            [
                StructField(c.name, _parse_datatype_string(spark_type(c.type, self._backend)))
                for c in table.columns
            ]
        )

    def _staging_name(self, stamp: Stamp) -> str:
        """`<table>__staging_<job_id>_…`, never used before: it also names the publication."""
        suffix = f"__staging_{stamp.job_id}_{uuid.uuid4().hex[:6]}"
        return self._name[: _LONGEST_NAME - len(suffix)] + suffix

    def _quoted(self, table: "Table", engine: "Engine") -> str:
        return str(engine.dialect.identifier_preparer.format_table(table))


def utc_text(moment: datetime) -> str:
    """An instant as text that sorts like instants."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def _column(table: "Table", name: str) -> Any:
    return next(column for column in table.columns if column.name.lower() == name.lower())


def _markers(schema: str | None) -> "Table":
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


def _is_published(conn: "Connection", markers: "Table", staged: StagedRows) -> bool:
    from sqlalchemy import select

    mine = select(markers.c.job_id).where(markers.c.staging == staged.location)
    return conn.execute(mine).first() is not None


def _mark(conn: "Connection", markers: "Table", staged: StagedRows, target: str) -> None:
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
