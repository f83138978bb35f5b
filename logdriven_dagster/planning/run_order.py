"""Running order: the sort key of a pending window among those of all tables.

Windows run by priority, then the oldest first, each after all windows that it reads. The priority
of a table counts for its upstreams, too (source: DolphinScheduler, priority of a task).

A table that reads all rows of another one comes after all pending windows of that table, even if it
waits for none of them (`window: none`, unmanaged tables). A table downstream of such a table comes
after it in turn.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.dependencies import find_awaited_range, is_read_whole

RunKey: TypeAlias = tuple[int, float, int, float, int, float]
"""Priority (negated), end, depth of waits, own end, position of the table, start."""


class RunOrder:
    """The order in which the pending windows of a project run.

    `known` holds every table, upstreams first. `last` returns the pending window of a table that
    begins last, if it has one; call `update` when its answers change.
    """

    def __init__(
        self, known: Mapping[str, TableConfig], last: Callable[[str], TimeWindow | None]
    ) -> None:
        self._known, self._last = known, last
        self._position = {name: n for n, name in enumerate(known)}
        self._priority = _compute_priorities(known)
        self._links = tuple(_list_links_to_whole_tables(known))
        self._awaited = {link.upstream for link in self._links}
        self._waits = self._find_waits()

    def key(self, name: str, window: TimeWindow) -> RunKey:
        """Return the sort key of a window of the table `name`."""
        own = self._find_own_end(self._known[name], window)
        wait = self._waits.get(name, _NO_WAIT)
        end, depth = (own, 0) if own > wait.end else (wait.end, wait.depth)
        return -self._priority[name], end, depth, own, self._position[name], window.span[0]

    def update(self, changed: Collection[str]) -> set[str]:
        """Adapt the order to changed pending windows of some tables.

        Returns the tables for which the keys of windows are different now.
        """
        if self._awaited.isdisjoint(changed):
            return set()
        before, self._waits = self._waits, self._find_waits()
        return {n for n in {*before, *self._waits} if before.get(n) != self._waits.get(n)}

    def _find_own_end(self, table: TableConfig, window: TimeWindow) -> float:
        """Return the end of a window, or of the windows that it waits for if they end later.

        Slices of sources have no time and come first. Slices of upstream batches come last, so that
        fewer of them are needed.
        """
        if table.incremental.takes_upstream_batches:
            return math.inf
        end = window.span[1]
        for dependency in table.managed_dependencies:
            upstream = self._known[dependency.table]
            awaited = find_awaited_range(upstream, dependency, window)
            if awaited is not None and not upstream.incremental.is_snapshot:
                end = max(end, awaited.span[1])
        return end

    def _find_waits(self) -> dict[str, "_Wait"]:
        """Return table → the wait before all its windows; tables without a wait are missing."""
        found: dict[str, _Wait] = {}
        for link in self._links:
            if not link.reads_all and link.upstream not in found:
                continue
            pending = self._last(link.upstream)
            if pending is None:
                continue
            wait = found.get(link.upstream, _NO_WAIT)
            if link.reads_all:
                end = self._find_own_end(self._known[link.upstream], pending)
                wait = _Wait(max(wait.end, end), wait.depth + 1)
            found[link.table] = max(wait, found.get(link.table, _NO_WAIT))
        return found


@dataclass(frozen=True, slots=True, order=True)
class _Wait:
    """A wait of a whole table: all windows up to a timestamp come before any of its own."""

    end: float
    depth: int
    """The number of tables in the chain of such waits, this table included."""


_NO_WAIT = _Wait(-math.inf, 0)


@dataclass(frozen=True, slots=True)
class _Link:
    """A table that may have to wait for a whole upstream, or behind one."""

    table: str
    upstream: str
    reads_all: bool
    """True if the table reads all rows of the upstream; else the upstream may have to wait."""


def _list_links_to_whole_tables(known: Mapping[str, TableConfig]) -> Iterator[_Link]:
    waiting: set[str] = set()
    for name, table in known.items():
        for dependency in table.table_dependencies:
            upstream = known.get(dependency.table)
            if upstream is None:
                continue
            whole = is_read_whole(upstream, dependency)
            if whole or upstream.table in waiting:
                waiting.add(name)
                yield _Link(name, upstream.table, whole)


def _compute_priorities(tables: Mapping[str, TableConfig]) -> dict[str, int]:
    """Return table → the greatest priority of the table and of all tables that wait for it.

    So upstreams never come after their downstreams.
    """
    found = {name: table.priority for name, table in tables.items()}
    if len(set(found.values())) < 2:
        return found
    for name in reversed(list(tables)):
        for dependency in tables[name].managed_dependencies:
            found[dependency.table] = max(found[dependency.table], found[name])
    return found
