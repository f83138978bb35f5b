"""A stretch in Spark: adjoining windows of one table, staged by one pass over their whole range.

Every window gets rows of its own, with its own stamp, so that whatever comes after staging can
treat it alone: take it over, publish it again, remove it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import CheckConfig, StepConfig, Target
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.sql.stretching import counting
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.quality.checks import refuse_violations
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.queries.window_index import count_by_window, placed_in_windows
from logdriven_dagster.engine.storage.staging import Place, StagedRows, Stamp, in_few_files
from logdriven_dagster.engine.storage.stretch_staging import Pass, StretchStore
from logdriven_dagster.engine.targets.stores import store
from logdriven_dagster.engine.window.staged_steps import noted, viewed, with_source_rows, written
from logdriven_dagster.engine.window.step_results import StepResult, StepResults
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.windows import Reads, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StretchSession:
    """The steps of several attempts at once. Every failure is a StepError without secrets."""

    def __init__(
        self,
        place: Place,
        runs: Sequence[WindowRun],
        read: "Callable[[Place, str, Reads], DataFrame]",
    ) -> None:
        """`runs` are of adjoining windows, oldest first."""
        self._place, self._runs = place, runs
        whole = whole_run(runs)
        self._label = f"{whole.table} {whole.window}"
        self._table: TableConfig = place.project.table(whole.table)
        tables = frozenset(place.project.tables)
        self._counting = counting(place.project, self._table)
        self._observed: list[Callable[[], list[int] | None]] = []

        def table(name: str, part: Reads) -> "DataFrame":
            frame = read(place, name, part)
            column = place.project.table(name).output.window_column
            return frame if part is None else self._seen(column, frame)

        self._views = Views(place.spark, whole, table, tables)
        windows = tuple(run.window for run in runs)
        self._results = StepResults(
            place, whole, self._table, self._views, self._seen, windows=windows
        )
        self._staged: dict[str, tuple[StagedRows, ...]] = {}
        self._published: dict[str, tuple[Published, ...]] = {}

    def stage(self, step: StepConfig) -> tuple[Staged, ...]:
        """Read, transform and write one step of every window where no reader looks."""
        with step_errors():
            self._views.opened.clear()
            made, source_type = self._results.of(step), self._results.origin(step)
            rows = self._results.source_rows(step)
            if step.target is None:
                self._views.register(step.step, made.frame)
                view = viewed(step, made, source_type)
                return (with_source_rows(view, rows), *(view,) * (len(self._runs) - 1))
            first, *others = self._write(step, step.target, made, source_type)
            return (with_source_rows(first, rows), *others)

    def check(self, check: CheckConfig) -> None:
        """Raise TerminalStepError if the check's query finds rows in any window."""
        with step_errors():
            refuse_violations(self._place.spark, self._views, check, self._label)

    def publish(self, step_id: str, verify: Callable[[], None]) -> tuple[Published, ...]:
        """Make the rows of a staged step visible in every window.

        `verify` raises AttemptLostError if one of the attempts is not ours any more.
        """
        if step_id not in self._published:
            with step_errors():
                keeper, staged = self._stores[step_id], self._staged[step_id]
                self._published[step_id] = keeper.publish_windows(staged, verify)
        return self._published[step_id]

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Shut out every older attempt at these windows from all targets of the table."""
        for step_id, keeper in self._stores.items():
            with step_errors():
                keeper.fence_windows([_stamp(run, step_id) for run in runs])

    def discard(self) -> None:
        """Remove what is staged and not published."""
        for step_id, staged in self._staged.items():
            if step_id not in self._published:
                # What is left over does no harm; what went wrong before must stay visible.
                with suppress(Exception):
                    self._stores[step_id].discard_windows(staged)
        self._views.withdraw_offers()
        self._staged.clear()
        self._published.clear()

    def _write(
        self,
        step: StepConfig,
        target: Target,
        made: StepResult,
        source_type: str | None,
    ) -> tuple[Staged, ...]:
        windows = [run.window for run in self._runs]
        ready = in_few_files(placed_in_windows(made.frame, target, windows, chosen=made.chosen))
        keeper = self._stores[step.step]
        done = keeper.stage_windows(ready, [_stamp(run, step.step) for run in self._runs])
        self._staged[step.step] = rows = self._counted(done)
        self._views.offer(step.step, lambda: keeper.windows_frame(rows).drop(WINDOW_START))
        told = zip(rows, self._results.malformed(), strict=True)
        note = self._results.uncounted(step)
        return tuple(
            noted(written(each, target, source_type, made.files, bad), note) for each, bad in told
        )

    def _seen(self, column: str | None, frame: "DataFrame") -> "DataFrame":
        """Count on the way what a query reads window by window."""
        if column is None or self._counting != "reads":
            return frame
        windows = [run.window for run in self._runs]
        frame, counts = count_by_window(frame, column, windows)
        self._observed.append(counts)
        return frame

    def _counted(self, done: Pass) -> tuple[StagedRows, ...]:
        """The rows of each window with what was read for it; see `Counting`."""
        rows = done.rows
        if self._counting == "results" and done.source_rows == sum(each.rows or 0 for each in rows):
            return tuple(replace(each, source_rows=each.rows) for each in rows)
        found = [counts() for counts in self._observed]
        known = [each for each in found if each is not None]
        if not found or len(known) < len(found) or done.source_rows is None:
            return rows
        by_window = [sum(each) for each in zip(*known, strict=True)]
        # What all windows share was read once here, and is read for each that runs by itself.
        shared = done.source_rows - sum(by_window)
        if shared < 0:
            return rows
        pairs = zip(rows, by_window, strict=True)
        return tuple(replace(each, source_rows=found + shared) for each, found in pairs)

    @cached_property
    def _stores(self) -> dict[str, StretchStore]:
        """Step → where its rows go, for the steps with a target."""
        name = self._table.table
        return {
            step.step: stretch_store(self._place, name, step.target)
            for step in self._table.steps
            if step.target is not None
        }


def stretch_store(place: Place, table: str, target: Target) -> StretchStore:
    """The store of a target that takes several windows at once."""
    keeper = store(place, table, target)
    assert hasattr(
        keeper, "stage_windows"
    )  # `config.sql.stretching` lets no other target come here
    return keeper  # type: ignore[return-value]


def whole_run(runs: Sequence[WindowRun]) -> WindowRun:
    """The runs as one over the whole range, which reads what any of them reads."""
    window = TimeWindow(runs[0].window.start, runs[-1].window.end)
    reads = {name: _union(run.reads[name] for run in runs) for name in runs[0].reads}
    return replace(runs[0], window=window, reads=reads)


def _union(reads: Iterable[Reads]) -> Reads:
    spans: list[TimeWindow] = []
    for each in reads:
        if each is None:
            return None
        for span in each:
            if spans and spans[-1].end.timestamp() >= span.start.timestamp():
                end = max(spans[-1].end, span.end, key=lambda moment: moment.timestamp())
                spans[-1] = TimeWindow(spans[-1].start, end)
            else:
                spans.append(span)
    return tuple(spans)


def _stamp(run: WindowRun, step_id: str) -> Stamp:
    return Stamp(run.job_id, run.table, step_id, run.window, run.fencing_token)
