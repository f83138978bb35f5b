"""The plan: every pending window of every table in running order, with its state and reason."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from heapq import merge
from itertools import dropwhile

from logdriven_dagster.config.models.tables import CatchUp, TableConfig
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.windows import TimeWindow, normalize_instant
from logdriven_dagster.planning.context import DescribeMissing, PlanningContext, describe_none
from logdriven_dagster.planning.dependencies import (
    Upstreams,
    find_awaited_range,
    find_upstreams,
    is_read_whole,
)
from logdriven_dagster.planning.pending import Windows, find_unfinished_windows, find_watermark
from logdriven_dagster.planning.readiness import (
    DependenciesMissing,
    EarlierUnfinished,
    NotApplying,
    build_readiness,
    describe_standing,
    find_earlier_unfinished,
    find_failed_refresh,
    find_open_attempt,
)
from logdriven_dagster.planning.reruns import Reruns
from logdriven_dagster.planning.retries import get_remaining_back_off
from logdriven_dagster.planning.run_order import RunKey, RunOrder


class State(str, Enum):
    """The state of a pending window: ready, blocked, running or inapplicable."""

    READY = "ready"
    BLOCKED = "blocked"
    RUNNING = "running"
    INAPPLICABLE = "inapplicable"
    """The window waits for a failure that cannot occur any more; it will be recorded as SKIPPED."""

    @property
    def has_work(self) -> bool:
        """True if a run has to process the window: run it, or record it as SKIPPED."""
        return self in (State.READY, State.INAPPLICABLE)


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A pending window with its state, and the reason for the state."""

    table: str
    window: TimeWindow
    state: State
    reason: str
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The pending queue of one table."""

    table: TableConfig
    log: TableLog
    unfinished: Windows
    """Due windows that did not succeed, oldest first, as limited by `catch_up`."""
    passed_over: Windows
    """Older windows that `latest_only` will record as SKIPPED."""
    reruns: tuple[tuple[TimeWindow, Trigger], ...]
    """Finished windows to rerun."""

    @property
    def watermark(self) -> datetime | str:
        """The end of the contiguous finished prefix; the start of the next slice if sliced."""
        return find_watermark(self.table, self.log)

    @property
    def running_passed_over(self) -> TimeWindow | None:
        """A window that cannot be recorded as SKIPPED because it is running."""
        if not self.passed_over:
            return None
        end = self.passed_over[-1].span[1]
        running = (item.window for item in self.log.open if item.status is Status.RUNNING)
        return next((window for window in running if window.span[1] <= end), None)

    @property
    def last(self) -> TimeWindow | None:
        """The pending window that begins last."""
        ends = [*self.unfinished[-1:], *(window for window, _ in self.reruns[-1:])]
        return max(ends, key=lambda window: window.span[0], default=None)

    @property
    def pending(self) -> int:
        """The number of pending windows."""
        return len(self.unfinished) + len(self.reruns)

    def queue(self) -> Iterator[tuple[TimeWindow, Trigger]]:
        """Return the pending windows with their triggers, oldest first."""
        return self._list_queue(self.unfinished)

    def heads(self) -> Iterator[tuple[TimeWindow, Trigger]]:
        """Return the windows that may be ready; of an ordered table, only the first one."""
        return self._list_queue(self.unfinished[:1] if self.table.ordered else self.unfinished)

    def _list_queue(self, windows: Windows) -> Iterator[tuple[TimeWindow, Trigger]]:
        unfinished = ((window, Trigger.PENDING) for window in windows)
        return merge(unfinished, self.reruns, key=lambda item: item[0].span[0])


@dataclass(frozen=True, slots=True)
class _QueuedWindow:
    """A pending window that is not evaluated yet: for most windows only the sort key is used."""

    plan: TablePlan
    window: TimeWindow
    trigger: Trigger
    behind: TimeWindow | None
    """The first unfinished window of its table, if it comes before this one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The pending windows of some tables at one point of data time."""

    context: PlanningContext
    tables: Mapping[str, TablePlan]
    """The selected tables, upstreams first."""
    mode: CatchUp | None = None
    """Overrides the tables' own `catch_up`."""
    backoff: timedelta | None = None
    """The first pause after a failure; None: failed windows are ready at once."""

    def windows(self) -> Iterator[PlannedWindow]:
        """Return all pending windows in running order; see `run_order`."""
        return self._merge_in_order(TablePlan.queue)

    def _merge_in_order(
        self, pending: Callable[[TablePlan], Iterator[tuple[TimeWindow, Trigger]]]
    ) -> Iterator[PlannedWindow]:
        order = RunOrder(self.context.tables, self.last)

        def key(queued: _QueuedWindow) -> RunKey:
            return order.key(queued.plan.table.table, queued.window)

        queues = [self._list_queued(table, pending(table)) for table in self.tables.values()]
        return map(self._plan_window, merge(*queues, key=key))

    def last(self, name: str) -> TimeWindow | None:
        """Return the pending window of a table that begins last; None if it has none."""
        return self.tables[name].last if name in self.tables else None

    def find_tables_before(self, planned: PlannedWindow) -> set[str]:
        """Return the tables that may still produce rows that a window reads.

        They have pending windows that it reads, or are upstream of such a table.
        """
        return find_upstreams(self.context.tables, self._read_and_pending(planned))

    def _read_and_pending(self, planned: PlannedWindow) -> Iterator[str]:
        for dependency in self.context.tables[planned.table].table_dependencies:
            if (plan := self.tables.get(dependency.table)) is None:
                continue
            if is_read_whole(plan.table, dependency):
                pending = plan.last is not None
            else:
                awaited = find_awaited_range(plan.table, dependency, planned.window)
                pending = any(awaited and awaited.overlaps(window) for window, _ in plan.reruns)
            if pending:
                yield dependency.table

    def queue(self, name: str) -> Iterator[PlannedWindow]:
        """Return the pending windows of one table, oldest first."""
        return map(
            self._plan_window, self._list_queued(self.tables[name], self.tables[name].queue())
        )

    def heads(self, name: str) -> Iterator[PlannedWindow]:
        """Return the windows of one table that may be ready, oldest first."""
        return map(
            self._plan_window, self._list_queued(self.tables[name], self.tables[name].heads())
        )

    @staticmethod
    def _list_queued(
        table: TablePlan, windows: Iterator[tuple[TimeWindow, Trigger]]
    ) -> Iterator[_QueuedWindow]:
        first: TimeWindow | None = None
        for window, trigger in windows:
            yield _QueuedWindow(table, window, trigger, first)
            if first is None and trigger is Trigger.PENDING:
                first = window

    def firsts(self) -> list[PlannedWindow]:
        """Return the first pending window of each table, with its state and reason."""
        queues = (next(self.queue(name), None) for name in self.tables)
        return [first for first in queues if first is not None]

    def ready(self) -> Iterator[PlannedWindow]:
        """Return the windows that a run has to process now, in running order."""
        return (
            planned for planned in self._merge_in_order(TablePlan.heads) if planned.state.has_work
        )

    def inapplicable(self, planned: PlannedWindow) -> Iterator[TimeWindow]:
        """Yield the windows of its table from this one on, up to the first that may apply."""
        table, start = self.tables[planned.table], planned.window.span[0]
        upstreams = Upstreams(table.table, self.context)
        for window in dropwhile(lambda w: w.span[0] < start, table.unfinished):
            if upstreams.find_not_applying(window) is None:
                return
            yield window

    def _plan_window(self, queued: _QueuedWindow) -> PlannedWindow:
        """Evaluate the state of a window."""
        plan, window, trigger = queued.plan, queued.window, queued.trigger
        name = plan.table.table
        attempt = find_open_attempt(window, plan.log)
        if attempt and attempt.status is Status.RUNNING:
            reason = f"running in job {attempt.job_id}" + (
                f" by {attempt.owner}" if attempt.owner else ""
            )
            return PlannedWindow(name, window, State.RUNNING, reason, trigger)
        blocked = self._explain_block(plan, trigger, queued.behind)
        obstacle = None if blocked else self.obstacle(plan.table, window, trigger)
        if isinstance(obstacle, NotApplying):
            return PlannedWindow(name, window, State.INAPPLICABLE, obstacle.reason, trigger)
        tried = attempt or find_failed_refresh(window, plan.log)
        blocked = blocked or (obstacle.reason if obstacle else self._explain_back_off(tried))
        if blocked:
            return PlannedWindow(name, window, State.BLOCKED, blocked, trigger)
        cause = self._explain_cause(plan, window, trigger)
        upstreams = Upstreams(plan.table, self.context)
        without = "; ".join(map(str, upstreams.find_left_out(window)))
        reason = "; ".join(filter(None, (cause, without and f"runs without {without}")))
        return PlannedWindow(name, window, State.READY, reason, trigger)

    def obstacle(
        self, table: TableConfig, window: TimeWindow, trigger: Trigger
    ) -> DependenciesMissing | EarlierUnfinished | NotApplying | None:
        """Return the obstacle that upstreams pose to a window, or stale windows of its own table.

        The conditions of a finished window that runs again are not evaluated: they held when it
        ran.
        """
        readiness = build_readiness(table, self.context)
        if trigger is Trigger.PENDING:
            upstream = readiness.find_upstream_obstacle(window)
            return upstream or readiness.find_outdated_basis(window)
        return readiness.find_obstacle_to_rerun(window, trigger)

    def _explain_block(
        self, plan: TablePlan, trigger: Trigger, first: TimeWindow | None
    ) -> str | None:
        """Return the reason why a window's own table blocks it."""
        if not plan.table.enabled:
            return "its table is disabled"
        if not plan.table.ordered or trigger is not Trigger.PENDING:
            return None
        earlier = first or plan.running_passed_over
        return find_earlier_unfinished(earlier, plan.log).reason if earlier else None

    def _explain_back_off(self, attempt: OpenWindow | None) -> str | None:
        if attempt is None or self.backoff is None:
            return None
        left = get_remaining_back_off(attempt, self.backoff)
        if not left:
            return None
        seconds = timedelta(seconds=round(left.total_seconds()))
        error = f": {attempt.error}" if attempt.error else ""
        return f"failed {attempt.failures} times in a row{error}; next attempt in {seconds}"

    def _explain_cause(self, plan: TablePlan, window: TimeWindow, trigger: Trigger) -> str:
        match trigger:
            case Trigger.LOOKBACK:
                return "runs again for late data"
            case Trigger.UPSTREAM if plan.table.keeps_history:
                return "an earlier window or an upstream window ran again"
            case Trigger.UPSTREAM:
                return "an upstream window ran again"
            case Trigger.SOURCE:
                changed = next(each for each in plan.log.changed if each.window == window)
                return f"source files changed after it ran: {changed.text}"
            case Trigger.RESTATE:
                return _explain_restatement(window, plan.log)
            case _ if plan.passed_over:
                older = len(plan.passed_over)
                return f"{describe_standing(window, plan.log)}; {older} older ones skipped"
            case _:
                return describe_standing(window, plan.log)


