"""Freshness: a table is fresh if the newest window that is expected by now is done in the run log.

A window is expected to be done `within` after its end. Only the newest such window decides. So a
rerun of an old window does not make a table fresh, and its failure does not make a table late.

- SKIPPED is done: an operator or a rule has decided not to run the window.
- A rerun of a finished window leaves it done as long as the rows published before remain valid. If
  its refresh fails after it has begun to publish, it is not done.
- After `end` the last window decides; before the first one is due nothing is expected.
- A `full` table is fresh with any later snapshot, but not with a skipped one.
- A sliced table has to read everything that its source holds once per period: the times at which it
  queries its source are its windows.
- Tables that are offline, disabled or without `freshness` are not evaluated: nothing starts them.

`within` is elapsed time, regardless of clock changes; ends of windows follow the wall clock.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import chain

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.ranges import find_uncovered, unite
from logdriven_dagster.model.windows import (
    TimeWindow,
    convert_to_instant,
    format_brief,
    normalize_instant,
)
from logdriven_dagster.planning.conditions import explain_unfinished

_A_DAY = timedelta(days=1)


class Verdict(str, Enum):
    """The freshness status of a table."""

    FRESH = "fresh"
    WARNING = "warning"
    """Not done by `warn`."""
    LATE = "late"
    """Not done by `within`."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """The freshness of a table, with the window that decides it."""

    verdict: Verdict
    within: timedelta
    """The deadline that was applied: `warn` if the verdict is a warning."""
    expected: TimeWindow | None
    """The newest window that should be done; None before the first one. For a sliced table the
    time between two queries of its source."""
    missing: TimeWindow | None = None
    """The oldest of the contiguous missing windows up to the expected one."""
    reason: str = ""
    """The state of the missing window."""

    @property
    def due(self) -> datetime | None:
        """The deadline of the missing window, or else of the expected one."""
        decisive = self.missing or self.expected
        return None if decisive is None else get_deadline(decisive, self.within)

    @property
    def due_clock(self) -> datetime | None:
        """`due` on the wall clock of the window's zone, for display."""
        decisive = self.missing or self.expected
        return self.due.astimezone(decisive.zone) if decisive and self.due else None

    def overdue(self, now: datetime) -> timedelta:
        """Return the time since the deadline of the missing window; zero if the table is fresh."""
        if self.missing is None or self.due is None:
            return timedelta(0)
        return timedelta(seconds=max(now.timestamp() - self.due.timestamp(), 0))


def evaluate_freshness(table: TableConfig, log: TableLog, now: datetime) -> Freshness | None:
    """Return the freshness of a table; None if it is not evaluated."""
    if table.freshness is None or not table.enabled or table.release_state == "offline":
        return None
    within, warn = get_allowance(table), table.freshness.warn
    found = _judge(table, log, now, within, Verdict.LATE)
    if found.verdict is Verdict.FRESH and warn is not None:
        warned = _judge(table, log, now, warn, Verdict.WARNING)
        return warned if warned.verdict is Verdict.WARNING else found
    return found


def get_allowance(table: TableConfig) -> timedelta:
    """Return the time after its end within which a window should be done.

    By default its delay, before which it cannot run, plus its length, or a day if it is longer than
    that.
    """
    if table.freshness is not None and table.freshness.within is not None:
        return table.freshness.within
    return table.delay + min(timedelta(minutes=table.period.minutes), _A_DAY)


def get_deadline(window: TimeWindow, within: timedelta) -> datetime:
    """Return the deadline of a window."""
    return window.end + within


def describe_outcome(table: TableConfig, window: TimeWindow, log: TableLog) -> str:
    """Describe the state of a missing window."""
    return _describe_slices(table, log) if table.is_sliced else explain_unfinished(window, log)


def _judge(
    table: TableConfig, log: TableLog, now: datetime, within: timedelta, otherwise: Verdict
) -> Freshness:
    expected = _find_expected(table, now, within)
    missing = None if expected is None else _find_missing(table, log, expected)
    if missing is None:
        return Freshness(Verdict.FRESH, within, expected)
    return Freshness(otherwise, within, expected, missing, describe_outcome(table, missing, log))


def _find_expected(table: TableConfig, now: datetime, within: timedelta) -> TimeWindow | None:
    """Return the newest window whose deadline has passed; None before the first."""
    grid = table.grid
    until = grid.index(normalize_instant(now) - within)
    if grid.end is not None:
        until = min(until, grid.index(grid.end))
    return grid.window(until - 1) if until > 0 else None


def _find_missing(table: TableConfig, log: TableLog, expected: TimeWindow) -> TimeWindow | None:
    """Return the oldest of the contiguous missing windows up to the expected one."""
    grid, reached = table.grid, _find_reached(table, log)
    if reached is None:
        whole = TimeWindow(grid.origin, expected.end, zone=grid.zone)
        *_, gap = chain([None], find_uncovered(whole, _list_done(log)))
        if gap is None or not gap.overlaps(expected):
            return None
        return grid.window(grid.index(gap.start))
    if reached >= expected.end.timestamp():
        return None
    if reached < grid.origin.timestamp():
        return expected if table.is_sliced else grid.window(0)
    return grid.window(grid.index(convert_to_instant(reached)))


def _find_reached(table: TableConfig, log: TableLog) -> float | None:
    """Return the timestamp up to which a table is complete; None if each window counts."""
    if table.is_sliced:
        read_at = log.last.all_read_at if log.last else None
        return -math.inf if read_at is None else read_at.timestamp()
    if table.incremental.is_snapshot:
        return max((done.end.timestamp() for done in _list_finished(log)), default=-math.inf)
    return None


def _list_done(log: TableLog) -> list[TimeWindow]:
    return unite(_list_finished(log), log.skipped)


def _list_finished(log: TableLog) -> list[TimeWindow]:
    """Return the finished windows, including those that are running again."""
    return unite(log.finished, _list_running_again(log))


def _list_running_again(log: TableLog) -> Iterator[TimeWindow]:
    for item in log.open:
        if item.stands or (
            item.was_finished and item.status is Status.RUNNING and not item.expired
        ):
            yield item.window


def _describe_slices(table: TableConfig, log: TableLog) -> str:
    opened = [item for item in log.open if not item.stands]
    if opened:
        why = f", {opened[-1].error}" if opened[-1].error else ""
        return f"{opened[-1].window} is {opened[-1].status.value} in job {opened[-1].job_id}{why}"
    if log.last is None:
        return "its source has not been read yet"
    if log.last.has_more:
        return "its source has more rows than have been read"
    return f"its source was last read at {format_brief(log.last.now.astimezone(table.grid.zone))}"
