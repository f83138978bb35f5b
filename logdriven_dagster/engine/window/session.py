"""One window in Spark: every step staged, checked, and published."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property, reduce
from threading import Lock
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.quality import QualityConfig, rules_of
from logdriven_dagster.config.models.slicing import file_source
from logdriven_dagster.config.models.steps import CheckConfig, JdbcTarget, StepConfig, Target
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.quality.checks import refuse_violations
from logdriven_dagster.engine.quality.inspector import Inspector
from logdriven_dagster.engine.queries.placing import placed
from logdriven_dagster.engine.queries.rendering import render_for_database
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.sources.files.arrivals import refuse_changed
from logdriven_dagster.engine.sources.known_sources import KnownSources
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.sources.source_rows import Looks, Recall, count_rows
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.session import fresh_session, quieten
from logdriven_dagster.engine.storage.parquet_staging import kept_for_a_while
from logdriven_dagster.engine.storage.staging import Place, StagedRows, Stamp, Store, in_few_files
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.engine.targets.rejected import InspectedStore, rejected_target
from logdriven_dagster.engine.targets.stores import store
from logdriven_dagster.engine.window.staged_steps import noted, viewed, with_source_rows, written
from logdriven_dagster.engine.window.step_results import StepResult, StepResults
from logdriven_dagster.engine.window.stretch import StretchSession
from logdriven_dagster.errors import NotPublishedError
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Reads, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """A project's tables in one Spark application."""

    def __init__(
        self, project: Project, spark: "SparkSession", recall: Recall = lambda _: ()
    ) -> None:
        """`recall` tells what earlier processes have found in the sources of a table."""
        self._project, self._spark = project, spark
        self._opening = Lock()
        self._sources, self._looks = KnownSources(), Looks(recall)
        self._few_rows: dict[str, bool] = {}
        """Whether the window before had few, by tables: the next one is expected to be like it."""
        quieten()
        mode_of(spark).adopt(spark, project)

    @property
    def spark(self) -> "SparkSession":
        """The session that all windows share."""
        return self._spark

    @cached_property
    def application_id(self) -> str:
        """Spark's, for `job_log.application_id`."""
        return mode_of(self._spark).application_id(self._spark)

    @contextmanager
    def window(self, run: WindowRun, project: Project | None = None) -> Iterator["WindowSession"]:
        """A session of its own for one attempt; its views are gone afterwards.

        `project` holds the table as the attempt runs it, if that is an earlier version.

        What is staged stays: `discard` removes it, when the log holds how the attempt ended.
        """
        few_rows = self._few_rows.get(run.table, False)
        with fresh_session(self._spark, self._project, few_rows=few_rows) as spark:
            place = self._place(spark, project or self._project)
            session = WindowSession(place, run, self._read)
            yield session
            self._few_rows[run.table] = session.had_few_rows

    @contextmanager
    def stretch(
        self, runs: Sequence[WindowRun], project: Project | None = None
    ) -> Iterator[StretchSession]:
        """A session for attempts at adjoining windows, oldest first, which run in one pass."""
        with fresh_session(self._spark, self._project) as spark:
            place = self._place(spark, project or self._project)
            yield StretchSession(place, runs, self._read)

    def read(
        self,
        table: str,
        window: TimeWindow | None = None,
        session: "SparkSession | None" = None,
    ) -> "DataFrame":
        """The published rows of a configured table, or those of the windows within `window`."""
        with step_errors():
            place = self._place(session or self._spark, self._project)
            return self._read(place, table, None if window is None else (window,))

    def count_source(
        self, run: WindowRun, step: StepConfig, now: datetime, done: Sequence[TimeWindow] | int
    ) -> SourceRows:
        """All rows of a step's source; `done` are the ranges, or the last key, that were read."""
        with step_errors(), fresh_session(self._spark, self._project) as spark:
            reading = Reading(self._project, spark, run, self._sources)
            return count_rows(reading, step, now, done)

    def _read(self, place: Place, name: str, windows: Reads) -> "DataFrame":
        target = place.project.table(name).output
        keeper = store(place, name, target)
        # A table that is replaced as a whole has no windows, only a present.
        if windows is None or target.mode == "overwrite":
            return keeper.read(None).drop(WINDOW_START)
        if not windows:
            return keeper.read(None).drop(WINDOW_START).where("false")
        frames = (keeper.read(window).drop(WINDOW_START) for window in windows)
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _place(self, spark: "SparkSession", project: Project) -> Place:
        return Place(project, spark, self._open_catalog, self._sources, self._looks)

    def _open_catalog(self) -> Any:
        with self._opening:  # windows side by side share one
            return self._catalog

    @cached_property
    def _catalog(self) -> Any:
        return open_catalog(self._project)


