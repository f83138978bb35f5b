"""The steps of an attempt: READY with its claim, then RUNNING, staged, and ended.

Sources: Sharp ETL, `step_log`; Kylin, chained executables. The attempt's own row guards them: call
these functions in a transaction that has verified the attempt's lease. `stage` needs no such check,
since a process that ends an attempt ends its steps too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import (
    Integer,
    Update,
    bindparam,
    case,
    cast,
    exists,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import (
    TRANSITIONS,
    Counts,
    Status,
    StepOutcome,
    list_statuses_before,
)
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import elapsed_seconds, utc_now
from logdriven_dagster.runlog.sql.texts import clean_text

StepKey: TypeAlias = tuple[int, str]
"""The key of a `step_log` row: job_id and step_id."""
_EACH = (step_log.c.job_id == bindparam("job")) & (step_log.c.step_id == bindparam("step"))
_OF_JOBS = (
    select(step_log.c.job_id, step_log.c.step_id, step_log.c.status)
    .where(step_log.c.job_id.in_(bindparam("jobs", expanding=True)))
    .order_by(step_log.c.start_time)
)
_RUNNING = Status.RUNNING.value
_STAGED = (
    update(step_log).where(_EACH, step_log.c.status == _RUNNING).values(staged=bindparam("state"))
)
_NOT_THROUGH = (_RUNNING, Status.FAILURE.value)
"""The states of steps that prevent the success of an attempt, unless they end with it."""
_OPEN = (Status.READY.value, _RUNNING)
CAN_SUCCEED = ~exists().where(
    step_log.c.job_id == job_log.c.job_id,
    # IN once: SQLAlchemy expands an empty list for IN and for NOT IN differently.
    case(
        (
            step_log.c.step_id.in_(bindparam("ending", expanding=True)),
            step_log.c.status.not_in(_OPEN),
        ),
        else_=step_log.c.status.in_(_NOT_THROUGH),
    ),
)
"""The condition that an attempt can succeed with the steps named `ending`: none of these has been
ended, and every other one is finished."""
_ERROR_LENGTH = 5000
"""Source: Sharp ETL, error texts are cut to 5,000 characters."""
_COUNTS = tuple(field.name for field in fields(Counts))
"""The fields of Counts; each is a column of `step_log` with the suffix `_count`."""
_OUTPUT_LENGTH = 16_000
"""MariaDB's TEXT holds 65,535 bytes, four for a character."""
_FRESH: dict[str, Any] = {
    **{f"{name}_count": None for name in _COUNTS},
    "start_time": utc_now(),
    "end_time": utc_now(),
    "duration": 0,
    "output": "",
    "target": None,
    "snapshot_id": None,
}
"""The values of a step that has just started."""
_ADDED = insert(step_log).values(**_FRESH)


def add(
    conn: Connection, jobs: Sequence[int], step_ids: Sequence[str], first: Status = Status.READY
) -> None:
    """Add rows for the steps of attempts; the first step of each gets the status `first`."""
    rows = [
        {"job_id": job_id, "step_id": step_id, "status": (Status.READY if n else first).value}
        for job_id in jobs
        for n, step_id in enumerate(step_ids)
    ]
    conn.execute(_ADDED, rows)


def add_skipped(
    conn: Connection, jobs: Sequence[int], step_ids: Sequence[str], reason: str
) -> None:
    """Add SKIPPED steps for skipped windows, with the reason."""
    skipped = {"status": Status.SKIPPED.value, "output": clean_text(reason, _OUTPUT_LENGTH)}
    rows = [{"job_id": job_id, "step_id": step_id} for job_id in jobs for step_id in step_ids]
    conn.execute(insert(step_log).values(**_FRESH | skipped), rows)


def read_outputs(conn: Connection, jobs: Sequence[int]) -> dict[int, str]:
    """Return the outputs of steps by job id; for skipped windows, the author and the reason."""
    found: dict[int, str] = {}
    for part in split_into_chunks(jobs):
        query = select(step_log.c.job_id, step_log.c.output).where(step_log.c.job_id.in_(part))
        found |= {row.job_id: row.output for row in conn.execute(query)}
    return found


