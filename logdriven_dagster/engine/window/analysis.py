"""Analysis of a project's queries by Spark's own parser and analyzer, over empty tables.

No query runs, no rows are written and no function of the project is called. Tables are analyzed in
dependency order: the result columns of a table are the input of its downstream tables. Columns of
sources come from their `columns`, their files or their database. Queries over unknown columns (of a
Python function, an unreachable source, a loop) are skipped, with a note.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from logdriven_dagster.config.checking.quality import (
    build_condition_query,
    list_rule_queries,
    list_rule_texts,
)
from logdriven_dagster.config.models.quality import ROWS
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import list_declared_columns
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.known_names import Columns, examine_query
from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_table_references,
    is_script,
)
from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.declared_columns import (
    add_target_columns,
    build_first_state,
    refuse_undeclared,
)
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.queries.window_values import refuse_type
from logdriven_dagster.engine.sources.readers import Reading, columns_named_by, reader_of
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.errors import (
    LogdrivenError,
    TerminalStepError,
    TransientStepError,
    UsageError,
    in_brief,
)
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Analysed:
    """A finding at one place of a table's file."""

    table: str
    location: Location
    text: str
    is_mistake: bool
    """False if the place was not analyzed; the text has the reason."""


_Found: TypeAlias = "tuple[DataFrame | None, tuple[Analysed, ...]]"
"""A frame without rows, or None and the findings."""


class _UnknownError(TransientStepError):
    """The columns of a table or step that a query reads are unknown."""


def analyse(project: Project, spark: "SparkSession") -> Iterator[Analysed]:
    """Analyze every query of every table, upstream tables first."""
    yield from _analyse(project, spark, {})


def find_columns(project: Project, spark: "SparkSession") -> "dict[str, StructType]":
    """Return the columns of the results of tables, by the analysis of their queries.

    Tables whose columns are unknown are missing.
    """
    columns: dict[str, StructType] = {}
    for _ in _analyse(project, spark, columns):
        pass  # mistakes fail when the queries run
    return columns


def _analyse(
    project: Project, spark: "SparkSession", columns: "dict[str, StructType]"
) -> Iterator[Analysed]:
    """Yield the findings in all tables, and add the columns of their results to `columns`."""
    mode_of(spark).adopt(spark, project)
    for table in project.tables.values():
        with fresh_session(spark, project) as session:
            looked = _TableAnalysis(project, table, session, columns)
            yield from looked.find_mistakes()
            if looked.columns is not None:
                columns[table.table] = looked.columns
            elif table.columns is not None:
                columns[table.table] = build_first_state(session, table).schema


