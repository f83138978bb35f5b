"""Running windows: claim, chain, log. Sources: Sharp ETL, log-driven job; Kylin, scheduler."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.models import CatchUp, TableConfig
from logdriven_dagster.config.steps import StepConfig
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.errors import (
    AlreadyDoneError,
    AttemptLostError,
    DependencyError,
    EarlierWindowError,
    NotDueError,
    RefusedError,
    UsageError,
)
from logdriven_dagster.execution.arguments import RunArguments, chosen_steps
from logdriven_dagster.execution.chain import Chain, Work, logged_interruption
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowRefused,
    WindowSkipped,
    WindowStarted,
)
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.execution.queue import CatchUpQueue
from logdriven_dagster.model.attempts import Attempt, Claim, Owner, Status, Trigger
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.runs import Staged, WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning import (
    Blocked,
    DependenciesMissing,
    EarlierUnfinished,
    NotDue,
    Plan,
    obstacle,
    plan,
    read_range,
)
from logdriven_dagster.runlog import RunLog, attempts, history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DIED = "its runner died"


def _stage(session: WindowSession, step: StepConfig) -> Staged:
    return session.stage(step)


@dataclass(frozen=True, slots=True)
class _Order:
    """One window to run, and how."""

    table: TableConfig
    window: TimeWindow
    trigger: Trigger
    now: datetime
    arguments: RunArguments = RunArguments()
    passed_over: Sequence[TimeWindow] = ()
    stage: Callable[[WindowSession, StepConfig], Staged] = _stage


class Runner:
    """Runs windows of one project against its run log.

    `engine` is called at the first window, so that a run with nothing to do never starts Spark.
    Methods that run windows are generators of events; closing one in mid-window logs the attempt
    as FAILURE.
    """

    def __init__(
        self, project: Project, run_log: RunLog, engine: Callable[[], Engine], owner: Owner
    ) -> None:
        self.project = project
        self.run_log = run_log
        self.owner = owner
        self._engine = engine

    def plan(
        self, now: datetime, tables: Collection[str] | None = None, mode: CatchUp | None = None
    ) -> Plan:
        """What the log leaves to do at `now`. Reads the log, changes nothing."""
        selected = self.project.select(tuple(tables or ()))
        return plan(self.project.tables, self._logs(selected), now, selected, mode)

    def catch_up(
        self,
        now: datetime,
        tables: Collection[str] | None = None,
        *,
        max_windows: int | None = None,
        mode: CatchUp | None = None,
        arguments: RunArguments = RunArguments(),
    ) -> Generator[WindowEvent]:
        """Run what is ready until nothing is, oldest first and upstreams before downstreams.

        A failed window holds its table: the later ones are reported as skipped and stay pending,
        while unrelated tables go on. `mode` wins over the tables' own `catch_up`.
        """
        selected = self.project.select(tuple(tables or ()))
        queue = CatchUpQueue(self.project.tables, self._logs, now, selected, mode)
        done = 0
        while max_windows is None or done < max_windows:
            planned = queue.next_ready()
            if planned is None:
                break
            order = self._order(planned.table, planned.window, planned.trigger, now, arguments)
            order = replace(order, passed_over=queue.passed_over(planned))
            try:
                for event in self._run(order):
                    yield event
                    queue.seen(event)
            except RefusedError as refusal:
                queue.set_aside(planned)
                yield WindowRefused(planned.table, planned.window, refusal)
            done += 1
        yield from queue.held()

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
        windows = self.windows(table, span)
        for n, window in enumerate(windows):
            for event in self.refresh_window(table, window, now, arguments):
                yield event
                if isinstance(event, WindowFailed):
                    for later in windows[n + 1 :]:
                        yield WindowSkipped(table, later, f"{window} failed")
                    return

    def write_frame(
        self, table: TableConfig, window: TimeWindow, frame: "DataFrame", now: datetime
    ) -> Generator[WindowEvent]:
        """Publish and log a DataFrame as one window of a table with a single, given step."""

        def stage(session: WindowSession, step: StepConfig) -> Staged:
            assert step.target is not None
            return session.stage_frame(step.step, frame, step.target)

        yield from self._run(_Order(table, window, Trigger.REFRESH, now, stage=stage))

    def windows(self, table: str, span: TimeWindow) -> list[TimeWindow]:
        """The windows of a table that make up a range; UsageError if they do not."""
        grid = self.project.table(table).grid
        whole = grid.covering(span)
        if not span.contains(whole):
            fix = f"the windows of {table} around it are {whole}"
            raise UsageError(f"{span} does not begin and end with windows of {table}; {fix}")
        return [grid.window(n) for n in range(grid.index(span.start), grid.index(span.end))]

    def _order(
        self,
        table: str,
        window: TimeWindow,
        trigger: Trigger,
        now: datetime,
        arguments: RunArguments,
    ) -> _Order:
        return _Order(self.project.table(table), window, trigger, now, arguments)

    def _run(self, order: _Order) -> Generator[WindowEvent]:
        steps = chosen_steps(order.table, order.arguments)
        attempt = self._claim(order, steps[0].step)
        for window in order.passed_over:
            yield WindowSkipped(order.table.table, window, f"passed over for {order.window}")
        run = self._window_run(order.table, attempt, order.arguments)
        chain = Chain(self.run_log, attempt, Work(order.table, steps, run, order.stage))
        with logged_interruption(chain):
            yield WindowStarted(attempt)
            outcome = chain.execute(self._engine)
        yield outcome

    def _claim(self, order: _Order, first_step: str) -> Attempt:
        """One transaction: bury the dead, pass over, check the order, claim, start a step."""
        table, window = order.table, order.window
        claim = Claim(
            table=table.table,
            window=window,
            period_minutes=table.period.minutes,
            incremental_type=table.incremental_type,
            project=self.project.name,
            trigger=order.trigger,
            owner=self.owner,
            now=order.now,
            runtime_args=order.arguments.recorded(),
        )
        tables = {**self.project.tables, table.table: table}

        def work(conn: Connection) -> Attempt:
            self._bury_dead(conn, table)
            attempts.skip(conn, [replace(claim, window=older) for older in order.passed_over])
            logs = history.table_logs(conn, _with_upstreams(table, tables))
            finished = any(done.contains(window) for done in logs[table.table].finished)
            if finished and order.trigger is Trigger.PENDING:
                raise AlreadyDoneError(f"{table.table} {window} is done already")
            if not finished and (blocked := obstacle(table, window, tables, logs, order.now)):
                raise _refusal(table.table, window, blocked)
            attempt = attempts.claim(conn, claim)
            attempts.start_step(conn, attempt, first_step)
            return attempt

        return self.run_log.write(work)

    def _bury_dead(self, conn: Connection, table: TableConfig) -> None:
        for item in history.open_windows(conn, [table]).get(table.table, ()):
            if item.owner and item.status is Status.RUNNING and is_dead(item.owner):
                with suppress(AttemptLostError):  # another runner was faster
                    attempts.abandon(conn, item.job_id, item.owner, _DIED)

    def _window_run(
        self, table: TableConfig, attempt: Attempt, arguments: RunArguments
    ) -> WindowRun:
        reads = {
            dependency.table: read_range(
                self.project.tables[dependency.table], dependency, attempt.window
            )
            for dependency in table.managed_dependencies
        }
        variables = {**self.project.variables(table), **arguments.overrides}
        return WindowRun(attempt.job_id, table.table, attempt.window, variables, reads)

    def _logs(self, names: Collection[str]) -> dict[str, TableLog]:
        """The logs of the tables and their upstreams; attempts of dead runners count as failed."""
        wanted = {
            upstream.table: upstream
            for name in names
            for upstream in _with_upstreams(self.project.tables[name], self.project.tables)
        }
        with self.run_log.read() as conn:
            logs = history.table_logs(conn, list(wanted.values()))
        return {name: _without_dead(log) for name, log in logs.items()}


def _with_upstreams(table: TableConfig, tables: Mapping[str, TableConfig]) -> list[TableConfig]:
    return [table, *(tables[dependency.table] for dependency in table.managed_dependencies)]


def _without_dead(log: TableLog) -> TableLog:
    items = tuple(
        replace(item, status=Status.FAILURE, error=_DIED)
        if item.status is Status.RUNNING and item.owner and is_dead(item.owner)
        else item
        for item in log.open
    )
    return replace(log, open=items)


def _refusal(table: str, window: TimeWindow, blocked: Blocked) -> RefusedError:
    what = f"{table} {window} may not run yet"
    match blocked:
        case EarlierUnfinished(window=earlier, reason=reason):
            fix = f"run {earlier} first, or `logdriven run {table}` to catch up in order"
            return EarlierWindowError(f"{what}: it {reason}; {fix}")
        case DependenciesMissing(reason=reason):
            return DependencyError(f"{what}: it {reason}; run those first, or `logdriven run`")
        case NotDue(reason=reason):
            return NotDueError(f"{what}: it is {reason}")
