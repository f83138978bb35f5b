"""Transitions from a claim to an end: writes attempts' rows, steps and batches.

Each function is one transition, of one attempt or of several at adjoining windows of a table,
oldest first. It verifies their leases once: AttemptLostError if another process ended one. Source:
Kylin, each transition is persisted before the next action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import LifeCycleError
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Claim, Status, StepOutcome
from logdriven_dagster.model.batches import (
    Intake,
    Process,
    Processes,
    TakenBatches,
    build_marking,
    find_recoverable,
    merge_markings,
)
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog.attempts import (
    claiming,
    ending,
    failed_refreshes,
    progress,
    steps,
)
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.steps import StepKey
from logdriven_dagster.runlog.batches import files, offering
from logdriven_dagster.runlog.batches import taking as batches
from logdriven_dagster.runlog.schema.attempts import step_log

_GOOD_ENDS = (Status.SUCCESS, Status.SKIPPED)


def claim(
    conn: Connection,
    processes: Processes,
    claims: Sequence[Claim],
    max_batches: int | None = None,
    first: Status = Status.READY,
) -> list[Attempt]:
    """Start attempts and give them their batches; the first step of each gets the status `first`.

    `claims` are of adjoining windows, oldest first; `max_batches` limits the batches of each
    attempt. There may be fewer attempts than claims, see `claiming.claim`. The window of a table
    with enqueuers gets the first and last batch as its bounds.

    Raises LifeCycleError 101, 102, 103, 109, 110, 112, AlreadyRunningError (104), AlreadyDoneError
    and EarlierWindowError. Nothing has changed if the transaction is then rolled back.
    """
    table = claims[0].table
    process = processes.parent(table)
    for step in claims[0].steps:
        process.sub(step)
    attempts = claiming.claim(conn, claims, first)
    succeeded = _refuse_running_steps(conn, attempts)
    again = attempts[0].previous not in (None, Status.SUCCESS, Status.SKIPPED)
    goes_on = find_recoverable(process, succeeded) if again else ()
    if process.routes:
        attempts = [take(conn, process, attempts[0], max_batches, goes_on)]
    else:
        made = bool(processes.consumers(table))
        attempts = [
            replace(
                attempt,
                taken=TakenBatches(
                    batches.take_none(conn, attempt).target_batch_id if made else None,
                    last_recoverable_step=goes_on,
                ),
            )
            for attempt in attempts
        ]
    if first is Status.RUNNING:
        _start_batches(conn, processes, attempts, claims[0].steps[0])
    return attempts


def take(
    conn: Connection,
    process: Process,
    attempt: Attempt,
    max_batches: int | None,
    goes_on: tuple[str, ...] = (),
) -> Attempt:
    """Give an attempt its batches, which are the bounds of its window.

    A table of files does so for itself, after it has listed them.
    """
    chosen = batches.take(conn, process, attempt, max_batches)
    taken = TakenBatches(chosen.target_batch_id, _build_intakes(conn, process, chosen), goes_on)
    assert isinstance(attempt.window, Slice)
    low, high = taken.bounds
    window = attempt.window.up_to(high, low)
    bound = progress.write_bounds(conn, attempt, window, has_more=chosen.has_more)
    return replace(bound, taken=taken)


def begin_step(
    conn: Connection,
    processes: Processes,
    attempts: Sequence[Attempt],
    step: str,
    states: Mapping[StepKey, str] = {},
) -> None:
    """Record that a step runs, possibly again, and that the earlier results are durable."""
    ATTEMPTS.renew(conn, attempts)
    steps.stage(conn, states)
    steps.start(conn, [attempt.job_id for attempt in attempts], step)
    _start_batches(conn, processes, attempts, step)


def end_steps(
    conn: Connection,
    processes: Processes,
    attempts: Sequence[Attempt],
    outcomes: Mapping[StepKey, StepOutcome],
) -> None:
    """Record that steps end, or are skipped, before their attempts end."""
    ATTEMPTS.renew(conn, attempts)
    steps.finish(conn, outcomes)
    if not processes.exchanges(attempts[0].table):
        return
    mine = {attempt.job_id: attempt for attempt in attempts}
    for (job_id, step), outcome in outcomes.items():
        end = batches.mark_processed if outcome.status in _GOOD_ENDS else batches.mark_failed
        end(conn, mine[job_id], step)


def find_unprocessed_steps(conn: Connection, attempt: Attempt) -> list[str]:
    """Return the steps that took batches and have not begun."""
    known = steps.read_states(conn, [attempt.job_id])
    ready = [step for (_, step), state in known.items() if state == Status.READY.value]
    fed = batches.find_steps_with_batches(conn, attempt) if ready else set()
    return [step for step in ready if step in fed]


def succeed(
    conn: Connection,
    processes: Processes,
    attempts: Sequence[Attempt],
    outcome: AttemptOutcome,
    ended_steps: Mapping[StepKey, StepOutcome] = {},
    *,
    marking: str | None = None,
) -> list[int]:
    """End attempts as SUCCESS with their last steps, and return the batches for their consumers.

    `ended_steps` has the outcomes of the steps that end with the attempts. In one transaction: the
    batches that an attempt took are marked processed and archived, and its own batch is queued
    under a marking: by default the union of the markings that it took, or the dates of its window.
    An empty key or offset range makes no batch.
    """
    process = processes.parent(attempts[0].table)
    exchanging = attempts if processes.exchanges(process.table) else ()
    markings = {}
    for attempt in exchanging:
        markings[attempt.job_id] = (
            marking
            or merge_markings(batches.list_markings(conn, attempt))
            or build_marking(attempt.window, process.zone, attempt.claim.now)
        )
        batches.mark_processed(conn, attempt)
    ending.succeed(conn, attempts, outcome, ended_steps)
    made = []
    for attempt in exchanging:
        if not attempt.window.is_empty:
            consumers = processes.consumers(process.table)
            offered = offering.offer(conn, attempt, markings[attempt.job_id], consumers)
            made += [] if offered is None else [offered]
        batches.archive(conn, attempt)
    return made


def fail(
    conn: Connection,
    processes: Processes,
    attempts: Sequence[Attempt],
    outcome: AttemptOutcome,
    blamed: tuple[str, StepOutcome] | None = None,
) -> None:
    """End attempts as FAILURE or DISCARDED; their batches stay queued for the next ones.

    `blamed` is the step that caused the failure, with its outcome. Batches of a refresh whose
    window stays finished are removed from the queue.
    """
    if processes.exchanges(attempts[0].table):
        for attempt in attempts:
            if attempt.was_finished and outcome.published_nothing:
                batches.give_back(conn, attempt.job_id)
            else:
                batches.mark_failed(conn, attempt)
    ending.fail(conn, attempts, outcome, blamed)


def leave_standing(conn: Connection, job_id: int) -> None:
    """Restore the attempt before one that another process has ended, if it changed nothing.

    No attempt resumes the ended one then, and batches that it took again leave the queue.
    """
    standing = failed_refreshes.find_standing_attempt(conn, job_id)
    if standing is not None:
        batches.give_back(conn, job_id)
        steps.forget_staged(conn, [job_id])
        failed_refreshes.hide(conn, job_id, standing)


def _start_batches(
    conn: Connection, processes: Processes, attempts: Sequence[Attempt], step: str
) -> None:
    if processes.exchanges(attempts[0].table):
        for attempt in attempts:
            batches.start(conn, attempt, step)


def _build_intakes(
    conn: Connection, process: Process, chosen: batches.ChosenBatches
) -> tuple[Intake, ...]:
    by_batch: dict[int, list[Any]] = {}
    for item in files.list_files_of_batches(conn, [batch.batch_id for batch in chosen.batches]):
        by_batch.setdefault(item.batch_id, []).append(item)
    intakes = []
    for sub in process.steps:
        mine = tuple(batch for batch in chosen.batches if batch.step == sub.step)
        brought = tuple(item for batch in mine for item in by_batch.get(batch.batch_id, ()))
        intakes += [Intake(sub.step, mine, brought)] if mine else []
    return tuple(intakes)


def _refuse_running_steps(conn: Connection, attempts: Sequence[Attempt]) -> set[str]:
    """Return the steps that the earlier attempts finished.

    Only manual changes of the log leave a step RUNNING: raises LifeCycleError 110 then.
    """
    before = [a.previous_id for a in attempts if a.previous_id is not None]
    if not before:
        return set()
    rows = conn.execute(select(step_log).where(step_log.c.job_id.in_(before))).all()
    for attempt in attempts:
        mine = [row for row in rows if row.job_id == attempt.previous_id]
        running = [row.step_id for row in mine if row.status == Status.RUNNING.value]
        if running and attempt.previous is not None:
            what = f"{', '.join(running)} of job {attempt.previous_id}"
            ended = f"which is {attempt.previous.value}; set it to FAILURE in step_log"
            raise LifeCycleError(110, f"{what}, {ended}")
    done = Status.SUCCESS.value
    first = attempts[0].previous_id
    return {
        row.step_id
        for row in rows
        if row.job_id == first and (row.status == done or row.staged is not None)
    }
