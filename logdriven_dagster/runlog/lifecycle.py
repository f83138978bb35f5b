"""The life cycle of a run: init, halt and term of a job and of its steps.

Source: BDRE, whose procedures these are: `init_job`, `init_step`, `halt_step`, `term_step`,
`halt_job`, `term_job`, with its validations and error codes. A parent process is a table, a
sub-process a step, an enqueuing process an upstream table. INSTANCE_EXEC of a parent is the attempt
(`job_log`), of a sub-process its row of `step_log`. A window is claimed as everywhere else: this is
the one state machine.

Where a run is meant, a runner gives its attempt, and AttemptLostError says that it is not its own
any more. Tools that know only the table give its name, which means the attempt that is running.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from sqlalchemy import select
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
from logdriven_dagster.model.batches import (
    Intake,
    Process,
    Registry,
    Taken,
    marking_of,
    recoverable,
    union_of,
)
from logdriven_dagster.model.windows import Slice, in_zone
from logdriven_dagster.runlog.attempts import failed_refreshes, leases, steps
from logdriven_dagster.runlog.attempts import writes as attempts
from logdriven_dagster.runlog.batches import files, offering
from logdriven_dagster.runlog.batches import taking as batches
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.windows import window_of_row

Run: TypeAlias = Attempt | str
"""An attempt, or the name of a table: its running attempt."""
StepInstance: TypeAlias = tuple[int, str]
"""The key of a `step_log` row: job_id and step_id."""


_UNHALTED = {
    Status.RUNNING: (110, "halt_step ends them"),
    Status.FAILURE: (111, "end the job with term_job and run it again"),
}
_UNTERMINATED = {Status.RUNNING: (110, "term_step ends them")}


@dataclass(frozen=True, slots=True)
class Started:
    """A run that has begun."""

    attempt: Attempt
    taken: Taken


def init_job(
    conn: Connection,
    registry: Registry,
    claim: Claim,
    max_batches: int | None = None,
    first: Status = Status.READY,
) -> Started:
    """Start an attempt and give it its batches; all of its steps are READY.

    But for the `first` one, if it is to be RUNNING at once, as after an `init_step`.

    The slice of a table with enqueuers gets the first and last batch as its bounds. Nothing has
    changed if an error is raised and the transaction is rolled back: LifeCycleError 101, 102, 103,
    109, 110, 112, AlreadyRunningError (104), AlreadyDoneError, EarlierWindowError.
    """
    process = registry.parent(claim.table)
    for step in claim.steps:
        process.sub(step)
    attempt = attempts.claim(conn, claim, first)
    succeeded = _refuse_running_steps(conn, attempt)
    again = attempt.previous not in (None, Status.SUCCESS, Status.SKIPPED)
    goes_on = recoverable(process, succeeded) if again else ()
    if process.routes:
        started = take(conn, process, attempt, max_batches, goes_on)
    else:
        target = None
        if registry.consumers(claim.table):
            target = batches.take_none(conn, attempt).target_batch_id
        started = Started(attempt, Taken(target, last_recoverable_step=goes_on))
    if first is Status.RUNNING and registry.exchanges(claim.table):
        batches.start(conn, started.attempt, claim.steps[0])
    return started


def take(
    conn: Connection,
    process: Process,
    attempt: Attempt,
    max_batches: int | None,
    goes_on: tuple[str, ...] = (),
) -> Started:
    """Give an attempt its batches, which are the bounds of its slice.

    A table of files does so for itself, when it has looked for them.
    """
    chosen = batches.take(conn, process, attempt, max_batches)
    taken = Taken(chosen.target_batch_id, _intakes(conn, process, chosen), goes_on)
    assert isinstance(attempt.window, Slice)
    low, high = taken.bounds
    window = attempt.window.up_to(high, low)
    return Started(attempts.bound(conn, attempt, window, has_more=chosen.has_more), taken)


def init_step(conn: Connection, registry: Registry, run: Run, step: str) -> StepInstance:
    """READY → RUNNING; the key of the step's row. LifeCycleError 103, 106, 108."""
    attempt = _of_step(conn, registry, run, step)
    if _step(conn, attempt, step).status == Status.RUNNING.value:
        raise LifeCycleError(106, f"{step} of {attempt.table}; end it before it starts again")
    steps.start(conn, attempt.job_id, step)
    if registry.exchanges(attempt.table):
        batches.start(conn, attempt, step)
    return attempt.job_id, step


