"""Readiness: the reasons why a window may not run now, for plan, claim and user interface."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import Slice, TimeWindow, normalize_instant
from logdriven_dagster.planning.conditions import MissingRange
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.dependencies import Upstreams
from logdriven_dagster.planning.due import get_next_due
from logdriven_dagster.planning.pending import find_unfinished_windows
from logdriven_dagster.planning.reruns import Reruns
from logdriven_dagster.planning.slices import explain_unmarked, get_next_slice, list_pending_slices


@dataclass(frozen=True, slots=True)
class NotDue:
    """The window has not ended, its delay is not over, or it lies before the start."""

    reason: str


@dataclass(frozen=True, slots=True)
class EarlierUnfinished:
    """An ordered table has an older window that did not succeed."""

    window: TimeWindow
    reason: str


@dataclass(frozen=True, slots=True)
class DependenciesMissing:
    """Upstream windows that do not meet the conditions of the table, or files that do not exist."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotApplying:
    """The window waits for a failure that cannot occur any more: it will be recorded as SKIPPED."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The window has finished, and has no reason to run again."""


Blocked: TypeAlias = NotDue | EarlierUnfinished | DependenciesMissing | NotApplying


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer to a request to run a window now."""

    refusal: Blocked | Finished | None
    """The reason why it may not run; None if it may."""
    seen_until: datetime | None = None
    """The data time up to which all inputs are complete, if late rows may follow; see `reruns`."""


class Readiness(ABC):
    """The judge of one table's windows: each kind of window has its own rules of order."""

    def __init__(self, table: TableConfig, context: PlanningContext) -> None:
        self._table, self._context = table, context
        self._log, self._now = context.get_log(table.table), context.now
        self._upstreams = Upstreams(table, context)
        self._reruns = Reruns(table, context)

    def judge(self, window: TimeWindow, trigger: Trigger) -> Judgement:
        """Judge whether a window may run now, for the reason that its trigger gives."""
        refusal: Blocked | Finished | None = None
        if not any(done.contains(window) for done in self._log.finished):
            refusal = self._find_first_obstacle(window, trigger)
        elif trigger is not Trigger.REFRESH:
            if (window, trigger) in self._reruns.list_due():
                refusal = self.find_obstacle_to_rerun(window, trigger)
            else:
                refusal = Finished()
        else:
            refusal = self.find_outdated_basis(window)
        return Judgement(refusal, None if refusal else self._reruns.find_last_seen(window))

    def _find_first_obstacle(self, window: TimeWindow, trigger: Trigger) -> Blocked | None:
        """Return the obstacle to an unfinished window; a refresh runs skipped windows."""
        blocked = self.find_obstacle(window)
        skipped = any(item.contains(window) for item in self._log.skipped)
        if isinstance(blocked, NotApplying) and skipped and trigger is Trigger.REFRESH:
            return self.find_dependencies_missing(window)
        return blocked

    def find_obstacle(self, window: TimeWindow) -> Blocked | None:
        """Return the first obstacle that keeps a window from running; None if it may run."""
        return self._find_own_obstacle(window) or self.find_upstream_obstacle(window)

    def find_outdated_basis(self, window: TimeWindow) -> EarlierUnfinished | None:
        """Return the first earlier window to run before one of a table that keeps history."""
        table, log = self._table, self._log
        if not table.keeps_history or table.incremental.is_snapshot:
            return None
        unfinished = next(iter(find_unfinished_windows(table, log, self._now)), None)
        if unfinished is not None and unfinished.start < window.start:
            return find_earlier_unfinished(unfinished, log)
        stale = next(iter(log.stale), None)
        if stale is not None and stale.start < window.start:
            return EarlierUnfinished(stale, f"waits for {stale}: runs again before it")
        return None

    @abstractmethod
    def _find_own_obstacle(self, window: TimeWindow) -> NotDue | EarlierUnfinished | None:
        """Return the obstacle that the table itself poses: its order, or a window not due."""

    def find_upstream_obstacle(
        self, window: TimeWindow
    ) -> DependenciesMissing | NotApplying | None:
        """Return the obstacle that upstreams pose; an inapplicable window waits for nothing."""
        if reason := self._upstreams.find_not_applying(window):
            return NotApplying(f"does not apply: {reason}")
        return self.find_dependencies_missing(window)

    def find_dependencies_missing(self, window: TimeWindow) -> DependenciesMissing | None:
        """Return the unfinished upstream ranges or missing files as an obstacle.

        Its reason names the first of them. Source: Sharp ETL, JobDependenciesError.
        """
        if missing := _summarize_missing(self._upstreams.find_missing(window)):
            return missing
        awaited = self._context.describe_missing(self._table, window)
        return DependenciesMissing(awaited) if awaited else None

    def find_obstacle_to_rerun(
        self, window: TimeWindow, trigger: Trigger
    ) -> DependenciesMissing | EarlierUnfinished | None:
        """Return the obstacle that upstreams or earlier windows pose to a rerun of a finished one.

        A rerun for late data is ready as soon as it would read more rows than the last run.
        """
        if earlier := self.find_outdated_basis(window):
            return earlier
        if blocked := self.find_dependencies_missing(window):
            return blocked
        if trigger is not Trigger.LOOKBACK or self._reruns.has_more_rows(window):
            return None
        return _summarize_missing(self._reruns.find_unseen(window))


