"""Writing the run log: claim, steps, finish. Every guarded write proves that it hit one row."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import Update

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError, AttemptLostError
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Claim,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.windows import range_text
from logdriven_dagster.runlog.clock import utc_now
from logdriven_dagster.runlog.schema import job_log, step_log

_ERROR_LENGTH = 5000
"""Source: Sharp ETL, error texts are cut to 5,000 characters."""
_OUTPUT_LENGTH = 16_000
"""MariaDB's TEXT holds 65,535 bytes, four for a character."""
_FILES_LENGTH = 1024


def claim(conn: Connection, request: Claim) -> Attempt:
    """Start an attempt at a window: its new latest `job_log` row, RUNNING.

    AlreadyRunningError if another attempt is running, AlreadyDoneError if the latest one succeeded
    and the trigger is PENDING. Of two claims at the same instant the unique index of
    `(job_schedule_id, latest)` lets one through.
    """
    previous = conn.execute(
        select(job_log.c.job_id, job_log.c.status, job_log.c.attempt_number, job_log.c.owner).where(
            job_log.c.job_schedule_id == schedule_id(request), job_log.c.latest == 1
        )
    ).one_or_none()
    what = f"{request.table} {request.window}"
    if previous is not None and previous.status == Status.RUNNING.value:
        by = f"job {previous.job_id} of {previous.owner}"
        raise AlreadyRunningError(f"{what} is already running in {by}")
    if (
        previous is not None
        and previous.status == Status.SUCCESS.value
        and request.trigger is Trigger.PENDING
    ):
        raise AlreadyDoneError(f"{what} is done already, by job {previous.job_id}")
    number = previous.attempt_number + 1 if previous is not None else 1
    try:
        if previous is not None:
            _demote(conn, previous.job_id, what)
        job_id = _insert(conn, request, Status.RUNNING, number)
    except IntegrityError:
        raise AlreadyRunningError(f"{what} has just been started by another runner") from None
    return Attempt(job_id, request, number)


def skip(conn: Connection, requests: Sequence[Claim]) -> None:
    """Record windows as passed over on purpose; they are never lost, a refresh runs them.

    A window that is running, done or skipped already stays as it is.
    """
    kept = [status.value for status in (Status.RUNNING, Status.SUCCESS, Status.SKIPPED)]
    for request in requests:
        previous = conn.execute(
            select(job_log.c.job_id, job_log.c.status, job_log.c.attempt_number).where(
                job_log.c.job_schedule_id == schedule_id(request), job_log.c.latest == 1
            )
        ).one_or_none()
        if previous is not None and previous.status in kept:
            continue
        if previous is not None:
            _demote(conn, previous.job_id, f"{request.table} {request.window}")
        number = previous.attempt_number + 1 if previous is not None else 1
        _insert(conn, request, Status.SKIPPED, number)


def start_step(conn: Connection, attempt: Attempt, step_id: str) -> None:
    """Log a step as RUNNING; one that is started again (a retry) begins anew.

    AttemptLostError if somebody else has ended the attempt.
    """
    ours = update(job_log).where(_held(attempt)).values(last_update_time=utc_now())
    _exactly_one(conn, ours, f"job {attempt.job_id}")
    started: dict[str, Any] = {
        **dict.fromkeys(("source_count", "target_count", "success_count", "failure_count")),
        "status": Status.RUNNING.value,
        "start_time": utc_now(),
        "end_time": utc_now(),
        "duration": 0,
        "output": "",
        "error": None,
    }
    again = (
        update(step_log)
        .where(step_log.c.job_id == attempt.job_id, step_log.c.step_id == step_id)
        .values(**started)
    )
    if conn.execute(again).rowcount == 0:
        conn.execute(insert(step_log).values(job_id=attempt.job_id, step_id=step_id, **started))


def finish_step(conn: Connection, attempt: Attempt, step_id: str, outcome: StepOutcome) -> None:
    """Log how a running step ended; AttemptLostError if it is not running any more."""
    row = (step_log.c.job_id == attempt.job_id) & (step_log.c.step_id == step_id)
    _exactly_one(
        conn,
        update(step_log)
        .where(row, step_log.c.status == Status.RUNNING.value)
        .values(
            status=outcome.status.value,
            end_time=utc_now(),
            duration=_seconds_since_start(conn, row),
            output=_clean(outcome.output, _OUTPUT_LENGTH),
            source_count=outcome.counts.source,
            target_count=outcome.counts.target,
            success_count=outcome.counts.success,
            failure_count=outcome.counts.failure,
            error=_clean(outcome.error, _ERROR_LENGTH) if outcome.error is not None else None,
            source_type=outcome.source_type,
            target_type=outcome.target_type,
        ),
        f"step {step_id} of job {attempt.job_id}",
    )


