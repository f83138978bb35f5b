"""The runner: claiming windows, running their steps and logging them.

Sources: Sharp ETL, log-driven job; Kylin, scheduler.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

from logdriven_dagster.config.checking.engines import EngineChoice
from logdriven_dagster.config.derived.relations import apply_job
from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import CatchUp, TableConfig
from logdriven_dagster.config.models.types.engines import SPARK
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.comparison.values import Comparison, Rule, Side
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.catching_up.loop import CatchingUp
from logdriven_dagster.execution.catching_up.on_running import (
    with_replaceable,
)
from logdriven_dagster.execution.catching_up.queue import CatchUpQueue
from logdriven_dagster.execution.catching_up.refreshing import RefreshQueue, refuse_undue
from logdriven_dagster.execution.catching_up.restating import close_finished_requests
from logdriven_dagster.execution.catching_up.skipping import find_skippable_table
from logdriven_dagster.execution.definitions.in_force import with_settings_in_force
from logdriven_dagster.execution.definitions.renames import settle_tables
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSkipped,
    WindowSucceeded,
)
from logdriven_dagster.execution.inspection.auditing import audit
from logdriven_dagster.execution.listeners.lineage import LineageRecorder
from logdriven_dagster.execution.listeners.registered import load_installed_listeners
from logdriven_dagster.execution.logs import read_logs
from logdriven_dagster.execution.notifications import freshness
from logdriven_dagster.execution.notifications.rules import Announcer, Outbox, gathering
from logdriven_dagster.execution.source_files import changes as source_changes
from logdriven_dagster.execution.source_files.arrivals import FileArrivals
from logdriven_dagster.execution.window.claiming import ClaimTransaction
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.passes import Attached, Passes
from logdriven_dagster.execution.window.sessions import Engine, Engines, WindowSession
from logdriven_dagster.model.attempts import Owner, Trigger
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.model.runs import ExpectedWork, Staged
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.planning.freshness import Freshness
from logdriven_dagster.planning.pending import list_refreshable_windows
from logdriven_dagster.planning.plan import Plan, plan
from logdriven_dagster.planning.readiness import find_outside_bounds
from logdriven_dagster.planning.slices import get_next_slice
from logdriven_dagster.processes import garbage_kept
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import overlaps
from logdriven_dagster.runlog.history import slices

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from logdriven_dagster.engine import DataFrame


class CatchUpOptions(TypedDict, total=False):
    """The options of a catch-up; omitted ones have their defaults."""

    max_windows: int | None
    """The maximum number of windows to attempt."""
    mode: CatchUp | None
    """Overrides the tables' own `catch_up`."""
    arguments: RunArguments
    backoff: timedelta | None
    """The first pause after a window's failure; windows that keep failing are left alone."""
    job: str | None
    """The job whose relations apply; its tables are the default."""
    in_force: Project
    """The project as `Runner.in_force` returned it, if it was read already."""
    max_parallel: int | None
    """The maximum number of windows that run in parallel; by default the project's."""
    wait: timedelta
    """The time to wait while other processes run windows that block pending ones."""


