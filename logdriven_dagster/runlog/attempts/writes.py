"""One attempt's writes: claim, steps, finish. Every one proves that the attempt is still ours."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError
from logdriven_dagster.model.attempts import (
    CURRENT_FILE_LENGTH,
    Attempt,
    AttemptOutcome,
    Claim,
    OnRunning,
    Owner,
    Status,
    Trigger,
)
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.runlog.attempts import coverage, failed_refreshes, leases, steps
from logdriven_dagster.runlog.attempts.inheritance import looked_at, resumable
from logdriven_dagster.runlog.attempts.rows import insert_row, schedule_id
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.clock import microseconds, utc_now
from logdriven_dagster.runlog.sql.texts import stored


def claim(conn: Connection, request: Claim, first: Status = Status.READY) -> Attempt:
    """Start an attempt at a window: its new latest `job_log` row, RUNNING, with its steps.

    They are READY, but for the `first` one, if it is to be RUNNING at once.

    A running attempt whose lease is over is taken over: it ends as FAILURE, and the new attempt
    gets what it had staged. AlreadyRunningError if another attempt is running (unless the request
    replaces it), AlreadyDoneError if the latest one succeeded and the trigger is PENDING. Of two
    claims at the same instant the unique index of `(job_schedule_id, latest)` lets one through.
    """
    _refuse_overlapping(conn, request)
    previous = _latest(conn, request)
    replaced = _make_way(conn, request, previous) if previous is not None else None
    number, token, failures, standing = _next(conn, request, previous)
    known = looked_at(request, previous)
    try:
        if previous is not None:
            _demote(conn, previous, request, standing)
        lease = {"fencing_token": token, **leases.lease_for(request.lease)}
        # Whoever has no definition does not say before it begins to publish either.
        known["standing"] = standing if request.definition is not None else None
        fields = {"failures": failures, **known, **lease}
        job_id = insert_row(conn, request, Status.RUNNING, number, **fields)
    except IntegrityError:
        raise _just_started(request) from None
    steps.add(conn, [job_id], request.steps, first)
    staged = resumable(conn, request, previous) if previous is not None else {}
    before = Status(previous.status) if previous is not None else None
    if before is Status.RUNNING:
        before = Status.FAILURE  # it has just been taken over or replaced
    previous_id = previous.job_id if previous is not None else None
    return Attempt(job_id, request, number, token, before, previous_id, replaced, staged, standing)


def _latest(conn: Connection, request: Claim) -> Row[Any] | None:
    """The latest row of the window; `expired` says that it is RUNNING without a lease."""
    mine = (job_log.c.job_schedule_id == schedule_id(request)) & (job_log.c.latest == 1)
    return conn.execute(select(job_log, leases.is_expired()).where(mine)).one_or_none()


def last_version(
    conn: Connection, table: str, window: TimeWindow
) -> tuple[Status, int | None] | None:
    """How the latest attempt at a window ended, and which version of its table it ran."""
    mine = job_log.c.job_schedule_id == f"{table}-{window.key}"
    newest = or_(job_log.c.latest == 1, job_log.c.failed_refresh == failed_refreshes.MARKED)
    query = select(job_log.c.status, job_log.c.table_version).where(mine, newest)
    row = conn.execute(query.order_by(job_log.c.job_id.desc()).limit(1)).first()
    return None if row is None else (Status(row.status), row.table_version)


def skip(
    conn: Connection, requests: Sequence[Claim], reason: str | None = None
) -> list[TimeWindow]:
    """Record windows as passed over on purpose; they are never lost, a refresh runs them.

    A window that is running, done or skipped already stays as it is. The reason is the output of
    its steps, which are SKIPPED with it. The windows that were recorded.
    """
    recorded = []
    kept = [status.value for status in (Status.RUNNING, Status.SUCCESS, Status.SKIPPED)]
    for request in requests:
        previous = _latest(conn, request)
        if previous is not None and previous.status in kept and not previous.expired:
            continue
        if previous is not None and previous.expired:
            leases.take_over(conn, previous, str(request.owner))
        if previous is not None:
            standing = failed_refreshes.standing_behind(conn, previous.job_id)
            if standing is not None:  # it is finished, and only its refresh died
                failed_refreshes.hide(conn, previous.job_id, standing)
                continue
            _demote(conn, previous, request, None)
            # It may have succeeded once, before somebody made it pending again.
            coverage.carve(conn, request.table, Status.SUCCESS, request.window)
        number, token, _, _ = _next(conn, request, previous)
        try:
            job_id = insert_row(
                conn, request, Status.SKIPPED, number, covered=1, fencing_token=token
            )
        except IntegrityError:
            raise _just_started(request) from None
        if reason is not None:
            steps.add_skipped(conn, job_id, request.steps, reason)
        coverage.cover(conn, request.table, Status.SKIPPED, request.window)
        recorded.append(request.window)
    return recorded


def start_step(conn: Connection, attempt: Attempt, step_id: str) -> None:
    """Log a step as RUNNING; one that is started again (a retry) begins anew."""
    leases.renew(conn, attempt)
    steps.start(conn, attempt.job_id, step_id)


def stage_step(conn: Connection, attempt: Attempt, step_id: str, state: str) -> None:
    """Log that a step's result is durable."""
    leases.renew(conn, attempt)
    steps.stage(conn, attempt.job_id, step_id, state)


