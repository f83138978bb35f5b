"""Passes: windows that are claimed, run and ended together, usually a single one."""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

from logdriven_dagster.config.checking.engines import EngineChoice
from logdriven_dagster.config.derived.processes import build_processes
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.stretching import find_stretch_obstacle
from logdriven_dagster.errors import DependencyError, UnmetNeedError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.source_files.arrivals import FileArrivals
from logdriven_dagster.execution.window.claiming import ClaimTransaction, refuse_unready
from logdriven_dagster.execution.window.discovery import SourceDiscovery, is_open_ended, window_run
from logdriven_dagster.execution.window.journal import EndRecorder, Journal
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.listeners import Listeners
from logdriven_dagster.execution.window.needs import Needs
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.pass_execution import PassExecution, log_interruption
from logdriven_dagster.execution.window.sessions import Engine, Engines
from logdriven_dagster.execution.window.state import PassState
from logdriven_dagster.execution.window.versions import VersionToRun
from logdriven_dagster.model.attempts import Attempt, Owner, Trigger
from logdriven_dagster.model.batches import Processes
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.stretches import MOST, BatchSizes
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS


class LineageSource(Protocol):
    """Protocol of sources of lineage for events."""

    def add_lineage(self, order: Order, events: Sequence[WindowEvent]) -> Iterable[WindowEvent]:
        """Return the events of one pass, the successful ones with their lineage."""


@dataclass(frozen=True, slots=True)
class Attached:
    """The observers of a runner's passes, which depend on their interfaces only."""

    listeners: Listeners
    lineage: LineageSource
    recorder: Callable[[TableConfig], EndRecorder]
    """A function that returns the recorder of ends of attempts at a table."""


