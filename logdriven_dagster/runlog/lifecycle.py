"""The BDRE interface of the run log for other tools: init, halt and term of jobs and steps.

Source: BDRE, whose procedures these are: `init_job`, `init_step`, `halt_step`, `term_step`,
`halt_job`, `term_job`, with its validations and error codes. A parent process is a table, a
sub-process a step, an enqueuing process an upstream table. INSTANCE_EXEC of a parent is the attempt
(`job_log`), of a sub-process its row of `step_log`. They use the transitions of the project's own
runner: there is one state machine.

Functions that act on a run accept its attempt, and raise AttemptLostError if the caller has lost
it. Tools that know only the table pass its name, which stands for its running attempt.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import IntEnum
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection, Row

from logdriven_dagster.errors import LifeCycleError, UsageError
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Claim,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.batches import Process, Processes
from logdriven_dagster.model.windows import convert_to_instant
from logdriven_dagster.runlog import transitions
from logdriven_dagster.runlog.attempts import steps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.steps import StepKey
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.windows import build_window_of_row

Run: TypeAlias = Attempt | str
"""An attempt, or the name of a table: its running attempt."""

_UNHALTED = {
    Status.RUNNING: (110, "end them with halt_step"),
    Status.FAILURE: (111, "end the job with term_job and run it again"),
}
_UNTERMINATED = {Status.RUNNING: (110, "end them with term_step")}


class ExecState(IntEnum):
    """The status of a process in BDRE's numbering. Source: BDRE, EXEC_STATUS."""

    NOT_RUNNING = 1
    RUNNING = 2
    SUCCESS = 3
    PAUSED = 4
    SUSPENDED = 5
    FAILED = 6


EXEC_STATES: Mapping[Status, ExecState] = {
    Status.READY: ExecState.NOT_RUNNING,
    Status.RUNNING: ExecState.RUNNING,
    Status.SUCCESS: ExecState.SUCCESS,
    Status.SKIPPED: ExecState.PAUSED,
    Status.DISCARDED: ExecState.SUSPENDED,
    Status.FAILURE: ExecState.FAILED,
}
"""BDRE's states by status: a skipped window is paused, a discarded attempt suspended."""


def init_job(
    conn: Connection, processes: Processes, claim: Claim, max_batches: int | None = None
) -> Attempt:
    """Start an attempt and give it its batches; all of its steps are READY.

    Raises LifeCycleError 101, 102, 103, 109, 110, 112, AlreadyRunningError (104), AlreadyDoneError,
    EarlierWindowError.
    """
    (attempt,) = transitions.claim(conn, processes, [claim], max_batches)
    return attempt


def init_step(conn: Connection, processes: Processes, run: Run, step: str) -> StepKey:
    """Set a step from READY to RUNNING, and return the key of its row.

    A step that has ended begins again: a run may try it several times before it ends itself. Raises
    LifeCycleError 103, 106, 108.
    """
    attempt, status = _step(conn, processes, run, step)
    if status == Status.RUNNING.value:
        raise LifeCycleError(106, f"{step} of {attempt.table}; end it before it starts again")
    if status != Status.READY.value:
        steps.reopen(conn, attempt.job_id, step)
    transitions.begin_step(conn, processes, [attempt], step)
    return attempt.job_id, step


def halt_step(
    conn: Connection, processes: Processes, run: Run, step: str, outcome: StepOutcome
) -> None:
    """End a running step as SUCCESS, or skip one as SKIPPED.

    Raises LifeCycleError 103, 107, 108.
    """
    attempt, status = _step(conn, processes, run, step)
    if status != Status.RUNNING.value and outcome.status is not Status.SKIPPED:
        raise LifeCycleError(107, f"{step} of job {attempt.job_id} is {status}")
    transitions.end_steps(conn, processes, [attempt], {(attempt.job_id, step): outcome})


def term_step(
    conn: Connection, processes: Processes, run: Run, step: str, outcome: StepOutcome
) -> None:
    """End a running step as FAILURE or DISCARDED. Raises LifeCycleError 103, 107, 108."""
    halt_step(conn, processes, run, step, outcome)


