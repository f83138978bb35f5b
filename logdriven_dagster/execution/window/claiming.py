"""Claiming of windows: one transaction that checks the current log and takes the leases."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.processes import get_max_batches
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
    DependencyError,
    EarlierWindowError,
    NotDueError,
    RefusedError,
    UsageError,
)
from logdriven_dagster.execution.definitions.homes import lock_to_claim
from logdriven_dagster.execution.logs import read_changed, read_logs, read_restated
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.versions import VersionToRun
from logdriven_dagster.model.attempts import Attempt, Claim, OnRunning, Owner, Status, Trigger
from logdriven_dagster.model.batches import Processes
from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.dependencies import list_reads, list_with_upstreams
from logdriven_dagster.planning.readiness import (
    Blocked,
    DependenciesMissing,
    EarlierUnfinished,
    Finished,
    Judgement,
    NotApplying,
    NotDue,
    build_readiness,
    find_open_attempt,
)
from logdriven_dagster.runlog import transitions
from logdriven_dagster.runlog.attempts import claiming, overlaps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.history import refreshes
from logdriven_dagster.runlog.history.reach import reach_since


class ClaimTransaction:
    """A transaction at windows of one table: it reads the log, judges, and records.

    It keeps the table from being renamed or forgotten until it ends.
    """

    def __init__(self, conn: Connection, order: Order, owner: Owner) -> None:
        """Lock the table of an order.

        Raises RunLogError if the table was renamed or forgotten since the project was loaded.
        """
        self._conn, self._order, self._owner = conn, order, owner
        self._project, self._table = order.project, order.table
        lock_to_claim(conn, self._project, self._table.table)

    def claim(self, processes: Processes, following: Sequence[TimeWindow] = ()) -> list[Attempt]:
        """Claim the window of the order, and adjoining ones behind it; first steps are RUNNING.

        Ends attempts of dead runners, records passed-over windows as SKIPPED, judges readiness and
        takes the leases. Of `following`, oldest first, it claims those before the first that may
        not run, or must run by itself since an earlier attempt has left it in a state that needs
        care. Raises RefusedError, and changes nothing, if the window of the order may not run.
        """
        last = following[-1] if following else self._order.window
        context = self._read_context(last)
        if self._order.passed_over:
            self._skip(self._order.passed_over)
            context = self._read_context(last)
        claims = [self._claim_if_ready(self._order.window, context)]
        claims += self._claim_following(following, context)
        log = context.get_log(self._table.table)
        claims = self._mark_late(self._add_replaced(claims, log))
        if len(claims) > 1:
            # A process that was faster with a later window must not block the oldest one.
            with suppress(RefusedError), self._conn.begin_nested():
                return self._start(processes, claims, log)
        return self._start(processes, claims[:1], log)

    def _start(self, processes: Processes, claims: Sequence[Claim], log: TableLog) -> list[Attempt]:
        table = self._table
        # A table of files takes the files that it finds; after a failure, those it had.
        most = 0 if table.incremental.registers_files else get_max_batches(table)
        attempts = transitions.claim(self._conn, processes, claims, most, Status.RUNNING)
        if log.upstreams_ran_again:
            refreshes.advance_bookmarks(self._conn, table, self._with_upstreams)
        return attempts

    def _claim_if_ready(self, window: TimeWindow, context: PlanningContext) -> Claim:
        """Return the claim of a window. Raises RefusedError if it is done, or may not run yet."""
        judged = _judge(self._order, window, context)
        return self._build_claim(window, judged.seen_until)

    def _claim_following(
        self, windows: Sequence[TimeWindow], context: PlanningContext
    ) -> list[Claim]:
        """Return the claims of the windows that may run in one pass with the first one."""
        claims: list[Claim] = []
        for window in windows:
            before = self._finish_before(window, context)
            try:
                claim = self._claim_if_ready(window, before)
            except RefusedError:
                break
            if self._has_tried_earlier_version(window, before.get_log(self._table.table)):
                break
            claims.append(claim)
        return claims

    def _has_tried_earlier_version(self, window: TimeWindow, log: TableLog) -> bool:
        finished = any(done.contains(window) for done in log.finished)
        if not finished and find_open_attempt(window, log) is None:
            return False
        order = replace(self._order, window=window)
        return VersionToRun(self._conn, order).find_recorded() is not None

    def _finish_before(self, window: TimeWindow, context: PlanningContext) -> PlanningContext:
        """Count the windows before another in its pass as finished: it waits for none of them."""
        name, first = self._table.table, self._order.window
        log = context.get_log(name)
        done = TimeWindow(first.start, window.start, zone=first.zone)
        finished = tuple(unite(log.finished, (done,)))
        return replace(context, logs={**context.logs, name: replace(log, finished=finished)})

    def _add_replaced(self, claims: list[Claim], log: TableLog) -> list[Claim]:
        """Add to claims the ended windows of another grid that they replace, if they may.

        Only a window that overlaps finished ones can replace any, so no others are queried.
        """
        first, last = claims[0].window, claims[-1].window
        if isinstance(first, Slice):
            return claims
        overlaps.refuse_part(self._table.table, first, log.once_finished)
        span = first.up_to_end_of(last)
        if any(done.overlaps(span) for done in log.finished):
            claims = overlaps.add_replaced_windows(self._conn, claims)
        return [_add_unfinished(claim, log) for claim in claims] if log.open else claims

    def _mark_late(self, claims: list[Claim]) -> list[Claim]:
        """Mark the claims of windows without whose rows downstream tables have finished windows.

        No rows are awaited before an upstream's `default_start` or after its `end`, which have
        changed in this case. Only windows that ran since the first attempt at any of the table's
        own count: older ones ran before the table was read.
        """
        table, project = self._table, self._project
        of_table = project.version(Kind.TABLE, table.table)
        unchanged = of_table == project.version(Kind.PROJECT, project.name) == 1
        readers = [*project.rerun_behind.get(table.table, ()), *_get_own_reader(table)]
        if unchanged or table.is_sliced or not readers:
            return claims
        reached = reach_since(self._conn, readers, table.table)
        if reached is None:
            return claims
        return [replace(each, is_late=reached > each.window.span[0]) for each in claims]

    def record_inapplicable(self, windows: Sequence[TimeWindow]) -> dict[TimeWindow, str]:
        """Record windows to which the table's conditions do not apply as SKIPPED, with reasons.

        `windows` begin with that of the order, in ascending order. They are judged by the current
        log, up to the first that may apply after all. Returns the recorded ones and their reasons.
        Raises RefusedError if the order's own may apply.
        """
        name, window = self._table.table, self._order.window
        readiness = build_readiness(self._table, self._read_context())
        first = readiness.find_obstacle(window)
        if first is None:
            raise DependencyError(f"{name} {window} may apply after all; it is planned again")
        if not isinstance(first, NotApplying):
            raise _refusal(name, window, first)
        self._skip(self._order.passed_over)
        found: dict[TimeWindow, str] = {}
        for each in windows:
            blocked = readiness.find_upstream_obstacle(each)
            if not isinstance(blocked, NotApplying):
                break
            if self._skip([each], blocked.reason):
                found[each] = blocked.reason
        return found

    def skip(self, windows: Sequence[TimeWindow], reason: str) -> None:
        """Record unfinished windows as SKIPPED by an operator.

        Raises RefusedError if one runs or is done.
        """
        table = self._table.table
        log = self._read_logs()[table]
        for window in windows:
            if any(done.overlaps(window) for done in log.finished):
                fix = "run it again with `logdriven refresh`"
                raise AlreadyDoneError(
                    f"{table} {window} has finished and cannot be skipped; {fix}"
                )
            attempt = find_open_attempt(window, log)
            if attempt is not None and attempt.status is Status.RUNNING and not attempt.expired:
                fix = f"stop it with `logdriven discard {table}`"
                raise AlreadyRunningError(
                    f"{table} {window} is running in job {attempt.job_id}; {fix}"
                )
        self._find_skipped(windows)
        self._skip(windows, reason)

    def unskip(self, windows: Sequence[TimeWindow], reason: str) -> None:
        """Make skipped windows pending again. Raises UsageError for one that is not skipped."""
        found = self._find_skipped(windows)
        for window in windows:
            if not any(each.overlaps(window) for each in found):
                raise UsageError(f"{self._table.table} {window} is not skipped")
        claiming.unskip(self._conn, [self._build_claim(each) for each in found], reason)

    def _skip(self, windows: Sequence[TimeWindow], reason: str | None = None) -> list[TimeWindow]:
        return claiming.skip(self._conn, [self._build_claim(each) for each in windows], reason)

    def _find_skipped(self, windows: Sequence[TimeWindow]) -> list[TimeWindow]:
        """Return the skipped windows within others.

        Raises UsageError for one that extends beyond them.
        """
        table, spans = self._table.table, unite(windows)
        found = [
            each
            for span in spans
            for each in overlaps.find_skipped_windows(self._conn, table, span)
        ]
        for each in found:
            if not any(span.contains(each) for span in spans):
                raise UsageError(f"{table} {each} was skipped as a whole; name all of it")
        return found

    @cached_property
    def _with_upstreams(self) -> list[TableConfig]:
        return list_with_upstreams(self._table, self._order.tables)

    def _read_logs(self, last: TimeWindow | None = None) -> dict[str, TableLog]:
        """Read the logs of the table and its upstreams; of old windows, those up to the last."""
        logs = history.read_table_logs(self._conn, self._with_upstreams)
        if self._order.trigger is Trigger.RESTATE:
            span = self._order.window.up_to_end_of(last or self._order.window)
            logs |= read_restated(self._conn, self._project, [self._table], logs, span)
        if self._order.trigger is Trigger.SOURCE:
            logs |= read_changed(self._conn, [self._table], logs)
        return logs

    def _read_context(self, last: TimeWindow | None = None) -> PlanningContext:
        """Read the current logs, and end attempts of this machine's dead runners at the table."""
        logs = self._read_logs(last)
        dead = [
            (item.job_id, item.owner)
            for item in logs[self._table.table].open
            if item.owner and item.status is Status.RUNNING and is_dead(item.owner)
        ]
        for job_id, runner in dead:
            ATTEMPTS.bury(self._conn, job_id, runner)  # now, without waiting for their leases
        logs = self._read_logs(last) if dead else logs
        return PlanningContext(self._order.tables, logs, self._order.now)

    @cached_property
    def _definition(self) -> str | None:
        """The digest of the definition, which all windows of a pass have in common."""
        return self._order.definition

    def _build_claim(self, window: TimeWindow, seen_until: datetime | None = None) -> Claim:
        order, project, table = self._order, self._project, self._table
        job_run = order.arguments.job_run
        return Claim(
            table=table.table,
            window=window,
            period_minutes=table.period.minutes,
            incremental_type=table.incremental_type,
            project=project.name,
            trigger=order.trigger,
            owner=self._owner,
            now=order.now,
            runtime_args=order.runtime_args,
            parameters=order.parameters,
            job_run_id=job_run.job_run_id if job_run else None,
            steps=tuple(step.step for step in order.steps),
            lease=project.config.lease,
            on_running=order.arguments.on_running or table.on_running,
            definition=self._definition,
            version=project.version(Kind.TABLE, table.table),
            other_version=order.other_version,
            reads=list_reads(table, project.tables, window),
            seen_until=seen_until,
        )


