"""Dependencies across periods: the upstream windows that a window waits for and reads.

Source: Sharp ETL, dependencies of different frequencies; Kettle, unmanaged upstreams are complete.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from logdriven_dagster.config.models.dependencies import AssetDependency, Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.ranges import find_uncovered, unite
from logdriven_dagster.model.windows import Reads, Slice, TimeWindow, convert_to_instant
from logdriven_dagster.planning.conditions import (
    CONDITIONS,
    MissingRange,
    cannot_fail,
    find_snapshot_too_early,
    find_too_early,
)
from logdriven_dagster.planning.context import PlanningContext


def find_awaited_range(
    upstream: TableConfig, dependency: Dependency, window: TimeWindow
) -> TimeWindow | None:
    """Return the upstream range that `window` waits for; None if it waits for nothing.

    A day waits for its 24 hours, an hour for the day that contains it. With `window: ended` the
    hour waits for the last day that ended before the hour does. Before the upstream's
    `default_start`, and after the last window before its `end`, there is nothing to wait for.
    Slices have no time, so they have no ranges in common.
    """
    if dependency.window == "none" or isinstance(window, Slice) or upstream.is_sliced:
        return None
    grid = upstream.grid
    if dependency.window == "ended":
        first, last = grid.index(window.start), grid.index(window.end)
        span = range(min(first, last - 1), last)
        start, end = grid.get_bound(span.start), grid.get_bound(span.stop)
    else:
        covering = grid.covering(window)
        start, end = covering.start, covering.end
    start = max(start, grid.origin)
    if grid.end is not None:
        end = min(end, grid.get_bound(grid.index(grid.end)))
    return TimeWindow(start, end, zone=grid.zone) if start < end else None


def read_ranges(upstream: TableConfig, dependency: Dependency, window: TimeWindow) -> Reads:
    """Return the upstream ranges that `window` reads by the table's name; None for all rows.

    Without ranges it reads nothing. For dependencies that are inputs only.
    """
    if isinstance(window, Slice) or is_read_whole(upstream, dependency):
        return None
    awaited = find_awaited_range(upstream, dependency, window)
    return () if awaited is None else (awaited,)


def list_reads(
    table: TableConfig, tables: Mapping[str, TableConfig], window: TimeWindow
) -> dict[str, Reads]:
    """Return upstream table → the ranges that a window reads; None for all rows."""
    return {
        dependency.table: read_ranges(tables[dependency.table], dependency, window)
        for dependency in table.managed_dependencies
        if dependency.read != "none"
    }


def is_read_whole(upstream: TableConfig, dependency: Dependency) -> bool:
    """Return True if a window reads all rows of the upstream, regardless of its range.

    Versions of a history are valid beyond the window that wrote them, and later windows end them.
    """
    whole = dependency.read == "all" or dependency.window == "none" or not dependency.managed
    is_undivided = upstream.incremental.is_snapshot or upstream.is_sliced
    return whole or is_undivided or upstream.output.write_mode.keeps_history


def list_with_upstreams(table: TableConfig, tables: Mapping[str, TableConfig]) -> list[TableConfig]:
    """Return the table and its upstreams.

    If an upstream consumes batches, its own upstreams are included.
    """
    found = {table.table: table}
    for dependency in table.managed_dependencies:
        upstream = tables[dependency.table]
        further = (
            list_with_upstreams(upstream, tables) if upstream.batch_dependencies else [upstream]
        )
        found |= {item.table: item for item in further}
    return list(found.values())


def find_upstreams(tables: Mapping[str, TableConfig], names: Iterable[str]) -> set[str]:
    """Return some tables with all their upstreams, direct and indirect."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in tables and name not in found:
            found.add(name)
            waiting += [dependency.table for dependency in tables[name].table_dependencies]
    return found


