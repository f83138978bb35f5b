"""The order of one catch-up: the plan, and what has happened since it was made."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from logdriven_dagster.config.models import CatchUp, TableConfig
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowRefused,
    WindowSkipped,
    WindowStarted,
)
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning import Plan, PlannedWindow, plan, unfinished_windows

_AT_ONCE = 500
"""How many windows one transaction records as SKIPPED: others wait for it."""


class CatchUpQueue:
    """The state of one catch-up: what the log said, and what to leave alone from here on."""

    def __init__(
        self,
        tables: Mapping[str, TableConfig],
        read_logs: Callable[[Collection[str]], dict[str, TableLog]],
        now: datetime,
        selected: Sequence[str],
        *,
        mode: CatchUp | None,
        backoff: timedelta | None,
    ) -> None:
        """`read_logs` gives the logs of tables and of their upstreams, as they are now."""
        self._tables, self._read_logs, self._now = tables, read_logs, now
        self._mode, self._backoff = mode, backoff
        self._open = list(selected)
        self._aside: set[tuple[str, datetime]] = set()
        self._taken: set[tuple[str, datetime]] = set()
        self._failures: dict[str, TimeWindow] = {}
        self.logs = read_logs(selected)
        self._fresh = True
        self._known_plan: Plan | None = None
        self._downstream: dict[str, set[str]] = {}
        for name in selected:
            for dependency in tables[name].managed_dependencies:
                self._downstream.setdefault(dependency.table, set()).add(name)

    def next_ready(self) -> PlannedWindow | None:
        """The next window to try, or to record as SKIPPED.

        Of tables that go in order, none while another one is in work. The whole log is read once
        more before giving up.
        """
        busy = {name for name, _ in self._taken if self._ordered(name)}
        for planned in self._plan().ready():
            place = (planned.table, planned.window.start)
            if planned.table not in busy and place not in self._taken and place not in self._aside:
                return planned
        if self._fresh or self._taken:
            return None
        # Somebody else may have finished what our tables were waiting for.
        self._read(self._open)
        self._fresh = True
        return self.next_ready()

    def passed_over(self, planned: PlannedWindow) -> list[TimeWindow]:
        """The older windows that `latest_only` records as SKIPPED; never a running one."""
        if planned.trigger is not Trigger.PENDING:
            return []
        table = self._plan().tables[planned.table]
        running = [item.window for item in table.log.open if item.status is Status.RUNNING]
        return [w for w in table.passed_over if not any(w.overlaps(r) for r in running)]

    def inapplicable(self, planned: PlannedWindow) -> list[TimeWindow]:
        """The windows to record as SKIPPED with it, since their conditions cannot hold either."""
        return list(islice(self._plan().inapplicable(planned), _AT_ONCE))

    def taken(self, planned: PlannedWindow) -> None:
        """Learn that a window is in work from here on, beside others; `seen` learns of its end."""
        self._taken.add((planned.table, planned.window.start))
        # A window that runs once more is not complete now: what waits for it must know.
        self._read([planned.table])

    def recorded(self, planned: PlannedWindow) -> None:
        """Learn that windows of its table are SKIPPED now."""
        self._reload(planned.table)

    def seen(self, event: WindowEvent) -> None:
        """Learn from what happened."""
        match event:
            case WindowStarted() | WindowRefused() | WindowSkipped():
                return
            case WindowFailed(attempt=attempt) | WindowLost(attempt=attempt) if self._ordered(
                attempt.table
            ):
                self._taken.discard((attempt.table, attempt.window.start))
                self._failures[attempt.table] = attempt.window
                self._open.remove(attempt.table)
            case _:
                attempt = event.attempt
                self._taken.discard((attempt.table, attempt.window.start))
                self._aside.add((attempt.table, attempt.window.start))
                if self._takes_one(attempt.table):
                    self._open.remove(attempt.table)
        self._reload(attempt.table)

    def set_aside(self, planned: PlannedWindow) -> None:
        """Leave a refused window alone for the rest of this catch-up."""
        self._aside.add((planned.table, planned.window.start))
        self._reload(planned.table)

    def held(self) -> Iterator[WindowEvent]:
        """The windows behind failed ones. Source: Sharp ETL, reported as skipped, not logged."""
        for name, failed in self._failures.items():
            log = self.logs[name]
            for window in unfinished_windows(self._tables[name], log, self._now):
                if window.start.timestamp() > failed.start.timestamp():
                    yield WindowSkipped(name, window, f"{failed} did not succeed")

    def _plan(self) -> Plan:
        """Made anew when the log was read, without which nothing changes."""
        if self._known_plan is None:
            tables, mode, backoff = self._tables, self._mode, self._backoff
            self._known_plan = plan(
                tables, self.logs, self._now, self._open, mode=mode, backoff=backoff
            )
        return self._known_plan

    def _read(self, names: Collection[str]) -> None:
        self.logs |= self._read_logs(names)
        self._known_plan = None

    def _reload(self, name: str) -> None:
        self._read([name, *sorted(self._downstream.get(name, ()))])
        self._fresh = False

    def _ordered(self, name: str) -> bool:
        return self._tables[name].ordered

    def _takes_one(self, name: str) -> bool:
        return (self._mode or self._tables[name].catch_up) == "once"