def read_counts(step: Mapping[str, Any]) -> Counts:
    """Return the counts in a row of `step_log`."""
    return Counts(**{name: step[f"{name}_count"] for name in _COUNTS})


def start(conn: Connection, jobs: Sequence[int], step_id: str) -> None:
    """Set a step from READY to RUNNING in each job, and reset the values of an earlier try.

    Raises AttemptLostError if it has ended in one of them.
    """
    begun = _FRESH | {"status": Status.RUNNING.value, "error": None}
    mine = step_log.c.job_id.in_(jobs) & (step_log.c.step_id == step_id)
    states = [first.value for first in list_statuses_before(Status.RUNNING)]
    moved = update(step_log).where(mine, step_log.c.status.in_(states)).values(**begun)
    if conn.execute(moved).rowcount != len(jobs):
        raise _build_changed_error(jobs, step_id)


def reopen(conn: Connection, job_id: int, step_id: str) -> None:
    """Set an ended step of a running attempt to READY, and forget its staged results.

    Source: BDRE, InitStep, which accepts every ended step. Raises AttemptLostError if the step has
    not ended.
    """
    ended = [status.value for status, following in TRANSITIONS.items() if not following]
    mine = (step_log.c.job_id == job_id) & (step_log.c.step_id == step_id)
    values = {"status": Status.READY.value, "staged": None}
    moved = update(step_log).where(mine, step_log.c.status.in_(ended)).values(values)
    if conn.execute(moved).rowcount != 1:
        raise _build_changed_error([job_id], step_id)


def stage(conn: Connection, states: Mapping[StepKey, str]) -> None:
    """Record that results are durable, so that an attempt that takes over can reuse them.

    Raises AttemptLostError if one of the steps is not running, for example because another process
    has ended its attempt.
    """
    rows = [{"job": job, "step": step, "state": state} for (job, step), state in states.items()]
    if rows:
        _prove(conn, _STAGED, rows)


def read_states(conn: Connection, jobs: Sequence[int]) -> dict[StepKey, str]:
    """Return the states of the steps of attempts, in the order in which they started."""
    found: dict[StepKey, str] = {}
    for part in split_into_chunks(jobs):
        rows = conn.execute(_OF_JOBS, {"jobs": part})
        found |= {(row.job_id, row.step_id): row.status for row in rows}
    return found


def build_step_error(
    conn: Connection, jobs: Sequence[int], ending: Collection[str]
) -> AttemptLostError:
    """Return an error that names the step of these jobs for which `CAN_SUCCEED` is not true."""
    for (job_id, step), state in read_states(conn, jobs).items():
        if state not in _OPEN if step in ending else state in _NOT_THROUGH:
            return AttemptLostError(
                f"step {step} of job {job_id} is {state}, set by another process"
            )
    return AttemptLostError(f"steps of job {jobs[0]} were changed by another process meanwhile")


def finish(conn: Connection, outcomes: Mapping[StepKey, StepOutcome]) -> None:
    """Record the ends of steps. Raises AttemptLostError if one has ended already or is missing."""
    _end(conn, {key: _build_columns(outcome) for key, outcome in outcomes.items()})


def close(
    conn: Connection,
    jobs: Sequence[int],
    status: Status,
    reason: str | None = None,
    blamed: tuple[str, StepOutcome] | None = None,
) -> None:
    """End the open steps of attempts that ended with this status.

    `blamed` is the step that caused the end, with its outcome; if it is not running, the first
    running step is blamed. Errors of other steps do not hide it. After a failure, steps that had
    not started stay READY. Source: Kylin, later steps untouched.
    """
    known = read_states(conn, jobs)
    open_ones = {
        key: state for key, state in known.items() if Status(state) in list_statuses_before(status)
    }
    guilty: dict[StepKey, StepOutcome] = {}
    if blamed is not None:
        running = [key for key, state in open_ones.items() if state == _RUNNING]
        first = {job: (job, step) for job, step in reversed(running)}
        named = {job: (job, step) for job, step in running if step == blamed[0]}
        guilty = dict.fromkeys((first | named).values(), blamed[1])
    ended = {
        "status": status.value,
        "error": None if reason is None else clean_text(reason, _ERROR_LENGTH),
    }
    finish(conn, guilty)
    _end(conn, dict.fromkeys(open_ones.keys() - guilty.keys(), ended))