def bound(conn: Connection, attempt: Attempt, window: Slice, *, has_more: bool) -> Attempt:
    """Write back what a slice covers, before anything of it is read; the attempt at that slice.

    Source: Sharp ETL, `data_range_end` of keys and offsets is known when the job runs.
    """
    found = {
        "data_range_start": window.range_start,
        "data_range_end": window.range_end,
        "has_more": int(has_more),
    }
    leases.write_held(conn, attempt, update(job_log).where(leases.held(attempt)).values(**found))
    return replace(attempt, claim=replace(attempt.claim, window=window))


def note_errors(conn: Connection, attempt: Attempt, number: int) -> None:
    """Log how many tries have failed so far. Source: Kettle, `error_count`, kept by a success."""
    counted = update(job_log).where(leases.held(attempt)).values(error_count=number)
    leases.write_held(conn, attempt, counted)


def note_change(conn: Connection, attempts: Sequence[Attempt]) -> None:
    """Log that readers may see something of these refreshes from here on.

    Whoever finds one that was killed knows by that whether what was before still stands.
    """
    lease = leases.lease_for(attempts[0].claim.lease)
    leases.write_all_held(conn, attempts, {"standing": None, **lease})


def finish(conn: Connection, attempt: Attempt, outcome: AttemptOutcome) -> None:
    """Log how an attempt ended, which releases its lease; AttemptLostError if somebody else did.

    An attempt that did not succeed closes the steps that were still running. A window that was
    finished before it, and of which it published nothing, is finished still.
    """
    done = outcome.status is Status.SUCCESS
    empty = attempt.window.is_empty
    ended = ending(outcome, covered=not empty)
    leases.write_held(conn, attempt, update(job_log).where(leases.held(attempt)).values(**ended))
    if done and not empty:
        coverage.cover(conn, attempt.table, Status.SUCCESS, attempt.window)
    if not done:
        steps.close_steps(conn, attempt.job_id, outcome.status)
        if attempt.standing is not None and outcome.published_nothing:
            failed_refreshes.hide(conn, attempt.job_id, attempt.standing)
    steps.forget_staged(conn, attempt.job_id)


def ending(outcome: AttemptOutcome, *, covered: bool) -> dict[str, Any]:
    """The columns of an attempt that has ended so; `covered` if a range holds its window."""
    files = outcome.current_file
    return {
        "status": outcome.status.value,
        "job_end_time": utc_now(),
        "last_update_time": utc_now(),
        "application_id": outcome.application_id,
        "current_file": None if files is None else stored(files, CURRENT_FILE_LENGTH),
        "error_count": outcome.error_count,
        "covered": int(covered) if outcome.status is Status.SUCCESS else None,
        "lease_expires_at": None,  # released; what somebody else ends keeps its expiry
    }


def runs_within(table: str, span: TimeWindow) -> ColumnElement[bool]:
    """The rows of running attempts at windows of a table that overlap with a range."""
    return and_(
        job_log.c.job_name == table,
        job_log.c.latest == 1,
        job_log.c.status == Status.RUNNING.value,
        job_log.c.window_start < int(span.end.timestamp()),
        job_log.c.window_end > int(span.start.timestamp()),
    )


