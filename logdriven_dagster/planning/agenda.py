"""What there is to do, in running order, kept up while the log changes.

A plan looks at all tables. A catch-up changes the logs of a few with each window, and asks what is
next after each: an agenda judges anew only what such a change is about.
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
    """The next window of a table that may be ready, at its place among those of all tables."""

    place: tuple[int, tuple[float, int, float], int, float]
    planned: PlannedWindow = field(compare=False)
    following: Iterator[PlannedWindow] | None = field(compare=False)
    """The windows of the table behind it; None if one of them has an entry, too."""
    edition: int = field(compare=False)


class Agenda:
    """The windows of a plan that there is something to do about, as `Plan.ready` gives them."""

    def __init__(self, plan: Plan) -> None:
        known = plan.known
        self._tables, self._logs = dict(plan.tables), dict(plan.logs)
        self.plan = replace(plan, tables=self._tables, logs=self._logs)
        """The plan as it is now."""
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
        """Table → how often it was judged: entries of earlier times are void."""
        self._entries: list[_Entry] = []
        self._judge(self._tables)

    def affected(self, name: str) -> Collection[str]:
        """The tables of whose windows the log of a table says whether they may run."""
        return self._affected.get(name, ())

    def learn(self, logs: Mapping[str, TableLog], changed: Collection[str]) -> None:
        """Take in logs as they are now; of these tables windows may have been taken or left."""
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
        """Take a table off the agenda."""
        if self._tables.pop(name, None) is not None:
            self._editions[name] += 1
            self._judge(self._waiting_anew({name}))

    def first(
        self,
        is_left: Callable[[PlannedWindow], bool],
        may_begin: Callable[[PlannedWindow], bool],
    ) -> PlannedWindow | None:
        """Return the first window that there is something to do about, and that may begin now.

        Of one that is left alone it is not asked again before something changes for its table.
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
        """The tables that wait for something else since the logs of others have changed."""
        if self._whole.isdisjoint(changed):
            return set()
        before, self._waits = self._waits, self._waits_now()
        moved = {n for n in {*before, *self._waits} if before.get(n) != self._waits.get(n)}
        return self._tables.keys() & moved