class Passes:
    """Passes of one project against its run log.

    An engine starts at the first window, so a run with no pending windows never starts Spark.
    """

    def __init__(
        self,
        project: Project,
        run_log: RunLog,
        engines: Engines,
        choice: EngineChoice,
        owner: Owner,
        *,
        attached: Attached,
    ) -> None:
        self._project, self._run_log, self._owner = project, run_log, owner
        self._attached, self._listeners = attached, attached.listeners
        self._engines, self._choice = engines, choice
        self._started: set[str] = set()
        self.needs = Needs(project, choice)
        self._sizes = BatchSizes()

    def run(self, orders: Sequence[Order]) -> Generator[WindowEvent]:
        """Claim adjoining windows, or the first few of them, and run them in one pass.

        Only the claim happens before the first WindowStarted.
        """
        first = orders[0]
        order = self._run_log.ask(lambda conn: VersionToRun(conn, first).prepare_order())
        if order.project.versions != first.project.versions:
            orders = orders[:1]  # an earlier version is only for windows that have tried it
        engine = self._engine_of(order)
        if not self._choice.type_of(engine).supports_batching:
            orders = orders[:1]
        following = [each.window for each in orders[1:]]
        assert order.steps
        self.needs.refuse_unmet(order.table)
        if order.trigger is Trigger.REFRESH:  # a plan has looked for the files of the others
            _refuse_without_files(order)
        if not is_open_ended(order.window):
            self._start(engine, order)
        began = time.monotonic()
        processes = self.processes_for(order)
        attempts = self._run_log.write(
            lambda conn: ClaimTransaction(conn, order, self._owner).claim(processes, following)
        )
        self._listeners.on_claim(attempts)
        for window in order.passed_over:
            yield WindowSkipped(order.table.table, window, f"skipped in favor of {order.window}")
        ended = []
        for event in self._run_claimed(order, engine, processes, attempts, began):
            ended.append(event)
            yield event
        self._record_size(order.table.table, ended, time.monotonic() - began)

    def most_together(self, order: Order, *, side_by_side: bool = False) -> int:
        """Return the maximum number of windows of the table that may run in one pass.

        `side_by_side` means that its windows may run in parallel instead.
        """
        table, size = order.table, order.arguments.batch_size or order.table.batch_size
        if size == 1 or order.made_outside or order.steps != table.steps:
            return 1
        if find_stretch_obstacle(order.project, table) is not None:
            return 1
        if size == "auto":
            return 1 if side_by_side else self._sizes.suggest(table.table)
        return self._sizes.limit(table.table, MOST if size == "all" else size)

    def _record_size(self, table: str, events: Sequence[WindowEvent], seconds: float) -> None:
        done = [event for event in events if isinstance(event, WindowSucceeded)]
        failed = [event for event in events if isinstance(event, (WindowFailed, WindowSetBack))]
        if done:
            rows = sum(count.source or 0 for event in done for count in event.counts)
            self._sizes.record_success(table, len(done), seconds, rows)
        elif failed:
            self._sizes.record_failure(table, len(failed))

    def record_inapplicable(
        self, order: Order, windows: Sequence[TimeWindow]
    ) -> dict[TimeWindow, str]:
        """Record windows that do not apply as SKIPPED; return those recorded, with reasons."""
        return self._run_log.write(
            lambda conn: ClaimTransaction(conn, order, self._owner).record_inapplicable(windows)
        )

    def _engine_of(self, order: Order) -> str:
        """Return the engine of a pass; DataFrames of users belong to Spark."""
        if order.made_outside:
            return self._choice.default
        return self._choice.choose(order.table, order.project)

    def _start(self, engine: str, order: Order) -> None:
        """Start the engine before anything is claimed, but not for orders that would be refused."""
        if engine in self._started:
            self._engines(engine)
            return
        if not order.passed_over:
            self._run_log.ask(lambda conn: refuse_unready(conn, order))
        with self._listeners.observe_part(f"start {self._choice.title(engine)}", self._owner):
            self._engines(engine)
        self._started.add(engine)

    def _run_claimed(
        self,
        order: Order,
        engine: str,
        processes: Processes,
        attempts: Sequence[Attempt],
        began: float,
    ) -> Generator[WindowEvent]:
        journal = Journal(
            self._run_log, order.table, processes, self._attached.recorder(order.table)
        )
        state = PassState(
            attempts=tuple(attempts),
            runs=tuple(_window_run(order, attempt) for attempt in attempts),
            step=order.steps[0].step,
        )
        discovery = SourceDiscovery(order.project, self._run_log, partial(self._engines, engine))
        with (
            self._listeners.observe_windows(attempts),
            HeldLease(self._run_log, ATTEMPTS, attempts, began).keep() as lease,
        ):
            execution = PassExecution(order, journal, state, discovery, lease, self._listeners)
            try:
                with log_interruption(execution):
                    for behind, attempt in zip(range(len(attempts))[::-1], attempts, strict=True):
                        yield WindowStarted(attempt, behind)
                    with self._listeners.observe_work(attempts):
                        outcomes = execution.execute(*self._list_engines(engine))
                    self._listeners.on_end(outcomes, execution.state.application_id)
            except UnmetNeedError as unmet:
                yield from (WindowSetBack(attempt, str(unmet)) for attempt in attempts)
                raise
        if any(isinstance(outcome, WindowFailed) for outcome in outcomes):
            self.needs.discard(order.table)
        ended = list(self._attached.lineage.add_lineage(order, outcomes))
        self._listeners.on_lineage(ended)
        yield from ended

    def _list_engines(self, engine: str) -> list[Callable[[], Engine]]:
        """Return the engines that may run a pass, the preferred one first."""
        chosen = engine != self._choice.default
        names = (engine, self._choice.default) if chosen else (engine,)
        return [partial(self._engines, name) for name in names]

    @cached_property
    def _processes(self) -> Processes:
        return build_processes(self._project.tables.values())

    def processes_for(self, order: Order) -> Processes:
        """Return all processes, with that of the table as it runs, possibly an earlier version."""
        present = self._project.tables.get(order.table.table)
        if present is not None and present.steps == order.table.steps:
            return self._processes
        return build_processes({**self._project.tables, order.table.table: order.table}.values())


def _refuse_without_files(order: Order) -> None:
    """Raise DependencyError if a window waits for files; nothing has been claimed for it."""
    arrivals = FileArrivals(order.project, order.arguments.overrides)
    if awaited := arrivals.describe_missing(order.table, order.window):
        raise DependencyError(f"{order.table.table} {order.window} cannot run yet: it {awaited}")


def _window_run(order: Order, attempt: Attempt) -> WindowRun:
    run = WindowRun(
        attempt.job_id,
        order.table.table,
        attempt.window,
        attempt.fencing_token,
        {**order.project.variables(order.table), **order.arguments.overrides},
        attempt.claim.reads,
    )
    return window_run(run, order.project, attempt)
