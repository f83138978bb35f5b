"""Retention: moves old attempts to the archive tables and keeps the rows that planning needs.

Source: Kylin, "more and more jobs": its scheduler reads all of them every minute; ours reads none.
"""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, delete, func, or_, select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.runlog.attempts import coverage, failed_refreshes
from logdriven_dagster.runlog.schema.attempts import (
    job_log,
    job_log_archive,
    step_log,
    step_log_archive,
)
from logdriven_dagster.runlog.sql.clock import utc_from_now
from logdriven_dagster.runlog.sql.projects import match_project

_AT_ONCE = 1000


def archive(conn: Connection, tables: Collection[TableConfig], age: timedelta) -> int:
    """Archive up to a thousand attempts that ended longer ago than `age`, and return their number.

    Archived windows stay part of a finished range, so the watermark does not move. These rows are
    not archived: running and unfinished windows; windows of a table with `lookback` that may run
    again; refreshed windows, by which stale downstream windows are found; the last key or offset
    ranges, at which the next ones begin; and observations of external assets, which are compared
    with the state that Dagster shows.
    """
    coverage.absorb(conn)
    kept = _find_needed_attempts(conn, tables)
    old = select(job_log.c.job_id).where(
        match_project(job_log), _is_old(age), job_log.c.job_id.not_in(kept)
    )
    job_ids = conn.execute(old.order_by(job_log.c.job_id).limit(_AT_ONCE)).scalars().all()
    if job_ids:
        for log, archived in ((job_log, job_log_archive), (step_log, step_log_archive)):
            rows = select(log).where(log.c.job_id.in_(job_ids))
            names = [column.name for column in log.columns]
            conn.execute(archived.insert().from_select(names, rows))
        for log in (step_log, job_log):
            conn.execute(delete(log).where(log.c.job_id.in_(job_ids)))
    return len(job_ids)


def _is_old(age: timedelta) -> ColumnElement[bool]:
    finished = (
        (job_log.c.covered == 1)
        & job_log.c.status.in_(coverage.DONE)  # excludes rows set to FAILURE by hand
        & (job_log.c.attempt_number == 1)
        & (func.coalesce(job_log.c.run_trigger, "") != Trigger.OBSERVED.value)
    )
    marked = func.coalesce(job_log.c.failed_refresh, 0) == failed_refreshes.MARKED
    superseded = job_log.c.latest.is_(None) & ~marked
    running = job_log.c.status == Status.RUNNING.value
    ended = job_log.c.job_end_time < utc_from_now(-age)
    return and_(~running, ended, or_(finished, superseded))


def _find_needed_attempts(conn: Connection, tables: Collection[TableConfig]) -> list[int]:
    kept: list[int] = []
    for table in tables:
        newest = select(job_log.c.job_id).where(
            match_project(job_log),
            job_log.c.job_name == table.table,
            job_log.c.latest == 1,
            job_log.c.status == Status.SUCCESS.value,
        )
        if table.lookback:
            late = newest.where(job_log.c.seen_until > 0)
            kept += conn.execute(late).scalars().all()
        newest = newest.order_by(job_log.c.window_start.desc()).limit(table.lookback + 1)
        if table.lookback or table.is_sliced:
            kept += conn.execute(newest).scalars().all()
    return kept
