"""Database tables: each window has a staging table, whose rows one transaction moves into place.

Spark first writes files for all windows of a pass in one query, and they are loaded from there.
`_window_start` is text here, in UTC (`2013-01-01T00:00:00Z`): some databases have no times with a
zone, and without one an hour exists twice when clocks go back. The table `logdriven_commit` records
the attempt that published each window.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.config.sql.committing import find_publication_mistake
from logdriven_dagster.engine.databases.connections import (
    custom_schema,
    database,
    get_replacement_types,
    reader_options,
    writer_options,
)
from logdriven_dagster.engine.databases.creation import create
from logdriven_dagster.engine.databases.declarations import (
    collations_of,
    refuse_without_transactions,
)
from logdriven_dagster.engine.databases.exact_columns import ExactFrame, read_exactly
from logdriven_dagster.engine.databases.scripts import statement_text
from logdriven_dagster.engine.databases.stored_columns import convert_for_write
from logdriven_dagster.engine.databases.tables import (
    define,
    plain_quoted,
    reflect_table,
    schema_for,
    schema_of,
    split_name,
    utc_text,
)
from logdriven_dagster.engine.databases.wall_clocks import fit_clocks
from logdriven_dagster.engine.failures import database_named
from logdriven_dagster.engine.queries.instants import lies_within
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.rendering import render_for_database
from logdriven_dagster.engine.queries.schemas import (
    WINDOW_START,
    conform,
    ddl,
    select_given_columns,
    window_column,
)
from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.staging import staging_of
from logdriven_dagster.engine.targets.jdbc.commit_markers import (
    MARKERS,
    get_merge_counts,
    grow_markers,
    has_newer,
    lock_target,
    mark,
    markers_in,
    publication,
    publishing_transaction,
    take,
)
from logdriven_dagster.engine.targets.jdbc.copying import copy_in, copyable, has_copy
from logdriven_dagster.engine.targets.jdbc.first_contact import meet_in_database, refuse_in_database
from logdriven_dagster.engine.targets.jdbc.growth import LONGEST_NAME, grow_table
from logdriven_dagster.engine.targets.jdbc.publishing import move_rows
from logdriven_dagster.engine.targets.jdbc.rejections import explain_rejections
from logdriven_dagster.engine.targets.jdbc.upsert import refuse_bad_keys
from logdriven_dagster.engine.targets.staged_files import keep_temporarily, staged_frame
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.errors import NotPublishedError, TerminalStepError, TransientStepError
from logdriven_dagster.model.runs import Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from sqlalchemy import Engine, Table

_STAGING = "__staging_"


def staging_prefix(table: str, suffix: str) -> str:
    """Truncate a table's name to the length that databases allow before a suffix."""
    return table[: LONGEST_NAME - len(suffix)]


