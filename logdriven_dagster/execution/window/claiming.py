"""Claiming of windows: one transaction that checks the current log and takes the leases."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.processes import get_max_batches
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
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
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.versions import find_recorded_version
from logdriven_dagster.model.attempts import Attempt, Claim, OnRunning, Owner, Status
from logdriven_dagster.model.batches import Processes
from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.model.windows import Reads, Slice, TimeWindow
from logdriven_dagster.planning.dependencies import list_with_upstreams, read_ranges
from logdriven_dagster.planning.readiness import (
    Blocked,
    DependenciesMissing,
    EarlierUnfinished,
    Finished,
    Judgement,
    NotApplying,
    NotDue,
    find_obstacle,
    find_open_attempt,
    find_upstream_obstacle,
    judge,
)
from logdriven_dagster.runlog import transitions
from logdriven_dagster.runlog.attempts import claiming, overlaps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.history import refreshes
from logdriven_dagster.runlog.history.reach import reach_since


def claim_windows(
    conn: Connection, processes: Processes, orders: Sequence[Order], owner: Owner
) -> list[Attempt]:
    """Claim adjoining windows in one transaction; their first steps are RUNNING.

    Ends attempts of dead runners, records passed-over windows as SKIPPED, checks readiness and
    takes the leases. Of `orders`, oldest first, it claims those before the first that may not run,
    or must run by itself since an earlier attempt has left it in a state that needs care. Raises
    RefusedError, and changes nothing, if the oldest may not run.
    """
    order = orders[0]
    lock_to_claim(conn, order.project, order.table.table)
    logs = _logs_without_dead(conn, order)
    if order.passed_over:
        claim = _claim(order, owner)
        claiming.skip(conn, [replace(claim, window=older) for older in order.passed_over])
        logs = _logs(conn, order)
    claims = [_claim_if_ready(order, owner, logs), *_following(conn, orders, owner, logs)]
    claims = _with_replaced(conn, claims, logs[order.table.table])
    claims = _with_late(conn, order, claims)
    if len(claims) > 1:
        # A process that was faster with a later window must not block the oldest one.
        with suppress(RefusedError), conn.begin_nested():
            return _claim_windows(conn, processes, order, claims, logs)
    return _claim_windows(conn, processes, order, claims[:1], logs)


def _with_replaced(conn: Connection, claims: list[Claim], log: TableLog) -> list[Claim]:
    """Add to claims the ended windows of another grid that they replace, if they may.

    Only a window that overlaps finished ones can replace any, so no others are queried.
    """
    first, last = claims[0].window, claims[-1].window
    if isinstance(first, Slice):
        return claims
    overlaps.refuse_part(claims[0].table, first, log.once_finished)
    span = first.up_to_end_of(last)
    is_over = any(done.overlaps(span) for done in log.finished)
    claims = overlaps.add_replaced_windows(conn, claims) if is_over else claims
    return [_with_unfinished(claim, log) for claim in claims] if log.open else claims


def _with_unfinished(claim: Claim, log: TableLog) -> Claim:
    """Add to a claim the failed and discarded windows of another grid that lie within it."""
    replaced = tuple(
        item.job_id
        for item in log.open
        if item.window != claim.window
        and claim.window.contains(item.window)
        and (item.status is not Status.RUNNING or item.expired)
    )
    return replace(claim, replaces=claim.replaces + replaced)


def _with_late(conn: Connection, order: Order, claims: list[Claim]) -> list[Claim]:
    """Mark the claims of windows without whose rows downstream tables have finished windows.

    No rows are awaited before an upstream's `default_start` or after its `end`, which have changed
    in this case. Only windows that ran since the first attempt at any of the table's own count:
    older ones ran before the table was read.
    """
    table, project = order.table, order.project
    of_table = project.version(Kind.TABLE, table.table)
    unchanged = of_table == project.version(Kind.PROJECT, project.name) == 1
    readers = project.rerun_behind.get(table.table)
    if unchanged or table.is_sliced or not readers:
        return claims
    reached = reach_since(conn, readers, table.table)
    if reached is None:
        return claims
    return [replace(each, is_late=reached > each.window.span[0]) for each in claims]


def _following(
    conn: Connection, orders: Sequence[Order], owner: Owner, logs: Mapping[str, TableLog]
) -> list[Claim]:
    """Return the claims of the windows that may run in one pass with the first one."""
    claims: list[Claim] = []
    for order in orders[1:]:
        before = _logs_before(order, orders, logs)
        try:
            claim = _claim_if_ready(order, owner, before)
        except RefusedError:
            break
        tried = _is_tried(order.window, before[order.table.table])
        if tried and find_recorded_version(conn, order) is not None:
            break
        claims.append(claim)
    return claims


def _is_tried(window: TimeWindow, log: TableLog) -> bool:
    finished = any(done.contains(window) for done in log.finished)
    return finished or find_open_attempt(window, log) is not None


def _claim_windows(
    conn: Connection,
    processes: Processes,
    order: Order,
    claims: Sequence[Claim],
    logs: Mapping[str, TableLog],
) -> list[Attempt]:
    table = order.table
    # A table of files takes the files that it finds; after a failure, those it had.
    most = 0 if table.incremental.registers_files else get_max_batches(table)
    attempts = transitions.claim(conn, processes, claims, most, Status.RUNNING)
    if logs[table.table].upstreams_ran_again:
        refreshes.advance_bookmarks(conn, table, list_with_upstreams(table, order.tables))
    return attempts


def _logs_before(
    order: Order, orders: Sequence[Order], logs: Mapping[str, TableLog]
) -> dict[str, TableLog]:
    """Count the windows before an order in its batch as finished: it waits for none of them."""
    name = order.table.table
    first = orders[0].window
    done = TimeWindow(first.start, order.window.start, zone=first.zone)
    finished = tuple(unite(logs[name].finished, (done,)))
    return {**logs, name: replace(logs[name], finished=finished)}


def _logs(conn: Connection, order: Order) -> dict[str, TableLog]:
    return history.read_table_logs(conn, list_with_upstreams(order.table, order.tables))


def _logs_without_dead(conn: Connection, order: Order) -> dict[str, TableLog]:
    """Return the logs, after ending attempts of this machine's dead runners at the table."""
    logs = _logs(conn, order)
    dead = [
        (item.job_id, item.owner)
        for item in logs[order.table.table].open
        if item.owner and item.status is Status.RUNNING and is_dead(item.owner)
    ]
    for job_id, runner in dead:
        ATTEMPTS.bury(conn, job_id, runner)  # now, without waiting for their leases
    return _logs(conn, order) if dead else logs


