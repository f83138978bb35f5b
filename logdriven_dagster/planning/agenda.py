"""Incremental plan: the pending windows in running order, updated while the run log changes.

A plan evaluates all tables. A catch-up changes the logs of only a few tables with each window and
asks for the next window after each. An agenda re-evaluates only the tables affected by a change.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.planning.dependencies import list_with_upstreams
from logdriven_dagster.planning.plan import Plan, PlannedWindow, plan_table
from logdriven_dagster.planning.run_order import RunKey, RunOrder


@dataclass(order=True, slots=True)
class _Entry:
    """The next possibly ready window of a table, with its sort key among those of all tables."""

    key: RunKey
    planned: PlannedWindow = field(compare=False)
    following: Iterator[PlannedWindow] | None = field(compare=False)
    """The windows of the table after it; None if one of them already has an entry."""
    edition: int = field(compare=False)


class Agenda:
    """The windows of a plan that a run has to process, in the order of `Plan.ready`."""

    def __init__(self, plan: Plan) -> None:
        known = plan.context.tables
        self._tables, self._logs = dict(plan.tables), dict(plan.context.logs)
        context = replace(plan.context, logs=self._logs)
        self.plan = replace(plan, tables=self._tables, context=context)
        """The current plan."""
        self._order = RunOrder(known, self.plan.last)
        self._affected: dict[str, set[str]] = {}
        for name in self._tables:
            for upstream in list_with_upstreams(known[name], known):
                self._affected.setdefault(upstream.table, set()).add(name)
            for asset in known[name].asset_dependencies:
                self._affected.setdefault(asset.upstream, set()).add(name)
        self._editions: dict[str, int] = {}
        """Table → number of evaluations; entries of earlier evaluations are void."""
        self._entries: list[_Entry] = []
        self._judge(self._tables)

    def find_affected(self, name: str) -> Collection[str]:
        """Return the tables whose windows a change of this table's log may unblock or block."""
        return self._affected.get(name, ())

    def learn(self, logs: Mapping[str, TableLog], changed: Collection[str]) -> None:
        """Update the agenda with current logs.

        `changed` names tables of which windows may have been claimed or released.
        """
        moved = {name: log for name, log in logs.items() if self._logs.get(name) != log}
        self._logs |= moved
        plan, affected = self.plan, {*changed, *moved}.intersection(self._tables)
        for name in affected:
            self._tables[name] = plan_table(plan.context.tables[name], plan.context, plan.mode)
        for name in moved:
            affected |= self._tables.keys() & self.find_affected(name)
        self._judge(affected | self._reorder({*changed, *moved}))

    def close(self, name: str) -> None:
        """Remove a table from the agenda."""
        if self._tables.pop(name, None) is not None:
            self._editions[name] += 1
            self._judge(self._reorder({name}))

    def first(
        self,
        is_left: Callable[[PlannedWindow], bool],
        may_begin: Callable[[PlannedWindow], bool],
    ) -> PlannedWindow | None:
        """Return the first window to process that may begin now.

        A window for which `is_left` is true is not offered again until something changes for its
        table.
        """
        seen: list[_Entry] = []
        found: PlannedWindow | None = None
        while found is None and self._entries:
            entry = heappop(self._entries)
            planned = entry.planned
            if entry.edition != self._editions[planned.table]:
                continue
            if entry.following is not None:
                self._enter(entry.following, entry.edition)
                entry.following = None
            if not planned.state.has_work or is_left(planned):
                continue
            seen.append(entry)
            if may_begin(planned):
                found = planned
        for entry in seen:
            heappush(self._entries, entry)
        return found

    def _judge(self, names: Collection[str]) -> None:
        for name in names:
            edition = self._editions.get(name, 0) + 1
            self._editions[name] = edition
            self._enter(self.plan.heads(name), edition)

    def _enter(self, windows: Iterator[PlannedWindow], edition: int) -> None:
        planned = next(windows, None)
        if planned is None:
            return
        key = self._order.key(planned.table, planned.window)
        heappush(self._entries, _Entry(key, planned, windows, edition))

    def _reorder(self, changed: set[str]) -> set[str]:
        return self._tables.keys() & self._order.update(changed)
