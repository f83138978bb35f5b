"""Queries for a scheduler next to the log: the windows that ended, and the state of its runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, bindparam, or_, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.runlog.attempts.failed_refreshes import MARKED
from logdriven_dagster.runlog.history.logs import list_attempts_by_id
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.schema.observations import job_run
from logdriven_dagster.runlog.sql.clock import match_past, utc_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unindexed import unindexed
from logdriven_dagster.runlog.sql.unions import execute_each

_ENDED = (
    Status.SUCCESS.value,
    Status.FAILURE.value,
    Status.DISCARDED.value,
    Status.SKIPPED.value,
)


@dataclass(frozen=True, slots=True)
class Unreleased:
    """A lease of a scheduler's run that its attempt, or its run of a job, did not release.

    The lease is held, or the attempt was taken over, replaced or discarded.
    """

    what: str
    owner: Owner | None
    lease_lost: timedelta | None
    """The time since the lease expired; None while it is held."""


def find_unreleased(conn: Connection, run_ids: Collection[str]) -> Mapping[str, list[Unreleased]]:
    """Return the leases that show the state of each run, oldest first; omit runs without any.

    These are the leases of RUNNING attempts, and of the run's newest attempt; likewise of runs of
    jobs.
    """
    found: dict[str, list[Unreleased]] = {}
    for log, what in ((job_log, "job"), (job_run, "job run")):
        for row in _read_unreleased(conn, log, run_ids):
            lost = row.read_at - row.lease_expires_at
            owner = Owner.parse(row.owner, row.dagster_run_id)
            sign = Unreleased(f"{what} {row[0]}", owner, lost if lost > timedelta(0) else None)
            found.setdefault(row.dagster_run_id, []).append(sign)
    return found


def _read_unreleased(conn: Connection, log: Table, run_ids: Collection[str]) -> Sequence[Any]:
    """Return the rows, which begin with their number."""
    (number,) = log.primary_key.columns
    newest = (
        select(number.label("number"))
        .where(match_project(log), log.c.dagster_run_id == bindparam("run_id"))
        .order_by(number.desc())
        .limit(1)
    )
    numbers = [
        row.number for row in execute_each(conn, newest, [{"run_id": run_id} for run_id in run_ids])
    ]
    running = (log.c.status == Status.RUNNING.value) & log.c.dagster_run_id.in_(run_ids)
    columns = (number, log.c.owner, log.c.dagster_run_id, log.c.lease_expires_at)
    query = (
        select(*columns, utc_now().label("read_at"))
        .where(
            match_project(log),
            log.c.lease_expires_at.is_not(None),
            or_(running, number.in_(numbers)),
        )
        .order_by(number)
    )
    return conn.execute(query).all()


def list_begun_in(conn: Connection, run_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return the latest attempts that began in some scheduler runs, like `list_ended_since`."""
    begun = select(job_log.c.job_id).where(
        match_project(job_log),
        job_log.c.dagster_run_id.in_(run_ids),
        unindexed(job_log.c.latest) == 1,
        job_log.c.window_start.is_not(None),
    )
    return list_attempts_by_id(conn, conn.execute(begun.order_by(job_log.c.job_id)).scalars().all())


def present(conn: Connection) -> datetime:
    """Return the log's current time, naive and UTC."""
    now: datetime = conn.execute(select(utc_now())).scalar_one()
    return now


def list_ended_since(
    conn: Connection, instant: datetime | None, leave_out: Collection[int], limit: int
) -> list[dict[str, Any]]:
    """Return the latest attempts and failed refreshes that ended since a naive UTC time, in order.

    Rows that ended in the future of a clock that was set back are returned when the clock reaches
    their end. Rows have the form of `history.list_attempts`. `job_end_time` is written a little
    before its transaction is committed, so a reader queries an overlapping period and passes the
    ids that it has already seen as `leave_out`.
    """
    query = select(job_log.c.job_id).where(
        _match_shown(),
        match_past(job_log.c.job_end_time),
        job_log.c.job_id.not_in(list(leave_out)),
    )
    if instant is not None:
        query = query.where(job_log.c.job_end_time >= instant)
    ordered = query.order_by(job_log.c.job_end_time, job_log.c.job_id).limit(limit)
    return list_attempts_by_id(conn, conn.execute(ordered).scalars().all())


def list_ended_among(
    conn: Connection, table: str, after: int, until: int, limit: int
) -> list[dict[str, Any]]:
    """Return such attempts at a table's windows by their ids, from `after` (exclusive) to `until`.

    Rows have the form of `history.attempts`.
    """
    query = select(job_log.c.job_id).where(
        _match_shown(),
        job_log.c.job_name == table,
        job_log.c.job_id > after,
        job_log.c.job_id <= until,
    )
    ordered = query.order_by(job_log.c.job_id).limit(limit)
    return list_attempts_by_id(conn, conn.execute(ordered).scalars().all())


def _match_shown() -> ColumnElement[bool]:
    """Match the ended attempts that a scheduler shows."""
    return and_(
        match_project(job_log),
        or_(unindexed(job_log.c.latest) == 1, unindexed(job_log.c.failed_refresh) == MARKED),
        unindexed(job_log.c.status).in_(_ENDED),
        job_log.c.window_start.is_not(None),
        job_log.c.job_end_time.is_not(None),
    )
