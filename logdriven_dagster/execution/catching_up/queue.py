"""The queue of a catch-up: its plan, updated by the events since."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile

from logdriven_dagster.config.models.tables import CatchUp, TableConfig
from logdriven_dagster.execution.events import (
    NeedUnmet,
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowRefused,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.model.attempts import Attempt, Status, Trigger
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow, normalize_instant
from logdriven_dagster.planning.agenda import Agenda
from logdriven_dagster.planning.context import DescribeMissing, describe_none
from logdriven_dagster.planning.pending import find_unfinished_windows
from logdriven_dagster.planning.plan import Plan, PlannedWindow, plan
from logdriven_dagster.planning.stretches import find_stretch

_AT_ONCE = 500
"""The maximum number of windows that one transaction records as SKIPPED: others wait for it."""


class CatchUpQueue:
    """The state of a catch-up: the logs, and the windows that it does not try again."""

    def __init__(
        self,
        tables: Mapping[str, TableConfig],
        read_logs: Callable[[Collection[str]], dict[str, TableLog]],
        now: datetime,
        selected: Sequence[str],
        *,
        mode: CatchUp | None,
        backoff: timedelta | None,
        describe_missing: DescribeMissing = describe_none,
    ) -> None:
        """Create the queue.

        `read_logs` returns the current logs of tables and of their upstreams, and
        `describe_missing` describes the files that windows wait for.
        """
        self._tables, self._read_logs, self._now = tables, read_logs, normalize_instant(now)
        self._mode = mode
        self._aside: set[tuple[str, datetime]] = set()
        self._taken: set[tuple[str, datetime]] = set()
        self._elsewhere: set[tuple[str, datetime]] = set()
        """Windows that another process has claimed or finished first."""
        self._failures: dict[str, TimeWindow] = {}
        self._refused: set[tuple[str, datetime]] = set()
        """Windows whose claims were refused, and that were planned again."""
        self._plain = _plain(tables)
        logs = read_logs(selected)
        found = plan(
            *(tables, logs, self._now, selected),
            mode=mode,
            backoff=backoff,
            describe_missing=describe_missing,
        )
        self._agenda = Agenda(found)
        self._fresh = True
        self._changed: set[str] = set()
        """Tables whose log has changed since it was read."""
        self._finished: dict[str, list[TimeWindow]] = {}
        """Plain tables → windows whose success is the only change of the log since it was read."""

    def next_ready(self) -> PlannedWindow | None:
        """Return the next window to run, or to record as SKIPPED.

        An ordered table has only one window in progress. No window begins while one in progress may
        produce rows that it reads. If nothing is ready, the whole log is read again first.
        """
        plan = self.plan()
        in_work = {name for name, _ in self._taken}
        busy = set(filter(self._is_ordered, in_work))
        left = (self._taken, self._aside, self._elsewhere)

        def is_left(planned: PlannedWindow) -> bool:
            place = (planned.table, planned.window.start)
            return planned.table in busy or any(place in windows for windows in left)

        def may_begin(planned: PlannedWindow) -> bool:
            return not in_work or in_work.isdisjoint(plan.find_tables_before(planned))

        found = self._agenda.first(is_left, may_begin)
        if found is not None or self._fresh or self._taken:
            return found
        # Another process may have finished windows that block our tables.
        self._read(plan.tables)
        self._fresh = True
        return self.next_ready()

    def list_passed_over(self, planned: PlannedWindow) -> list[TimeWindow]:
        """Return the older windows that `latest_only` records as SKIPPED; never a running one."""
        if planned.trigger is not Trigger.PENDING:
            return []
        table = self.plan().tables[planned.table]
        running = [item.window for item in table.log.open if item.status is Status.RUNNING]
        return [w for w in table.passed_over if not any(w.overlaps(r) for r in running)]

    def stretch(self, planned: PlannedWindow, most: int) -> list[TimeWindow]:
        """Return the windows that may run in one pass, this one first."""
        aside = self._aside | self._taken | self._elsewhere
        behind = find_stretch(self.plan(), planned, most)[1:]
        return [
            planned.window,
            *takewhile(lambda w: (planned.table, w.start) not in aside, behind),
        ]

    def inapplicable(self, planned: PlannedWindow) -> list[TimeWindow]:
        """Return the inapplicable windows to record as SKIPPED together, starting with this one."""
        return list(islice(self.plan().inapplicable(planned), _AT_ONCE))

    def mark_taken(self, planned: PlannedWindow, windows: Sequence[TimeWindow]) -> None:
        """Record that windows are in progress from here on; `record_event` records their end."""
        self._taken |= {(planned.table, window.start) for window in windows}
        # A window that runs again is not complete now: the windows that wait for it depend on this.
        self._read([planned.table])

    def reload_skipped(self, planned: PlannedWindow) -> None:
        """Record that windows of the table are SKIPPED now."""
        self._reload(planned.table)

    def record_event(self, event: WindowEvent) -> None:
        """Update the queue by an event of a window."""
        if isinstance(event, (WindowStarted, WindowRefused, WindowSkipped, NeedUnmet)):
            return
        attempt = event.attempt
        window = (attempt.table, attempt.window.start)
        self._taken.discard(window)
        match event:
            case WindowSetBack():
                pass  # it is pending as before
            case WindowFailed(stands=False) | WindowLost() if self._is_ordered(attempt.table):
                self._failures.setdefault(attempt.table, attempt.window)
                self._agenda.close(attempt.table)
            case WindowSucceeded() | WindowFailed() | WindowLost():
                self._aside.add(window)
                if self._takes_one(attempt.table):
                    self._agenda.close(attempt.table)
                elif isinstance(event, WindowSucceeded) and self._changes_nothing_else(attempt):
                    self._finished.setdefault(attempt.table, []).append(attempt.window)
                    self._fresh = False
                    return
        self._reload(attempt.table)

    def doubts(self, planned: PlannedWindow) -> bool:
        """Return True if a window is refused for the first time, so that its log is read again.

        The plan lacked the latest changes of other processes, which may block the window now.
        """
        place = (planned.table, planned.window.start)
        if place in self._refused:
            return False
        self._refused.add(place)
        self._reload(planned.table)
        return True

    def set_aside(self, planned: PlannedWindow) -> None:
        """Exclude a refused window from the rest of this catch-up."""
        self._aside.add((planned.table, planned.window.start))
        self._reload(planned.table)

    def give_up(self, does: Callable[[str], bool]) -> tuple[str, ...]:
        """Exclude tables from the rest of this catch-up; return those that had pending windows."""
        pending = tuple(n for n, t in self.plan().tables.items() if does(n) and t.pending)
        for name in list(filter(does, self.plan().tables)):
            self._agenda.close(name)
        return pending

    def leave(self, planned: PlannedWindow) -> None:
        """Leave a window to the process that runs it, or has finished it, until `look_again`."""
        self._elsewhere.add((planned.table, planned.window.start))
        self._reload(planned.table)

    def look_again(self) -> None:
        """Read the logs again, and reconsider windows that were left to other processes."""
        self._elsewhere.clear()
        self._read(self.plan().tables)
        self._fresh = True

    def awaits_others(self) -> bool:
        """Return True if windows are pending while another process runs windows."""
        plan = self.plan()
        pending = any(table.pending for table in plan.tables.values())
        open_ones = (item for log in plan.context.logs.values() for item in log.open)
        return pending and any(item.status is Status.RUNNING for item in open_ones)

    def iter_blocked(self) -> Iterator[WindowEvent]:
        """Yield the windows that failed ones block.

        Source: Sharp ETL, reported as skipped, not logged.
        """
        logs = self.plan().context.logs
        for name, failed in self._failures.items():
            log = logs[name]
            for window in find_unfinished_windows(self._tables[name], log, self._now):
                if window.start > failed.start:
                    yield WindowSkipped(name, window, f"{failed} did not succeed")

    def plan(self) -> Plan:
        """Return the plan of the remaining windows, after reading the changed logs."""
        if self._changed:
            self._read(self._changed)
        if self._finished:
            logs = self._agenda.plan.context.logs
            found = {name: logs[name].with_finished(done) for name, done in self._finished.items()}
            self._finished.clear()
            self._agenda.learn(found, found)
        return self._agenda.plan

    def _read(self, names: Collection[str]) -> None:
        wanted = sorted(names)
        logs = self._read_logs(wanted)
        self._agenda.learn(logs, wanted)
        self._changed.difference_update(wanted)
        for name in logs:  # upstreams as well: their logs were just read
            self._finished.pop(name, None)

    def _changes_nothing_else(self, attempt: Attempt) -> bool:
        """Return True if the only effect of a success on any log is that its window is finished."""
        if attempt.attempt_number > 1 or attempt.table not in self._plain:
            return False
        planned = self._agenda.plan.tables.get(attempt.table)
        return planned is not None and not planned.passed_over

    def _reload(self, name: str) -> None:
        """Mark a log as changed: the next plan reads it once, for any number of changes."""
        self._changed |= {name, *self._agenda.find_affected(name)}
        self._fresh = False

    def _is_ordered(self, name: str) -> bool:
        return self._tables[name].ordered

    def _takes_one(self, name: str) -> bool:
        return (self._mode or self._tables[name].catch_up) == "once"


def _plain(tables: Mapping[str, TableConfig]) -> set[str]:
    """Return the tables of whose logs only the finished windows matter.

    These have no slices and no lookback, and no table consumes their batches or waits a delay after
    them.
    """
    asked = {
        dependency.table
        for table in tables.values()
        for dependency in table.managed_dependencies
        if dependency.delay or table.incremental.consumes_batches
    }
    return {
        name
        for name, table in tables.items()
        if not (table.is_sliced or table.lookback or name in asked)
    }
