"""Incremental plan: the pending windows in running order, updated while the run log changes.

A plan evaluates all tables. A catch-up changes the logs of only a few tables with each window and
asks for the next window after each. An agenda re-evaluates only the tables affected by a change.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.planning.dependencies import with_upstreams
from logdriven_dagster.planning.plan import Plan, PlannedWindow, table_plan
from logdriven_dagster.planning.priorities import urgency
from logdriven_dagster.planning.turns import NO_WAIT, Wait, behind_whole_tables, waits


@dataclass(order=True, slots=True)
class _Entry:
    """The next possibly ready window of a table, with its sort key among those of all tables."""

    place: tuple[int, tuple[float, int, float], int, float]
    planned: PlannedWindow = field(compare=False)
    following: Iterator[PlannedWindow] | None = field(compare=False)
    """The windows of the table after it; None if one of them already has an entry."""
    edition: int = field(compare=False)


class Agenda:
    """The windows of a plan that a run has to process, in the order of `Plan.ready`."""

    def __init__(self, plan: Plan) -> None:
        known = plan.known
        self._tables, self._logs = dict(plan.tables), dict(plan.logs)
        self.plan = replace(plan, tables=self._tables, logs=self._logs)
        """The current plan."""
        self._order = {name: n for n, name in enumerate(known)}
        self._urgency = urgency(known)
        self._behind = tuple(behind_whole_tables(known))
        self._whole = {upstream.table for _, upstream, _ in self._behind}
        self._waits = self._waits_now()
        self._affected: dict[str, set[str]] = {}
        for name in self._tables:
            for upstream in with_upstreams(known[name], known):
                self._affected.setdefault(upstream.table, set()).add(name)
            for asset in known[name].asset_dependencies:
                self._affected.setdefault(asset.upstream, set()).add(name)
        self._editions: dict[str, int] = {}
        """Table → number of evaluations; entries of earlier evaluations are void."""
        self._entries: list[_Entry] = []
        self._judge(self._tables)

    def affected(self, name: str) -> Collection[str]:
        """Return the tables whose windows a change of this table's log may unblock or block."""
        return self._affected.get(name, ())

    def learn(self, logs: Mapping[str, TableLog], changed: Collection[str]) -> None:
        """Update the agenda with current logs.

        `changed` names tables of which windows may have been claimed or released.
        """
        moved = {name: log for name, log in logs.items() if self._logs.get(name) != log}
        self._logs |= moved
        plan, anew = self.plan, {*changed, *moved}.intersection(self._tables)
        for name in anew:
            log = self._logs.get(name, TableLog())
            table = plan.known[name]
            self._tables[name] = table_plan(table, log, plan.known, plan.now, plan.mode)
        for name in moved:
            anew |= self._tables.keys() & self.affected(name)
        self._judge(anew | self._waiting_anew({*changed, *moved}))

    def close(self, name: str) -> None:
        """Remove a table from the agenda."""
        if self._tables.pop(name, None) is not None:
            self._editions[name] += 1
            self._judge(self._waiting_anew({name}))

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
        name = planned.table
        turn = self.plan.turn(name, planned.window, self._waits.get(name, NO_WAIT))
        place = (-self._urgency[name], turn, self._order[name], planned.window.span[0])
        heappush(self._entries, _Entry(place, planned, windows, edition))

    def _waits_now(self) -> dict[str, Wait]:
        return waits(self._behind, self.plan.known, self.plan.last)

    def _waiting_anew(self, changed: set[str]) -> set[str]:
        """Return the tables whose waits differ since the logs of other tables have changed."""
        if self._whole.isdisjoint(changed):
            return set()
        before, self._waits = self._waits, self._waits_now()
        moved = {n for n in {*before, *self._waits} if before.get(n) != self._waits.get(n)}
        return self._tables.keys() & moved
