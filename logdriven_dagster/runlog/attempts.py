"""One attempt's writes: claim, steps, finish. Every one proves that the attempt is still ours."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, true, update
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
from logdriven_dagster.runlog import coverage, failed_refreshes, leases, steps
from logdriven_dagster.runlog.chunks import chunks
from logdriven_dagster.runlog.clock import microseconds, utc_now
from logdriven_dagster.runlog.schema import job_log, job_log_archive
from logdriven_dagster.runlog.texts import stored


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
    number, token, failures, stands = _next(conn, request, previous)
    known = _looked_at(request, previous)
    try:
        if previous is not None:
            _demote(conn, previous.job_id, request)
        lease = {"fencing_token": token, **leases.lease_for(request.lease)}
        fields = {"failures": failures, **known, **lease}
        job_id = _insert(conn, request, Status.RUNNING, number, **fields)
    except IntegrityError:
        raise _just_started(request) from None
    steps.add(conn, [job_id], request.steps, first)
    staged = _resumable(conn, request, previous) if previous is not None else {}
    before = Status(previous.status) if previous is not None else None
    if before is Status.RUNNING:
        before = Status.FAILURE  # it has just been taken over or replaced
    previous_id = previous.job_id if previous is not None else None
    return Attempt(job_id, request, number, token, before, previous_id, replaced, staged, stands)


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
            _demote(conn, previous.job_id, request)
            # It may have succeeded once, before somebody made it pending again.
            coverage.carve(conn, request.table, Status.SUCCESS, request.window)
        number, token, _, _ = _next(conn, request, previous)
        try:
            job_id = _insert(conn, request, Status.SKIPPED, number, covered=1, fencing_token=token)
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
        if attempt.was_finished and outcome.published_nothing:
            failed_refreshes.hide(conn, attempt)
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


def schedule_id(request: Claim) -> str:
    """`job_log.job_schedule_id`: names the window that a row is an attempt at."""
    return f"{request.table}-{request.window.key}"


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
) -> tuple[int, int, int, bool]:
    """Attempt number, fencing token, failures in a row, and whether the window is finished already.

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
        return 1, token, 0, False
    if previous is None:
        _demote_archived(conn, request)
    finished = previous is None or (previous.status in coverage.DONE and previous.covered != 0)
    refresh = failed_refreshes.repeated(conn, schedule_id(request)) if finished else None
    before = refresh or previous
    if before is None:
        return row.n + 1, token, 0, True
    failed = before.status == Status.FAILURE.value or (refresh is None and before.expired)
    token = max(token, (before.fencing_token or 0) + 1)
    return before.attempt_number + 1, token, before.failures + 1 if failed else 0, finished


def _looked_at(request: Claim, previous: Row[Any] | None) -> dict[str, Any]:
    """Of a slice whose end is known: when its source was asked, and whether it went further."""
    if previous is None or not isinstance(request.window, Slice) or request.window.high is None:
        return {}
    return {"data_now": previous.data_now, "has_more": previous.has_more}


def _demote_archived(conn: Connection, request: Claim) -> None:
    mine = job_log_archive.c.job_schedule_id == schedule_id(request)
    conn.execute(update(job_log_archive).where(mine).values(latest=None))


def _demote(conn: Connection, job_id: int, request: Claim) -> None:
    demoted = update(job_log).where(
        job_log.c.job_id == job_id,
        job_log.c.latest == 1,
        job_log.c.status != Status.RUNNING.value,
    )
    if conn.execute(demoted.values(latest=None)).rowcount != 1:
        raise _just_started(request)


def _just_started(request: Claim) -> AlreadyRunningError:
    what = f"{request.table} {request.window}"
    return AlreadyRunningError(f"{what} has just been started by another runner")


def _resumable(conn: Connection, request: Claim, previous: Row[Any]) -> Mapping[str, str]:
    """What the attempt before left staged, if this one would make the same of the same inputs."""
    if request.definition is None or previous.definition != request.definition:
        return {}
    if previous.data_range_end != request.window.range_end:
        return {}
    found = steps.staged(conn, previous.job_id)
    return found if found and not _newer_inputs(conn, request, previous) else {}


def _newer_inputs(conn: Connection, request: Claim, previous: Row[Any]) -> bool:
    """Whether a window that the steps read has changed, or may have, since that attempt began."""
    for upstream, spans in request.reads.items():
        within = [
            (job_log.c.window_start < int(span.end.timestamp()))
            & (job_log.c.window_end > int(span.start.timestamp()))
            for span in spans or ()
        ]
        if spans is not None and not within:
            continue
        newer = select(job_log.c.job_id).where(
            job_log.c.job_name == upstream,
            job_log.c.latest == 1,
            or_(
                job_log.c.job_id > previous.job_id,
                job_log.c.job_end_time.is_(None),
                job_log.c.job_end_time >= previous.job_start_time,
            ),
            or_(*within) if within else true(),
        )
        if conn.execute(newer.limit(1)).first() is not None:
            return True
    return False


def insert_first(conn: Connection, requests: Sequence[Claim], token: int) -> list[int]:
    """The first attempts at windows, RUNNING with leases of one duration; their jobs, in order."""
    began = _times(Status.RUNNING) | leases.lease_for(requests[0].lease)
    more = {"status": Status.RUNNING.value, "fencing_token": token, "failures": 0}
    rows = [_columns(request, 1) | more for request in requests]
    conn.execute(insert(job_log).values(**began), rows)
    mine = [schedule_id(request) for request in requests]
    jobs: dict[str, int] = {}
    for part in chunks(mine):
        found = select(job_log.c.job_schedule_id, job_log.c.job_id).where(
            job_log.c.job_schedule_id.in_(part), job_log.c.latest == 1
        )
        jobs |= {row.job_schedule_id: row.job_id for row in conn.execute(found)}
    return [jobs[each] for each in mine]


def insert_ended(
    conn: Connection, request: Claim, status: Status, fields: Mapping[str, Any]
) -> int:
    """Log an attempt that nobody made, with what differs from its claim; its job."""
    return _insert(conn, request, status, 1, **fields)


def _insert(conn: Connection, request: Claim, status: Status, number: int, **fields: Any) -> int:
    values = _columns(request, number) | _times(status) | {"status": status.value} | fields
    key = conn.execute(insert(job_log).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _columns(request: Claim, number: int) -> dict[str, Any]:
    """What of a row is known without the database."""
    return {
        "job_name": request.table,
        "job_period": request.period_minutes,
        "job_schedule_id": schedule_id(request),
        "data_range_start": request.window.range_start,
        "data_range_end": request.window.range_end,
        "incremental_type": request.incremental_type,
        "project_name": request.project,
        "run_trigger": request.trigger.value,
        "attempt_number": number,
        "again": 1 if number > 1 else None,
        "owner": str(request.owner),
        "dagster_run_id": request.owner.dagster_run_id,
        "runtime_args": json.dumps(dict(request.runtime_args)) if request.runtime_args else None,
        "data_now": int(request.now.timestamp()),
        "window_start": int(request.window.start.timestamp()),
        "window_end": int(request.window.end.timestamp()),
        "latest": 1,
        "definition": request.definition,
        "table_version": request.version,
        "parameters": json.dumps(dict(request.parameters), ensure_ascii=False),
        "job_run_id": request.job_run_id,
        "seen_until": int(request.seen_until.timestamp()) if request.seen_until else None,
    }


def _times(status: Status) -> dict[str, Any]:
    return {
        "job_start_time": utc_now(),
        "job_end_time": None if status is Status.RUNNING else utc_now(),
        "create_time": utc_now(),
        "last_update_time": utc_now(),
    }
