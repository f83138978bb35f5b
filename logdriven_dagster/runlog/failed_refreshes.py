"""Refreshes that failed before they published anything: the refresh failed, not its window.

A window that was finished is finished still, by what an earlier attempt published: that attempt is
the latest one again, and the failed one is marked until the window runs once more. So whatever asks
for the latest attempts (ranges, stale windows, last slices, batches) finds the one that stands.
That holds only where the attempt itself says that it had not begun to publish: of one that was
killed, frozen or ended by somebody else nobody knows, and its window is open until it has run.

Source: Sharp ETL, refresh: the watermark is unaffected.
"""

from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Attempt, Status
from logdriven_dagster.runlog.schema import job_log, job_log_archive

MARKED = 1
"""`job_log.failed_refresh` of the newest attempt at a window that is finished all the same."""
_REPEATED = 0
"""`job_log.failed_refresh` of an attempt after which the window ran again."""


def hide(conn: Connection, attempt: Attempt) -> None:
    """Make the attempt that stands the latest one, in the transaction that ends this one."""
    mine = job_log.c.job_id == attempt.job_id
    conn.execute(update(job_log).where(mine).values(latest=None, failed_refresh=MARKED))
    standing = attempt.previous_id or _archived(conn, attempt)
    for log in (job_log, job_log_archive):
        again = update(log).where(log.c.job_id == standing).values(latest=1)
        if conn.execute(again).rowcount:
            return


def hide_discarded(conn: Connection, attempt: Attempt) -> bool:
    """Let what stood before a discarded attempt stand again; False if it is not the newest now."""
    mine = select(job_log.c.job_id).where(
        job_log.c.job_id == attempt.job_id,
        job_log.c.fencing_token == attempt.fencing_token,
        job_log.c.status == Status.DISCARDED.value,
        job_log.c.latest == 1,
    )
    found = conn.execute(mine.with_for_update()).first() is not None
    if found:
        hide(conn, attempt)
    return found


def repeated(conn: Connection, job_schedule_id: str) -> Row[Any] | None:
    """The failed refresh of a window that runs again now, which is past by that; None: none."""
    mine = (job_log.c.job_schedule_id == job_schedule_id) & (job_log.c.failed_refresh == MARKED)
    row = conn.execute(select(job_log).where(mine)).first()
    if row is not None:
        conn.execute(update(job_log).where(mine).values(failed_refresh=_REPEATED))
    return row


def superseded_by(log: Any, attempt: Attempt) -> Select[Any]:
    """The batch that the attempt before this one made, or was to make."""
    return (
        select(log.c.target_batch_id)
        .where(
            log.c.job_schedule_id == f"{attempt.table}-{attempt.window.key}",
            log.c.attempt_number < attempt.attempt_number,
            log.c.failed_refresh.is_(None),
        )
        .order_by(log.c.attempt_number.desc())
        .limit(1)
    )


def _archived(conn: Connection, attempt: Attempt) -> int | None:
    log = job_log_archive
    mine = log.c.job_schedule_id == f"{attempt.table}-{attempt.window.key}"
    newest = select(func.max(log.c.job_id)).where(mine, log.c.failed_refresh.is_(None))
    found: int | None = conn.execute(newest).scalar()
    return found
