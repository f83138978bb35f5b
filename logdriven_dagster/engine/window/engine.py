"""Engine of a project's tables in one Spark application."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from functools import cached_property, reduce
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from logdriven_dagster.config.checking.engines import EngineContext
from logdriven_dagster.config.models.quality import resolve_rules
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query, replace_tables
from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.engine.comparison.comparing import compare_frames
from logdriven_dagster.engine.comparison.values import Comparison, QueryRows, Rule, Side
from logdriven_dagster.engine.databases.connections import as_subquery, reader_options
from logdriven_dagster.engine.databases.exact_columns import read_exactly
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.sources.known_sources import KnownSources, Looks, Recall
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.sources.source_rows import count_rows, count_rows_of_files
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.dead_sessions import register_session
from logdriven_dagster.engine.spark.engine_type import SparkEngineType
from logdriven_dagster.engine.spark.functions import functions_for
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.session import fresh_session, quieten
from logdriven_dagster.engine.storage.file_lists import listing_files
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.engine.targets.store import SnapshotStore, StoreContext
from logdriven_dagster.engine.targets.stores import store
from logdriven_dagster.engine.window.session import WindowSession
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Reads, TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField


class Engine:
    """A project's tables in one Spark application."""

    def __init__(
        self, project: Project, spark: "SparkSession", recall: Recall = lambda _: ()
    ) -> None:
        """Prepare the session for the project.

        `recall` returns the row counts that earlier processes found in the sources of a table.
        Raises UsageError if the session cannot be used.
        """
        self._project, self._spark = project, spark
        self._opening = Lock()
        self._sources, self._looks = KnownSources(), Looks(recall)
        self._few_rows: dict[str, bool] = {}
        """Table → whether its previous window had few rows, as the next one is expected to have."""
        quieten()
        mode_of(spark).adopt(spark, project)

    @property
    def name(self) -> str:
        """The name of the engine behind the session, in messages."""
        return mode_of(self._spark).title

    @property
    def spark(self) -> "SparkSession":
        """The session that all windows share."""
        return self._spark

    @cached_property
    def application_id(self) -> str:
        """Spark's id, for `job_log.application_id`."""
        return mode_of(self._spark).application_id(self._spark)

    @contextmanager
    def open_session(
        self, runs: Sequence[WindowRun], project: Project | None = None
    ) -> Iterator[WindowSession]:
        """Open a session for one window, or for adjoining ones that run in one pass.

        `runs` are the attempts, the oldest window first; `project` has their definition of the
        table if that is an earlier version. Views are dropped at the end. Staged rows remain: call
        `discard` when the log has the outcome of the attempts.
        """
        table, alone, own = runs[0].table, len(runs) == 1, project or self._project
        few_rows = alone and self._few_rows.get(table, False)
        code = _brings_code(own, own.table(table))
        fresh = fresh_session(self._spark, self._project, few_rows=few_rows, brings_code=code)
        with ExitStack() as opened:
            with step_errors():  # the server may be lost since the last window
                spark = opened.enter_context(fresh)
                opened.enter_context(self._listing(spark, table, runs[0].job_id))
            context = self._context(spark, own)
            session = WindowSession(context, runs, self._read)
            yield session
            if alone:
                self._few_rows[table] = session.had_few_rows

    def read(
        self,
        table: str,
        window: TimeWindow | None = None,
        session: "SparkSession | None" = None,
    ) -> "DataFrame":
        """Return the published rows of a configured table: all, or of the windows within `window`.

        `session` defaults to the session that all windows share. Raises StepError if the target
        cannot be read.
        """
        spark = session or self._spark
        with step_errors(), functions_for(spark):
            context = self._context(spark, self._project)
            return self._read(context, table, None if window is None else (window,))

    def look(
        self, table: str, window: TimeWindow | None, sql: str | None, limit: int
    ) -> "pa.Table":
        """Return the first published rows of a table, or of the query `sql` over it.

        `window` restricts the rows, `limit` is their largest number. Columns of types that Arrow
        lacks are text. Raises StepError if the target cannot be read or the query fails.
        """
        with step_errors(), fresh_session(self._spark, self._project) as spark:
            frame = self.read(table, window, spark)
            if sql is not None:
                frame = _query(spark, table, frame, sql)
            shown = frame.limit(limit).select(*map(_in_arrow, frame.schema.fields))
            found: pa.Table = run_action(spark, f"{table}: look", shown.toArrow)
            return found

    def compare(self, left: Side, right: Side, rule: Rule) -> Comparison:
        """Compare the rows of two sides; see `comparing.compare_frames`.

        Raises StepError if a side cannot be read.
        """
        with step_errors(), fresh_session(self._spark, self._project) as spark:
            one, other = (self._read_side(spark, side) for side in (left, right))
            return compare_frames(spark, one, other, rule)

    def _read_side(self, spark: "SparkSession", side: Side) -> "DataFrame":
        if isinstance(side, QueryRows):
            connection = self._project.connection(side.connection)
            options = reader_options(connection) | {"query": as_subquery(side.sql)}
            return read_exactly(spark, connection, options, self._project.zone).convert()
        if side.snapshot is None:
            return self.read(side.table, side.window, spark)
        target = self._project.table(side.table).output
        keeper = store(self._context(spark, self._project), side.table, target)
        found = cast("SnapshotStore", keeper).read_snapshot(side.snapshot, side.window)
        return found.drop(WINDOW_START)

    def reading(self, run: WindowRun) -> Reading:
        """Return the context in which a source determines its range, in the shared session."""
        return self._reading(self._spark, run)

    def count_source(
        self, run: WindowRun, step: StepConfig, now: datetime, done: Sequence[TimeWindow] | range
    ) -> SourceRows:
        """Count all rows of a step's source; `done` are the ranges or keys that were read."""
        with (
            step_errors(),
            fresh_session(self._spark, self._project) as spark,
            self._listing(spark, run.table, run.job_id),
        ):
            return count_rows(self._reading(spark, run), step, now, done)

    def count_files(self, run: WindowRun, step: StepConfig) -> int:
        """Count the rows of a step's source in the files of a run."""
        with step_errors(), fresh_session(self._spark, self._project) as spark:
            return count_rows_of_files(self._reading(spark, run), step)

    def _listing(
        self, spark: "SparkSession", table: str, job_id: int
    ) -> AbstractContextManager[None]:
        if not mode_of(spark).capabilities.reads_file_sink_log:
            return nullcontext()
        return listing_files(spark, self._project, table, job_id)

    def _reading(self, spark: "SparkSession", run: WindowRun) -> Reading:
        return Reading(self._project, spark, run, self._open_catalog, self._sources)

    def _read(self, context: StoreContext, name: str, windows: Reads) -> "DataFrame":
        target = context.project.table(name).output
        keeper = store(context, name, target)
        # A table that is replaced as a whole has no windows, only its current rows.
        if windows is None or target.write_mode.replaces_whole_table:
            return keeper.read(None).drop(WINDOW_START)
        if not windows:
            return keeper.read(None).drop(WINDOW_START).where("false")
        frames = (keeper.read(window).drop(WINDOW_START) for window in windows)
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _context(self, spark: "SparkSession", project: Project) -> StoreContext:
        return StoreContext(project, spark, self._open_catalog, self._sources, self._looks)

    def _open_catalog(self) -> Any:
        with self._opening:  # parallel windows share one
            return self._catalog

    @cached_property
    def _catalog(self) -> Any:
        return open_catalog(self._project)


