"""Events of windows as entries in Dagster's event log, one partition at a time."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dagster import AssetKey, AssetMaterialization, Failure

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
    LogdrivenError,
    in_brief,
)
from logdriven_dagster.execution.definitions.changed_targets import list_changed_targets
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.events import (
    NeedUnmet,
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowRefused,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.model.attempts import Attempt, Owner
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.checks import CheckFindings, evaluations
from logdriven_dagster.orchestration.assets.code_versions import VersionTags
from logdriven_dagster.orchestration.assets.partitions import add_partitions, table_partitions
from logdriven_dagster.orchestration.assets.refresh_check import refresh_evaluations
from logdriven_dagster.orchestration.assets.stories import (
    describe_failed_refresh,
    list_attempts_shown,
)
from logdriven_dagster.orchestration.assets.whole_tables import (
    Looks,
    lineage_shown,
    plot_windows,
    table_shown,
)
from logdriven_dagster.orchestration.assets.windows import rows_of_table, window_metadata
from logdriven_dagster.orchestration.dagster_internals import StepContext
from logdriven_dagster.orchestration.events.bulk import AT_ONCE, EventBatch
from logdriven_dagster.orchestration.events.last_lines import print_at_exit
from logdriven_dagster.orchestration.events.records import report_planned
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.runlog import RunLog

_WHAT_TO_DO = (
    "To continue: fix the cause, then materialize again or use `logdriven "
    "run`. Until then, later windows of an ordered table are blocked "
    "(docs/troubleshooting.md)."
)


@dataclass
class Reporter:
    """The reporter of one Dagster step: reports its windows and keeps their results for the end."""

    context: StepContext
    location: Location
    succeeded: list[WindowSucceeded] = field(default_factory=list)
    failed: list[WindowFailed] = field(default_factory=list)
    lost: list[WindowLost] = field(default_factory=list)
    refused: list[WindowRefused] = field(default_factory=list)
    unmet: list[NeedUnmet] = field(default_factory=list)
    skipped: int = 0
    tried: set[tuple[AssetKey, str]] = field(default_factory=set)
    """Partitions whose windows this step has begun, or finished in a pass of several."""
    running: dict[int, tuple[AssetKey, str]] = field(default_factory=dict)
    """The partition of each running window, by job id."""

    unplotted: dict[str, None] = field(default_factory=dict)
    """Tables of which a window has succeeded since the last picture of their windows."""

    def __post_init__(self) -> None:
        """Set all counts to zero."""
        self.project = self.location.project
        self._looks = Looks(self.project)
        self._begun: set[str] = set()
        """Tables of which this step has begun a window."""
        self._ran_again: set[str] = set()
        """Tables of which a window has ended that had run before."""
        self._in_pass = False
        self._pass: set[int] = set()
        self._unended: dict[int, set[int]] = {}
        """By job id, those of its pass whose windows have not ended yet."""
        self._batch = EventBatch(self.context.instance)
        self._unlogged: list[tuple[WindowSucceeded, str, dict[str, Any]]] = []
        """Successes that are not in the batch yet: partition, and metadata of the table."""

    def report(self, event: WindowEvent) -> None:
        """Report one event to Dagster; successes of a pass when its last window ends."""
        match event:
            case WindowStarted(attempt=attempt, behind=behind):
                self._report_start(attempt, behind)
            case WindowSucceeded(attempt=attempt):
                self._note_repeated(attempt)
                self.running.pop(attempt.job_id, None)
                self.succeeded.append(event)
                self._report_success(event)
                self._end_window(attempt)
            case WindowFailed(attempt=attempt):
                self._note_repeated(attempt)
                self._report_failure(event)
                self._end_window(attempt)
            case WindowLost(attempt=attempt) | WindowSetBack(attempt=attempt):
                self._report_loss(event)
                self._end_window(attempt)
            case WindowRefused(reason=AlreadyDoneError() | AlreadyRunningError()):
                self.context.log.info(redact(str(event.reason)))
            case WindowRefused():
                self.refused.append(event)
                self.context.log.warning(redact(str(event.reason)))
            case NeedUnmet(reason=reason, tables=tables):
                self.unmet.append(event)
                self.context.log.error("%s; not started: %s", reason, ", ".join(tables))
            case WindowSkipped():
                self.skipped += 1
                self.context.log.debug("%s %s: %s", event.table, event.window, event.reason)

    def _report_start(self, attempt: Attempt, behind: int) -> None:
        self._warn_of_changed_target(attempt.table)
        log, title = self.context.log, f"{attempt.table} {attempt.window}: job {attempt.job_id}"
        begins_pass, in_pass = behind > 0 and not self._in_pass, behind > 0 or self._in_pass
        self._in_pass = behind > 0
        if begins_pass:
            self._pass = set()
        if in_pass:
            self._pass.add(attempt.job_id)
            self._unended[attempt.job_id] = self._pass
        if begins_pass:
            log.info("%s, with %d later windows in one batch", title, behind)
        elif not in_pass:
            log.info("%s", title)
        if attempt.claim.other_version:
            log.warning("%s runs %s", title, attempt.claim.other_version)
        # Windows of a pass are not shown as running: each event costs Dagster as much as a window.
        if not in_pass and (planned := self._plan_partition(attempt.table, attempt.window)):
            self.running[attempt.job_id] = planned
        if attempt.replaced is not None:
            self._terminate(attempt.replaced)

    def _warn_of_changed_target(self, table: str) -> None:
        """Warn once of a table whose finished windows were written in another way."""
        if table in self._begun:
            return
        self._begun.add(table)
        for changed in list_changed_targets(self._run_log, self.project, [table]):
            self.context.log.warning(redact(changed.text))

    def _note_repeated(self, attempt: Attempt) -> None:
        if attempt.attempt_number > 1:
            self._ran_again.add(attempt.table)

    def _end_window(self, attempt: Attempt) -> None:
        """Write the events of a pass as soon as all of its windows have ended."""
        of_pass = self._unended.pop(attempt.job_id, set())
        of_pass.discard(attempt.job_id)
        if not of_pass:
            self._log_successes()
            self._batch.write()

    def _report_failure(self, event: WindowFailed) -> None:
        self.running.pop(event.attempt.job_id, None)
        self.failed.append(event)
        self.context.log.error(failure_text(event))
        # Again, because another run may have planned the same partition meanwhile.
        planned = self._plan_partition(event.attempt.table, event.attempt.window)
        self._report_checks(event, planned[1] if planned else None)
        if event.stands and planned is not None:  # only this run is red, not the partition
            self.tried.discard(planned)
            report_planned(self.context.instance, *planned, None)
            shown = describe_failed_refresh(*planned, failure_text(event), self._of_failure(event))
            self.context.log_event(shown)

    def follow(self, events: Iterator[WindowEvent]) -> None:
        """Report all events; on an early stop, the runner is notified and logs the attempt."""
        assert isinstance(events, Generator)
        with self.following(events):
            for event in events:
                self.report(event)

    @contextmanager
    def following(self, events: Generator[Any]) -> Iterator[None]:
        """Write all reported events at the end of the block, also after an error."""
        with closing(events), self._batch.complete():
            try:
                yield
            finally:
                self._log_successes()
                self._check_refreshes()

    @property
    def has_work(self) -> bool:
        """True if any window was processed or tried."""
        return bool(self.succeeded or self.failed or self.lost or self.skipped or self.unmet)

    def plot_windows(self) -> None:
        """Log a picture of the windows of each table of which a window has succeeded."""
        for table in self.unplotted:
            config = self.project.tables.get(table)
            if config and (found := plot_windows(self.location, config, self._run_log)):
                self.context.log_event(found)
        self.unplotted.clear()

    def raise_failures(self, *heading: str) -> None:
        """Raise the Failure that ends a step some of whose windows failed or were lost."""
        texts = [*map(failure_text, self.failed), *(redact(str(e.reason)) for e in self.lost)]
        texts += [str(event.reason) for event in self.unmet]
        if texts:
            print_at_exit([*heading, *texts])
            texts += [_WHAT_TO_DO] if self.failed else []
            metadata = self._of_failure(self.failed[0]) if self.failed else {}
            raise Failure("\n".join([*heading, *texts]), metadata=metadata, allow_retries=False)

    @cached_property
    def _run_log(self) -> RunLog:
        return open_run_log(self.project)

    @cached_property
    def _versions(self) -> VersionTags:
        return VersionTags(self.location, self.context.instance, self._run_log)

    def _of_failure(self, event: WindowFailed) -> dict[str, Any]:
        shown = describe_attempt(self.project, self._run_log, event.attempt)
        other = event.attempt.claim.other_version
        return shown | ({"definition": other} if other else {})

    def _terminate(self, owner: Owner) -> None:
        """End the Dagster run whose attempt was replaced; ignore a failure, which is harmless."""
        run_id = owner.dagster_run_id
        if run_id is None or run_id == self.context.run.run_id:
            return
        try:
            done = self.context.instance.run_coordinator.cancel_run(run_id)
        except Exception as error:  # noqa: BLE001 - launchers may raise any error
            done = False
            self.context.log.debug("%s", redact(str(error)))
        outcome = (
            "is being canceled"
            if done
            else "could not be canceled from here; its writes are rejected"
        )
        self.context.log.info("Run %s, whose attempt was replaced, %s", run_id, outcome)

    def _report_loss(self, event: WindowLost | WindowSetBack) -> None:
        """End the reporting of an attempt that was lost, or was set back without a known error."""
        attempt = event.attempt
        planned = self.running.pop(attempt.job_id, None)
        if isinstance(event, WindowLost):
            self.lost.append(event)
            self.context.log.error(redact(str(event.reason)))
            if planned is None:
                self._plan_partition(attempt.table, attempt.window)
            return
        self.context.log.info("%s %s: %s", attempt.table, attempt.window, event.reason)
        if planned is not None:
            self.tried.discard(planned)
            report_planned(self.context.instance, *planned, None)

    def _plan_partition(self, table: str, window: TimeWindow) -> tuple[AssetKey, str] | None:
        partition = self._partition(table, window)
        if partition is None:
            return None
        self._add_partitions([(table, window)])
        planned = (self.location.key(table), partition)
        self.tried.add(planned)
        report_planned(self.context.instance, *planned, self.context.run)
        return planned

    def _report_success(self, event: WindowSucceeded) -> None:
        table = event.attempt.table
        config = self.project.tables.get(table)
        metadata = self._of_whole_table(event, config) if config else {}
        metadata |= lineage_shown(self.location, table, event.lineage)
        if partition := self._partition(table, event.attempt.window):
            self.tried.add((self.location.key(table), partition))
            self._unlogged.append((event, partition, metadata))
        if len(self._unlogged) >= AT_ONCE:
            self._log_successes()

    def _log_successes(self) -> None:
        """Add the successes to the batch; the attempts at all windows are queried together."""
        if not self._unlogged:
            return
        unlogged, self._unlogged = self._unlogged, []
        windows = [(event.attempt.table, event.attempt.window) for event, _, _ in unlogged]
        self._add_partitions(windows)
        stories = list_attempts_shown(self._run_log, windows)
        for (event, partition, whole), rows in zip(unlogged, stories, strict=True):
            attempt = event.attempt
            key, table = self.location.key(attempt.table), self.project.table(attempt.table)
            tags = self._versions.build(attempt.table, attempt.claim.version, attempt.job_id)
            of_window = window_metadata(self.project, table, attempt.window, rows, attempt.job_id)
            shown = of_window | whole
            made = AssetMaterialization(key, partition=partition, metadata=shown, tags=tags)
            self._batch.log(self.context, made)
            self.unplotted[attempt.table] = None
            self._report_checks(event, partition)

    def _check_refreshes(self) -> None:
        tables, self._ran_again = self._ran_again, set()
        if tables:
            found = refresh_evaluations(self.context.instance, self.location, self._run_log, tables)
            for evaluation in found:
                self._batch.log(self.context, evaluation)

    def _of_whole_table(self, event: WindowSucceeded, table: TableConfig) -> dict[str, Any]:
        if not event.steps:  # nothing changed
            return table_shown(self.location, table, self._run_log)
        published = event.published[-1] if event.published else None
        written = next((each for each in reversed(event.steps) if each.target_type), None)
        found = self._looks.describe(
            table, event.attempt.window, written.columns if written else ()
        )
        return found | rows_of_table(published.table_rows if published else None)

    def _report_checks(self, event: WindowSucceeded | WindowFailed, partition: str | None) -> None:
        """Report the results of rules and checks of a window, published or not."""
        table = event.attempt.table
        config = self.project.tables.get(table)
        if partition is None or config is None:
            return
        found = CheckFindings.from_event(event)
        for shown in evaluations(self.project, config, found, self.location.key(table), partition):
            self._batch.log(self.context, shown)

    def _partition(self, table: str, window: TimeWindow) -> str | None:
        """Return the partition key; None for a window without a partition."""
        partitions = table_partitions(self.project.table(table), self.location)
        if not partitions.holds(window):
            self.context.log.info("%s %s is only part of a partition", table, window)
            return None
        return partitions.key(window)

    def _add_partitions(self, windows: Iterable[tuple[str, TimeWindow]]) -> None:
        of_tables = ((self.project.table(table), window) for table, window in windows)
        add_partitions(self.context.instance, self.location, of_tables)


def describe_attempt(project: Project, run_log: RunLog, attempt: Attempt) -> dict[str, Any]:
    """Return the metadata of the window of an attempt, as the run log has it now."""
    table, window = project.table(attempt.table), attempt.window
    (rows,) = list_attempts_shown(run_log, [(attempt.table, window)])
    return window_metadata(project, table, window, rows, attempt.job_id)


def failure_text(event: WindowFailed) -> str:
    """Return the step and the reason of a window's failure."""
    attempt, problem = event.attempt, in_brief(event.error)
    return redact(f"{attempt.table} {attempt.window}: step {event.step_id} failed: {problem}")


@contextmanager
def errors_as_failures() -> Iterator[None]:
    """Raise every error as a Failure without secrets, neither in its text nor in its causes.

    Dagster must not retry: the run log decides which windows run again.
    """
    try:
        yield
    except Failure:
        raise
    except LogdrivenError as error:
        text = redact(str(error))
    except Exception as error:  # noqa: BLE001 - any error: Dagster stores its text
        text = redact(f"{type(error).__name__}: {error}")
    else:
        return
    print_at_exit([text])
    raise Failure(text, allow_retries=False)