def refuse_unready(conn: Connection, order: Order) -> None:
    """Raise RefusedError if a claim would currently refuse an order. Reads the log only."""
    table, on_running = order.table, order.arguments.on_running or order.table.on_running
    logs = read_logs(conn, order.project.with_tables({table.table: table}), [table.table])
    _judge(order, logs)
    running = find_open_attempt(order.window, logs[table.table])
    if running and running.status is Status.RUNNING and on_running is not OnRunning.REPLACE:
        by = f"job {running.job_id} of {running.owner}"
        raise AlreadyRunningError(f"{table.table} {order.window} is already running in {by}")


def _claim_if_ready(order: Order, owner: Owner, logs: Mapping[str, TableLog]) -> Claim:
    """Return the claim of an order. Raises RefusedError if it is done, or may not run yet."""
    return _claim(order, owner, _judge(order, logs).seen_until)


def _judge(order: Order, logs: Mapping[str, TableLog]) -> Judgement:
    """Judge an order. Raises RefusedError if its window is done, or may not run yet."""
    judged = judge(order.table, (order.window, order.trigger), order.tables, logs, order.now)
    if judged.refusal is not None:
        raise _refusal(order.table.table, order.window, judged.refusal)
    return judged


def record_inapplicable(
    conn: Connection, order: Order, windows: Sequence[TimeWindow], owner: Owner
) -> dict[TimeWindow, str]:
    """Record the windows to which a table's conditions do not apply as SKIPPED; return the reasons.

    `windows` begin with that of the order, in ascending order. They are checked against the current
    log, up to the first that may apply after all. Raises RefusedError if that is the order's own.
    """
    table, tables = order.table, order.tables
    lock_to_claim(conn, order.project, table.table)
    logs = _logs_without_dead(conn, order)
    first = find_obstacle(table, order.window, tables, logs, order.now)
    if not isinstance(first, NotApplying):
        text = f"{table.table} {order.window} may apply after all; it is planned again"
        raise DependencyError(text) if first is None else _refusal(table.table, order.window, first)
    claim = _claim(order, owner)
    claiming.skip(conn, [replace(claim, window=older) for older in order.passed_over])
    found: dict[TimeWindow, str] = {}
    for window in windows:
        blocked = find_upstream_obstacle(table, window, tables, logs)
        if not isinstance(blocked, NotApplying):
            break
        if claiming.skip(conn, [replace(claim, window=window)], blocked.reason):
            found[window] = blocked.reason
    return found


