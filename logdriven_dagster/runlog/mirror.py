"""What a scheduler beside the log asks of it: what ended, and what became of its runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.runlog.clock import utc_now
from logdriven_dagster.runlog.history import attempts_by_id
from logdriven_dagster.runlog.schema import job_log

_ENDED = (Status.SUCCESS.value, Status.FAILURE.value, Status.DISCARDED.value)


@dataclass(frozen=True, slots=True)
class LastSign:
    """The newest attempt of a scheduler's run."""

    job_id: int
    owner: Owner | None
    lease_lost: timedelta | None
    """How long ago its lease ran out without being released; None where it is held, or ended well.

    An attempt that was taken over, replaced or discarded did not release its lease.
    """


def last_signs(conn: Connection, run_ids: Collection[str]) -> Mapping[str, LastSign]:
    """Run id → the newest attempt of that run, for runs that have any."""
    newest = (
        select(func.max(job_log.c.job_id))
        .where(job_log.c.dagster_run_id.in_(run_ids))
        .group_by(job_log.c.dagster_run_id)
    )
    found = {}
    query = select(job_log, utc_now().label("read_at")).where(job_log.c.job_id.in_(newest))
    for row in conn.execute(query):
        lost = row.read_at - row.lease_expires_at if row.lease_expires_at else None
        found[row.dagster_run_id] = LastSign(
            row.job_id,
            Owner.parse(row.owner, row.dagster_run_id),
            lost if lost and lost > timedelta(0) else None,
        )
    return found


def ended_since(
    conn: Connection, moment: datetime | None, leave_out: Collection[int], limit: int
) -> list[dict[str, Any]]:
    """The latest attempts that ended since a moment (naive UTC), in the order of their ends.

    Rows as `history.attempts` gives them. `job_end_time` is written a little before its transaction
    is committed, so a reader looks some time back and leaves out what it has seen.
    """
    query = select(job_log.c.job_id).where(
        job_log.c.latest == 1,
        job_log.c.status.in_(_ENDED),
        job_log.c.window_start.is_not(None),
        job_log.c.job_end_time.is_not(None),
        job_log.c.job_id.not_in(list(leave_out)),
    )
    if moment is not None:
        query = query.where(job_log.c.job_end_time >= moment)
    ordered = query.order_by(job_log.c.job_end_time, job_log.c.job_id).limit(limit)
    return attempts_by_id(conn, conn.execute(ordered).scalars().all())
