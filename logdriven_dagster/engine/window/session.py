"""The windows of one pass in Spark, usually a single one: stage, check and publish each step.

Every window gets its own rows, so that later operations can handle it separately: restore, publish
again, discard.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.incremental.batches import get_file_source
from logdriven_dagster.config.models.quality import QualityConfig, resolve_rules
from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.sql.stretching import find_window_keys
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.quality.checks import refuse_violations
from logdriven_dagster.engine.quality.inspected_store import InspectedStore
from logdriven_dagster.engine.quality.inspector import Inspector
from logdriven_dagster.engine.queries.declared_columns import (
    build_first_state,
    refuse_undeclared,
    require_values,
)
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.queries.window_check import (
    add_window_index,
    assign_windows,
    refuse_own_name,
)
from logdriven_dagster.engine.sources.files.arrivals import refuse_changed
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.storage.locations import storage_of
from logdriven_dagster.engine.storage.staging import staging_of
from logdriven_dagster.engine.targets.rejected import build_rejected_target
from logdriven_dagster.engine.targets.staged_files import in_few_files
from logdriven_dagster.engine.targets.store import StagedRows, Store, StoreContext
from logdriven_dagster.engine.targets.stores import store
from logdriven_dagster.engine.window.read_counts import ReadCounts
from logdriven_dagster.engine.window.staged_steps import describe_staged, describe_view
from logdriven_dagster.engine.window.step_results import StepResult, StepResults
from logdriven_dagster.errors import NotPublishedError, TerminalStepError
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.runs import Published, Staged, WindowRun, combine_runs
from logdriven_dagster.model.windows import Reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WindowSession:
    """The steps of an attempt, or of attempts at adjoining windows that run in one pass.

    Every failure is a StepError without secrets. An exception that interrupts a call cancels the
    running Spark jobs and propagates.
    """

    def __init__(
        self,
        context: StoreContext,
        runs: Sequence[WindowRun],
        read: "Callable[[StoreContext, str, Reads], DataFrame]",
    ) -> None:
        """Prepare the views and results of the pass.

        `runs` are of adjoining windows, oldest first. `read` reads a configured table.
        """
        self._context, self._runs, self._whole = context, runs, combine_runs(runs)
        self._windows = tuple(run.window for run in runs)
        self._table: TableConfig = context.project.table(self._whole.table)
        several = len(runs) > 1
        self._keys = find_window_keys(context.project, self._table) if several else {}
        """Step → the column that identifies the window of each row, for several windows."""
        self._reads = ReadCounts(context.project, self._table, self._windows, context.spark)

        def table(name: str, part: Reads) -> "DataFrame":
            try:
                frame = read(context, name, part)
            except NotPublishedError:
                if name != self._table.table:
                    raise
                frame = build_first_state(context.spark, self._table)
            column = context.project.table(name).output.window_column
            return self._reads.add_counter(None if part is None else column, frame)

        self._views = Views(
            *(context.spark, self._whole, table, frozenset(context.project.tables)),
            narrowed=self._reads.push_filters,
        )
        self._results = StepResults(
            *(context, self._whole, self._table, self._views),
            windows=self._windows,
            seen=self._reads.add_counter,
        )
        self._staged: dict[str, tuple[Store, tuple[StagedRows, ...]]] = {}
        self._published: dict[str, tuple[Published, ...]] = {}
        self._read_by: dict[str, frozenset[int]] = {}
        """Step without a target → Spark's ids of the columns that its source has."""
        self.had_few_rows = True
        """True if all rows staged so far were few."""

    def stage(self, step: StepConfig) -> tuple[Staged, ...]:
        """Read, transform and write one step of every window to staging, invisible to readers."""
        with step_errors():
            before = self._results.commit_before_read(step)
            try:
                staged = self._stage(step)
            except Exception as error:
                # Several windows run in smaller passes after any error.
                if len(self._runs) > 1 or not self._results.may_pass(error):
                    raise
                staged = self._stage(step)
            return tuple(each.add_notes(*before) for each in staged)

    def _stage(self, step: StepConfig) -> tuple[Staged, ...]:
        self._views.opened.clear()
        rows = self._results.source_rows(step)  # first: they say which files to read
        made, source_type = self._results.build_result(step), self._results.origin(step)
        if step.target is None:
            if step.source is not None:
                found = mode_of(self._context.spark).find_attributes(made.frame)
                self._read_by[step.step] = found.difference(*self._read_by.values())
            self._views.register(step.step, made.frame)
            staged = (describe_view(step, made, source_type),) * len(self._runs)
        else:
            staged = self._write(step, step.target, made, source_type)
        if rows is None and not any(each.counts.source for each in staged):
            rows = self._results.rows_of_no_window(step)
        first, *others = staged
        first = replace(first, listed_files=self._results.list_files(step))
        if rows is not None:
            first = first.with_source_rows(rows)
        return (first, *others)

    def read_files(self, files: tuple[RegisteredFile, ...]) -> None:
        """Use these files for the steps of a table of files from now on."""
        self._whole = replace(self._whole, files=files)
        self._results.use(self._whole)

    def refuse_changed_files(self) -> None:
        """Raise TransientStepError if a file to be read has changed."""
        if self._whole.files:
            with step_errors():
                refuse_changed(
                    self._context.project, get_file_source(self._table), self._whole.files
                )

    def stage_frame(self, step: StepConfig, frame: "DataFrame") -> tuple[Staged, ...]:
        """Write a frame that was made outside of this session to staging."""
        assert step.target is not None
        with step_errors():
            return self._write(step, step.target, StepResult(frame), "dataframe")

    def check(self, check: CheckConfig) -> None:
        """Raise TerminalStepError, with number and examples, if the check's query finds rows."""
        with step_errors():
            refuse_violations(self._context.spark, self._views, check, self._whole.label)

    def count_replaced_rows(self, step: StepConfig) -> int:
        """Count the published rows that the step's staged rows would replace, in a Spark job."""
        assert step.target is not None
        keeper, _ = self._staged[step.step]
        label = f"{self._whole.for_step(step.step).label}: rows to be replaced"
        with step_errors():
            try:
                mode = step.target.write_mode
                replaced = mode.range_to_replace(self._whole.window)
                published = keeper.read(None if mode.replaces_whole_table else replaced)
            except NotPublishedError:
                return 0
            return run_action(self._context.spark, label, published.count)

    def publish(self, step_id: str, verify: Callable[[], None]) -> tuple[Published, ...]:
        """Make the rows of a staged step visible, atomically for each window.

        `verify` raises AttemptLostError if an attempt has been taken over; see `Store.publish`.
        """
        if step_id not in self._published:
            keeper, staged = self._staged[step_id]
            with step_errors():
                self._published[step_id] = keeper.publish(staged, verify)
        return self._published[step_id]

    def fence(self, runs: Sequence[WindowRun] | None = None) -> None:
        """Fence off all older attempts at these windows, by default those of the session."""
        fenced = self._runs if runs is None else runs
        for step in self._table.steps:
            if step.target is not None:
                with step_errors():
                    self._store(step, step.target).fence(
                        [run.for_step(step.step) for run in fenced]
                    )

    def restore(self, step: StepConfig, states: Sequence[str]) -> tuple[Staged, ...] | None:
        """Take over the staged rows of dead attempts, as if they had been staged here.

        `states` are the states that these attempts logged. Returns None if any staged rows are
        missing.
        """
        target = step.target
        assert target is not None
        known = [json.loads(state) for state in states]
        keeper, runs = self._store(step, target), self._list_step_runs(step)
        with step_errors():
            staged = tuple(
                StagedRows.from_state(run, each["rows"])
                for run, each in zip(runs, known, strict=True)
            )
            if not all(keeper.holds(rows) for rows in staged):
                return None
            self._keep(step, keeper, staged)
            return tuple(
                describe_staged(
                    rows,
                    target,
                    each["source_type"],
                    tuple(each["current_files"]),
                    each.get("malformed"),
                )
                for rows, each in zip(staged, known, strict=True)
            )

    def discard(self) -> None:
        """Remove staged rows that are not published."""
        for step_id, (keeper, staged) in self._staged.items():
            if step_id not in self._published:
                # Leftovers do no harm, and an earlier error must stay visible.
                with suppress(Exception):
                    keeper.discard(staged)
        self._views.withdraw_offers()
        self._staged.clear()
        self._published.clear()

    def _write(
        self, step: StepConfig, target: Target, made: StepResult, source_type: str | None
    ) -> tuple[Staged, ...]:
        keeper, runs = self._store(step, target), self._list_step_runs(step)
        frame, key = made.frame, self._keys.get(step.step)
        refuse_own_name(frame)
        if target == self._table.output:
            refuse_undeclared(self._context.spark, frame, self._table)
        if step.quality is None:
            ready = self._prepare_write(
                self._require_values(frame, target), target, key=key, chosen=made.chosen
            )
        else:
            ready = frame if key is None else add_window_index(frame, key, self._windows)
        staged = self._reads.assign_counts(keeper.stage(ready, runs), frame)
        if made.has_read:
            staged = tuple(replace(rows, source_rows=None) for rows in staged)
        malformed = self._results.take_malformed()
        self._keep(step, keeper, staged)
        notes = self._results.describe_uncounted(step), self._describe_reads(staged)
        return tuple(
            describe_staged(rows, target, source_type, made.files, bad).add_notes(*notes)
            for rows, bad in zip(staged, malformed, strict=True)
        )

    def _describe_reads(self, staged: Sequence[StagedRows]) -> str:
        """Return a note for the log on the rows that each of several steps without a target read.

        It is empty if they are not known, as with several windows or on Spark Connect.
        """
        query = staged[0].query
        if len(staged) > 1 or query is None:
            return ""
        counts = dict.fromkeys(self._read_by, 0)
        for scan in query.scans:
            readers = [name for name, read in self._read_by.items() if scan.attributes & read]
            if len(readers) != 1:
                return ""
            counts[readers[0]] += scan.rows
        parts = [f"{rows:,} by {name}" for name, rows in counts.items()]
        return f"rows read: {', '.join(parts)}" if len(parts) > 1 else ""

    def _prepare_write(
        self, frame: "DataFrame", target: Target, *, key: str | None = None, chosen: bool = False
    ) -> "DataFrame":
        return in_few_files(assign_windows(frame, target, self._windows, key=key, chosen=chosen))

    def _require_values(self, frame: "DataFrame", target: Target) -> "DataFrame":
        """Return the frame, whose query fails at NULL in a declared column that is NOT NULL."""
        is_output = target == self._table.output
        return require_values(self._context.spark, frame, self._table) if is_output else frame

    def _keep(self, step: StepConfig, keeper: Store, staged: tuple[StagedRows, ...]) -> None:
        """Record the staged rows, and offer them to later steps and checks."""
        self._staged[step.step] = (keeper, staged)
        self.had_few_rows &= staged[0].were_few
        self._views.offer(
            step.step,
            lambda: self._reads.add_counter(None, keeper.staged_frame(staged).drop(WINDOW_START)),
        )

    def _store(self, step: StepConfig, target: Target) -> Store:
        keeper = store(self._context, self._whole.table, target)
        if step.quality is not None:
            keeper = self._build_inspected_store(step, step.quality, keeper, target)
        if len(self._runs) > 1 and not keeper.takes_stretches:
            raise TerminalStepError(f"{step.step}: its target writes one window at a time")
        return keeper

    def _build_inspected_store(
        self, step: StepConfig, quality: QualityConfig, keeper: Store, target: Target
    ) -> InspectedStore:
        project, table = self._context.project, self._whole.table
        apart = build_rejected_target(table, step)
        inspector = Inspector(
            quality,
            resolve_rules(quality, project.config.quality_rules),
            self._views,
            self._results.values,
            project.files[table].parent,
            lambda file: storage_of(file, project.storage).open(file),
            staging_of(project, table),
        )
        return InspectedStore(
            keeper,
            store(self._context, *apart) if apart else None,
            inspector,
            lambda frame: self._prepare_write(self._require_values(frame, target), target),
            lambda frame: self._prepare_write(frame, apart[1] if apart else target),
        )

    def _list_step_runs(self, step: StepConfig) -> list[WindowRun]:
        return [run.for_step(step.step) for run in self._runs]