class TimeReadiness(Readiness):
    """The judge of windows of time."""

    def _find_own_obstacle(self, window: TimeWindow) -> NotDue | EarlierUnfinished | None:
        table, log = self._table, self._log
        if window not in log.once_finished and (undue := self._find_undue(window)):
            return undue
        if table.ordered and not table.incremental.is_snapshot:
            first = next(iter(find_unfinished_windows(table, log, self._now)), None)
            if first is not None and first.start < window.start:
                return find_earlier_unfinished(first, log)
        return self.find_outdated_basis(window)

    def _find_undue(self, window: TimeWindow) -> NotDue | None:
        grid = self._table.grid
        if outside := find_outside_bounds(grid, window):
            return NotDue(outside)
        if normalize_instant(self._now) < (due := get_next_due(self._table, window)):
            return NotDue(f"not due before {due.astimezone(grid.zone).isoformat(sep=' ')}")
        return None


class SliceReadiness(Readiness):
    """The judge of slices, which follow each other along keys, offsets, files or batches."""

    def _find_own_obstacle(self, window: TimeWindow) -> NotDue | EarlierUnfinished | None:
        assert isinstance(window, Slice)
        pending = list_pending_slices(self._table, self._log, self._now)
        if pending and pending[0].number < window.number:
            return find_earlier_unfinished(pending[0], self._log)
        if window.number > get_next_slice(self._table, self._log.last).number:
            return NotDue("not known yet: a numbered window begins where the previous one ended")
        return None

    def find_dependencies_missing(self, window: TimeWindow) -> DependenciesMissing | None:
        """Return the queues without the mark that a slice needs, or the unfinished upstreams."""
        assert isinstance(window, Slice)
        if self._table.incremental.takes_upstream_batches:
            reasons = explain_unmarked(self._table, self._log, window)
            if reasons:
                return DependenciesMissing(f"waits for {'; '.join(reasons)}")
        return super().find_dependencies_missing(window)


def build_readiness(table: TableConfig, context: PlanningContext) -> Readiness:
    """Return the judge of a table's windows.

    The context holds at least the logs of the table and its upstreams.
    """
    return (SliceReadiness if table.is_sliced else TimeReadiness)(table, context)


def find_outside_bounds(grid: Grid, window: TimeWindow) -> str | None:
    """Return the bound of the table's windows that a window exceeds, or None if it exceeds none."""
    if window.start < grid.origin:
        return f"before default_start {grid.origin.astimezone(grid.zone):%Y-%m-%d %H:%M}"
    if grid.end is not None and window.end > grid.end:
        return f"after the table's end {grid.end.astimezone(grid.zone):%Y-%m-%d %H:%M}"
    return None


def find_earlier_unfinished(first: TimeWindow, log: TableLog) -> EarlierUnfinished:
    """Return the obstacle that the oldest unfinished window is for all later ones."""
    return EarlierUnfinished(first, f"waits for {first}: {describe_standing(first, log)}")


def describe_standing(window: TimeWindow, log: TableLog) -> str:
    """Describe the latest attempt at an unfinished window."""
    attempt = find_open_attempt(window, log)
    if attempt is None:
        return "has not run"
    error = f": {attempt.error}" if attempt.error else ""
    return f"{attempt.status.value} in job {attempt.job_id}{error}"


def find_open_attempt(window: TimeWindow, log: TableLog) -> OpenWindow | None:
    """Return the unfinished attempt at this window, or at one that overlaps it."""
    return next((item for item in log.open if item.window.overlaps(window)), None)


def find_failed_refresh(window: TimeWindow, log: TableLog) -> OpenWindow | None:
    """Return the failed refresh of a window that remains finished."""
    return next((item for item in log.failed_refreshes if item.window == window), None)


_SHOWN = 3


def _summarize_missing(found: Iterator[MissingRange]) -> DependenciesMissing | None:
    missing = list(islice(found, _SHOWN + 1))
    if not missing:
        return None
    more = ", …" if len(missing) > _SHOWN else ""
    names = "; ".join(str(item) for item in missing[:_SHOWN])
    return DependenciesMissing(f"waits for {names}{more}")
