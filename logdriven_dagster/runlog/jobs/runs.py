"""The log of jobs: one leased row for each run, and one row for each of its steps.

Source: Kettle, `t_etl_kjb_log`, `t_etl_tbl_log` and their latest-status views. The lease is ours:
in Kettle the rows of killed processes stay Running for ever.
"""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.errors import AlreadyRunningError
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.job_runs import JobRequest, JobRun, JobStepResult, RunStep
from logdriven_dagster.runlog.leases import LeasedRows, fresh_lease, next_token
from logdriven_dagster.runlog.schema.definitions import job_definition
from logdriven_dagster.runlog.schema.observations import job_run, job_run_step
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import of_project
from logdriven_dagster.runlog.sql.texts import stored

_RUNNING, _READY, _SUCCESS = (s.value for s in (Status.RUNNING, Status.READY, Status.SUCCESS))
_TEXT_LENGTH = 16_000
"""MariaDB's TEXT holds 65,535 bytes, four for a character."""


def start(conn: Connection, request: JobRequest) -> JobRun:
    """Record that a run has begun, before anything else of it happens.

    A run of the job whose lease has expired is taken over: it ends as FAILURE. Raises
    AlreadyRunningError if another one is running; of two concurrent starts the unique index of
    `(job_code, running)` admits one.
    """
    for row in RUNS.found(conn, job_run.c.job_code == request.code):
        if not (row.expired and RUNS.take_over(conn, row, request.owner)):
            raise AlreadyRunningError(
                f"{request.job} is already running in run {row.job_run_id} of {row.owner}"
            )
    token = _next_token(conn, request.code)
    try:
        job_run_id = _insert(conn, request, token)
    except IntegrityError:
        raise AlreadyRunningError(f"another process has just started {request.job}") from None
    for step in request.steps:
        conn.execute(
            insert(job_run_step).values(
                job_run_id=job_run_id,
                exec_order=step.exec_order,
                step_id=step.step,
                status=_READY,
            )
        )
    return JobRun(job_run_id, request, token)


def start_step(conn: Connection, run: JobRun, step: RunStep, failed_tries: int = 0) -> None:
    """Record that a step runs, possibly again, with the number of failed tries so far."""
    RUNS.renew(conn, [run])
    begun: dict[str, Any] = {"status": _RUNNING, "error_count": failed_tries}
    if not failed_tries:
        begun["begin_time"] = utc_now()
    conn.execute(update(job_run_step).where(_step(run, step)).values(**begun))


def end_step(conn: Connection, run: JobRun, step: RunStep, result: JobStepResult) -> None:
    """Write the result of a step of a maintenance job."""
    RUNS.renew(conn, [run])
    ended = {
        "status": result.status.value,
        "end_time": utc_now(),
        "row_count": result.row_count,
        "error_count": result.error_count,
        "output": stored(result.output, _TEXT_LENGTH),
        "error": _cut(result.error),
    }
    conn.execute(update(job_run_step).where(_step(run, step)).values(**ended))


def finish(
    conn: Connection,
    run: JobRun,
    status: Status,
    error: str | None = None,
    blocked: Sequence[str] = (),
) -> None:
    """Record the end of a run and release its lease.

    `blocked` has a line for each blocked table. Steps that were running end with the run; steps
    that had not started stay READY. Raises AttemptLostError if another process ended the run.
    """
    ended = {
        "status": status.value,
        "running": None,
        "error": _cut(error),
        "lease_expires_at": None,
        "blocked": "\n".join(blocked) or None,
    }
    RUNS.write(conn, [run], ended, now=("end_time",))
    if status is not Status.SUCCESS:
        _close_steps(conn, run.job_run_id, status, error)


def living_owners(conn: Connection, code: str | None = None) -> list[tuple[int, Owner]]:
    """Return the runs that have not ended, of one job or all, with their owners."""
    mine = [] if code is None else [job_run.c.job_code == code]
    rows = RUNS.found(conn, *mine)
    owned = ((row.job_run_id, Owner.parse(row.owner, row.dagster_run_id)) for row in rows)
    return [(job_run_id, owner) for job_run_id, owner in owned if owner is not None]


def stopped_at(conn: Connection, code: str) -> RunStep | None:
    """Return the step at which the newest run of a job stopped.

    Returns None if the run succeeded, or there is none.
    """
    mine = of_project(job_run) & (job_run.c.job_code == code)
    newest = select(func.max(job_run.c.job_run_id)).where(mine).scalar_subquery()
    query = (
        select(job_run_step.c.exec_order, job_run_step.c.step_id)
        .join_from(job_run, job_run_step, job_run.c.job_run_id == job_run_step.c.job_run_id)
        .where(job_run.c.job_run_id == newest, job_run_step.c.status != _SUCCESS)
        .order_by(job_run_step.c.exec_order)
        .limit(1)
    )
    row = conn.execute(query).first()
    return None if row is None else RunStep(row.exec_order, row.step_id)


def _step(run: JobRun, step: RunStep) -> ColumnElement[bool]:
    return and_(
        job_run_step.c.job_run_id == run.job_run_id,
        job_run_step.c.exec_order == step.exec_order,
    )


def _ended(status: Status, error: str | None) -> dict[str, Any]:
    return {
        "status": status.value,
        "end_time": utc_now(),
        "running": None,
        "error": _cut(error),
    }


def _close_steps(conn: Connection, job_run_id: int, status: Status, reason: str | None) -> None:
    open_ones = (job_run_step.c.job_run_id == job_run_id) & (job_run_step.c.status == _RUNNING)
    ended = {"status": status.value, "end_time": utc_now(), "error": _cut(reason)}
    conn.execute(update(job_run_step).where(open_ones).values(**ended))


def _next_token(conn: Connection, code: str) -> int:
    mine = of_project(job_run) & (job_run.c.job_code == code)
    last = select(func.max(job_run.c.fencing_token)).where(mine).scalar_subquery()
    row = conn.execute(select(utc_now().label("now"), last.label("last"))).one()
    return next_token(row.now, row.last)


def _insert(conn: Connection, request: JobRequest, token: int) -> int:
    version = select(job_definition.c.version).where(job_definition.c.code == request.code)
    row = insert(job_run).values(
        job_code=request.code,
        job_name=request.job,
        job_type=request.type,
        job_version=version.scalar_subquery(),
        project_name=request.project,
        status=_RUNNING,
        begin_time=utc_now(),
        run_trigger=request.trigger,
        parameters=json.dumps(dict(request.parameters), ensure_ascii=False),
        owner=str(request.owner),
        dagster_run_id=request.owner.dagster_run_id,
        running=1,
        fencing_token=token,
        **fresh_lease(request.lease),
    )
    key = conn.execute(row).inserted_primary_key
    assert key is not None
    return int(key[0])


def _cut(error: str | None) -> str | None:
    return None if error is None else stored(error, _TEXT_LENGTH)


RUNS = LeasedRows(
    log=job_run,
    key=job_run.c.job_run_id,
    running=job_run.c.running == 1,
    renewed=(),
    ended=_ended,
    close_steps=_close_steps,
)
