"""Refreshes that ended before they changed anything: the refresh failed, not its window.

A finished window stays finished by the result that an earlier attempt published. That attempt
becomes the latest one again, and the failed one stays marked until the window runs again. Every
query for latest attempts (ranges, stale windows, last ranges, batches) therefore finds the attempt
that counts.

`job_log.standing` names that attempt as long as a refresh has changed nothing; the runner clears it
before it begins to publish. A process that resumes a killed refresh, or ends another process's
refresh, therefore knows the published state. The result of a refresh that had begun to publish is
unknown, so its window is open until it has run. Tools that run the steps of an attempt themselves
do not announce publishing, so their attempts have no name there.

Source: Sharp ETL, refresh: the watermark is unaffected.
"""

from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Attempt, Claim
from logdriven_dagster.runlog.attempts.rows import schedule_id
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.projects import match_project

MARKED = 1
"""`job_log.failed_refresh` of the newest attempt at a window that is finished nevertheless."""
REPEATED = 0
"""`job_log.failed_refresh` of an attempt after which the window ran again."""


def hide(conn: Connection, job_id: int, standing: int) -> None:
    """Make the attempt that counts the latest one, in the transaction that ends a refresh."""
    mine = job_log.c.job_id == job_id
    conn.execute(update(job_log).where(mine).values(latest=None, failed_refresh=MARKED))
    for log in (job_log, job_log_archive):
        again = update(log).where(log.c.job_id == standing).values(latest=1)
        if conn.execute(again).rowcount:
            return


def find_standing_attempt(conn: Connection, job_id: int) -> int | None:
    """Return the attempt that counts if a later one does not; None if there is none, or unknown.

    Call it only when the later attempt has lost its lease and can no longer begin to publish.
    """
    query = select(job_log.c.standing).where(job_log.c.job_id == job_id, job_log.c.latest == 1)
    found: int | None = conn.execute(query).scalar()
    return found


def find_standing_archived(conn: Connection, request: Claim) -> int | None:
    """Return the archived attempt that finished a window."""
    log = job_log_archive
    mine = match_project(log) & (log.c.job_schedule_id == schedule_id(request))
    newest = select(func.max(log.c.job_id)).where(mine, log.c.failed_refresh.is_(None))
    found: int | None = conn.execute(newest).scalar()
    return found


def mark_repeated(conn: Connection, job_schedule_id: str) -> Row[Any] | None:
    """Mark the failed refresh of a window that runs again as repeated; return it, or None."""
    mine = (
        match_project(job_log)
        & (job_log.c.job_schedule_id == job_schedule_id)
        & (job_log.c.failed_refresh == MARKED)
    )
    row = conn.execute(select(job_log).where(mine)).first()
    if row is not None:
        conn.execute(update(job_log).where(mine).values(failed_refresh=REPEATED))
    return row


def select_superseded_batch(log: Any, attempt: Attempt) -> Select[Any]:
    """Select the batch that the attempt before this one made, or was to make."""
    return (
        select(log.c.target_batch_id)
        .where(
            match_project(log),
            log.c.job_schedule_id == schedule_id(attempt),
            log.c.attempt_number < attempt.attempt_number,
            log.c.failed_refresh.is_(None),
        )
        .order_by(log.c.attempt_number.desc())
        .limit(1)
    )
