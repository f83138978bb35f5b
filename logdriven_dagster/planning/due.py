"""Due windows: the windows of a grid that have ended, and whose delay is over."""

from datetime import datetime

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import TimeWindow, normalize_instant


def find_due_end(table: TableConfig, now: datetime) -> datetime:
    """Return the end of the newest window that ended at least `delay` ago, or `default_start`."""
    grid = table.grid
    return grid.get_bound(max(count_due(table, now), 0))


def count_due(table: TableConfig, now: datetime) -> int:
    """Return the number of due windows, which is the number of the first window that is not due."""
    grid, reached = table.grid, count_elapsed(table, now)
    return reached if grid.end is None else min(reached, grid.index(grid.end))


def count_elapsed(table: TableConfig, now: datetime) -> int:
    """Return the number of windows that would be due if the table had no end."""
    return table.grid.index(normalize_instant(now) - table.delay)


def get_next_due(table: TableConfig, window: TimeWindow) -> datetime:
    """Return the time from which a window may run."""
    return window.end + table.delay
