"""The log of a stretch: what is a statement for one attempt elsewhere is one for all of them here.

Only for what is the usual: windows that nobody has tried before, tables without batches. Whatever
is not leaves the log as it is, and each attempt is written by itself (`attempts`, `lifecycle`).
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Claim, Status, StepOutcome
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import coverage, leases, steps
from logdriven_dagster.runlog.attempts import writes as attempts
from logdriven_dagster.runlog.attempts.rows import insert_first, schedule_id
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.clock import microseconds, utc_now


def claim(conn: Connection, requests: Sequence[Claim]) -> list[Attempt]:
    """Start attempts at adjoining windows of a table, oldest first; the first step of each runs.

    Those before the first that was tried before; none where somebody else runs a window that
    overlaps with one of them, or starts one at this moment.
    """
    requests = _untried(conn, requests)
    if not requests:
        return []
    whole = TimeWindow(requests[0].window.start, requests[-1].window.end)
    elsewhere = select(job_log.c.job_id).where(attempts.runs_within(requests[0].table, whole))
    if conn.execute(elsewhere.limit(1)).first() is not None:
        return []
    token = microseconds(conn.execute(select(utc_now())).scalar_one())
    try:
        with conn.begin_nested():
            jobs = insert_first(conn, requests, token)
            steps.add(conn, jobs, requests[0].steps, Status.RUNNING)
    except IntegrityError:
        return []
    return [
        Attempt(job_id, request, 1, token) for job_id, request in zip(jobs, requests, strict=True)
    ]


def stage(
    conn: Connection, together: Sequence[Attempt], states: Sequence[tuple[int, str, str]]
) -> None:
    """Log that results are durable: (job, step, state), and renew the leases.

    AttemptLostError if one of the attempts is not ours any more.
    """
    leases.renew_all(conn, together)
    if states:
        steps.stage_all(conn, states)


def succeed(
    conn: Connection,
    together: Sequence[Attempt],
    outcomes: Mapping[tuple[int, str], StepOutcome],
    ended: AttemptOutcome,
) -> None:
    """End adjoining attempts, oldest first, and their running steps: (job, step) → how.

    AttemptLostError if one of them is not ours any more, or a step is not RUNNING.
    """
    leases.write_all_held(conn, together, attempts.ending(ended, covered=True))
    steps.finish_all(conn, outcomes)
    whole = TimeWindow(together[0].window.start, together[-1].window.end)
    coverage.cover(conn, together[0].table, Status.SUCCESS, whole)


def _untried(conn: Connection, requests: Sequence[Claim]) -> list[Claim]:
    """The requests before the first for a window that has a row, be it archived."""
    tried: set[str] = set()
    for part in chunks([schedule_id(request) for request in requests]):
        for log in (job_log, job_log_archive):
            rows = select(log.c.job_schedule_id).where(log.c.job_schedule_id.in_(part))
            tried.update(conn.execute(rows).scalars())
    return list(takewhile(lambda request: schedule_id(request) not in tried, requests))