class Runner:
    """Runner of the windows of one project against its run log.

    `engine` is called at the first window, so a run with no pending windows never starts Spark.
    Methods that run windows are generators of events. Closing a generator during a window logs the
    attempt as DISCARDED.
    """

    def __init__(self, project: Project, run_log: RunLog, engine: Engines, owner: Owner) -> None:
        self.project = project
        self.run_log = run_log
        self.owner = owner
        self._engine = engine
        self.expected: ExpectedWork | None = None
        """All the work of this process, if it is known before the engine starts."""
        self.listeners = load_installed_listeners()

    @property
    def engine(self) -> Engine:
        """The engine of interactive reads, which starts at the first access."""
        return self._engine(self._choice.default)

    def plan(
        self,
        now: datetime,
        tables: Collection[str] | None = None,
        mode: CatchUp | None = None,
        backoff: timedelta | None = None,
        job: str | None = None,
        *,
        in_force: Project | None = None,
    ) -> Plan:
        """Return the pending windows at `now`. Reads the log, changes nothing.

        Relations apply in a run of the `job` that they belong to; its tables are the default.
        `in_force` is the project, if it was read already.
        """
        with garbage_kept():
            project = in_force or self.in_force(job)
            selected = select_tables(project, tuple(tables or filter(None, (job,))))
            logs = self._logs(project, selected)
            logs |= source_changes.detect(self.run_log, project, selected, logs)
            return plan(
                *(project.tables, logs, now, selected),
                mode=mode,
                backoff=backoff,
                describe_missing=FileArrivals(project).describe_missing,
            )

    def freshness(self, now: datetime) -> dict[str, Freshness]:
        """Return table → freshness, for the tables with `freshness`. Changes nothing."""
        return freshness.evaluate_tables(self.run_log, self.load_judged_project(), now)

    def watch_freshness(self, now: datetime) -> dict[str, Freshness]:
        """Return the freshness of tables, and notify recipients of changes.

        `now` is the machine's time: at an earlier one everything would be fresh.
        """
        project = self.load_judged_project()
        found = freshness.evaluate_tables(self.run_log, project, now)
        freshness.notify(self.outbox, project, found)
        return found

    def load_judged_project(self) -> Project:
        """Return the project with settings in force, read only if a table has `freshness`."""
        asked = any(table.freshness is not None for table in self.project.tables.values())
        return self.in_force() if asked else self.project

    def in_force(self, job: str | None = None) -> Project:
        """Return the project with the current settings of operators, and the relations of a job."""
        return apply_job(with_settings_in_force(self.run_log, self.project), job)

    def catch_up(
        self,
        now: datetime,
        tables: Collection[str] | None = None,
        **options: "Unpack[CatchUpOptions]",
    ) -> Generator[WindowEvent]:
        """Run ready windows until none is left, oldest first and upstreams before downstreams.

        A failed window blocks its ordered table: later windows are reported as skipped and stay
        pending, while unrelated tables go on. Windows to which conditions do not apply are recorded
        as SKIPPED.

        Up to `max_parallel` windows run in parallel: of tables that do not wait for each other, and
        of one table that is not ordered.

        Raises AlreadyRunningError if `on_running` is `fail` and a window of the table is running
        elsewhere.
        """
        yield from self.catching_up(now, tables, **options).events()

    def catching_up(
        self,
        now: datetime,
        tables: Collection[str] | None = None,
        **options: "Unpack[CatchUpOptions]",
    ) -> CatchingUp:
        """Return a catch-up with its plan, which runs nothing before its events are consumed.

        It reads the settings and the log once.
        """
        job = options.get("job")
        project = options.get("in_force") or self.in_force(job)
        selected = select_tables(project, tuple(tables or filter(None, (job,))))
        arguments = options.get("arguments", RunArguments())
        settle_tables(project, self.run_log, [project.tables[name] for name in selected])
        source_changes.record(self.run_log, project, selected)

        def read(names: Collection[str]) -> dict[str, TableLog]:
            return with_replaceable(project, self._logs(project, names), arguments)

        mode, backoff = options.get("mode"), options.get("backoff")
        queue = CatchUpQueue(
            *(project.tables, read, now, selected),
            mode=mode,
            backoff=backoff,
            describe_missing=FileArrivals(project, arguments.overrides).describe_missing,
        )
        close_finished_requests(self.run_log, queue.plan())
        source_changes.close_settled(self.run_log, queue.plan().context.logs.values())
        return CatchingUp(
            project,
            now,
            arguments,
            queue,
            self.passes,
            self.outbox,
            options.get("max_parallel") or project.config.max_parallel,
            options.get("max_windows"),
            options.get("wait", timedelta(0)),
        )

    def refresh(
        self,
        table: str,
        span: TimeWindow,
        now: datetime,
        arguments: RunArguments = RunArguments(),
    ) -> Generator[WindowEvent]:
        """Refresh every window of a range, oldest first, up to the first failure.

        A materialization in Dagster calls this. Raises UsageError if the range does not lie on the
        bounds of windows. Source: Sharp ETL, refresh.
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
        """Run individually named windows, finished or not."""
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
        """Yield the passes with their oldest windows, to which a RefusedError refers."""
        config = self.project.table(table)
        settle_tables(self.project, self.run_log, [config])
        orders = [
            Order(self.project, config, each, Trigger.REFRESH, now, arguments) for each in windows
        ]
        for order in orders[-1:]:
            refuse_undue(order)
        yield from RefreshQueue(orders, self.passes).passes()

    @gathering
    def write_frame(
        self, table: TableConfig, window: TimeWindow, frame: "DataFrame", now: datetime
    ) -> Generator[WindowEvent]:
        """Publish and log a DataFrame as one window of a table with a single, given step."""

        def stage(session: WindowSession, step: StepConfig) -> tuple[Staged, ...]:
            return session.stage_frame(step, frame)

        settle_tables(self.project, self.run_log, [table])
        order = Order(self.project, table, window, Trigger.REFRESH, now, stage=stage)
        yield from self.passes.run([order])

    def windows(self, table: str, span: TimeWindow) -> list[TimeWindow]:
        """Return the windows of a table that make up a range. Raises UsageError if they do not.

        Finished windows of an earlier grid are included as a whole. Raises PartOfWindowError if the
        range contains only a part of one.
        """
        config = self.project.table(table)
        if config.is_sliced:
            raise UsageError(
                f"{table} has numbered windows, not time windows; give their numbers or keys"
            )
        around = config.grid.covering(span)
        finished = self.run_log.ask(
            lambda conn: overlaps.find_finished_windows(conn, table, around)
        )
        found = list_refreshable_windows(config, span, [window for _, window in finished])
        whole = found[0].up_to_end_of(found[-1])
        if not span.contains(whole):
            ends = dict.fromkeys((found[0], found[-1]))
            overlaps.refuse_part(table, span, [end for end in ends if not config.grid.holds(end)])
            fix = f"the windows of {table} that contain it are {whole}"
            raise UsageError(
                f"{span} does not start and end at the bounds of windows of {table}; {fix}"
            )
        return found

    def whole_windows(self, table: str, windows: Iterable[TimeWindow]) -> list[TimeWindow]:
        """Return the windows that a refresh of some windows of the grid runs; see `windows`."""
        spans = unite(sorted(windows, key=lambda window: window.span[0]))
        return [window for span in spans for window in self.windows(table, span)]

    def skip(
        self, table: str, windows: Sequence[TimeWindow], now: datetime, reason: str, by: str
    ) -> None:
        """Skip unfinished windows permanently, until `unskip`; downstream tables go on.

        Raises RefusedError if one of them is running or done, and UsageError if the reason is
        empty or if the table never has such a window; nothing is changed then.
        """
        order = self._skipping(table, windows, now, reason)
        for window in windows:
            if outside := find_outside_bounds(order.table.grid, window):
                raise UsageError(f"{table} {window} never runs: it is {outside}; check the window")
        text = f"skipped by {by}: {reason}"
        self.run_log.write(
            lambda conn: ClaimTransaction(conn, order, self.owner).skip(windows, text)
        )

    def unskip(
        self, table: str, windows: Sequence[TimeWindow], now: datetime, reason: str, by: str
    ) -> None:
        """Make skipped windows pending again.

        Raises UsageError if one of them is not skipped, or if the reason is empty.
        """
        order = self._skipping(table, windows, now, reason)
        text = f"unskipped by {by}: {reason}"
        self.run_log.write(
            lambda conn: ClaimTransaction(conn, order, self.owner).unskip(windows, text)
        )

    def _skipping(
        self, table: str, windows: Sequence[TimeWindow], now: datetime, reason: str
    ) -> Order:
        config = find_skippable_table(self.project, table)
        if not reason.strip():
            raise UsageError("the reason must not be empty; give a reason")
        settle_tables(self.project, self.run_log, [config])
        return Order(self.project, config, windows[0], Trigger.SKIP, now)

    def slices(self, table: str, keys: Collection[str] | None = None) -> list[Slice]:
        """Return the slices of a sliced table that were begun, and the next one; of some keys only.

        Raises UsageError for an unknown key.
        """
        config = self.project.table(table)
        begun = self.run_log.ask(lambda conn: slices.list_begun_slices(conn, config, keys))
        known = {item.key: item for item in begun}
        following = get_next_slice(config, self._logs(self.project, [table])[table].last)
        if following.key not in known or known[following.key].is_empty:
            known[following.key] = following
        if unknown := sorted(set(keys or ()) - set(known)):
            fix = f"the next window is {following.key}"
            raise UsageError(f"{table} has no window {', '.join(unknown)}; {fix}")
        chosen = [item for key, item in known.items() if keys is None or key in keys]
        return sorted(chosen, key=lambda item: item.number)

    def compare(self, left: Side, right: Side, rule: Rule) -> Comparison:
        """Compare the rows of two sides on Spark, which every project can use."""
        return self._engine(SPARK).compare(left, right, rule)

    def audit(self, table: str, now: datetime) -> list[SourceRows]:
        """Count the rows of a table's sources by window; see `auditing.audit`."""
        project = self.in_force()
        self.passes.needs.refuse_unmet(project.table(table))
        return audit(project, self.run_log, lambda: self.engine, table, now)

    @cached_property
    def passes(self) -> Passes:
        """The passes of this runner, which claim and run windows."""
        lineage = LineageRecorder(self.project, self.run_log)
        attached = Attached(self.listeners, lineage, self.announcer)
        return Passes(
            self.project, self.run_log, self._engine, self._choice, self.owner, attached=attached
        )

    def announcer(self, table: TableConfig) -> Announcer:
        """Return an announcer with the current rules, even for an earlier version of a table."""
        present = self.project.tables.get(table.table, table)
        return Announcer(self.project, self.owner, present.notify)

    @cached_property
    def _choice(self) -> EngineChoice:
        return EngineChoice(self.project)

    @cached_property
    def outbox(self) -> Outbox:
        """The sender of notices of this runner, and of dead ones."""
        return Outbox(self.project, self.run_log, self.owner, self.listeners)

    def _logs(self, project: Project, names: Collection[str]) -> dict[str, TableLog]:
        return self.run_log.ask(lambda conn: read_logs(conn, project, names))