def halt_step(
    conn: Connection, registry: Registry, run: Run, step: str, outcome: StepOutcome
) -> None:
    """End a running step as SUCCESS, or pass one over as SKIPPED. LifeCycleError 103, 107, 108."""
    attempt = _of_step(conn, registry, run, step)
    row = _step(conn, attempt, step)
    if outcome.status is not Status.SKIPPED:
        _refuse_idle(attempt, row)
    steps.finish(conn, row, outcome)
    if registry.exchanges(attempt.table):
        batches.processed(conn, attempt, step)


def term_step(
    conn: Connection, registry: Registry, run: Run, step: str, outcome: StepOutcome
) -> None:
    """End a running step as FAILURE or DISCARDED. LifeCycleError 103, 107, 108."""
    attempt = _of_step(conn, registry, run, step)
    row = _step(conn, attempt, step)
    _refuse_idle(attempt, row)
    steps.finish(conn, row, outcome)
    if registry.exchanges(attempt.table):
        batches.failed(conn, attempt, step)


def halt_job(
    conn: Connection,
    registry: Registry,
    run: Run,
    outcome: AttemptOutcome,
    marking: str | None = None,
) -> int | None:
    """End a run as SUCCESS; the batch that it hands to the consumers of its table.

    In one transaction: its batches are processed and archived, and what it has made is queued
    under a marking: by default the union of what it took, or the dates of its window. A slice in
    which there was nothing makes no batch. LifeCycleError 102, 105, 110, 111.
    """
    process, attempt = _of_job(conn, registry, run)
    _refuse_steps(conn, attempt, _UNHALTED)
    if not registry.exchanges(attempt.table):
        attempts.finish(conn, attempt, outcome)
        return None
    if marking is None:
        marking = union_of(batches.markings(conn, attempt)) or marking_of(
            attempt.window, process.zone, attempt.claim.now
        )
    batches.processed(conn, attempt)
    attempts.finish(conn, attempt, outcome)
    made = None
    if not attempt.window.is_empty:
        made = offering.offer(conn, attempt, marking, registry.consumers(attempt.table))
    batches.archive(conn, attempt)
    return made


def term_job(conn: Connection, registry: Registry, run: Run, outcome: AttemptOutcome) -> None:
    """End a run as FAILURE or DISCARDED; its batches stay queued, for the next attempt at it.

    Those of a refresh whose window is finished all the same do not. LifeCycleError 102, 105, 110.
    """
    _, attempt = _of_job(conn, registry, run)
    _refuse_steps(conn, attempt, _UNTERMINATED)
    if registry.exchanges(attempt.table):
        if attempt.was_finished and outcome.published_nothing:
            batches.give_back(conn, attempt.job_id)
        else:
            batches.failed(conn, attempt)
    attempts.finish(conn, attempt, outcome)


def leave_standing(conn: Connection, job_id: int) -> None:
    """Of an attempt that somebody else has just ended: if it had changed nothing, what was stands.

    Nobody goes on with it then, and batches that it took again leave the queue.
    """
    standing = failed_refreshes.standing_behind(conn, job_id)
    if standing is not None:
        batches.give_back(conn, job_id)
        steps.forget_staged(conn, job_id)
        failed_refreshes.hide(conn, job_id, standing)


def _intakes(conn: Connection, process: Process, chosen: batches.Chosen) -> tuple[Intake, ...]:
    by_batch: dict[int, list[Any]] = {}
    for item in files.files_of_batches(conn, [batch.batch_id for batch in chosen.batches]):
        by_batch.setdefault(item.batch_id, []).append(item)
    intakes = []
    for sub in process.steps:
        mine = tuple(batch for batch in chosen.batches if batch.step == sub.step)
        brought = tuple(item for batch in mine for item in by_batch.get(batch.batch_id, ()))
        intakes += [Intake(sub.step, mine, brought)] if mine else []
    return tuple(intakes)