def start_engine(context: EngineContext) -> Engine:
    """Start the engine in the session of its type, which is Spark's or speaks its protocol."""
    assert isinstance(context.kind, SparkEngineType)
    session = context.kind.session(context, register_session)
    return Engine(context.project, session, context.recall)


def _brings_code(project: Project, table: TableConfig) -> bool:
    """Return whether a table's steps or rules call Python functions, which may change Spark."""
    known = project.config.quality_rules
    rules = [
        rule for step in table.steps if step.quality for rule in resolve_rules(step.quality, known)
    ]
    return any(step.python for step in table.steps) or any(rule.kind == "python" for rule in rules)


def _query(spark: "SparkSession", table: str, frame: "DataFrame", sql: str) -> "DataFrame":
    """Return the result of a query over a frame; raise TerminalStepError for other statements."""
    from sqlglot import exp

    try:
        if not isinstance(parse_query(sql), exp.Query):
            raise TerminalStepError(f"only a query of {table} can run here, not another statement")
        names = {table, table.rpartition(".")[2]}
        text = replace_tables(sql, {name: name for name in names})
    except UnreadableSqlError as error:
        raise TerminalStepError(f"the query cannot be read: {error}") from None
    for name in names:
        mode_of(spark).name_frame(frame, name)
    return mode_of(spark).query(spark, text, {}, dict.fromkeys(names, frame))


def _in_arrow(field: "StructField") -> "Column":
    from pyspark.sql.types import StructType

    column, kind = sf.col(quote_name(field.name)), field.dataType.typeName()
    if arrow_schema(StructType([field])) is not None:
        return column
    text = sf.to_json(column) if kind == "variant" else column.cast("string")
    return text.alias(field.name)
