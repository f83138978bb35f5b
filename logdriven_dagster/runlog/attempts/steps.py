"""The steps of an attempt: READY with its claim, then RUNNING, staged, and at an end.

Sources: Sharp ETL, `step_log`; Kylin, chained executables. The attempt's own row guards them: these
functions are called in a transaction that has proved that the attempt is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, insert, select, union_all, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import Counts, Status, StepOutcome, before
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.texts import stored

_EACH = (step_log.c.job_id == bindparam("job")) & (step_log.c.step_id == bindparam("step"))
_DOING: Select[Any] = select(
    step_log.c.job_id,
    step_log.c.step_id,
    step_log.c.status,
    step_log.c.start_time,
    utc_now().label("now"),
)
"""How far a step is, and for how long it has been."""
_UNENDED = [Status.RUNNING.value, Status.FAILURE.value]
_ERROR_LENGTH = 5000
"""Source: Sharp ETL, error texts are cut to 5,000 characters."""
_COUNTS = tuple(field.name for field in fields(Counts))
"""Each is a column of `step_log`, with `_count` behind its name."""
_OUTPUT_LENGTH = 16_000
"""MariaDB's TEXT holds 65,535 bytes, four for a character."""


def add(
    conn: Connection, jobs: Sequence[int], step_ids: Sequence[str], first: Status = Status.READY
) -> None:
    """Log the steps that attempts will take, the first one of each with this status."""
    rows = [
        {"job_id": job_id, "step_id": step_id, "status": (Status.READY if n else first).value}
        for job_id in jobs
        for n, step_id in enumerate(step_ids)
    ]
    conn.execute(insert(step_log).values(**_fresh()), rows)


def add_skipped(conn: Connection, job_id: int, step_ids: Sequence[str], reason: str) -> None:
    """Log the steps of a window that was passed over on purpose, and why."""
    skipped = {"status": Status.SKIPPED.value, "output": stored(reason, _OUTPUT_LENGTH)}
    rows = [{"job_id": job_id, "step_id": step_id} | _fresh() | skipped for step_id in step_ids]
    conn.execute(insert(step_log).values(rows))


def start(conn: Connection, job_id: int, step_id: str) -> None:
    """READY → RUNNING; one that is tried again begins anew. AttemptLostError if it has ended."""
    begun = _fresh() | {"status": Status.RUNNING.value, "error": None}
    _move(conn, job_id, step_id, Status.RUNNING, begun)


def stage(conn: Connection, job_id: int, step_id: str, state: str) -> None:
    """The step's result is durable: whoever takes the attempt over need not do it again."""
    _move(conn, job_id, step_id, Status.RUNNING, {"staged": state})


def stage_all(conn: Connection, states: Sequence[tuple[int, str, str]]) -> None:
    """Note that the results of steps of several attempts are durable: (job, step, state)."""
    staged = update(step_log).where(_EACH, step_log.c.status == Status.RUNNING.value)
    rows = [{"job": job, "step": step, "state": state} for job, step, state in states]
    conn.execute(staged.values(staged=bindparam("state")), rows)


def find(conn: Connection, job_id: int, step_id: str) -> Row[Any] | None:
    """How a step is doing: (job_id, step_id, status, start_time, now)."""
    return conn.execute(_DOING.where(_row(job_id, step_id))).first()


def finish(conn: Connection, row: Row[Any], outcome: StepOutcome) -> None:
    """How a step ended that `find` has found; AttemptLostError if it has ended before."""
    ended = _columns(outcome) | {"end_time": utc_now(), "duration": _seconds_since_start(row)}
    _move(conn, row.job_id, row.step_id, outcome.status, ended)