def finish(conn: Connection, attempt: Attempt, outcome: AttemptOutcome) -> None:
    """Log how an attempt ended; AttemptLostError if somebody else has ended it.

    A failed attempt closes the steps that were still running.
    """
    _exactly_one(
        conn,
        update(job_log)
        .where(_held(attempt))
        .values(
            status=outcome.status.value,
            job_end_time=utc_now(),
            last_update_time=utc_now(),
            application_id=outcome.application_id,
            current_file=_clean(outcome.current_file, _FILES_LENGTH)
            if outcome.current_file is not None
            else None,
            error_count=outcome.error_count,
        ),
        f"job {attempt.job_id}",
    )
    if outcome.status is Status.FAILURE:
        _close_steps(conn, attempt.job_id)


def abandon(conn: Connection, job_id: int, owner: Owner, reason: str) -> None:
    """Log the attempt of a dead runner as FAILURE; AttemptLostError if it is not RUNNING by it."""
    _exactly_one(
        conn,
        update(job_log)
        .where(
            job_log.c.job_id == job_id,
            job_log.c.status == Status.RUNNING.value,
            job_log.c.owner == str(owner),
        )
        .values(
            status=Status.FAILURE.value,
            job_end_time=utc_now(),
            last_update_time=utc_now(),
            error_count=job_log.c.error_count + 1,
        ),
        f"job {job_id}",
    )
    _close_steps(conn, job_id, reason)


def schedule_id(request: Claim) -> str:
    """`job_log.job_schedule_id`: names the window that a row is an attempt at."""
    return f"{request.table}-{range_text(request.window.start)}"


def _demote(conn: Connection, job_id: int, what: str) -> None:
    demoted = conn.execute(
        update(job_log)
        .where(
            job_log.c.job_id == job_id,
            job_log.c.latest == 1,
            job_log.c.status != Status.RUNNING.value,
        )
        .values(latest=None)
    )
    if demoted.rowcount != 1:
        raise AlreadyRunningError(f"{what} has just been started by another runner")


def _insert(conn: Connection, request: Claim, status: Status, number: int) -> int:
    row = insert(job_log).values(
        job_name=request.table,
        job_period=request.period_minutes,
        job_schedule_id=schedule_id(request),
        data_range_start=range_text(request.window.start),
        data_range_end=range_text(request.window.end),
        job_start_time=utc_now(),
        job_end_time=None if status is Status.RUNNING else utc_now(),
        status=status.value,
        create_time=utc_now(),
        last_update_time=utc_now(),
        incremental_type=request.incremental_type,
        project_name=request.project,
        run_trigger=request.trigger.value,
        attempt_number=number,
        owner=str(request.owner),
        dagster_run_id=request.owner.dagster_run_id,
        runtime_args=json.dumps(dict(request.runtime_args)) if request.runtime_args else None,
        data_now=int(request.now.timestamp()),
        window_start=int(request.window.start.timestamp()),
        window_end=int(request.window.end.timestamp()),
        latest=1,
    )
    key = conn.execute(row).inserted_primary_key
    assert key is not None
    return int(key[0])


def _close_steps(conn: Connection, job_id: int, reason: str | None = None) -> None:
    """Steps of an attempt that ended without them; no error of their own hides the real one."""
    running = (step_log.c.job_id == job_id) & (step_log.c.status == Status.RUNNING.value)
    for step_id in conn.execute(select(step_log.c.step_id).where(running)).scalars().all():
        row = running & (step_log.c.step_id == step_id)
        ended = {
            "status": Status.FAILURE.value,
            "end_time": utc_now(),
            "duration": _seconds_since_start(conn, row),
            "error": reason,
        }
        conn.execute(update(step_log).where(row).values(**ended))


def _seconds_since_start(conn: Connection, row: ColumnElement[bool]) -> int:
    times = conn.execute(select(step_log.c.start_time, utc_now().label("now")).where(row)).first()
    return max(0, round((times.now - times.start_time).total_seconds())) if times else 0


def _held(attempt: Attempt) -> ColumnElement[bool]:
    """The attempt's row while it runs and is ours."""
    return and_(
        job_log.c.job_id == attempt.job_id,
        job_log.c.status == Status.RUNNING.value,
        job_log.c.owner == str(attempt.claim.owner),
    )


def _exactly_one(conn: Connection, statement: Update, what: str) -> None:
    if conn.execute(statement).rowcount != 1:
        raise AttemptLostError(f"{what} is not running by us any more; somebody else ended it")


def _clean(text: str, length: int) -> str:
    """Text that every database can store: no NUL, no half characters, cut with a note."""
    note = " … (cut)"
    text = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= length else text[: length - len(note)] + note