class Upstreams:
    """The upstreams of one table, and the parts of them that its windows wait for."""

    def __init__(self, table: TableConfig, context: PlanningContext) -> None:
        self._table, self._context = table, context

    def find_missing(self, window: TimeWindow) -> Iterator[MissingRange]:
        """Yield the ranges that a window still waits for, by upstream and oldest first."""
        for dependency in self._table.managed_dependencies:
            yield from self.find_missing_of(dependency, window)
        for asset in self._table.asset_dependencies:
            log = self._context.get_log(asset.upstream)
            yield from _find_missing_partitions(asset, window, log)

    def find_missing_of(self, dependency: Dependency, window: TimeWindow) -> Iterator[MissingRange]:
        """Yield the ranges of one upstream that a window still waits for, oldest first."""
        upstream = self._context.tables[dependency.table]
        if upstream.is_sliced and dependency.window != "none":
            yield from self._find_missing_slices(upstream, window)
        awaited = find_awaited_range(upstream, dependency, window)
        if awaited is not None:
            log = self._context.get_log(upstream.table)
            yield from _find_unmet(upstream, dependency, log, awaited, window)

    def find_not_applying(self, window: TimeWindow) -> MissingRange | None:
        """Return the awaited failure that cannot occur any more; None if a window may apply."""
        for dependency in self._table.managed_dependencies:
            if dependency.condition != "failure":
                continue
            upstream = self._context.tables[dependency.table]
            awaited = find_awaited_range(upstream, dependency, window)
            if cannot_fail(self._context.get_log(upstream.table), awaited):
                return MissingRange(upstream.table, awaited or window, "did not fail")
        return None

    def find_left_out(self, window: TimeWindow) -> Iterator[MissingRange]:
        """Yield the ranges that an operator has skipped and that a window runs without."""
        for dependency in self._table.managed_dependencies:
            upstream = self._context.tables[dependency.table]
            awaited = find_awaited_range(upstream, dependency, window)
            if awaited is None or upstream.incremental.is_snapshot or dependency.skipped == "wait":
                continue
            for item in self._context.get_log(upstream.table).left_out:
                if item.window.overlaps(awaited):
                    yield MissingRange(upstream.table, item.window, item.reason)

    def _find_missing_slices(
        self, upstream: TableConfig, window: TimeWindow
    ) -> Iterator[MissingRange]:
        """Yield the part of a window for which a sliced upstream is not completely loaded.

        Any slice may contain rows of any time, so all rows that existed when the window was due
        must be loaded. An upstream that consumes batches is complete when its own upstreams are
        complete and its queue is empty.
        """
        log = self._context.get_log(upstream.table)
        if isinstance(window, Slice):
            return
        if upstream.incremental.takes_upstream_batches:
            if log.open or any(log.queued.values()):
                yield MissingRange(upstream.table, window, "unread deliveries are in its queue")
            yield from Upstreams(upstream, self._context).find_missing(window)
        else:
            delay = self._table.delay
            loaded = log.complete_until - delay.total_seconds()
            if loaded < window.end.timestamp():
                late = " and its delay" if delay else ""
                reason = f"its data up to the end of the window{late} is not loaded yet"
                yield MissingRange(upstream.table, _cut_before(loaded, window), reason)


def _find_unmet(
    upstream: TableConfig,
    dependency: Dependency,
    log: TableLog,
    awaited: TimeWindow,
    window: TimeWindow,
) -> Iterator[MissingRange]:
    """Yield the ranges that do not meet the condition of a dependency or, if all do, its delay."""
    needed = -math.inf
    if dependency.window == "newest" or dependency.read == "none":
        needed = min(awaited.end, window.end).timestamp()
    of_snapshot = upstream.incremental.is_snapshot and dependency.condition == "success"
    if of_snapshot:
        missing = _find_missing_snapshot(upstream, log, awaited, needed)
    else:
        missing = CONDITIONS[dependency.condition](
            upstream, _get_awaited_log(dependency, log), awaited
        )
    first = next(missing, None)
    if first is not None:
        yield first
        yield from missing
    elif dependency.delay and of_snapshot:
        yield from find_snapshot_too_early(upstream, dependency, log, awaited, needed)
    elif dependency.delay:
        yield from find_too_early(upstream, dependency, log, awaited)


def _get_awaited_log(dependency: Dependency, log: TableLog) -> TableLog:
    """Return the log for a dependency, in which windows skipped by an operator may be finished."""
    if not log.left_out or dependency.skipped == "wait" or dependency.condition != "success":
        return log
    passed = [item.window for item in log.left_out]
    return replace(log, finished=tuple(unite(log.finished, passed)))


def _find_missing_snapshot(
    upstream: TableConfig, log: TableLog, awaited: TimeWindow, needed: float
) -> Iterator[MissingRange]:
    """Yield the range for which no sufficiently new snapshot exists.

    A later snapshot contains all rows of an earlier one, so any snapshot at least as new is
    sufficient. A reader needs at least one snapshot, and reads the newest one when it runs. Source:
    Kettle, an upstream's latest complete run.
    """
    newest = max((done.end.timestamp() for done in log.finished), default=None)
    if newest is None:
        yield MissingRange(upstream.table, awaited, "no snapshot has succeeded yet")
    elif newest < needed:
        yield MissingRange(
            upstream.table, _cut_before(newest, awaited), "no snapshot of this time or later"
        )


def _find_missing_partitions(
    asset: AssetDependency, window: TimeWindow, log: TableLog
) -> Iterator[MissingRange]:
    """Yield the ranges of an asset that the run log does not list as materialized."""
    if asset.window == "overlapping":
        for gap in find_uncovered(window, log.finished):
            yield MissingRange(asset.upstream, gap, "is not materialized")
    elif not log.finished:
        yield MissingRange(asset.upstream, window, "has never been materialized")


def _cut_before(moment: float, window: TimeWindow) -> TimeWindow:
    """Return the part of a range that ends after a timestamp in epoch seconds."""
    if moment <= window.start.timestamp():
        return window
    return TimeWindow(convert_to_instant(moment), window.end, zone=window.zone)
