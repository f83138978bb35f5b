"""Running order: the oldest window first, after all windows that it reads.

A table that reads all rows of another one comes after all pending windows of that table, even if it
waits for none of them (`window: none`, unmanaged tables). A table downstream of such a table comes
after it in turn.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.dependencies import awaited_range, reads_all


def turn(table: TableConfig, window: TimeWindow, known: Mapping[str, TableConfig]) -> float:
    """Return the sort key of a window: its own end, or that of the windows that it waits for.

    Slices of sources have no time and come first. Slices of upstream batches come last, so that
    fewer of them are needed.
    """
    if table.incremental.takes_upstream_batches:
        return math.inf
    found = window.span[1]
    for dependency in table.managed_dependencies:
        upstream = known[dependency.table]
        awaited = awaited_range(upstream, dependency, window)
        if awaited is not None and not upstream.incremental.is_snapshot:
            found = max(found, awaited.span[1])
    return found


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """A wait of a whole table: all windows up to a timestamp come before any of its own."""

    moment: float
    depth: int
    """The number of tables in the chain of such waits, this table included."""

    def place(self, own: float) -> tuple[float, int, float]:
        """Return the sort key of a window of the table, given its own turn."""
        return (own, 0, own) if own > self.moment else (self.moment, self.depth, own)


NO_WAIT = Wait(-math.inf, 0)


def waits(
    behind: Iterable[tuple[str, TableConfig, bool]],
    known: Mapping[str, TableConfig],
    last: Callable[[str], TimeWindow | None],
) -> dict[str, Wait]:
    """Return table → the wait before all its windows; tables without a wait are missing.

    `behind` is the result of `behind_whole_tables`. `last` returns the pending window of a table
    that begins last, if it has one.
    """
    found: dict[str, Wait] = {}
    for name, upstream, whole in behind:
        pending = last(upstream.table) if whole or upstream.table in found else None
        if pending is None:
            continue
        wait = found.get(upstream.table, NO_WAIT)
        if whole:
            wait = Wait(max(wait.moment, turn(upstream, pending, known)), wait.depth + 1)
        found[name] = max(wait, found.get(name, NO_WAIT))
    return found


def behind_whole_tables(
    known: Mapping[str, TableConfig],
) -> Iterator[tuple[str, TableConfig, bool]]:
    """Yield the tables that may have to wait, with an upstream, and whether they read all its rows.

    They read all rows of that upstream, or the upstream may have to wait itself. `known` holds
    every table, upstreams first.
    """
    behind: set[str] = set()
    for name, table in known.items():
        for dependency in table.table_dependencies:
            upstream = known.get(dependency.table)
            if upstream is None:
                continue
            whole = reads_all(upstream, dependency)
            if whole or upstream.table in behind:
                behind.add(name)
                yield name, upstream, whole


def upstreams_of(known: Mapping[str, TableConfig], names: Iterable[str]) -> set[str]:
    """Return some tables with all their upstreams."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found.add(name)
            waiting += [dependency.table for dependency in known[name].table_dependencies]
    return found
