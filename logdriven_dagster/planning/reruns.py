"""Reruns of finished windows: old ones, refreshed upstreams, changed source files, `lookback`.

With `lookback: n` a window collects rows that arrive until the n-th window after it has ended. An
input that it reads as a whole (`read: all`, snapshots, slices) may deliver such rows with any
window up to then. So an attempt records the data time up to which all of these inputs were complete
when it began. The window runs again whenever more has become due, as soon as more is complete: with
each of the next n windows in turn, or once after an outage, but never before its upstreams.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.conditions import MissingRange
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.dependencies import Upstreams, is_read_whole
from logdriven_dagster.planning.due import count_due, count_elapsed


class Reruns:
    """The reruns of one table's finished windows."""

    def __init__(self, table: TableConfig, context: PlanningContext) -> None:
        self._table, self._context = table, context
        self._log, self._now = context.get_log(table.table), context.now

    def list_due(self) -> list[tuple[TimeWindow, Trigger]]:
        """Return the finished windows to rerun, oldest first.

        The reasons are an older version, late data, changed source files and refreshed upstreams.
        """
        table, log = self._table, self._log
        if not (table.lookback or log.stale or log.old or log.changed):
            return []
        found = {window.start: (window, Trigger.RESTATE) for window in self._find_restated()}
        found |= {window.start: (window, Trigger.LOOKBACK) for window in self._find_late()}
        if table.on_source_change == "rerun":
            changed = (each.window for each in log.changed if each.has_new_rows)
            found |= {window.start: (window, Trigger.SOURCE) for window in changed}
        if table.on_upstream_refresh == "rerun" or table.keeps_history:
            found |= {window.start: (window, Trigger.UPSTREAM) for window in log.stale}
        return [found[start] for start in sorted(found)]

    def has_more_rows(self, window: TimeWindow) -> bool:
        """Return True if a rerun of a finished window would read more rows than its last run."""
        known = (item for item in self._log.within_lookback if item.window == window)
        last_run = next(known, None)
        return last_run is None or self._find_seen(window) > last_run.seen

    def find_unseen(self, window: TimeWindow) -> Iterator[MissingRange]:
        """Yield the due, unfinished ranges of the upstreams that deliver late rows of a window."""
        whole = self._get_reach(window)
        upstreams = Upstreams(self._table, self._context)
        for dependency in self._table.managed_dependencies:
            upstream = self._context.tables[dependency.table]
            if dependency.is_input and is_read_whole(upstream, dependency):
                relaxed = _relax_for_late_rows(dependency, upstream)
                yield from upstreams.find_missing_of(relaxed, whole)

    def find_last_seen(self, window: TimeWindow) -> datetime | None:
        """Return the data time that an attempt records; None if no late row can follow.

        All inputs of the window are complete up to this time.
        """
        if not self._table.lookback or self._table.is_sliced:
            return None
        found, last = self._find_seen(window), self._find_last(window)
        return None if found >= self._table.grid.get_bound(last + 1) else found

    def _find_seen(self, window: TimeWindow) -> datetime:
        gaps = [gap.window.start for gap in self.find_unseen(window)]
        if not gaps:
            return self._get_reach(window).end
        grid = self._table.grid
        return max(window.end, grid.get_bound(grid.index(min(gaps))))

    def _find_late(self) -> Iterator[TimeWindow]:
        """Yield the finished windows with more due windows in their lookback than they saw."""
        if not self._table.lookback:
            return
        for known in self._log.within_lookback:
            if self._get_reach(known.window).end > known.seen:
                yield known.window

    def _find_restated(self) -> Iterator[TimeWindow]:
        """Yield the windows by older versions that the table or an operator restates.

        Of a snapshot only the newest one: its source has no other rows any more.
        """
        change, newest = self._table.on_change, self._log.finished[-1:]
        for old in self._log.old:
            window = old.window
            if self._table.incremental.is_snapshot and window.end < newest[0].end:
                continue
            if old.reason is not None or change.includes(window, self._now):
                yield window

    def _find_last(self, window: TimeWindow) -> int:
        """Return the number of the last window until whose end late rows of a window may arrive."""
        return self._table.grid.index(window.start) + self._table.lookback

    def _get_reach(self, window: TimeWindow) -> TimeWindow:
        """Return the range of a window and the due windows within its `lookback`."""
        end = self._table.grid.get_bound(min(self._find_last(window), self._newest) + 1)
        return TimeWindow(window.start, max(window.end, end), zone=window.zone)

    @cached_property
    def _newest(self) -> int:
        """The number of the newest window that is due together with all that it waits for.

        A table's own `end` limits its windows, not the late rows for them.
        """
        found = count_elapsed(self._table, self._now)
        for dependency in self._table.managed_dependencies:
            upstream = self._context.tables[dependency.table]
            if dependency.window != "none" and not upstream.is_sliced:
                found = min(found, self._count_due_behind(upstream, dependency))
        return found - 1

    def _count_due_behind(self, upstream: TableConfig, dependency: Dependency) -> int:
        """Return the number of windows that wait for no undue window of an upstream."""
        grid, of, ready = self._table.grid, upstream.grid, max(count_due(upstream, self._now), 0)
        if of.end is not None and ready >= of.index(of.end):
            return count_elapsed(self._table, self._now)
        if dependency.window != "ended":
            return grid.index(of.get_bound(ready))
        first_waiting = of.get_bound(ready + 1)
        n = grid.index(first_waiting)
        return n - 1 if grid.get_bound(n) == first_waiting else n


def _relax_for_late_rows(dependency: Dependency, upstream: TableConfig) -> Dependency:
    """Relax a dependency on snapshots: an old one suffices, without the rows that came after it."""
    if not upstream.incremental.is_snapshot:
        return dependency
    return dependency.model_copy(update={"window": "newest"})