def _refuse_running_steps(conn: Connection, attempt: Attempt) -> set[str]:
    """LifeCycleError 110 if a step of the attempt before is RUNNING; the steps that it had done.

    Only people who change the log by hand leave it so.
    """
    if attempt.previous is None:
        return set()
    query = select(step_log).where(step_log.c.job_id == attempt.previous_id)
    rows = conn.execute(query).all()
    running = [row.step_id for row in rows if row.status == Status.RUNNING.value]
    if running:
        what = f"{', '.join(running)} of job {attempt.previous_id}"
        ended = f"which is {attempt.previous.value}; set it to FAILURE in step_log"
        raise LifeCycleError(110, f"{what}, {ended}")
    done = Status.SUCCESS.value
    return {row.step_id for row in rows if row.status == done or row.staged is not None}


def _of_job(conn: Connection, registry: Registry, run: Run) -> tuple[Process, Attempt]:
    process = registry.parent(run if isinstance(run, str) else run.table)
    return process, _held(conn, process, run, 105)


def _of_step(conn: Connection, registry: Registry, run: Run, step: str) -> Attempt:
    process = registry.parent(run if isinstance(run, str) else run.table)
    process.sub(step)
    return _held(conn, process, run, 108)


def _held(conn: Connection, process: Process, run: Run, code: int) -> Attempt:
    """The attempt that is meant, its lease renewed."""
    attempt = _running(conn, process, code) if isinstance(run, str) else run
    leases.renew(conn, attempt)
    return attempt


def _running(conn: Connection, process: Process, code: int) -> Attempt:
    query = select(job_log).where(
        job_log.c.job_name == process.table,
        job_log.c.latest == 1,
        job_log.c.status == Status.RUNNING.value,
    )
    rows = conn.execute(query).all()
    if not rows:
        raise LifeCycleError(code, f"no attempt at {process.table}; init_job starts one")
    if len(rows) > 1:
        several = ", ".join(str(row.job_id) for row in rows)
        raise UsageError(f"{process.table} has several running attempts: {several}; give one")
    return _attempt(rows[0], process)


def _attempt(row: Row[Any], process: Process) -> Attempt:
    lease = timedelta(minutes=1)
    if row.lease_expires_at is not None and row.heartbeat_at is not None:
        lease = row.lease_expires_at - row.heartbeat_at
    claim = Claim(
        table=row.job_name,
        window=window_of_row(row.incremental_type, row._mapping, process.zone),
        period_minutes=row.job_period,
        incremental_type=row.incremental_type,
        project=row.project_name,
        trigger=Trigger(row.run_trigger or Trigger.PENDING),
        owner=Owner.parse(row.owner, row.dagster_run_id) or Owner(row.owner or "", 0, 0),
        now=in_zone(row.data_now or 0, process.zone),
        steps=(),
        lease=lease,
    )
    return Attempt(row.job_id, claim, row.attempt_number, row.fencing_token)


def _step(conn: Connection, attempt: Attempt, step: str) -> Row[Any]:
    row = steps.find(conn, attempt.job_id, step)
    if row is None:
        raise LifeCycleError(103, f"job {attempt.job_id} was started without the step {step}")
    return row


def _refuse_idle(attempt: Attempt, row: Row[Any]) -> None:
    if row.status != Status.RUNNING.value:
        raise LifeCycleError(107, f"{row.step_id} of job {attempt.job_id} is {row.status}")


def _refuse_steps(
    conn: Connection, attempt: Attempt, refused: Mapping[Status, tuple[int, str]]
) -> None:
    """LifeCycleError for steps in one of these states: its code, and how to go on."""
    query = select(step_log.c.step_id, step_log.c.status).where(
        step_log.c.job_id == attempt.job_id,
        step_log.c.status.in_([status.value for status in refused]),
    )
    rows = conn.execute(query).all()
    for status, (code, fix) in refused.items():
        if found := [row.step_id for row in rows if row.status == status.value]:
            raise LifeCycleError(code, f"{', '.join(found)} of job {attempt.job_id}; {fix}")
