"""The pending queue of one table: the due windows that have not succeeded, oldest first.

Source: Sharp ETL, time-based pending queue: floor((now − start) / period) windows from the end of
the last success. This queue starts at the first gap instead, so no failed window is passed over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import overload

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import TableLog, WindowCount
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.ranges import find_uncovered, unite
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.planning.due import find_due_end
from logdriven_dagster.planning.slices import get_next_slice, list_pending_slices


class Windows(Sequence[TimeWindow]):
    """Lazy sequence of ascending windows: ten years of minutes take no memory."""

    __slots__ = ("_grid", "_length", "_runs")

    def __init__(self, grid: Grid, runs: Sequence[range | TimeWindow] = ()) -> None:
        """Create the sequence from ranges of grid numbers, and single windows off the grid."""
        self._grid = grid
        self._runs = tuple(runs)
        self._length = sum(len(run) if isinstance(run, range) else 1 for run in runs)

    def __len__(self) -> int:
        return self._length

    @property
    def parts(self) -> list[TimeWindow]:
        """The windows off the grid: remainders of grid windows next to windows of another grid."""
        singles = (run for run in self._runs if not isinstance(run, range))
        return [run for run in singles if not isinstance(run, Slice)]

    def __iter__(self) -> Iterator[TimeWindow]:
        for run in self._runs:
            if isinstance(run, range):
                yield from map(self._grid.window, run)
            else:
                yield run

    @overload
    def __getitem__(self, index: int) -> TimeWindow: ...
    @overload
    def __getitem__(self, index: slice) -> "Windows": ...
    def __getitem__(self, index: int | slice) -> "TimeWindow | Windows":
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step != 1:
                raise ValueError("numbered windows are planned one by one")
            return Windows(self._grid, list(self._cut(start, stop)))
        position = index + self._length if index < 0 else index
        for run in self._cut(position, position + 1) if position >= 0 else ():
            return self._grid.window(run[0]) if isinstance(run, range) else run
        raise IndexError(index)

    def _cut(self, start: int, stop: int) -> Iterator[range | TimeWindow]:
        before = 0
        for run in self._runs:
            length = len(run) if isinstance(run, range) else 1
            low, high = max(start - before, 0), min(stop - before, length)
            if low < high:
                yield run[low:high] if isinstance(run, range) else run
            before += length


def find_watermark(table: TableConfig, log: TableLog) -> datetime | str:
    """Return the end of the contiguous prefix of windows that succeeded or were skipped on purpose.

    For a sliced table: the end of the last slice, where the next one begins.
    """
    if table.is_sliced:
        last = (log.last.slice.high or log.last.reached) if log.last else None
        return last or get_next_slice(table, log.last).low
    origin, start = table.grid.origin, table.grid.origin_seconds
    for covered in unite(log.finished, log.skipped):
        if covered.span[0] <= start < covered.span[1]:
            return covered.end
    return origin


def find_unfinished_windows(table: TableConfig, log: TableLog, now: datetime) -> Windows:
    """Return the due windows that neither succeeded nor were skipped, oldest first.

    The latest attempt at a window decides.

    If the period or start changed, the parts of windows that earlier runs left open count as
    windows. A window of an earlier grid whose refresh did not end runs as a whole.
    """
    if table.is_sliced:
        return Windows(table.grid, list_pending_slices(table, log, now))
    grid, end = table.grid, find_due_end(table, now)
    if end <= grid.origin:
        return Windows(grid)
    due = TimeWindow(grid.origin, end, zone=grid.zone)
    wholes = [w for w in log.once_finished if due.overlaps(w) and not grid.holds(w)]
    gaps = find_uncovered(due, unite(log.finished, log.skipped, wholes))
    runs: list[range | TimeWindow] = [run for gap in gaps for run in _split_gap(grid, gap)]
    return Windows(grid, sorted([*runs, *wholes], key=lambda run: _get_start(grid, run)))


def _get_start(grid: Grid, run: range | TimeWindow) -> datetime:
    return grid.get_bound(run[0]) if isinstance(run, range) else run.start


def list_refreshable_windows(
    table: TableConfig, span: TimeWindow, finished: Sequence[TimeWindow]
) -> list[TimeWindow]:
    """Split a range into the windows of the grid, and finished windows that cross their bounds.

    `finished` are the finished windows that overlap those of the range, oldest first. Windows that
    extend beyond the range are included as a whole.
    """
    cells = list_windows_around(table, span, [])
    kept = [each for each in finished if any(_is_cut_by(cell, each) for cell in cells)]
    return list_windows_around(table, span, kept) if kept else cells


def list_windows_around(
    table: TableConfig, span: TimeWindow, recorded: Sequence[TimeWindow]
) -> list[TimeWindow]:
    """Split a range into windows of the log, as they are, and windows of the grid between them.

    `recorded` are windows that overlap those of the range. Windows that extend beyond the range are
    included as a whole.
    """
    grid, whole = table.grid, table.grid.covering(span)
    gaps = find_uncovered(whole, unite(recorded))
    left = [run for gap in gaps for run in _split_gap(grid, gap)]
    found = [*recorded, *Windows(grid, left)]
    return sorted((each for each in found if each.overlaps(span)), key=lambda each: each.start)


def _is_cut_by(cell: TimeWindow, finished: TimeWindow) -> bool:
    return cell.overlaps(finished) and not cell.contains(finished)


def _split_gap(grid: Grid, gap: TimeWindow) -> Iterator[range | TimeWindow]:
    first, last = grid.index(gap.start), grid.index(gap.end)
    if grid.get_bound(first) != gap.start:
        if first == last:
            yield gap
            return
        first += 1
        yield TimeWindow(gap.start, grid.get_bound(first), zone=grid.zone)
    if first < last:
        yield range(first, last)
    if grid.get_bound(last) != gap.end:
        yield TimeWindow(grid.get_bound(last), gap.end, zone=grid.zone)


def add_missing(
    table: TableConfig, log: TableLog, counts: Sequence[WindowCount], now: datetime, most: int
) -> list[WindowCount]:
    """Return the newest windows, oldest first: those with attempts, and those that are due.

    An attempt of a dead runner counts as failed.
    """
    found = {count.window.key: count for count in counts}
    for item in log.open:
        if known := found.get(item.window.key):
            found[item.window.key] = replace(known, status=item.status)
    due = [] if table.is_sliced else find_unfinished_windows(table, log, now)[-most:]
    missing = [WindowCount(window, None) for window in due if window.key not in found]
    return sorted([*found.values(), *missing], key=lambda count: count.window.span)[-most:]
