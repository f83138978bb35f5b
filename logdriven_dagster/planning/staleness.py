"""Stale windows: finished ones whose upstream data changed after they ran.

A window is stale if a window of an upstream that it reads succeeded again in a later attempt. The
first success of an upstream window counts, too, if it replaces windows of another grid or runs
after its downstream windows. A window with `lookback` that reads all rows of an upstream
(`read: all`) reads the later windows within its reach as well.

A table that keeps history (`mode: history`) is an upstream of itself: a rerun of a window removes
what later windows have added, so all of them are stale.

`runlog.history.refreshes` finds the stale windows; `reruns` decides whether they run again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.periods import Grid, Unit
from logdriven_dagster.model.windows import convert_to_instant

_LONGEST = {Unit.MINUTE: 60, Unit.DAY: 25 * 3600, Unit.MONTH: 31 * 86_400 + 3600}
"""The greatest lengths in seconds, including changes of the clock."""


@dataclass(frozen=True, slots=True)
class TrackedInput:
    """An upstream of a table whose windows become stale by its reruns."""

    table: str
    upstream: str
    grid: Grid = field(compare=False)
    """The grid of the table."""
    lookback: int = field(compare=False, default=0)
    """The number of later windows that may bring rows of a window."""

    @property
    def is_own(self) -> bool:
        """True if the later windows of the table itself become stale."""
        return self.table == self.upstream

    @property
    def longest_lookback(self) -> int:
        """The longest duration of that many windows, in seconds."""
        period = self.grid.period
        return self.lookback * period.count * _LONGEST[period.unit]

    def reads(self, start: int, end: int, upstream_start: int) -> bool:
        """Return True if a window reads an upstream window that ends after the window's start.

        The bounds are in epoch seconds; within its lookback a window reads later ones, too.
        """
        if end > upstream_start or self.is_own:
            return True
        n = self.grid.index(convert_to_instant(start))
        return self.grid.get_bound(n + self.lookback + 1).timestamp() > upstream_start


def find_tracked_inputs(tables: Collection[TableConfig]) -> list[TrackedInput]:
    """Return the upstreams whose reruns make windows stale, for tables that rerun them.

    Upstreams whose windows do not cover time, snapshots and slices, are not among them.
    """
    by_name = {table.table: table for table in tables}
    rerun = [
        table for table in tables if table.on_upstream_refresh == "rerun" and not table.is_sliced
    ]
    of_tables = [
        TrackedInput(
            table.table,
            dependency.table,
            table.grid,
            table.lookback if dependency.read == "all" else 0,
        )
        for table in rerun
        for dependency in table.managed_dependencies
        if dependency.is_input and _has_windows(by_name, dependency.table)
    ]
    of_assets = [
        TrackedInput(table.table, dependency.upstream, table.grid)
        for table in rerun
        for dependency in table.asset_dependencies
        if dependency.is_input
    ]
    of_own_windows = [
        TrackedInput(table.table, table.table, table.grid)
        for table in tables
        if table.keeps_history and not table.incremental.is_snapshot
    ]
    return of_tables + of_assets + of_own_windows


def _has_windows(tables: Mapping[str, TableConfig], name: str) -> bool:
    """Return True if the table's windows cover the same time as those of another table."""
    table = tables.get(name)
    return table is None or not (table.incremental.is_snapshot or table.is_sliced)
