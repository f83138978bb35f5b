"""A world of late rows without a database: a source, tables that read each other, and days.

A row has an instant that it is about, one by which it is changed, and one from which it can be
read.
Its tables are planned by the product; what an attempt reads, writes and logs is told here in the
plainest way, windows as ranges of hours, tables as sets of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.logs import LookbackWindow, OpenWindow, TableLog
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.plan import Plan, PlannedWindow, plan
from logdriven_dagster.planning.readiness import build_readiness
from logdriven_dagster.planning.reruns import Reruns
from tests.builders import UTC

BEGIN = datetime(2022, 1, 1, tzinfo=UTC)


def hour(n: int) -> datetime:
    return BEGIN + timedelta(hours=n)


@dataclass(frozen=True)
class Row:
    """Hours since the beginning."""

    about: int
    changed: int
    visible: int


@dataclass
class Entry:
    """The latest attempt at a window, and what it left in the table."""

    job_id: int
    status: Status
    seen: datetime | None
    now: datetime
    again: bool
    rows: frozenset[Row] = frozenset()


@dataclass
class LateWorld:
    """The first table reads the source by `key`, every other one the tables before it."""

    tables: dict[str, TableConfig]
    source: list[Row]
    key: str
    entries: dict[str, dict[TimeWindow, Entry]] = field(default_factory=dict)
    attempts: int = 0
    trail: list[tuple[str, TimeWindow, Trigger]] = field(default_factory=list)

    def plan(self, now: datetime, mode=None) -> Plan:
        return plan(self.tables, self.logs(), now, mode=mode)

    def logs(self) -> dict[str, TableLog]:
        return {name: self._log(table) for name, table in self.tables.items()}

    def catch_up(self, now: datetime, *, fails=lambda: False, mode=None, most=10_000) -> None:
        """As the runner does: what is ready, each window once, nothing behind a failure."""
        aside: set[tuple[str, TimeWindow]] = set()
        closed: set[str] = set()
        while most:
            left = self.plan(now, mode).ready()
            planned = next(
                (p for p in left if p.table not in closed and (p.table, p.window) not in aside),
                None,
            )
            if planned is None:
                return
            most -= 1
            aside.add((planned.table, planned.window))
            done = self.run(planned, now, fails=fails())
            if not done or mode == "once":
                closed.add(planned.table)

    def run(self, planned: PlannedWindow, now: datetime, *, fails: bool = False) -> bool:
        """One attempt, which the claim must not refuse."""
        table, window = self.tables[planned.table], planned.window
        context = PlanningContext(self.tables, self.logs(), now)
        readiness = build_readiness(table, context)
        if planned.trigger is Trigger.PENDING:
            refused = readiness.find_obstacle(window)
        else:
            refused = readiness.find_obstacle_to_rerun(window, planned.trigger)
        assert refused is None, (planned, refused)
        before = self.entries.setdefault(planned.table, {}).get(window)
        self.attempts += 1
        self.trail.append((planned.table, window, planned.trigger))
        self.entries[planned.table][window] = Entry(
            self.attempts,
            Status.FAILURE if fails else Status.SUCCESS,
            Reruns(table, context).find_last_seen(window),
            now,
            before is not None,
            (before.rows if before else frozenset()) if fails else self._read(table, window, now),
        )
        return not fails

    def rows(self, name: str) -> set[Row]:
        """What readers find in a table."""
        return {row for entry in self.entries.get(name, {}).values() for row in entry.rows}

    def _read(self, table: TableConfig, window: TimeWindow, now: datetime) -> frozenset[Row]:
        if not table.depends_on:
            there = (row for row in self.source if hour(row.visible) < now)
            return frozenset(r for r in there if _holds(window, getattr(r, self.key)))
        (dependency,) = table.depends_on
        found = {
            row
            for upstream, entry in self.entries.get(dependency.table, {}).items()
            if dependency.read == "all" or upstream.overlaps(window)
            for row in entry.rows
        }
        return frozenset(row for row in found if _holds(window, row.about))

    def _log(self, table: TableConfig) -> TableLog:
        of = sorted(self.entries.get(table.table, {}).items())
        done = [(window, entry) for window, entry in of if entry.status is Status.SUCCESS]
        newest = {window for window, _ in done[-table.lookback - 1 :]} if table.lookback else set()
        return TableLog(
            finished=tuple(unite(window for window, _ in done)),
            open=tuple(
                OpenWindow(window, entry.job_id, entry.status)
                for window, entry in of
                if entry.status is not Status.SUCCESS
            ),
            within_lookback=tuple(
                LookbackWindow(window, entry.seen or entry.now - table.delay)
                for window, entry in done
                if table.lookback and (window in newest or entry.seen)
            ),
            stale=tuple(
                window for window, entry in done if any(self._younger(table, window, entry.job_id))
            ),
        )

    def _younger(self, table: TableConfig, window: TimeWindow, job_id: int) -> Iterator[bool]:
        for dependency in table.depends_on:
            reach = _reach(table, dependency, window)
            for other, entry in self.entries.get(dependency.table, {}).items():
                if entry.again and entry.status is Status.SUCCESS and entry.job_id > job_id:
                    yield other.overlaps(reach)


def _reach(table: TableConfig, dependency: Dependency, window: TimeWindow) -> TimeWindow:
    if dependency.read != "all":
        return window
    n = table.grid.index(window.start)
    return TimeWindow(window.start, table.grid.get_bound(n + table.lookback + 1))


def _holds(window: TimeWindow, n: int) -> bool:
    return window.start <= hour(n) < window.end