class WindowSession:
    """The steps of one attempt. Every failure is a StepError without secrets.

    Interrupted by any exception, the Spark jobs that run are cancelled and the exception goes on.
    """

    def __init__(
        self,
        place: Place,
        run: WindowRun,
        read: "Callable[[Place, str, Reads], DataFrame]",
    ) -> None:
        self._place, self._run = place, run
        self._table: TableConfig = place.project.table(run.table)
        tables = frozenset(place.project.tables)
        self._views = Views(place.spark, run, lambda name, part: read(place, name, part), tables)
        self._results = StepResults(place, run, self._table, self._views)
        self._staged: dict[str, tuple[Store, StagedRows]] = {}
        self._published: dict[str, Published] = {}
        self.had_few_rows = True
        """Whether all that was staged so far was little."""

    def stage(self, step: StepConfig) -> Staged:
        """Read, transform and write one step where no reader looks."""
        with step_errors():
            before = self._results.commit_before_read(step)
            try:
                staged = self._stage(step)
            except Exception as error:
                if not self._results.may_pass(error):
                    raise
                staged = self._stage(step)
            return noted(staged, *before)

    def _stage(self, step: StepConfig) -> Staged:
        self._views.opened.clear()
        made, source_type = self._results.of(step), self._results.origin(step)
        rows = self._results.source_rows(step)
        if step.target is None:
            self._views.register(step.step, made.frame)
            return with_source_rows(viewed(step, made, source_type), rows)
        return with_source_rows(self._write(step, step.target, made, source_type), rows)

    def read_files(self, files: tuple[RegisteredFile, ...]) -> None:
        """Let the steps of a table of files read these from now on."""
        self._run = replace(self._run, files=files)
        self._results.use(self._run)

    def refuse_changed_files(self) -> None:
        """TransientStepError if a file is not the one any more that was to be read."""
        if self._run.files:
            with step_errors():
                refuse_changed(file_source(self._table), self._run.files)

    def stage_frame(self, step: StepConfig, frame: "DataFrame") -> Staged:
        """Write a frame that was made outside where no reader looks."""
        assert step.target is not None
        with step_errors():
            return self._write(step, step.target, StepResult(frame), "dataframe")

    def check(self, check: CheckConfig) -> None:
        """Raise TerminalStepError if the check's query finds rows: how many, and the first few."""
        with step_errors():
            label = f"{self._run.table} {self._run.window}"
            refuse_violations(self._place.spark, self._views, check, label)

    def replaced_rows(self, step: StepConfig) -> int:
        """Count the published rows that the step's staged ones would replace, in a Spark job."""
        assert step.target is not None
        keeper, _ = self._staged[step.step]
        label = f"{self._run.table} {self._run.window} {step.step}: rows to be replaced"
        with step_errors():
            try:
                whole = step.target.mode == "overwrite"
                published = keeper.read(None if whole else self._run.window)
            except NotPublishedError:
                return 0
            return run_action(self._place.spark, label, published.count)

    def publish(self, step_id: str, verify: Callable[[], None]) -> Published:
        """Make the rows of a staged step visible, all at once.

        `verify` raises AttemptLostError if the attempt is not ours any more; see `Store.publish`.
        """
        if step_id not in self._published:
            keeper, staged = self._staged[step_id]
            with step_errors():
                self._published[step_id] = keeper.publish(staged, verify)
        return self._published[step_id]

    def fence(self) -> None:
        """Shut out every older attempt at this window from all targets of the table."""
        for step in self._table.steps:
            if step.target is not None:
                with step_errors():
                    self._store(step, step.target).fence(self._stamp(step.step))

    def restore(self, step: StepConfig, state: str) -> Staged | None:
        """Take over what a dead attempt staged, as if it had been staged here.

        None if it is not there any more as a whole.
        """
        assert step.target is not None
        told = json.loads(state)
        keeper = self._store(step, step.target)
        with step_errors():
            staged = StagedRows.of(self._stamp(step.step), told["rows"])
            if not keeper.holds(staged):
                return None
            files = tuple(told["current_files"])
            malformed = told.get("malformed")
            self._keep(keeper, staged)
            return written(staged, step.target, told["source_type"], files, malformed)

    def discard(self) -> None:
        """Remove what is staged and not published."""
        for step_id, (keeper, staged) in self._staged.items():
            if step_id not in self._published:
                # What is left over does no harm; what went wrong before must stay visible.
                with suppress(Exception):
                    keeper.discard(staged)
        self._views.withdraw_offers()
        self._staged.clear()
        self._published.clear()

    def _write(
        self,
        step: StepConfig,
        target: Target,
        made: StepResult,
        source_type: str | None,
    ) -> Staged:
        keeper = self._store(step, target)
        frame = made.frame
        ready = frame if step.quality else self._finished(frame, target, chosen=made.chosen)
        stamp = self._stamp(step.step)
        if isinstance(target, JdbcTarget) and not step.quality and self._results.is_watched:
            folder = self._place.project.staging / self._run.table
            with kept_for_a_while(ready, folder, stamp) as (ready, kept):
                staged = replace(keeper.stage(ready, stamp), source_rows=kept.source_rows)
        else:
            staged = keeper.stage(ready, stamp)
        (malformed,) = self._results.malformed()
        self._keep(keeper, staged)
        done = written(staged, target, source_type, made.files, malformed)
        return noted(done, self._results.uncounted(step))

    def _finished(self, frame: "DataFrame", target: Target, *, chosen: bool = False) -> "DataFrame":
        return in_few_files(placed(frame, target, self._run.window, chosen=chosen))

    def _keep(self, keeper: Store, staged: StagedRows) -> None:
        """Remember what is staged, and let later steps and checks see it."""
        step_id = staged.stamp.step_id
        self._staged[step_id] = (keeper, staged)
        self.had_few_rows &= staged.were_few
        self._views.offer(step_id, lambda: keeper.staged_frame(staged).drop(WINDOW_START))

    def _store(self, step: StepConfig, target: Target) -> Store:
        """The store of a step's target, its statements with the values of the window."""
        if isinstance(target, JdbcTarget):
            statements = tuple(render_for_database(sql, self._run) for sql in target.pre_sql)
            target = target.model_copy(update={"pre_sql": statements})
        place, table = self._place, self._run.table
        keeper = store(place, table, target)
        if step.quality is None:
            return keeper
        apart = rejected_target(table, step)
        return InspectedStore(
            keeper,
            store(place, *apart) if apart else None,
            self._inspector(step.quality, target),
            lambda frame: self._finished(frame, target),
            lambda frame: self._finished(frame, apart[1] if apart else target),
        )

    def _inspector(self, quality: QualityConfig, target: Target) -> Inspector:
        project, table = self._place.project, self._run.table
        return Inspector(
            quality,
            rules_of(quality, project.config.quality_rules),
            self._views,
            self._results.values,
            project.files[table].parent,
            project.staging / table,
            staged=quality.keep_rejected or isinstance(target, JdbcTarget),
        )

    def _stamp(self, step_id: str) -> Stamp:
        run = self._run
        return Stamp(run.job_id, run.table, step_id, run.window, run.fencing_token)