def skip_windows(
    conn: Connection, order: Order, windows: Sequence[TimeWindow], owner: Owner, reason: str
) -> None:
    """Record unfinished windows as SKIPPED by an operator.

    Raises RefusedError if one runs or is done.
    """
    table = order.table.table
    lock_to_claim(conn, order.project, table)
    log = _logs(conn, order)[table]
    for window in windows:
        if any(done.overlaps(window) for done in log.finished):
            fix = "run it again with `logdriven refresh`"
            raise AlreadyDoneError(f"{table} {window} has finished and cannot be skipped; {fix}")
        attempt = find_open_attempt(window, log)
        if attempt is not None and attempt.status is Status.RUNNING and not attempt.expired:
            fix = f"stop it with `logdriven discard {table}`"
            raise AlreadyRunningError(f"{table} {window} is running in job {attempt.job_id}; {fix}")
    _find_skipped(conn, table, windows)
    claim = _claim(order, owner)
    claiming.skip(conn, [replace(claim, window=window) for window in windows], reason)


def unskip_windows(
    conn: Connection, order: Order, windows: Sequence[TimeWindow], owner: Owner, reason: str
) -> None:
    """Make skipped windows pending again. Raises UsageError for one that is not skipped."""
    table = order.table.table
    lock_to_claim(conn, order.project, table)
    found = _find_skipped(conn, table, windows)
    for window in windows:
        if not any(each.overlaps(window) for each in found):
            raise UsageError(f"{table} {window} is not skipped")
    claim = _claim(order, owner)
    claiming.unskip(conn, [replace(claim, window=each) for each in found], reason)


def _find_skipped(conn: Connection, table: str, windows: Sequence[TimeWindow]) -> list[TimeWindow]:
    """Return the skipped windows within others. Raises UsageError for one that extends beyond."""
    spans = unite(windows)
    found = [each for span in spans for each in overlaps.find_skipped_windows(conn, table, span)]
    for each in found:
        if not any(span.contains(each) for span in spans):
            raise UsageError(f"{table} {each} was skipped as a whole; name all of it")
    return found


def _claim(order: Order, owner: Owner, seen_until: datetime | None = None) -> Claim:
    project, table = order.project, order.table
    return Claim(
        table=table.table,
        window=order.window,
        period_minutes=table.period.minutes,
        incremental_type=table.incremental_type,
        project=project.name,
        trigger=order.trigger,
        owner=owner,
        now=order.now,
        runtime_args=order.runtime_args,
        parameters=order.parameters,
        job_run_id=order.arguments.job_run.job_run_id if order.arguments.job_run else None,
        steps=tuple(step.step for step in order.steps),
        lease=project.config.lease,
        on_running=order.arguments.on_running or table.on_running,
        definition=order.definition,
        version=project.version(Kind.TABLE, table.table),
        other_version=order.other_version,
        reads=reads(project, table, order.window),
        seen_until=seen_until,
    )


def reads(project: Project, table: TableConfig, window: TimeWindow) -> dict[str, Reads]:
    """Return upstream table → the ranges that a window reads; None for all rows."""
    return {
        dependency.table: read_ranges(project.tables[dependency.table], dependency, window)
        for dependency in table.managed_dependencies
        if dependency.read != "none"
    }


def read_logs(conn: Connection, project: Project, names: Collection[str]) -> dict[str, TableLog]:
    """Read the logs of tables and their upstreams; attempts of dead runners count as failed."""
    wanted = {
        upstream.table: upstream
        for name in names
        for upstream in list_with_upstreams(project.tables[name], project.tables)
    }
    logs = history.read_table_logs(conn, list(wanted.values()))
    return {
        name: replace(log, open=tuple(map(_as_failed_if_dead, log.open))) if log.open else log
        for name, log in logs.items()
    }


def _as_failed_if_dead(item: OpenWindow) -> OpenWindow:
    if item.status is not Status.RUNNING:
        return item
    if item.expired:
        return replace(item, status=Status.FAILURE, error="its lease ran out", presumed=True)
    if item.owner and is_dead(item.owner):
        return replace(item, status=Status.FAILURE, error="its runner died", presumed=True)
    return item


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