def halt_job(
    conn: Connection,
    processes: Processes,
    run: Run,
    outcome: AttemptOutcome,
    marking: str | None = None,
) -> int | None:
    """End a run as SUCCESS, and return the batch that it hands to the consumers of its table.

    The batch is queued under a marking, see `transitions.succeed`. Raises LifeCycleError 102, 105,
    110, 111, and 107 for a step that has batches and never ran: its batches would be archived
    unprocessed.
    """
    attempt = _find_attempt(conn, processes, run, _UNHALTED)
    waiting = transitions.find_unprocessed_steps(conn, attempt)
    if waiting:
        what = f"{', '.join(waiting)} of job {attempt.job_id} took batches but did not run"
        fix = "run them, or skip them with halt_step and SKIPPED"
        raise LifeCycleError(107, f"{what}; {fix}")
    made = transitions.succeed(conn, processes, [attempt], outcome, marking=marking)
    return next(iter(made), None)


def term_job(conn: Connection, processes: Processes, run: Run, outcome: AttemptOutcome) -> None:
    """End a run as FAILURE or DISCARDED; its batches stay queued.

    Raises LifeCycleError 102, 105, 110.
    """
    attempt = _find_attempt(conn, processes, run, _UNTERMINATED)
    transitions.fail(conn, processes, [attempt], outcome)


def _find_attempt(
    conn: Connection, processes: Processes, run: Run, refused: Mapping[Status, tuple[int, str]]
) -> Attempt:
    """Return the attempt of a run.

    `refused` maps a state to a code and a remedy. Raises LifeCycleError for steps in such a state.
    """
    attempt = _find_held_attempt(conn, processes, run, 105)
    known = steps.read_states(conn, [attempt.job_id])
    for status, (code, fix) in refused.items():
        if found := [step for (_, step), state in known.items() if state == status.value]:
            raise LifeCycleError(code, f"{', '.join(found)} of job {attempt.job_id}; {fix}")
    return attempt


def _step(conn: Connection, processes: Processes, run: Run, step: str) -> tuple[Attempt, str]:
    """Return the attempt, and the status of one of its steps."""
    processes.parent(_get_table(run)).sub(step)
    attempt = _find_held_attempt(conn, processes, run, 108)
    status = steps.read_states(conn, [attempt.job_id]).get((attempt.job_id, step))
    if status is None:
        raise LifeCycleError(103, f"job {attempt.job_id} was started without the step {step}")
    return attempt, status


def _get_table(run: Run) -> str:
    return run if isinstance(run, str) else run.table


def _find_held_attempt(conn: Connection, processes: Processes, run: Run, code: int) -> Attempt:
    """Return the attempt of a run, if the caller still holds it."""
    process = processes.parent(_get_table(run))
    attempt = _find_running_attempt(conn, process, code) if isinstance(run, str) else run
    ATTEMPTS.verify(conn, [attempt])
    return attempt


def _find_running_attempt(conn: Connection, process: Process, code: int) -> Attempt:
    rows = ATTEMPTS.list_leased(conn, job_log.c.job_name == process.table)
    if not rows:
        raise LifeCycleError(
            code, f"{process.table} has no running attempt; start one with init_job"
        )
    if len(rows) > 1:
        several = ", ".join(str(row.job_id) for row in rows)
        raise UsageError(
            f"{process.table} has several running attempts: {several}; give the job_id of one"
        )
    return _build_attempt(rows[0], process)


def _build_attempt(row: Row[Any], process: Process) -> Attempt:
    lease = timedelta(minutes=1)
    if row.lease_expires_at is not None and row.heartbeat_at is not None:
        lease = row.lease_expires_at - row.heartbeat_at
    claim = Claim(
        table=row.job_name,
        window=build_window_of_row(row.incremental_type, row._mapping, process.zone),
        period_minutes=row.job_period,
        incremental_type=row.incremental_type,
        project=row.project_name,
        trigger=Trigger(row.run_trigger or Trigger.PENDING),
        owner=Owner.parse(row.owner, row.dagster_run_id) or Owner(row.owner or "", 0, 0),
        now=convert_to_instant(row.data_now or 0),
        steps=(),
        lease=lease,
        name=row.job_schedule_id,
    )
    return Attempt(row.job_id, claim, row.attempt_number, row.fencing_token)
