"""Results of the steps of a pass: read, transform, and repeat per row of a loop."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.steps import LoopOver, StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.time_columns import WindowColumn
from logdriven_dagster.config.sql.references import is_script
from logdriven_dagster.engine.databases.scripts import run_script
from logdriven_dagster.engine.queries.loop_over import loop_rows, union
from logdriven_dagster.engine.queries.rendering import render_for_database
from logdriven_dagster.engine.queries.transforms import call, load_transform
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.queries.window_check import chosen_by_source, refuse_texts
from logdriven_dagster.engine.sources.file_rows import FileSelection, choose_files
from logdriven_dagster.engine.sources.files.checks.json_keys import refuse_keys
from logdriven_dagster.engine.sources.files.checks.window_times import refuse_window_times
from logdriven_dagster.engine.sources.known_sources import Listings
from logdriven_dagster.engine.sources.readers import Malformed, Reading, read_source, reader_of
from logdriven_dagster.engine.sources.source_rows import look, look_for_any
from logdriven_dagster.engine.spark.actions import run_action, run_checks
from logdriven_dagster.engine.targets.store import StoreContext
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import FileRows, SourceRows
from logdriven_dagster.model.windows import Slice, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_UNCOUNTED = (
    "malformed records are not counted: the step's query does not read its "
    "source, or reads it by spark.sql in Python on Spark Connect, which does "
    "not report them"
)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step: a frame that is not yet computed."""

    frame: "DataFrame"
    files: tuple[str, ...] = ()
    """The names of the files that it reads."""
    chosen: bool = False
    """True if no row can lie outside the window; see `window_check.chosen_by_source`."""
    has_read: bool = False
    """True if a SQL script has read rows already, so that staging does not count them."""


