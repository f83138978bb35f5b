"""Readiness: the reasons why a window may not run now, for plan, claim and user interface."""

from collections.abc import Iterator, Mapping
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
from logdriven_dagster.planning.dependencies import find_missing_dependencies, find_not_applying
from logdriven_dagster.planning.due import get_next_due
from logdriven_dagster.planning.pending import find_unfinished_windows
from logdriven_dagster.planning.reruns import find_last_seen, find_reruns, find_seen, find_unseen
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
    """Upstream windows that do not meet the conditions of the table's dependencies."""

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
    seen_until: datetime | None
    """The data time up to which all inputs are complete, if late rows may follow; see `reruns`."""


def judge(
    table: TableConfig,
    run: tuple[TimeWindow, Trigger],
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> Judgement:
    """Judge whether a window of a table may run now, for the reason that its trigger gives.

    `logs` holds at least the logs of the table and its upstreams.
    """
    window, trigger = run
    refusal: Blocked | Finished | None = None
    if not any(done.contains(window) for done in logs[table.table].finished):
        refusal = _find_first_obstacle(table, run, tables, logs, now)
    elif trigger is not Trigger.REFRESH:
        if run in find_reruns(table, logs[table.table], tables, now):
            refusal = find_obstacle_to_rerun(table, run, tables, logs, now)
        else:
            refusal = Finished()
    return Judgement(refusal, None if refusal else find_last_seen(table, window, tables, logs, now))


def _find_first_obstacle(
    table: TableConfig,
    run: tuple[TimeWindow, Trigger],
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> Blocked | None:
    """Return the obstacle to an unfinished window; a refresh runs skipped windows."""
    window, trigger = run
    blocked = find_obstacle(table, window, tables, logs, now)
    skipped = any(item.contains(window) for item in logs[table.table].skipped)
    if isinstance(blocked, NotApplying) and skipped and trigger is Trigger.REFRESH:
        return find_dependencies_missing(table, window, tables, logs)
    return blocked


def find_obstacle(
    table: TableConfig,
    window: TimeWindow,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> Blocked | None:
    """Return the first obstacle that keeps a window from running; None if it may run.

    `logs` holds at least the logs of the table and its upstreams.
    """
    if isinstance(window, Slice):
        return _find_obstacle_to_slice(table, window, tables, logs, now)
    log = logs.get(table.table, TableLog())
    if window not in log.once_finished and (undue := _find_undue(table, window, now)):
        return undue
    if table.ordered and not table.incremental.is_snapshot:
        first = next(iter(find_unfinished_windows(table, log, now)), None)
        if first is not None and first.start < window.start:
            return find_earlier_unfinished(first, log)
    return find_upstream_obstacle(table, window, tables, logs)


def find_outside_bounds(grid: Grid, window: TimeWindow) -> str | None:
    """Return the bound of the table's windows that a window exceeds, or None if it exceeds none."""
    if window.start < grid.origin:
        return f"before default_start {grid.origin.astimezone(grid.zone):%Y-%m-%d %H:%M}"
    if grid.end is not None and window.end > grid.end:
        return f"after the table's end {grid.end.astimezone(grid.zone):%Y-%m-%d %H:%M}"
    return None


def _find_undue(table: TableConfig, window: TimeWindow, now: datetime) -> NotDue | None:
    grid = table.grid
    if outside := find_outside_bounds(grid, window):
        return NotDue(outside)
    if normalize_instant(now) < (due := get_next_due(table, window)):
        return NotDue(f"not due before {due.astimezone(grid.zone).isoformat(sep=' ')}")
    return None


def _find_obstacle_to_slice(
    table: TableConfig,
    window: Slice,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> Blocked | None:
    log = logs.get(table.table, TableLog())
    pending = list_pending_slices(table, log, now)
    if pending and pending[0].number < window.number:
        return find_earlier_unfinished(pending[0], log)
    if window.number > get_next_slice(table, log.last).number:
        return NotDue("not known yet: a numbered window begins where the previous one ended")
    return find_upstream_obstacle(table, window, tables, logs)


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


def find_upstream_obstacle(
    table: TableConfig,
    window: TimeWindow,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
) -> DependenciesMissing | NotApplying | None:
    """Return the obstacle that upstreams pose; an inapplicable window waits for nothing else."""
    if reason := find_not_applying(table, window, tables, logs):
        return NotApplying(f"does not apply: {reason}")
    return find_dependencies_missing(table, window, tables, logs)


def find_dependencies_missing(
    table: TableConfig,
    window: TimeWindow,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
) -> DependenciesMissing | None:
    """Return the unfinished upstream ranges as an obstacle; its reason names the first of them.

    Source: Sharp ETL, JobDependenciesError.
    """
    if isinstance(window, Slice) and table.incremental.takes_upstream_batches:
        reasons = explain_unmarked(table, logs.get(table.table, TableLog()), window)
        if reasons:
            return DependenciesMissing(f"waits for {'; '.join(reasons)}")
    return _summarize_missing(find_missing_dependencies(table, window, tables, logs))


def find_obstacle_to_rerun(
    table: TableConfig,
    rerun: tuple[TimeWindow, Trigger],
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> DependenciesMissing | None:
    """Return the obstacle that upstreams pose to a rerun of a finished window.

    A rerun for late data is ready as soon as it would read more rows than the last run.
    """
    window, trigger = rerun
    if blocked := find_dependencies_missing(table, window, tables, logs):
        return blocked
    if trigger is not Trigger.LOOKBACK:
        return None
    known = (
        item for item in logs.get(table.table, TableLog()).within_lookback if item.window == window
    )
    last_run = next(known, None)
    found = find_seen(table, window, tables, logs, now)
    if last_run is None or found > last_run.seen:
        return None
    return _summarize_missing(find_unseen(table, window, tables, logs, now))


def _summarize_missing(found: Iterator[MissingRange]) -> DependenciesMissing | None:
    missing = list(islice(found, _SHOWN + 1))
    if not missing:
        return None
    more = ", …" if len(missing) > _SHOWN else ""
    names = "; ".join(str(item) for item in missing[:_SHOWN])
    return DependenciesMissing(f"waits for {names}{more}")