def _make_way(conn: Connection, request: Claim, previous: Row[Any]) -> Owner | None:
    """Refuse a window that is running or done; whose attempt was ended, if one was."""
    what = f"{request.table} {request.window}"
    if previous.expired:
        if not leases.take_over(conn, previous, str(request.owner)):
            raise _just_started(request)
        return None
    if previous.status == Status.RUNNING.value:
        if request.on_running is not OnRunning.REPLACE:
            by = f"job {previous.job_id} of {previous.owner}"
            raise AlreadyRunningError(f"{what} is already running in {by}")
        if not leases.replace(conn, previous.job_id, request.owner):
            raise _just_started(request)
        return Owner.parse(previous.owner, previous.dagster_run_id)
    done = previous.status == Status.SUCCESS.value and previous.covered != 0
    if done and request.trigger is Trigger.PENDING:
        raise AlreadyDoneError(f"{what} is done already, by job {previous.job_id}")
    return None


def _refuse_overlapping(conn: Connection, request: Claim) -> None:
    """Windows of a changed period may overlap: they do not run side by side.

    Source: Kylin, where a merge and a build over one range met in production. On servers, two such
    claims within the same milliseconds do not see each other; windows of one period always do.
    """
    overlapping = select(job_log, leases.is_expired()).where(
        runs_within(request.table, request.window),
        job_log.c.job_schedule_id != schedule_id(request),
    )
    for row in conn.execute(overlapping).all():
        if not (row.expired and leases.take_over(conn, row, str(request.owner))):
            by = f"job {row.job_id} of {row.owner} is running {row.job_schedule_id}"
            raise AlreadyRunningError(f"{request.table} {request.window} overlaps with what {by}")


def _next(
    conn: Connection, request: Claim, previous: Row[Any] | None
) -> tuple[int, int, int, int | None]:
    """Attempt number, fencing token, failures in a row, and the job that has finished the window.

    The clock makes the token grow even where a run log starts anew beside old targets.
    """
    archived = [
        select(func.max(column))
        .where(job_log_archive.c.job_schedule_id == schedule_id(request))
        .scalar_subquery()
        for column in (job_log_archive.c.attempt_number, job_log_archive.c.fencing_token)
    ]
    known = select(utc_now().label("now"), archived[0].label("n"), archived[1].label("token"))
    row = conn.execute(known).one()
    token = max(microseconds(row.now), (row.token or 0) + 1)
    if previous is None and not row.n:
        return 1, token, 0, None
    refresh = None
    if previous is None:
        _demote_archived(conn, request)
        standing = failed_refreshes.standing_archived(conn, request)
    elif previous.status in coverage.DONE and previous.covered != 0:
        standing = previous.job_id
    else:
        standing = failed_refreshes.standing_behind(conn, previous.job_id)
    if previous is None or standing == previous.job_id:
        refresh = failed_refreshes.repeated(conn, schedule_id(request))
    before = refresh or previous
    if before is None:
        return row.n + 1, token, 0, standing
    failed = before.status == Status.FAILURE.value or (refresh is None and before.expired)
    token = max(token, (before.fencing_token or 0) + 1)
    return before.attempt_number + 1, token, before.failures + 1 if failed else 0, standing


def _demote_archived(conn: Connection, request: Claim) -> None:
    mine = job_log_archive.c.job_schedule_id == schedule_id(request)
    conn.execute(update(job_log_archive).where(mine).values(latest=None))


def _demote(conn: Connection, previous: Row[Any], request: Claim, standing: int | None) -> None:
    """The attempt before is no longer the latest; as a refresh that changed nothing it is past."""
    demoted = update(job_log).where(
        job_log.c.job_id == previous.job_id,
        job_log.c.latest == 1,
        job_log.c.status != Status.RUNNING.value,
    )
    values: dict[str, int | None] = {"latest": None}
    if standing not in (None, previous.job_id):
        values["failed_refresh"] = failed_refreshes.REPEATED
    if conn.execute(demoted.values(**values)).rowcount != 1:
        raise _just_started(request)


def _just_started(request: Claim) -> AlreadyRunningError:
    what = f"{request.table} {request.window}"
    return AlreadyRunningError(f"{what} has just been started by another runner")
