"""Refreshes that ended before they changed anything: the refresh failed, not its window.

A window that was finished is finished still, by what an earlier attempt published: that attempt is
the latest one again, and the failed one is marked until the window runs once more. So whatever asks
for the latest attempts (ranges, stale windows, last slices, batches) finds the one that stands.

`job_log.standing` names that attempt as long as a refresh has changed nothing: its runner takes the
name away before it begins to publish. So whoever goes on with a refresh that was killed, or ends
one of somebody else's, knows what it left. Of one that had begun to publish nobody knows, and its
window is open until it has run. Tools that take the steps of an attempt themselves say nothing
beforehand: their attempts have no name there.

Source: Sharp ETL, refresh: the watermark is unaffected.
"""

from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Attempt, Claim
from logdriven_dagster.runlog.attempts.rows import schedule_id
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.projects import of_project

MARKED = 1
"""`job_log.failed_refresh` of the newest attempt at a window that is finished all the same."""
REPEATED = 0
"""`job_log.failed_refresh` of an attempt after which the window ran again."""


def hide(conn: Connection, job_id: int, standing: int) -> None:
    """Make the attempt that stands the latest one, in the transaction that ends a refresh."""
    mine = job_log.c.job_id == job_id
    conn.execute(update(job_log).where(mine).values(latest=None, failed_refresh=MARKED))
    for log in (job_log, job_log_archive):
        again = update(log).where(log.c.job_id == standing).values(latest=1)
        if conn.execute(again).rowcount:
            return


def standing_behind(conn: Connection, job_id: int) -> int | None:
    """Find the attempt that counts if a later one does not; None if there is none, or unknown.

    Asked when nobody can begin to publish any more, since that attempt has lost its lease.
    """
    query = select(job_log.c.standing).where(job_log.c.job_id == job_id, job_log.c.latest == 1)
    found: int | None = conn.execute(query).scalar()
    return found


def standing_archived(conn: Connection, request: Claim) -> int | None:
    """Find the archived attempt that has finished a window."""
    log = job_log_archive
    mine = of_project(log) & (log.c.job_schedule_id == schedule_id(request))
    newest = select(func.max(log.c.job_id)).where(mine, log.c.failed_refresh.is_(None))
    found: int | None = conn.execute(newest).scalar()
    return found


def repeated(conn: Connection, job_schedule_id: str) -> Row[Any] | None:
    """The failed refresh of a window that runs again now, which is past by that; None: none."""
    mine = (
        of_project(job_log)
        & (job_log.c.job_schedule_id == job_schedule_id)
        & (job_log.c.failed_refresh == MARKED)
    )
    row = conn.execute(select(job_log).where(mine)).first()
    if row is not None:
        conn.execute(update(job_log).where(mine).values(failed_refresh=REPEATED))
    return row


def superseded_by(log: Any, attempt: Attempt) -> Select[Any]:
    """The batch that the attempt before this one made, or was to make."""
    return (
        select(log.c.target_batch_id)
        .where(
            of_project(log),
            log.c.job_schedule_id == schedule_id(attempt),
            log.c.attempt_number < attempt.attempt_number,
            log.c.failed_refresh.is_(None),
        )
        .order_by(log.c.attempt_number.desc())
        .limit(1)
    )
