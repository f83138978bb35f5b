"""Batches of windows: the adjoining windows of one table that run in one pass, and their number."""

from collections.abc import Iterator
from itertools import islice

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.plan import Plan, PlannedWindow, State
from logdriven_dagster.planning.readiness import find_open_attempt

MOST = 1000
"""The maximum number of windows in a pass: each has a row in the transactions of all."""
_FIRST = 4
"""The number of windows in the first pass of a table, whose rows are visible soon."""
_GROWTH = 8
_SECONDS = 120.0
"""The time that a pass may take: its windows are published at its end."""
_ROWS = 50_000_000
"""The number of rows that a pass may read."""


class BatchSizes:
    """The numbers of windows in the next passes of tables.

    The time and the rows of each pass determine the size of the next one with `batch_size: auto`.
    A pass that fails is halved, with any `batch_size`, until the window that cannot run fails by
    itself.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        """Table → half the number of windows of its last pass that failed."""

    def suggest(self, table: str) -> int:
        """Return the maximum number of windows of the table's next pass, by the last one."""
        return self.limit(table, self._next.get(table, _FIRST))

    def limit(self, table: str, size: int) -> int:
        """Return a size, or less if a pass of the table has failed."""
        return min(size, self._limits.get(table, MOST))

    def record_success(self, table: str, windows: int, seconds: float, rows: int) -> None:
        """Record the time of a pass that succeeded, and the rows that it read."""
        by_time = windows * _SECONDS / max(seconds, 0.001)
        by_rows = windows * _ROWS / max(rows, 1)
        self._next[table] = max(int(min(by_time, by_rows, windows * _GROWTH, MOST)), 1)

    def record_failure(self, table: str, windows: int) -> None:
        """Record that a pass failed.

        If it had several windows, later passes are smaller. A single window is the cause of the
        failures before it, so that passes may be larger again.
        """
        if windows > 1:
            self._limits[table] = self.limit(table, windows // 2)
        else:
            self._limits.pop(table, None)


def find_stretch(plan: Plan, planned: PlannedWindow, most: int) -> list[TimeWindow]:
    """Return the ready window and those after it that may run with it, at most `most` in all.

    They are contiguous, have the same trigger, and wait for nothing but each other. A window whose
    last attempt failed runs by itself: otherwise all the others would fail with it.
    """
    if planned.state is not State.READY:
        return [planned.window]
    return list(islice(_list_together(plan, planned), max(most, 1)))


def _list_together(plan: Plan, planned: PlannedWindow) -> Iterator[TimeWindow]:
    table, start = plan.tables[planned.table], planned.window.start
    yield planned.window
    last = planned.window
    if not _is_untried(plan, planned, last):
        return
    for window, trigger in table.queue():
        if trigger is not planned.trigger or window.start <= start:
            continue
        adjoins = window.start == last.end
        if not adjoins or not _is_untried(plan, planned, window):
            return
        if plan.obstacle(table.table, window, trigger) is not None:
            return
        yield window
        last = window


def _is_untried(plan: Plan, planned: PlannedWindow, window: TimeWindow) -> bool:
    """Return True if the window is not running and its last attempt did not fail."""
    attempt = find_open_attempt(window, plan.tables[planned.table].log)
    return attempt is None or (attempt.status is Status.DISCARDED and attempt.window == window)
