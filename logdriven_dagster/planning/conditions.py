"""What a condition and a delay ask of the upstream windows that a window waits for.

A condition looks at the latest attempts at the windows of the awaited range:

- `success`: all succeeded.
- `always`: all have ended, in whatever way: SUCCESS, SKIPPED, FAILURE or DISCARDED.
- `failure`: all have ended, and at least one in FAILURE. Where all succeeded or were skipped, the
  window that waits does not apply: it is recorded as SKIPPED.

A failed window is pending again, so nothing has failed once and for all. "Has failed" means: the
latest attempt, with all tries that `retries` grants it, is FAILURE in the log. In one catch-up the
upstream has its turn first; if it fails again, what waits for the failure follows; if it succeeds,
that does not apply any more. Once recorded, by a SUCCESS or as SKIPPED, the window that waited is
settled: what the upstream comes to later does not run it again. DISCARDED is no failure: nothing
is wrong with the window, so what waits for a failure waits for its next attempt. Neither is a
runner that went silent: until somebody takes its window over, it may come back and succeed.

Untried windows have not ended. Behind a failed window of an ordered table there may be some, so
that a day waits for the failure of 24 hours until all of them were tried.

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
from logdriven_dagster.model.ranges import uncovered, union, without
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class MissingRange:
    """A range of an upstream table or asset that has not come to what is awaited of it."""

    table: str
    window: TimeWindow
    reason: str

    def __str__(self) -> str:
        return f"{self.table} {self.window}: {self.reason}"


def not_succeeded(
    upstream: TableConfig, log: TableLog, awaited: TimeWindow
) -> Iterator[MissingRange]:
    """The parts of the awaited range that have not succeeded."""
    for gap in uncovered(awaited, log.finished):
        yield MissingRange(upstream.table, gap, why_unfinished(gap, log))


def not_ended(upstream: TableConfig, log: TableLog, awaited: TimeWindow) -> Iterator[MissingRange]:
    """The parts of the awaited range that are running, or were never tried."""
    closed = [item.window for item in log.open if item.has_ended]
    going_on = [item.window for item in log.open if not item.has_ended]
    ended = without(union(log.finished, log.skipped, closed), going_on)
    for gap in uncovered(awaited, ended):
        yield MissingRange(upstream.table, gap, why_unfinished(gap, log))


def not_failed(upstream: TableConfig, log: TableLog, awaited: TimeWindow) -> Iterator[MissingRange]:
    """What there is to wait for before a failure, other than a window that did fail."""
    not_over = list(not_ended(upstream, log, awaited))
    if not_over or _has_ended_in(Status.FAILURE, log, awaited):
        yield from not_over
    elif discarded := _has_ended_in(Status.DISCARDED, log, awaited):
        reason = f"DISCARDED in job {discarded.job_id}; its next attempt decides"
        yield MissingRange(upstream.table, discarded.window, reason)


CONDITIONS: Mapping[
    Condition, Callable[[TableConfig, TableLog, TimeWindow], Iterator[MissingRange]]
]
CONDITIONS = {"success": not_succeeded, "always": not_ended, "failure": not_failed}


def cannot_fail(log: TableLog, awaited: TimeWindow | None) -> bool:
    """Whether everything awaited succeeded or was skipped, or there is nothing to await."""
    if awaited is None:
        return True
    return not any(uncovered(awaited, union(log.finished, log.skipped)))


def too_early(
    upstream: TableConfig, dependency: Dependency, log: TableLog, awaited: TimeWindow
) -> Iterator[MissingRange]:
    """What is left of the delay after the end of the latest attempt in the awaited range."""
    ago = [item.ago for item in log.recent if item.window.overlaps(awaited)]
    yield from _left(upstream, dependency, awaited, min(ago, default=dependency.delay))


def snapshot_too_early(
    upstream: TableConfig, dependency: Dependency, log: TableLog, awaited: TimeWindow, needed: float
) -> Iterator[MissingRange]:
    """What is left of the delay after the first snapshot that reaches as far as `needed`."""
    lately = [item.window for item in log.recent]
    if any(old.end.timestamp() >= needed for old in without(log.finished, lately)):
        return
    ago = [
        item.ago
        for item in log.recent
        if item.status is Status.SUCCESS and item.window.end.timestamp() >= needed
    ]
    yield from _left(upstream, dependency, awaited, max(ago, default=dependency.delay))


def _left(
    upstream: TableConfig, dependency: Dependency, awaited: TimeWindow, ago: timedelta
) -> Iterator[MissingRange]:
    if ago < dependency.delay:
        left = _seconds(dependency.delay - ago)
        reason = f"ended {_seconds(ago)} ago; {left} of the delay of {dependency.delay} are left"
        yield MissingRange(upstream.table, awaited, reason)


def _seconds(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds()))


def _has_ended_in(status: Status, log: TableLog, awaited: TimeWindow) -> OpenWindow | None:
    for item in log.open:
        if item.has_ended and item.status is status and item.window.overlaps(awaited):
            return item
    return None


def why_unfinished(gap: TimeWindow, log: TableLog) -> str:
    """Say in a few words what a range that has not succeeded has come to."""
    for item in log.open:
        if item.window.overlaps(gap):
            why = f", {item.error}" if item.presumed else ""
            return f"{item.status.value} in job {item.job_id}{why}"
    if reason := next((item.reason for item in log.left_out if item.window.overlaps(gap)), None):
        return f"{reason}; `logdriven unskip` makes it pending again"
    if any(skipped.overlaps(gap) for skipped in log.skipped):
        return "skipped; `logdriven refresh` runs it"
    return "has not run"