class _TableAnalysis:
    """The analysis of one table, in its own Spark session."""

    def __init__(
        self,
        project: Project,
        table: TableConfig,
        spark: "SparkSession",
        columns: "dict[str, StructType]",
    ) -> None:
        self._project, self._table, self._spark = project, table, spark
        self._upstream = columns
        read = [d.table for d in table.managed_dependencies]
        own = () if table.columns is not None else (table.table,)
        self._unknown = {name.lower() for name in (*own, *read) if name not in columns}
        """Steps and tables, in lower case, whose columns are unknown."""
        self._columns: dict[str, Columns | None] = {
            name.lower(): frozenset(columns[name].fieldNames()) for name in read if name in columns
        }
        """Columns of the steps and tables, by their names in lower case."""
        if table.columns is not None:
            declared = list_declared_columns(table.columns)
            self._columns[table.table.lower()] = declared | table.output.added_columns.keys()
        self.columns: StructType | None = None
        """The columns of the result that other tables read."""

    def find_mistakes(self) -> Iterator[Analysed]:
        """Yield mistakes, and places that could not be analyzed."""
        table = self._table
        try:
            self._run = WindowRun(
                *(0, table.table, table.example_window, 0, self._project.variables(table)),
                {d.table: None for d in table.managed_dependencies if d.read != "none"},
            )
        except UsageError as error:
            yield self._note((), str(error))
            return
        configured = frozenset(self._project.tables)
        self._views = Views(self._spark, self._run, self._empty, configured)
        for n, step in enumerate(table.steps):
            yield from self._of_step(n, step)
        for n, check in enumerate(table.checks):
            yield from self._result(("checks", n, "sql"), check.sql)[1]
        yield from self._of_rules()

    def _of_step(self, n: int, step: StepConfig) -> Iterator[Analysed]:
        """Analyze a step and register its columns under its name, if they are known."""
        frame = None
        if step.source is not None:
            frame, found = self._source(("steps", n, "source"), step.source)
            yield from found
            yield from self._window_column(("steps", n, "source", "window_column"), step, frame)
        query = self._project.step_sql(self._table, step)
        if step.loop_over is not None and step.loop_over.sql is not None:
            yield from self._result(("steps", n, "loop_over", "sql"), step.loop_over.sql)[1]
        if step.loop_over is not None or step.python is not None:
            what = "a Python function" if step.python is not None else "a loop"
            yield self._note(("steps", n), f"the columns of {what} are not known before it runs")
            frame = None
        elif query is not None:
            frame, found = self._result(("steps", n, "sql_file" if step.sql_file else "sql"), query)
            yield from found
        self._name(step.step, frame)
        if step.target is not None:
            self.columns = None if frame is None else add_target_columns(frame.schema, step.target)
        if step.target is self._table.output and frame is not None:
            yield from self._declared(("columns",), frame)

    def _source(self, location: Location, source: Source) -> "_Found":
        frame, found = self._try_frame(location, lambda: self._frame(source), is_source=True)
        self._name("source", frame)
        return frame, found

    def _window_column(
        self, location: Location, step: StepConfig, frame: "DataFrame | None"
    ) -> tuple[Analysed, ...]:
        """Analyze the type of the column that determines a row's window."""
        source = step.source
        if source is None or source.window_column is None or frame is None:
            return ()
        names = map(str.lower, frame.columns)
        if getattr(source, "columns", None) and str(source.window_name).lower() not in names:
            return ()  # `columns` may omit those of folders
        column = source.window_column

        def check_type() -> "DataFrame":
            with columns_named_by(source):
                refuse_type(column, frame)
            return frame

        return self._try_frame(location, check_type)[1]

    def _declared(self, location: Location, frame: "DataFrame") -> tuple[Analysed, ...]:
        """Analyze whether the result has the columns that the table declares."""

        def check_columns() -> "DataFrame":
            refuse_undeclared(self._spark, frame, self._table)
            return frame

        return self._try_frame(location, check_columns)[1]

    def _frame(self, source: Source) -> "DataFrame":
        catalog = partial(open_catalog, self._project)
        reading = Reading(self._project, self._spark, self._run, catalog=catalog)
        return reader_of(source).without_rows(reading, source)

    def _of_rules(self) -> Iterator[Analysed]:
        """Analyze the rules of the step that other tables read, over its result columns."""
        if self.columns is None:
            return
        config, output = self._project.config, self._table.output
        number = next(n for n, step in enumerate(self._table.steps) if step.target is output)
        self._name(ROWS, self._spark.createDataFrame([], self.columns))
        queries = [*list_rule_queries(self._table, config)]
        for kind in ("sql", "fails_when"):
            conditions = list_rule_texts(self._table, config, kind, kind)
            queries += [(place, build_condition_query(text)) for place, text in conditions]
        for location, query in queries:
            if location[1] == number:
                yield from self._result(location, query)[1]

    def _result(self, location: Location, query: str) -> "_Found":
        """Return the result of a query without rows, or the mistakes in it.

        Spark reports one mistake; unknown columns are reported all at once. A script is not
        analyzed, because Spark would run it.
        """
        unknown = examine_query(query, self._columns, examines_functions=False).unknown
        if unknown:
            table = self._table.table
            return None, tuple(Analysed(table, location, str(n), is_mistake=True) for n in unknown)

        def result() -> "DataFrame":
            if is_script(query):
                raise _UnknownError("a SQL script is only checked when it runs")
            self._refuse_unknown(query)
            return self._views.query(query)

        return self._try_frame(location, result)

    def _try_frame(
        self, location: Location, make: "Callable[[], DataFrame]", *, is_source: bool = False
    ) -> "_Found":
        """Return the frame, or the findings if it cannot be made; sources may appear later."""
        try:
            with step_errors():
                frame = make()
                frame.schema  # noqa: B018 - Spark Connect analyzes only on access
                return frame, ()
        except LogdrivenError as error:
            text, certain = in_brief(str(error)), isinstance(error, TerminalStepError)
            is_mistake = certain and not is_source
            return None, (Analysed(self._table.table, location, text, is_mistake),)

    def _refuse_unknown(self, query: str) -> None:
        try:
            read = {name.lower(): name for name in find_table_references(query)}
        except UnreadableSqlError:
            return  # Spark reports the error
        for name in sorted(read.keys() & self._unknown):
            raise _UnknownError(f"the columns of {read[name]} are not known")

    def _name(self, name: str, frame: "DataFrame | None") -> None:
        """Register a frame under a name, or mark the name as unknown."""
        self._columns[name.lower()] = None if frame is None else frozenset(frame.columns)
        if frame is None:
            self._unknown.add(name.lower())
        else:
            self._unknown.discard(name.lower())
            self._views.register(name, frame)

    def _empty(self, name: str, _: Reads) -> "DataFrame":
        if name == self._table.table:
            return build_first_state(self._spark, self._table)
        return self._spark.createDataFrame([], self._upstream[name])

    def _note(self, location: Location, text: str) -> Analysed:
        return Analysed(self._table.table, location, text, is_mistake=False)