def find_staged_results(conn: Connection, job_id: int) -> Mapping[str, str]:
    """Return the durable results that were never published, by step."""
    query = select(step_log.c.step_id, step_log.c.staged).where(
        step_log.c.job_id == job_id, step_log.c.staged.is_not(None)
    )
    return {row.step_id: row.staged for row in conn.execute(query)}


def needs_staged_results(conn: Connection, job_id: int, place: str) -> bool:
    """Return True if an attempt may need the results staged in a folder or table of this name.

    Such an attempt is the job itself while it runs, or the next attempt at its window after it has
    died. An attempt that resumed it has the same place among its own staged steps.
    """
    running = select(job_log.c.job_id).where(
        job_log.c.job_id == job_id, job_log.c.status == Status.RUNNING.value
    )
    kept = (
        select(job_log.c.job_id)
        .join_from(job_log, step_log, job_log.c.job_id == step_log.c.job_id)
        .where(
            job_log.c.latest == 1,
            job_log.c.status.in_([Status.RUNNING.value, Status.FAILURE.value]),
            step_log.c.staged.contains(place, autoescape=True),
        )
    )
    return conn.execute(union_all(running, kept).limit(1)).first() is not None


def forget_staged(conn: Connection, jobs: Sequence[int]) -> None:
    """Clear the staged results of attempts before they are removed, so that none is used."""
    mine = step_log.c.job_id.in_(jobs) & step_log.c.staged.is_not(None)
    conn.execute(update(step_log).where(mine).values(staged=None))


def _end(conn: Connection, ends: Mapping[StepKey, Mapping[str, Any]]) -> None:
    """Write the columns of ended steps, with one statement for each status."""
    by_status: dict[str, list[dict[str, Any]]] = {}
    for (job, step), end in ends.items():
        by_status.setdefault(end["status"], []).append({"job": job, "step": step, **end})
    for status, rows in by_status.items():
        _prove(conn, _build_end_update(Status(status)), rows)


@cache
def _build_end_update(status: Status) -> Update:
    """Build the UPDATE of a step that ends with this status, from the states allowed before it."""
    seconds = elapsed_seconds(step_log.c.start_time, utc_now())
    return (
        update(step_log)
        # Not IN, which takes no lists of parameters.
        .where(
            _EACH,
            or_(*(step_log.c.status == first.value for first in list_statuses_before(status))),
        )
        .values(
            end_time=utc_now(),
            # Not before its start, even if the clock was set back since.
            duration=case((seconds > 0, cast(func.round(seconds), Integer)), else_=0),
        )
    )


def _prove(conn: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]) -> None:
    """Execute an update for each step. Raises AttemptLostError if it matches fewer rows.

    Some drivers do not count the rows of several updates; then only the attempt's own row proves
    it.
    """
    counts = len(rows) == 1 or conn.dialect.supports_sane_multi_rowcount
    if conn.execute(statement, rows).rowcount != len(rows) and counts:
        raise _build_changed_error([row["job"] for row in rows], rows[0]["step"])


def _build_changed_error(jobs: Sequence[int], step_id: str) -> AttemptLostError:
    which = f"job {jobs[0]}" if len(jobs) == 1 else f"one of the jobs {jobs[0]} to {jobs[-1]}"
    return AttemptLostError(f"step {step_id} of {which}: another process ended it")


def _build_columns(outcome: StepOutcome) -> dict[str, Any]:
    """Return the columns of a step's end that need no database.

    Success publishes staged results.
    """
    return {
        **({"staged": None} if outcome.status is Status.SUCCESS else {}),
        "status": outcome.status.value,
        "output": clean_text(outcome.output, _OUTPUT_LENGTH),
        **{f"{name}_count": getattr(outcome.counts, name) for name in _COUNTS},
        "error": None if outcome.error is None else clean_text(outcome.error, _ERROR_LENGTH),
        "source_type": outcome.source_type,
        "target_type": outcome.target_type,
        "target": outcome.target,
        "snapshot_id": outcome.snapshot_id,
    }