def _explain_restatement(window: TimeWindow, log: TableLog) -> str:
    old = next(each for each in log.old if each.window == window)
    version = "" if old.version is None else f"was made by version {old.version}"
    return "; ".join(filter(None, (version, old.reason and f"restated: {old.reason}")))


def plan(
    tables: Mapping[str, TableConfig],
    logs: Mapping[str, TableLog],
    now: datetime,
    selected: Sequence[str] | None = None,
    *,
    mode: CatchUp | None = None,
    backoff: timedelta | None = None,
    describe_missing: DescribeMissing = describe_none,
) -> Plan:
    """Plan the pending queues of the selected tables (all by default).

    `tables` holds every table of the project, upstreams first; `logs` holds those of the selected
    tables and their upstreams (a missing one is empty). `mode` overrides the tables' own
    `catch_up`. `backoff` is the first pause after a failure; without it, failed windows are ready
    at once. `describe_missing` describes the files that windows wait for.
    """
    context = PlanningContext(tables, logs, normalize_instant(now), describe_missing)
    chosen = {
        name: plan_table(tables[name], context, mode)
        for name in (tables if selected is None else selected)
    }
    return Plan(context, chosen, mode, backoff)


def plan_table(table: TableConfig, context: PlanningContext, mode: CatchUp | None) -> TablePlan:
    """Return the pending queue of one table; `mode` overrides its own `catch_up`."""
    log = context.get_log(table.table)
    unfinished = find_unfinished_windows(table, log, context.now)
    # A full load reads all rows: only the newest snapshot is useful.
    chosen = "latest_only" if table.incremental.is_snapshot else mode or table.catch_up
    passed_over = Windows(table.grid)
    if chosen == "latest_only" and len(unfinished) > 1:
        passed_over, unfinished = unfinished[:-1], unfinished[-1:]
    again = Reruns(table, context).list_due()
    if chosen == "once":
        unfinished, again = unfinished[:1], [] if unfinished else again[:1]
    return TablePlan(table, log, unfinished, passed_over, tuple(again))
