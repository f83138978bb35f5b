"""Whether a table is fresh: the newest window that should be done by now is done in the run log.

A window should be done `within` after its end. Only the newest such window decides, so that no old
window that runs again makes a table fresh, and none that fails makes it late.

- SKIPPED is done: somebody, or a rule, has decided that nothing is to be done.
- A finished window that runs again is done as long as what was published before may stand; if its
  refresh fails after it has begun to publish, it is not.
- After `end` the last window decides; before the first one is due nothing is expected.
- Of a `full` table a later snapshot will do, and a skipped one will not.
- A sliced table has to take all that its source holds once a period: the times at which it looks
  are its windows.
- Tables that are offline, disabled or without `fresh` are not judged: nothing starts them.

`within` is elapsed time, whatever the clocks do meanwhile; ends of windows follow the wall clock.
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
from logdriven_dagster.model.ranges import uncovered, union
from logdriven_dagster.model.windows import TimeWindow, as_instant, brief, instant
from logdriven_dagster.planning.conditions import why_unfinished

_A_DAY = timedelta(days=1)


class Verdict(str, Enum):
    """How a table stands against the clock."""

    FRESH = "fresh"
    WARNING = "warning"
    """Not done by `warn`."""
    LATE = "late"
    """Not done by `within`."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How a table stands against the clock, and by which window."""

    verdict: Verdict
    within: timedelta
    """What the verdict was judged by: that of `warn` if it is a warning."""
    expected: TimeWindow | None
    """The newest window that should be done; None: none yet. Of a sliced table the time between
    two looks at its source."""
    missing: TimeWindow | None = None
    """The oldest window of those in a row that are missing up to the expected one."""
    reason: str = ""
    """What has become of it."""

    @property
    def due(self) -> datetime | None:
        """By when the missing window, or else the expected one, should have been done."""
        decisive = self.missing or self.expected
        return None if decisive is None else due(decisive, self.within)

    @property
    def due_clock(self) -> datetime | None:
        """`due` on the wall clock of the window's zone, for people."""
        decisive = self.missing or self.expected
        return self.due.astimezone(decisive.zone) if decisive and self.due else None

    def overdue(self, now: datetime) -> timedelta:
        """How long the missing window should have been done; zero if the table is fresh."""
        if self.missing is None or self.due is None:
            return timedelta(0)
        return timedelta(seconds=max(now.timestamp() - self.due.timestamp(), 0))


def freshness(table: TableConfig, log: TableLog, now: datetime) -> Freshness | None:
    """How a table stands against the clock; None if it is not judged."""
    if table.fresh is None or not table.enabled or table.release_state == "offline":
        return None
    within, warn = allowance(table), table.fresh.warn
    found = _judged(table, log, now, within, Verdict.LATE)
    if found.verdict is Verdict.FRESH and warn is not None:
        warned = _judged(table, log, now, warn, Verdict.WARNING)
        return warned if warned.verdict is Verdict.WARNING else found
    return found


def allowance(table: TableConfig) -> timedelta:
    """How long after its end a window may be unfinished.

    By default its delay, before which it cannot run, and as long as it covers, but at most a day.
    """
    if table.fresh is not None and table.fresh.within is not None:
        return table.fresh.within
    return table.delay + min(timedelta(minutes=table.period.minutes), _A_DAY)


def due(window: TimeWindow, within: timedelta) -> datetime:
    """By when a window should be done."""
    return window.end + within


def outcome(table: TableConfig, window: TimeWindow, log: TableLog) -> str:
    """What has become of a window that is missing."""
    return _reason_of_slices(table, log) if table.is_sliced else why_unfinished(window, log)


def _judged(
    table: TableConfig, log: TableLog, now: datetime, within: timedelta, otherwise: Verdict
) -> Freshness:
    expected = _expected(table, now, within)
    missing = None if expected is None else _missing(table, log, expected)
    if missing is None:
        return Freshness(Verdict.FRESH, within, expected)
    return Freshness(otherwise, within, expected, missing, outcome(table, missing, log))


def _expected(table: TableConfig, now: datetime, within: timedelta) -> TimeWindow | None:
    """The newest window whose end lies so far back; None before the first."""
    grid = table.grid
    until = grid.index(as_instant(now) - within)
    if grid.end is not None:
        until = min(until, grid.index(grid.end))
    return grid.window(until - 1) if until > 0 else None


def _missing(table: TableConfig, log: TableLog, expected: TimeWindow) -> TimeWindow | None:
    """The oldest window of those in a row that are not done up to the expected one."""
    grid, reached = table.grid, _reached(table, log)
    if reached is None:
        whole = TimeWindow(grid.origin, expected.end, zone=grid.zone)
        *_, gap = chain([None], uncovered(whole, _done(log)))
        if gap is None or not gap.overlaps(expected):
            return None
        return grid.window(grid.index(gap.start))
    if reached >= expected.end.timestamp():
        return None
    if reached < grid.origin.timestamp():
        return expected if table.is_sliced else grid.window(0)
    return grid.window(grid.index(instant(reached)))


def _reached(table: TableConfig, log: TableLog) -> float | None:
    """The moment up to which everything is there; None if that is a matter of each window."""
    if table.is_sliced:
        read_at = log.last.all_read_at if log.last else None
        return -math.inf if read_at is None else read_at.timestamp()
    if table.incremental.is_snapshot:
        return max((done.end.timestamp() for done in _finished(log)), default=-math.inf)
    return None


def _done(log: TableLog) -> list[TimeWindow]:
    return union(_finished(log), log.skipped)


def _finished(log: TableLog) -> list[TimeWindow]:
    """The finished windows, those among them that run again."""
    return union(log.finished, _running_again(log))


def _running_again(log: TableLog) -> Iterator[TimeWindow]:
    for item in log.open:
        if item.stands or (
            item.was_finished and item.status is Status.RUNNING and not item.expired
        ):
            yield item.window


def _reason_of_slices(table: TableConfig, log: TableLog) -> str:
    opened = [item for item in log.open if not item.stands]
    if opened:
        why = f", {opened[-1].error}" if opened[-1].error else ""
        return f"{opened[-1].window} is {opened[-1].status.value} in job {opened[-1].job_id}{why}"
    if log.last is None:
        return "nothing of its source has been read"
    if log.last.has_more:
        return "its source holds more than has been read"
    return f"its source was last read at {brief(log.last.now.astimezone(table.grid.zone))}"
