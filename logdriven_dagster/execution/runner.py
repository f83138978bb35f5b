"""Running windows: claim, chain, log. Sources: Sharp ETL, log-driven job; Kylin, scheduler."""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from logdriven_dagster.config import Project
from logdriven_dagster.config.derived.processes import registry_of
from logdriven_dagster.config.derived.relations import project_of_job
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import CatchUp, TableConfig
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.errors import AttemptLostError, UnmetNeedError, UsageError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.auditing import audit
from logdriven_dagster.execution.catching_up.loop import CatchingUp
from logdriven_dagster.execution.catching_up.queue import CatchUpQueue
from logdriven_dagster.execution.catching_up.refreshing import Refreshing, refuse_undue
from logdriven_dagster.execution.catching_up.running_elsewhere import (
    refuse_running,
    with_replaceable,
)
from logdriven_dagster.execution.definitions.registering import with_settings_in_force
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.notifications.rules import Announcer, Outbox, gathering
from logdriven_dagster.execution.window.chain import Chain, Work, logged_interruption
from logdriven_dagster.execution.window.claiming import (
    claim_windows,
    read_logs,
    record_inapplicable,
    refuse_unready,
)
from logdriven_dagster.execution.window.journal import Journal
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.lineage import LineageRecorder
from logdriven_dagster.execution.window.looking import Lookout, looks_first, window_run
from logdriven_dagster.execution.window.needs import Needs
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.stretches import Part, StretchChain, most_together
from logdriven_dagster.execution.window.stretches import logged_interruption as stretch_interruption
from logdriven_dagster.execution.window.versions import prepared
from logdriven_dagster.model.attempts import Attempt, Owner, Trigger
from logdriven_dagster.model.batches import Registry
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.runs import Staged, WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.planning import Plan, plan
from logdriven_dagster.planning.slices import next_slice
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Runner:
    """Runs windows of one project against its run log.

    `engine` is called at the first window, so that a run with nothing to do never starts Spark.
    Methods that run windows are generators of events; closing one in mid-window logs the attempt
    as DISCARDED.
    """

    def __init__(
        self, project: Project, run_log: RunLog, engine: Callable[[], Engine], owner: Owner
    ) -> None:
        self.project = project
        self.run_log = run_log
        self.owner = owner
        self._engine = engine
        self._engine_runs = False

    @property
    def engine(self) -> Engine:
        """The project's tables in Spark, which starts when this is asked for first."""
        return self._engine()

    def plan(
        self,
        now: datetime,
        tables: Collection[str] | None = None,
        mode: CatchUp | None = None,
        backoff: timedelta | None = None,
        job: str | None = None,
    ) -> Plan:
        """What the log leaves to do at `now`. Reads the log, changes nothing.

        Relations hold in a run of the `job` that they belong to; its tables are the default.
        """
        project = self.in_force(job)
        selected = project.select(tuple(tables or filter(None, (job,))))
        logs = self._logs(project, selected)
        return plan(project.tables, logs, now, selected, mode=mode, backoff=backoff)

    def in_force(self, job: str | None = None) -> Project:
        """The project with what operators have set since it was loaded, as a job sees it."""
        return project_of_job(with_settings_in_force(self.run_log, self.project), job)

    @gathering
    def catch_up(
        self,
        now: datetime,
        tables: Collection[str] | None = None,
        *,
        max_windows: int | None = None,
        mode: CatchUp | None = None,
        arguments: RunArguments = RunArguments(),
        backoff: timedelta | None = None,
        job: str | None = None,
        max_parallel: int | None = None,
        wait: timedelta = timedelta(0),
    ) -> Generator[WindowEvent]:
        """Run what is ready until nothing is, oldest first and upstreams before downstreams.

        A failed window holds its table: the later ones are reported as skipped and stay pending,
        while unrelated tables go on. `mode` wins over the tables' own `catch_up`. `backoff` leaves
        windows that keep failing alone for a while; windows to which conditions do not apply are
        recorded as SKIPPED. `job` as in `plan`. AlreadyRunningError where `on_running` is `fail`
        and a window of the table is running elsewhere.

        Up to `max_parallel` windows, the project's number by default, are in work at a time:
        of tables that do not wait for each other, and of one table that is not ordered.
        While others run windows that something here waits for, it looks on for so long as `wait`.
        """
        project = self.in_force(job)
        selected = project.select(tuple(tables or filter(None, (job,))))

        def read(names: Collection[str]) -> dict[str, TableLog]:
            return with_replaceable(project, self._logs(project, names), arguments)

        queue = CatchUpQueue(project.tables, read, now, selected, mode=mode, backoff=backoff)
        refuse_running(project, queue.logs, selected, arguments)
        work = CatchingUp(
            project,
            now,
            arguments,
            queue,
            max_windows,
            self._run_together,
            most_together,
            self._needs,
            self._pass_over,
            wait,
        )
        yield from work.events(max_parallel or project.config.max_parallel)

    def run_window(
        self,
        table: str,
        window: TimeWindow,
        now: datetime,
        arguments: RunArguments = RunArguments(),
    ) -> Generator[WindowEvent]:
        """Run one unfinished window; RefusedError if it is finished or may not run yet."""
        yield from self._run(self._order(table, window, Trigger.PENDING, now, arguments))

    def refresh_window(
        self,
        table: str,
        window: TimeWindow,
        now: datetime,
        arguments: RunArguments = RunArguments(),
    ) -> Generator[WindowEvent]:
        """Run one window whether it is finished or not; one that is not obeys the order."""
        yield from self._run(self._order(table, window, Trigger.REFRESH, now, arguments))

    def refresh(
        self,
        table: str,
        span: TimeWindow,
        now: datetime,
        arguments: RunArguments = RunArguments(),
    ) -> Generator[WindowEvent]:
        """Refresh every window of a range, oldest first, up to the first failure.

        UsageError if the range does not lie on the bounds of windows. A materialization in Dagster
        is this. Source: Sharp ETL, refresh.
        """
        yield from self.refresh_windows(table, self.windows(table, span), now, arguments)

    @gathering
    def refresh_windows(
        self,
        table: str,
        windows: Sequence[TimeWindow],
        now: datetime,
        arguments: RunArguments = RunArguments(),
    ) -> Generator[WindowEvent]:
        """Run windows that are named one by one, finished or not."""
        left = {window.key: window for window in windows}
        for _, events in self.refreshes(table, windows, now, arguments):
            stopped: TimeWindow | None = None
            for event in events:
                yield event
                if isinstance(event, (WindowSucceeded, WindowFailed, WindowLost)):
                    left.pop(event.attempt.window.key)
                if isinstance(event, (WindowFailed, WindowLost)):
                    stopped = stopped or event.attempt.window
            if stopped is not None:
                for later in left.values():
                    yield WindowSkipped(table, later, f"{stopped} did not succeed")
                return

    def refreshes(
        self,
        table: str,
        windows: Sequence[TimeWindow],
        now: datetime,
        arguments: RunArguments = RunArguments(),
    ) -> Iterator[tuple[TimeWindow, Generator[WindowEvent]]]:
        """Passes over the windows, each with its oldest one, which a RefusedError is about."""
        orders = [self._order(table, each, Trigger.REFRESH, now, arguments) for each in windows]
        for order in orders[-1:]:
            refuse_undue(order)
        most = most_together(orders[0]) if len(orders) > 1 else 1
        yield from Refreshing(orders, self._run_together, most).passes()

    def write_frame(
        self, table: TableConfig, window: TimeWindow, frame: "DataFrame", now: datetime
    ) -> Generator[WindowEvent]:
        """Publish and log a DataFrame as one window of a table with a single, given step."""

        def stage(session: WindowSession, step: StepConfig) -> tuple[Staged, ...]:
            return session.stage_frame(step, frame)

        yield from self._run(Order(self.project, table, window, Trigger.REFRESH, now, stage=stage))

    def windows(self, table: str, span: TimeWindow) -> list[TimeWindow]:
        """The windows of a table that make up a range; UsageError if they do not."""
        config = self.project.table(table)
        if config.is_sliced:
            raise UsageError(f"{table} has slices instead of windows of time; name them")
        grid = config.grid
        whole = grid.covering(span)
        if not span.contains(whole):
            fix = f"the windows of {table} around it are {whole}"
            raise UsageError(f"{span} does not begin and end with windows of {table}; {fix}")
        return [grid.window(n) for n in range(grid.index(span.start), grid.index(span.end))]

    def slices(self, table: str, keys: Collection[str] | None = None) -> list[Slice]:
        """The slices of a sliced table that were begun, and the next one, or those of some keys.

        UsageError for a key that names none of them.
        """
        config = self.project.table(table)
        begun = self.run_log.ask(lambda conn: slices.begun(conn, config, keys))
        known = {item.key: item for item in begun}
        following = next_slice(config, self._logs(self.project, [table])[table].last)
        if following.key not in known or known[following.key].is_empty:
            known[following.key] = following
        if unknown := sorted(set(keys or ()) - set(known)):
            fix = f"the next one is {following.key}"
            raise UsageError(f"{table} has no slice {', '.join(unknown)}; {fix}")
        chosen = [item for key, item in known.items() if keys is None or key in keys]
        return sorted(chosen, key=lambda item: item.number)

    def audit(self, table: str, now: datetime) -> list[SourceRows]:
        """Where all rows of a table's sources belong; see `auditing.audit`."""
        project = self.in_force()
        self._needs.refuse_unmet(project.table(table))
        return audit(project, self.run_log, self._engine, table, now)

    def _order(
        self,
        table: str,
        window: TimeWindow,
        trigger: Trigger,
        now: datetime,
        arguments: RunArguments,
    ) -> Order:
        return Order(self.project, self.project.table(table), window, trigger, now, arguments)

    def _pass_over(self, order: Order, windows: Sequence[TimeWindow]) -> dict[TimeWindow, str]:
        return self.run_log.write(
            lambda conn: record_inapplicable(conn, order, windows, self.owner)
        )

    @gathering
    def _run(self, order: Order) -> Generator[WindowEvent]:
        yield from self._run_together([order])

    def _run_together(self, orders: Sequence[Order]) -> Generator[WindowEvent]:
        """Claim adjoining windows and run them in one pass, or the first one by itself."""
        prepare = orders[0]
        order = self.run_log.ask(lambda conn: prepared(conn, prepare))
        if order.project.versions != prepare.project.versions:
            orders = orders[:1]  # an earlier version is only for windows that have tried it
        orders = [replace(order, window=each.window) for each in orders]
        assert order.steps
        self._needs.refuse_unmet(order.table)
        if not looks_first(order.window):
            self._start_engine(order)
        began = time.monotonic()
        registry = self._registry_for(order)
        started = self.run_log.write(lambda conn: claim_windows(conn, registry, orders, self.owner))
        for window in order.passed_over:
            yield WindowSkipped(order.table.table, window, f"passed over for {order.window}")
        if len(started) == 1:
            yield from self._run_claimed(order, registry, started[0], began)
        else:
            yield from self._run_stretch(order, registry, started, began)

    def _start_engine(self, order: Order) -> None:
        """Start Spark before anything is claimed, but not for what would be refused."""
        if not (self._engine_runs or order.passed_over):
            self.run_log.ask(lambda conn: refuse_unready(conn, order))
        self._engine()
        self._engine_runs = True

    def _run_claimed(
        self, order: Order, registry: Registry, attempt: Attempt, began: float
    ) -> Generator[WindowEvent]:
        run = window_run(self._window_run(order, attempt), order.project, attempt)
        lookout = Lookout(order.project, self.run_log, self._engine)
        work = Work(order.project, order.table, order.steps, run, order.stage, lookout)
        with HeldLease(self.run_log, ATTEMPTS, [attempt], began).kept() as lease:
            chain = Chain(self._journal(order, registry, attempt), work, lease)
            try:
                with logged_interruption(chain):
                    yield WindowStarted(attempt)
                    outcome: WindowEvent = chain.execute(self._engine)
            except AttemptLostError as reason:
                outcome = WindowLost(attempt, reason)
            except UnmetNeedError as unmet:
                yield WindowSetBack(attempt, str(unmet))
                raise
        if isinstance(outcome, WindowFailed):
            self._needs.failed(order.table)
        if isinstance(outcome, WindowSucceeded):
            outcome = self._lineage.recorded(order, outcome)
        yield outcome

    def _run_stretch(
        self, order: Order, registry: Registry, attempts: Sequence[Attempt], began: float
    ) -> Generator[WindowEvent]:
        parts = [
            Part(self._journal(order, registry, each), self._window_run(order, each))
            for each in attempts
        ]
        with HeldLease(self.run_log, ATTEMPTS, attempts, began).kept() as lease:
            chain = StretchChain(self.run_log, order.project, order.table, parts, lease)
            with stretch_interruption(chain):
                for behind, attempt in zip(range(len(attempts))[::-1], attempts, strict=True):
                    yield WindowStarted(attempt, behind)
                outcomes = chain.execute(self._engine)
        yield from self._lineage.all_recorded(order, outcomes)

    def _journal(self, order: Order, registry: Registry, attempt: Attempt) -> Journal:
        return Journal(self.run_log, registry, attempt, self._announcer(order.table))

    @cached_property
    def _needs(self) -> Needs:
        return Needs(self.project)

    @cached_property
    def _lineage(self) -> LineageRecorder:
        return LineageRecorder(self.project, self.run_log)

    def _window_run(self, order: Order, attempt: Attempt) -> WindowRun:
        table = order.table
        return WindowRun(
            attempt.job_id,
            table.table,
            attempt.window,
            attempt.fencing_token,
            {**order.project.variables(table), **order.arguments.overrides},
            attempt.claim.reads,
        )

    @cached_property
    def outbox(self) -> Outbox:
        """Sends what this runner, or one that died, has to tell."""
        return Outbox(self.project, self.run_log, self.owner)

    def _announcer(self, table: TableConfig) -> Announcer:
        """By the rules of today, also where an earlier version of a table runs."""
        present = self.project.tables.get(table.table, table)
        return Announcer(self.project, self.owner, present.notify)

    @cached_property
    def _registry(self) -> Registry:
        return registry_of(self.project.tables.values())

    def _registry_for(self, order: Order) -> Registry:
        """The processes, the table as it runs among them: maybe an earlier version."""
        present = self.project.tables.get(order.table.table)
        if present is not None and present.steps == order.table.steps:
            return self._registry
        return registry_of({**self.project.tables, order.table.table: order.table}.values())

    def _logs(self, project: Project, names: Collection[str]) -> dict[str, TableLog]:
        return self.run_log.ask(lambda conn: read_logs(conn, project, names))