def finish_all(conn: Connection, outcomes: Mapping[tuple[int, str], StepOutcome]) -> None:
    """How the running steps of several attempts succeeded: (job, step) → how.

    AttemptLostError if they are not these. What was staged is published.
    """
    running: dict[tuple[int, str], int] = {}
    for jobs in chunks(sorted({job for job, _ in outcomes})):
        unended = step_log.c.job_id.in_(jobs) & step_log.c.status.in_(_UNENDED)
        for row in conn.execute(_DOING.where(unended)):
            running[row.job_id, row.step_id] = _seconds_since_start(row)
    if running.keys() != outcomes.keys():
        other = min(running.keys() ^ outcomes.keys())
        raise AttemptLostError(f"step {other[1]} of job {other[0]}: somebody else changed it")
    rows = [
        {"job": job, "step": step, "duration": running[job, step], **_columns(outcome)}
        for (job, step), outcome in outcomes.items()
    ]
    conn.execute(update(step_log).where(_EACH).values(end_time=utc_now(), staged=None), rows)


def close_steps(conn: Connection, job_id: int, status: Status, reason: str | None = None) -> None:
    """End the steps of an attempt that ended without them; no error of theirs hides the real one.

    After a failure, steps whose turn had not come stay READY. Source: Kylin, later steps untouched.
    """
    open_ones = [first.value for first in before(status)]
    mine = (step_log.c.job_id == job_id) & step_log.c.status.in_(open_ones)
    for row in conn.execute(_DOING.where(mine)).all():
        ended = {
            "status": status.value,
            "end_time": utc_now(),
            "duration": _seconds_since_start(row),
            "error": None if reason is None else stored(reason, _ERROR_LENGTH),
        }
        conn.execute(update(step_log).where(mine, _row(job_id, row.step_id)).values(**ended))


def running(conn: Connection, job_id: int) -> Sequence[str]:
    """The steps of an attempt that have begun and not ended, in the order of their beginning."""
    mine = (step_log.c.job_id == job_id) & (step_log.c.status == Status.RUNNING.value)
    query = select(step_log.c.step_id).where(mine).order_by(step_log.c.start_time)
    return conn.execute(query).scalars().all()


def staged(conn: Connection, job_id: int) -> Mapping[str, str]:
    """Step → its durable result that was never published."""
    query = select(step_log.c.step_id, step_log.c.staged).where(
        step_log.c.job_id == job_id, step_log.c.staged.is_not(None)
    )
    return {row.step_id: row.staged for row in conn.execute(query)}


def relied_on(conn: Connection, job_id: int, place: str) -> bool:
    """Whether an attempt may need what a job staged in a folder or table of this name.

    That is the job itself while it runs, and whoever runs its window next after it has died; the
    one that went on with it has the same place among its own staged steps.
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


def forget_staged(conn: Connection, job_id: int) -> None:
    """What the attempt staged is published, or about to be removed: nobody may rely on it."""
    mine = (step_log.c.job_id == job_id) & step_log.c.staged.is_not(None)
    conn.execute(update(step_log).where(mine).values(staged=None))


def _columns(outcome: StepOutcome) -> dict[str, Any]:
    """What of a step's end is known without the database."""
    return {
        "status": outcome.status.value,
        "output": stored(outcome.output, _OUTPUT_LENGTH),
        **{f"{name}_count": getattr(outcome.counts, name) for name in _COUNTS},
        "error": None if outcome.error is None else stored(outcome.error, _ERROR_LENGTH),
        "source_type": outcome.source_type,
        "target_type": outcome.target_type,
    }


def _fresh() -> dict[str, Any]:
    return {
        **{f"{name}_count": None for name in _COUNTS},
        "start_time": utc_now(),
        "end_time": utc_now(),
        "duration": 0,
        "output": "",
    }


def _move(
    conn: Connection, job_id: int, step_id: str, status: Status, values: Mapping[str, Any]
) -> None:
    allowed = step_log.c.status.in_([first.value for first in before(status)])
    moved = update(step_log).where(_row(job_id, step_id), allowed).values(**values)
    if conn.execute(moved).rowcount != 1:
        what = f"step {step_id} of job {job_id}"
        raise AttemptLostError(f"{what} cannot become {status.value}: somebody else ended it")


def _row(job_id: int, step_id: str) -> ColumnElement[bool]:
    return and_(step_log.c.job_id == job_id, step_log.c.step_id == step_id)


def _seconds_since_start(row: Row[Any]) -> int:
    seconds: float = (row.now - row.start_time).total_seconds()
    return max(0, round(seconds))
