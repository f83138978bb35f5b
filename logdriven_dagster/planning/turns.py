"""Whose turn it is: the oldest window first, and before it all that it reads.

A table that reads all rows of another one comes after every pending window of it, also where it
waits for none of them (`window: none`, tables that are not managed). A table that is made from
such a one comes after it in turn.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.dependencies import awaited_range, reads_all


def turn(table: TableConfig, window: TimeWindow, known: Mapping[str, TableConfig]) -> float:
    """When a window's turn comes: at its own end, or that of the windows that it waits for.

    Slices of sources have no time and come first; those of upstreams' batches come last, since
    fewer of them are needed then.
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
    """What a table waits for before all of its windows: whatever has its turn up to a moment."""

    moment: float
    depth: int
    """How many tables that wait in this way come before it, itself included."""

    def place(self, own: float) -> tuple[float, int, float]:
        """The place of a window among all, by its own turn."""
        return (own, 0, own) if own > self.moment else (self.moment, self.depth, own)


NO_WAIT = Wait(-math.inf, 0)


def waits(
    behind: Iterable[tuple[str, TableConfig, bool]],
    known: Mapping[str, TableConfig],
    last: Callable[[str], TimeWindow | None],
) -> dict[str, Wait]:
    """Table → what comes before all its windows; without those that nothing does.

    `behind` is what `behind_whole_tables` finds; `last` says what a table has pending that begins
    last, if it has anything.
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
    """Tables that may have to wait, each with an upstream, and whether it reads all rows of it.

    They read all rows of that upstream, or it may have to wait itself. `known` holds every table,
    upstreams first.
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
    """Some tables with all that come before them."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found.add(name)
            waiting += [dependency.table for dependency in known[name].table_dependencies]
    return found