def refuse_unready(conn: Connection, order: Order) -> None:
    """Raise RefusedError if a claim would currently refuse an order. Reads the log only."""
    table, on_running = order.table, order.arguments.on_running or order.table.on_running
    logs = read_logs(conn, order.project.with_tables({table.table: table}), [table.table])
    _judge(order, order.window, PlanningContext(order.tables, logs, order.now))
    running = find_open_attempt(order.window, logs[table.table])
    if running and running.status is Status.RUNNING and on_running is not OnRunning.REPLACE:
        by = f"job {running.job_id} of {running.owner}"
        raise AlreadyRunningError(f"{table.table} {order.window} is already running in {by}")


def _judge(order: Order, window: TimeWindow, context: PlanningContext) -> Judgement:
    """Judge a window for an order. Raises RefusedError if it is done, or may not run yet."""
    judged = build_readiness(order.table, context).judge(window, order.trigger)
    if judged.refusal is not None:
        raise _refusal(order.table.table, window, judged.refusal)
    return judged


def _get_own_reader(table: TableConfig) -> list[str]:
    """Return the name of a table whose later windows build on its earlier ones."""
    return [table.table] if table.keeps_history else []


def _add_unfinished(claim: Claim, log: TableLog) -> Claim:
    """Add to a claim the failed and discarded windows of another grid that lie within it."""
    replaced = tuple(
        item.job_id
        for item in log.open
        if item.window != claim.window
        and claim.window.contains(item.window)
        and (item.status is not Status.RUNNING or item.expired)
    )
    return replace(claim, replaces=claim.replaces + replaced)


def _refusal(table: str, window: TimeWindow, refusal: Blocked | Finished) -> RefusedError:
    what = f"{table} {window} cannot run yet"
    match refusal:
        case Finished():
            return AlreadyDoneError(f"{table} {window} has already finished")
        case EarlierUnfinished(window=earlier, reason=reason):
            fix = f"run {earlier} first, or catch up in order with `logdriven run {table}`"
            return EarlierWindowError(f"{what}: it {reason}; {fix}")
        case DependenciesMissing(reason=reason):
            return DependencyError(
                f"{what}: it {reason}; run those windows first, or use `logdriven run`"
            )
        case NotApplying(reason=reason):
            fix = "`logdriven run` records it as SKIPPED; `logdriven refresh` runs it afterwards"
            return DependencyError(f"{what}: it {reason}; {fix}")
        case NotDue(reason=reason):
            return NotDueError(f"{what}: {reason}")
