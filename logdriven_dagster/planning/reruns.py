"""Reruns of finished windows: refreshed upstreams, and late data (`lookback`).

With `lookback: n` a window collects rows that arrive until the n-th window after it has ended. An
input that it reads as a whole (`read: all`, snapshots, slices) may deliver such rows with any
window up to then. So an attempt records the data time up to which all of these inputs were complete
when it began. The window runs again whenever more has become due, as soon as more is complete: with
each of the next n windows in turn, or once after an outage, but never before its upstreams.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.conditions import MissingRange
from logdriven_dagster.planning.dependencies import find_missing_of, is_read_whole
from logdriven_dagster.planning.due import count_due, count_elapsed


def find_reruns(
    table: TableConfig, log: TableLog, tables: Mapping[str, TableConfig], now: datetime
) -> list[tuple[TimeWindow, Trigger]]:
    """Return the finished windows to rerun, oldest first: late data, refreshed upstreams."""
    if not (table.lookback or log.stale):
        return []
    found = {
        window.start: (window, Trigger.LOOKBACK) for window in _find_late(table, log, tables, now)
    }
    if table.on_upstream_refresh == "rerun":
        found |= {window.start: (window, Trigger.UPSTREAM) for window in log.stale}
    return [found[start] for start in sorted(found)]


def find_seen(
    table: TableConfig,
    window: TimeWindow,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> datetime:
    """Return the data time up to which all inputs of a window with `lookback` are complete."""
    whole = _get_reach(table, window, _find_newest(table, tables, now))
    gaps = [gap.window.start for gap in find_unseen(table, window, tables, logs, now)]
    if not gaps:
        return whole.end
    grid = table.grid
    return max(window.end, grid.get_bound(grid.index(min(gaps))))


def find_unseen(
    table: TableConfig,
    window: TimeWindow,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> Iterator[MissingRange]:
    """Yield the due, unfinished ranges of the upstreams that deliver late rows of a window."""
    whole = _get_reach(table, window, _find_newest(table, tables, now))
    for dependency in table.managed_dependencies:
        upstream = tables[dependency.table]
        if dependency.is_input and is_read_whole(upstream, dependency):
            yield from find_missing_of(
                _relax_for_late_rows(dependency, upstream), table, whole, tables, logs
            )


def _relax_for_late_rows(dependency: Dependency, upstream: TableConfig) -> Dependency:
    """Relax a dependency on snapshots: an old one suffices, without the rows that came after it."""
    if not upstream.incremental.is_snapshot:
        return dependency
    return dependency.model_copy(update={"window": "newest"})


def find_last_seen(
    table: TableConfig,
    window: TimeWindow,
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
) -> datetime | None:
    """Return the value of `seen` that an attempt records; None if no late row can follow."""
    if not table.lookback or table.is_sliced:
        return None
    found, last = find_seen(table, window, tables, logs, now), _find_last(table, window)
    return None if found >= table.grid.get_bound(last + 1) else found


def _find_late(
    table: TableConfig, log: TableLog, tables: Mapping[str, TableConfig], now: datetime
) -> Iterator[TimeWindow]:
    """Yield the finished windows with more due windows in their lookback than they have seen."""
    if not table.lookback or not log.within_lookback:
        return
    newest = _find_newest(table, tables, now)
    for known in log.within_lookback:
        if _get_reach(table, known.window, newest).end > known.seen:
            yield known.window


def _find_last(table: TableConfig, window: TimeWindow) -> int:
    """Return the number of the last window until whose end late rows of a window may arrive."""
    return table.grid.index(window.start) + table.lookback


def _get_reach(table: TableConfig, window: TimeWindow, newest: int) -> TimeWindow:
    """Return the range of a window and the due windows within its `lookback`."""
    end = table.grid.get_bound(min(_find_last(table, window), newest) + 1)
    return TimeWindow(window.start, max(window.end, end), zone=window.zone)


def _find_newest(table: TableConfig, tables: Mapping[str, TableConfig], now: datetime) -> int:
    """Return the number of the newest window that is due together with all that it waits for.

    A table's own `end` limits its windows, not the late rows for them.
    """
    found = count_elapsed(table, now)
    for dependency in table.managed_dependencies:
        upstream = tables[dependency.table]
        if dependency.window != "none" and not upstream.is_sliced:
            found = min(found, _count_due_behind(table, upstream, dependency, now))
    return found - 1


def _count_due_behind(
    table: TableConfig, upstream: TableConfig, dependency: Dependency, now: datetime
) -> int:
    """Return the number of windows of a table that wait for no undue window of an upstream."""
    grid, of, ready = table.grid, upstream.grid, max(count_due(upstream, now), 0)
    if of.end is not None and ready >= of.index(of.end):
        return count_elapsed(table, now)
    if dependency.window != "ended":
        return grid.index(of.get_bound(ready))
    first_waiting = of.get_bound(ready + 1)
    n = grid.index(first_waiting)
    return n - 1 if grid.get_bound(n) == first_waiting else n