class JdbcTable:
    """A target of type `jdbc`; implements `Store`."""

    def __init__(self, context: StoreContext, table: str, target: JdbcTarget) -> None:
        self._context, self._target = context, target
        self._connection = context.project.connection(target.connection)
        self._backend = self._connection.url.get_backend_name()
        self._lease = context.project.config.lease
        self._schema, self._name = split_name(target.table)
        self._staging = staging_of(context.project, table)
        self._copies = has_copy(self._connection.url) and not target.options

    @property
    def takes_stretches(self) -> bool:
        """True for modes that keep windows apart; others publish each window separately."""
        return self._target.write_mode.supports_batching

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write files, and load those of each window into a new table next to the target."""
        for statement in self._pre_sql(runs[0]):
            if mistake := find_publication_mistake(statement, self._backend):
                raise TerminalStepError(": ".join(filter(None, ("target.pre_sql", *mistake))))
        with database(self._connection) as engine:
            frame = self._conform(_with_start_texts(frame, runs), engine, runs[0].table)
            schema = frame.drop(WINDOW_INDEX).schema
            with engine.connect() as conn:
                refuse_without_transactions(conn, self._schema, self._name, MARKERS)
                collations = collations_of(conn, self._define(self._name, schema))
            tables = [self._define(self._staging_name(run), schema, collations) for run in runs]
            frame = convert_for_write(self._connection, frame, copied=self._copies)
            frame = copyable(frame) if self._copies else frame
            with keep_temporarily(frame, self._staging, runs) as kept:
                try:
                    return tuple(
                        self._load(rows, run, table, schema, engine)
                        for rows, run, table in zip(kept, runs, tables, strict=True)
                    )
                except BaseException:
                    for table in tables:
                        table.drop(engine, checkfirst=True)
                    raise

    def _pre_sql(self, run: WindowRun) -> list[str]:
        """Fill the target's statements with the values of the window."""
        return [render_for_database(sql, run, self._connection) for sql in self._target.pre_sql]

    def _load(
        self,
        kept: StagedRows,
        run: WindowRun,
        staging: "Table",
        schema: "StructType",
        engine: "Engine",
    ) -> StagedRows:
        """Load the temporary files of a window into its staging table, and check the row count."""
        with explain_rejections(self._target.table):
            if self._copies:
                with engine.begin() as conn, database_named(f"connection {self._connection.name}"):
                    staging.create(conn)
                    found = copy_in(conn, staging, kept.files, self._staging.storage)
            else:
                staging.create(engine)
                found = self._load_by_spark(kept, run, staging, engine)
        if found != kept.rows:
            raise TransientStepError(
                f"{self._target.table}: only {found} of {kept.rows} written rows were loaded"
            )
        if self._target.write_mode.merges_by_key:
            with engine.connect() as conn, explain_rejections(self._target.table):
                known = reflect_table(self._name, self._schema, conn)
                refuse_bad_keys(conn, staging, self._target, known)
        return replace(kept, run=run, location=staging.name, schema=schema, files=())

    def _load_by_spark(
        self, kept: StagedRows, run: WindowRun, staging: "Table", engine: "Engine"
    ) -> int:
        """Load the temporary files through the JDBC driver; return the staging table's rows."""
        from sqlalchemy import func, select

        if not kept.files:
            return 0
        options = writer_options(self._connection) | option_texts(self._target.options)
        writer = staged_frame(self._context.spark, [kept]).write.format("jdbc").options(**options)
        writer = writer.mode("append").option("dbtable", self._quote_table(staging, engine))
        run_action(self._context.spark, f"{run.label}: load", writer.save)
        with engine.connect() as conn:
            return conn.scalar(select(func.count()).select_from(staging)) or 0

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows, read with the types that wrote them."""
        with database(self._connection) as engine:
            place = self._together([self._define(r.location, r.schema) for r in staged], engine)
        return self._read(place, staged[0].schema).convert()

    def holds(self, staged: StagedRows) -> bool:
        """Return True if the staging table exists with all its rows."""
        from sqlalchemy import func, select

        if _STAGING not in staged.location:
            return False  # `discard` would drop such a table
        with database(self._connection) as engine, engine.connect() as conn:
            staging = self._define(staged.location, staged.schema)
            if not engine.dialect.has_table(conn, staging.name, schema=self._schema):
                return False
            return conn.scalar(select(func.count()).select_from(staging)) == staged.rows

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Write the new tokens into the windows' markers."""
        with database(self._connection) as engine:
            markers = self._markers(engine)
            with publishing_transaction(engine, self._lease) as conn:
                for run in runs:
                    take(conn, markers, run, self._target.table)

    def _markers(self, engine: "Engine") -> "Table":
        markers = markers_in(self._schema)
        create(lambda: grow_markers(engine, markers))
        return markers

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Move the rows of each window in one transaction, the oldest first."""
        with database(self._connection) as engine:
            # Changing a table commits implicitly in MariaDB, so it precedes the transactions.
            markers = self._markers(engine)
            schemas = {rows.schema.json(): rows.schema for rows in staged}.values()
            *_, target = [
                create(
                    partial(grow_table, engine, self._define(self._name, schema), self._target.key)
                )
                for schema in schemas
            ]
            return tuple(self._publish(rows, verify, engine, markers, target) for rows in staged)

    def _publish(
        self,
        staged: StagedRows,
        verify: Callable[[], None],
        engine: "Engine",
        markers: "Table",
        target: "Table",
    ) -> Published:
        """Move a window's rows in one transaction, whose marker makes a repetition harmless.

        The marker is locked first, under the attempt's token; `verify` is called after that.
        """
        run, whole = staged.run, self._target.table
        rows = None if self._target.write_mode.merges_by_key else staged.rows
        done = Published(run.step_id, whole, rows=rows)
        staging = self._define(staged.location, staged.schema)
        with publishing_transaction(engine, self._lease) as conn:
            if not self._target.write_mode.supports_batching:
                lock_target(conn, markers, whole)
            take(conn, markers, run, whole)
            verify()
            if self._target.write_mode.replaces_whole_table and has_newer(
                conn, markers, whole, run.window
            ):
                done = replace(done, rows=0)
            elif marker := publication(conn, markers, staged):
                done = replace(done, merged=get_merge_counts(marker))
            else:
                for statement in self._pre_sql(run):
                    conn.execute(statement_text(statement, {}))
                meet_in_database(conn, target, self._target)
                merged = move_rows(conn, staging, target, run, self._target)
                mark(conn, markers, staged, whole, merged)
                done = replace(done, merged=merged)
        staging.drop(engine, checkfirst=True)
        return done

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Drop the staging tables of these rows."""
        with database(self._connection) as engine:
            for rows in staged:
                self._define(rows.location, rows.schema).drop(engine, checkfirst=True)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Read the target's rows; Spark pushes the window's filter down to the database."""
        with database(self._connection) as engine:
            target = reflect_table(self._name, self._schema, engine)
            if target is None:
                raise NotPublishedError(f"{self._target.table} does not exist yet")
            known = schema_of(target, self._backend)
            read = self._read(self._quote_table(target, engine), known)
        if window is None:
            return read.convert()
        name = window_column(self._target)
        frame = read.convert(read.near(name, window))
        if name == WINDOW_START:
            column, start, end = frame[name], utc_text(window.start), utc_text(window.end)
            return frame.where((column >= start) & (column < end))
        return frame.where(lies_within(quote_name(name), window))

    def _read(self, table: str, schema: "StructType") -> "ExactFrame":
        options = reader_options(self._connection) | {"dbtable": table}
        if known := custom_schema(schema, self._backend):
            options["customSchema"] = known
        zone = self._context.project.zone
        return read_exactly(self._context.spark, self._connection, options, zone)

    def _conform(self, frame: "DataFrame", engine: "Engine", table: str) -> "DataFrame":
        """Convert the frame to the types of the target, with new columns last.

        Columns that only the target has are left to the database: new rows get its defaults, and an
        upsert leaves them unchanged. Frozen columns exclude them.
        """
        target = reflect_table(self._name, self._schema, engine)
        known = None if target is None else schema_for(target, self._backend, frame.schema)
        types = {f.name.lower(): f.dataType.simpleString() for f in known or ()}
        zone = str(self._context.project.zone)
        frame = fit_clocks(frame, types, get_replacement_types(self._backend), zone)
        if target is None or known is None:
            return conform(frame, None, self._target.table)
        refuse_in_database(engine, target, self._target)
        missing: MissingColumns = "allow"
        if self._context.is_frozen(table, self._target):
            missing = "refuse"
        fitting = conform(frame, known, self._target.table, missing=missing)
        for old, new in zip(known.fields, fitting.schema.fields, strict=False):
            if old.dataType != new.dataType:
                raise TerminalStepError(
                    f"{self._target.table}: column {old.name} is too narrow for the result; "
                    f"change it in the database, or write CAST({old.name} AS "
                    f"{old.dataType.simpleString()}) in the step's SQL\n"
                    f"  table:  {ddl(known)}\n  result: {ddl(frame.schema)}"
                )
        return select_given_columns(fitting, frame)

    def _define(
        self, name: str, schema: "StructType", collations: Mapping[str, str] | None = None
    ) -> "Table":
        return define(name, self._schema, schema, self._backend, self._target.key, collations or {})

    def _staging_name(self, run: WindowRun) -> str:
        """Return a new name `<table>__staging_<job_id>_…`, which also names the publication."""
        suffix = f"{_STAGING}{run.job_id}_{uuid.uuid4().hex[:6]}"
        return staging_prefix(self._name, suffix) + suffix

    def _quote_table(self, table: "Table", engine: "Engine") -> str:
        return plain_quoted(engine, table.schema, table.name)

    def _together(self, tables: "Sequence[Table]", engine: "Engine") -> str:
        """Return an expression that Spark reads as a table with the rows of all these tables."""
        if len(tables) == 1:
            return self._quote_table(tables[0], engine)
        columns = ", ".join(plain_quoted(engine, name) for name in tables[0].columns.keys())  # noqa: SIM118
        rows = [f"SELECT {columns} FROM {self._quote_table(table, engine)}" for table in tables]  # noqa: S608
        return f"({' UNION ALL '.join(rows)}) staged"


def _with_start_texts(frame: "DataFrame", runs: Sequence[WindowRun]) -> "DataFrame":
    """Set the technical column, if the frame has it, to the text of each row's window."""
    if WINDOW_START not in frame.columns:
        return frame
    starts = [utc_text(run.window.start) for run in runs]
    text = sf.lit(starts[0])
    if len(runs) > 1:
        text = sf.element_at(sf.lit(starts), sf.col(WINDOW_INDEX) + 1)
    return frame.withColumn(WINDOW_START, text)