class StepResults:
    """The results of steps as frames that are not yet computed."""

    def __init__(
        self,
        context: StoreContext,
        run: WindowRun,
        table: TableConfig,
        views: Views,
        *,
        windows: tuple[TimeWindow, ...],
        seen: "Callable[[WindowColumn | None, DataFrame], DataFrame]",
    ) -> None:
        """Prepare the results of a pass.

        `run` covers the range of all `windows`, usually one. `seen` may add a counter to a source,
        given its `window_column`.
        """
        self._context, self._run, self._table, self._views = context, run, table, views
        self._seen, self._windows = seen, windows
        self._malformed: dict[str, list[Malformed]] = {}
        self._files_of: dict[str, tuple[FileRows, ...]] = {}
        """Step → the rows of the files of its source, if they are known."""
        self._listed = Listings()
        """The files that the present step has listed."""
        self._has_read = False
        """True after a SQL script has run."""

    def use(self, run: WindowRun) -> None:
        """Use the files and variables of this run from now on."""
        self._run = run
        self._views.use(run)

    def commit_before_read(self, step: StepConfig) -> list[str]:
        """Execute the scripts that a step commits before it reads; return notes for the log."""
        notes = []
        for script in step.commit_before_read:
            run_checks()  # an attempt that was taken over must change nothing
            connection = self._context.project.connection(script.connection)
            done = run_script(
                connection,
                [render_for_database(sql, self._run, connection) for sql in script.sql],
                {},
                transaction=script.transaction,
            )
            notes.append(f"before the read {done.rows} rows changed on {script.connection}")
        return notes

    def build_result(self, step: StepConfig) -> StepResult:
        """Return the result of a step as a frame that is not yet computed."""
        self._malformed[step.step] = []
        return self._build_result(step)

    def may_pass(self, error: Exception) -> bool:
        """Return whether the failed step may succeed on retry; see `Reader.may_pass`."""
        read = [
            each.source
            for each in self._table.steps
            if each.step in self._malformed and each.loop_over is None
        ]
        self._listed.clear()
        reading = self._reading
        return any(reader_of(each).may_pass(reading, each, error) for each in read if each)

    def source_rows(self, step: StepConfig) -> SourceRows | None:
        """Count the source's rows outside all windows, if needed; see `source_rows.look`."""
        self._files_of.pop(step.step, None)
        self._listed.clear()
        if step.loop_over is not None:
            return None
        found = look(self._reading, step, self._context.looks)
        if found is None:
            return None
        self._files_of[step.step] = found.rows.files
        return found.rows if found.is_new else None

    def list_files(self, step: StepConfig) -> tuple[FileRows, ...]:
        """Return the files that `source_rows` has listed, if their rows are counted by file."""
        return self._files_of.get(step.step, ())

    def rows_of_no_window(self, step: StepConfig) -> SourceRows | None:
        """Count the source's rows if none belongs to any window; see `look_for_any`."""
        if step.loop_over is not None:
            return None
        return look_for_any(self._reading, step, self._context.looks)

    def take_malformed(self) -> list[int | None]:
        """Return the malformed records per window that were read and not reported before.

        None if every source is strict, or no query has read one that is not.
        """
        known: list[list[int | None]] = []
        for waiting in self._malformed.values():
            for counts in list(waiting):
                if None not in (found := counts()):
                    known.append(found)
                    waiting.remove(counts)
        if not known:
            return [None] * len(self._windows)
        return [sum(map(int, each)) for each in zip(*known, strict=True)]

    def describe_uncounted(self, step: StepConfig) -> str:
        """Return a note for the log if the number of a step's malformed records is unknown."""
        return _UNCOUNTED if self._malformed.get(step.step) else ""

    def _build_result(self, step: StepConfig) -> StepResult:
        if step.loop_over is not None:
            return self._of_all_rows(step, step.loop_over)
        source, sql = self._source(step), self._context.project.step_sql(self._table, step)
        made = self._transform(step, source, sql)
        chosen = chosen_by_source(self._table, step, sql, source, self._run.window)
        self._has_read = self._has_read or (sql is not None and is_script(sql))
        return StepResult(made, self._files(step, source), chosen, self._has_read)

    def _of_all_rows(self, step: StepConfig, loop: LoopOver) -> StepResult:
        """Unite the results of all rows of a loop. Source: Sharp ETL, loopOver."""
        run, spark = self._run, self._context.spark
        rows = self._views.query(loop.sql or f"SELECT * FROM `{loop.step}`")  # noqa: S608 - a step's name
        once, results = step.model_copy(update={"loop_over": None}), []
        try:
            for row in loop_rows(rows, loop, f"{run.table} {run.window} {step.step}"):
                self.use(replace(run, row=row))
                results.append(self._build_result(once))
        finally:
            self.use(run)
        files = tuple(dict.fromkeys(name for result in results for name in result.files))
        made = union([result.frame for result in results], loop, spark)
        return StepResult(
            made,
            files,
            all(result.chosen for result in results),
            self._has_read,
        )

    def _source(self, step: StepConfig) -> "DataFrame | None":
        if step.source is None:
            return None
        reading = replace(self._reading, files=self._choose_files(step))
        existing = reader_of(step.source).select_existing(reading, step.source)
        if existing is None:
            frame = reader_of(step.source).without_rows(reading, step.source)
        else:
            frame = read_source(reading, existing)
            refuse_keys(reading, existing, frame)
            refuse_window_times(reading, existing, self.list_files(step))
            frame = reader_of(existing).add_file_columns(reading, existing, frame)
        self._malformed[step.step] += reading.malformed
        if len(self._windows) > 1:
            refuse_texts(step.source, frame)
        source = self._seen(step.source.window_column, frame)
        self._views.offer("source", lambda: source)
        return source

    def _choose_files(self, step: StepConfig) -> FileSelection | None:
        """Return the files of the source that the windows have to read; None for all."""
        files, window = self.list_files(step), self._run.window
        if not files or step.source is None or isinstance(window, Slice):
            return None
        return choose_files(step.source, files, window)

    def _files(self, step: StepConfig, source: "DataFrame | None") -> tuple[str, ...]:
        if step.source is None or source is None:
            return ()
        return reader_of(step.source).file_names(self._reading, step.source, source)

    @property
    def _reading(self) -> Reading:
        context = self._context
        return Reading(
            context.project,
            context.spark,
            self._run,
            context.catalog,
            context.sources,
            self._windows,
            listed=self._listed,
        )

    def _transform(
        self, step: StepConfig, source: "DataFrame | None", sql: str | None
    ) -> "DataFrame":
        if step.python:
            folder = self._context.project.files[self._run.table].parent
            function = load_transform(self._context.spark, step.python, folder)
            known = self.values()
            # The transform may start Spark jobs.
            return self._run_action(step, lambda: call(str(step.python), function, known))
        if sql is not None and is_script(sql):
            return self._run_action(step, lambda: self._views.query(sql))
        if sql is not None:
            return self._views.query(sql)
        assert source is not None  # the configuration refuses a step without an origin
        return source

    def _run_action(self, step: StepConfig, work: "Callable[[], DataFrame]") -> "DataFrame":
        label = f"{self._run.table} {self._run.window} {step.step}"
        return run_action(self._context.spark, label, work)

    def values(self) -> dict[str, Callable[[], Any]]:
        """Return the values for the parameters of a Python transform."""
        frames, own = self._views.parameters(), self._run.table.replace(".", "_")
        return frames | {
            "spark": lambda: self._context.spark,
            "window": lambda: self._run.window,
            "job_id": lambda: self._run.job_id,
            "variables": lambda: {**self._run.variables, **self._run.row},
            "properties": lambda: self._context.project.properties(self._table),
            "inputs": lambda: {name: frame() for name, frame in frames.items() if name != own},
        }

    def origin(self, step: StepConfig) -> str | None:
        """Return the types that the step reads: of its source, and of the tables that it names."""
        kinds: list[str] = [step.source.type] if step.source else []
        kinds += [self._context.project.table(name).output.type for name in self._views.opened]
        return ",".join(dict.fromkeys(sorted(kinds))) or ("python" if step.python else "sql")
