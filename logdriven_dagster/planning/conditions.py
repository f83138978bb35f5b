"""Conditions and delays of dependencies on upstream windows.

A condition evaluates the latest attempts at the windows of the awaited range:
- `success`: all succeeded.
- `always`: all have ended with any status: SUCCESS, SKIPPED, FAILURE or DISCARDED.
- `failure`: all have ended, and at least one in FAILURE. If all succeeded or were skipped, the
  waiting window does not apply: it is recorded as SKIPPED.

A failed window is pending again, so no failure is final. "Failed" means that the latest attempt is
FAILURE in the log, after all retries that `retries` grants it. In one catch-up the upstream runs
first. If it fails again, the windows that wait for the failure follow. If it succeeds, they do not
apply any more. Once a waiting window is recorded, as SUCCESS or as SKIPPED, it is settled: a later
outcome of the upstream does not run it again. DISCARDED is not a failure: nothing is wrong with the
window, so a window that waits for a failure waits for the next attempt. A runner without a
heartbeat is not a failure either: until another runner takes over its window, it may recover and
succeed.

Untried windows have not ended. An ordered table may have untried windows after a failed one, so a
day waits for the failure of 24 hours until all of them were tried.

Source: DolphinScheduler, relations: "after A completes and fails, execute C; A completes, 30
minutes after, execute D".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from logdriven_dagster.config.models.dependencies import Condition, Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.ranges import find_uncovered, subtract, unite
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class MissingRange:
    """A range of an upstream table or asset that does not meet the condition of a dependency."""

    table: str
    window: TimeWindow
    reason: str

    def __str__(self) -> str:
        return f"{self.table} {self.window}: {self.reason}"


def find_not_succeeded(
    upstream: TableConfig, log: TableLog, awaited: TimeWindow
) -> Iterator[MissingRange]:
    """Yield the parts of the awaited range that have not succeeded."""
    for gap in find_uncovered(awaited, log.finished):
        yield MissingRange(upstream.table, gap, explain_unfinished(gap, log))


def find_not_ended(
    upstream: TableConfig, log: TableLog, awaited: TimeWindow
) -> Iterator[MissingRange]:
    """Yield the parts of the awaited range that are running, or were never tried."""
    closed = [item.window for item in log.open if item.has_ended]
    going_on = [item.window for item in log.open if not item.has_ended]
    ended = subtract(unite(log.finished, log.skipped, closed), going_on)
    for gap in find_uncovered(awaited, ended):
        yield MissingRange(upstream.table, gap, explain_unfinished(gap, log))


def find_not_failed(
    upstream: TableConfig, log: TableLog, awaited: TimeWindow
) -> Iterator[MissingRange]:
    """Yield the ranges that block a window that waits for a failure, unless a window did fail."""
    not_over = list(find_not_ended(upstream, log, awaited))
    if not_over or _has_ended_in(Status.FAILURE, log, awaited):
        yield from not_over
    elif discarded := _has_ended_in(Status.DISCARDED, log, awaited):
        reason = f"DISCARDED in job {discarded.job_id}; the next attempt decides"
        yield MissingRange(upstream.table, discarded.window, reason)


CONDITIONS: Mapping[
    Condition, Callable[[TableConfig, TableLog, TimeWindow], Iterator[MissingRange]]
]
CONDITIONS = {"success": find_not_succeeded, "always": find_not_ended, "failure": find_not_failed}


def cannot_fail(log: TableLog, awaited: TimeWindow | None) -> bool:
    """Return True if the awaited range succeeded or was skipped, or nothing is awaited."""
    if awaited is None:
        return True
    return not any(find_uncovered(awaited, unite(log.finished, log.skipped)))


def find_too_early(
    upstream: TableConfig, dependency: Dependency, log: TableLog, awaited: TimeWindow
) -> Iterator[MissingRange]:
    """Yield the awaited range if its delay after the end of its latest attempt is not over."""
    ago = [item.ago for item in log.recent if item.window.overlaps(awaited)]
    yield from _report_remaining_delay(
        upstream, dependency, awaited, min(ago, default=dependency.delay)
    )


def find_snapshot_too_early(
    upstream: TableConfig, dependency: Dependency, log: TableLog, awaited: TimeWindow, needed: float
) -> Iterator[MissingRange]:
    """Yield the awaited range if its delay after the first sufficient snapshot is not over.

    A snapshot is sufficient if it ends at or after `needed`, in epoch seconds.
    """
    lately = [item.window for item in log.recent]
    if any(old.end.timestamp() >= needed for old in subtract(log.finished, lately)):
        return
    ago = [
        item.ago
        for item in log.recent
        if item.status is Status.SUCCESS and item.window.end.timestamp() >= needed
    ]
    yield from _report_remaining_delay(
        upstream, dependency, awaited, max(ago, default=dependency.delay)
    )


def _report_remaining_delay(
    upstream: TableConfig, dependency: Dependency, awaited: TimeWindow, ago: timedelta
) -> Iterator[MissingRange]:
    if ago < dependency.delay:
        left = _round_to_seconds(dependency.delay - ago)
        reason = (
            f"ended {_round_to_seconds(ago)} ago; {left} of the delay of {dependency.delay} remain"
        )
        yield MissingRange(upstream.table, awaited, reason)


def _round_to_seconds(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds()))


def _has_ended_in(status: Status, log: TableLog, awaited: TimeWindow) -> OpenWindow | None:
    for item in log.open:
        if item.has_ended and item.status is status and item.window.overlaps(awaited):
            return item
    return None


def explain_unfinished(gap: TimeWindow, log: TableLog) -> str:
    """Describe briefly the state of a range that has not succeeded."""
    for item in log.open:
        if item.window.overlaps(gap):
            why = f", {item.error}" if item.presumed else ""
            return f"{item.status.value} in job {item.job_id}{why}"
    if reason := next((item.reason for item in log.left_out if item.window.overlaps(gap)), None):
        return f"{reason}; make it pending again with `logdriven unskip`"
    if any(skipped.overlaps(gap) for skipped in log.skipped):
        return "skipped; run it with `logdriven refresh`"
    return "has not run"
