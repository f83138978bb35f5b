"""Attempts and runs of jobs in a period of time, including archived ones.

Source: Sharp ETL, executionsBetween: by the time at which they started.
"""

from collections.abc import Collection
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Table, or_, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.schema.attempts import (
    job_log,
    job_log_archive,
    step_log,
    step_log_archive,
)
from logdriven_dagster.runlog.schema.observations import job_run
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.rows import convert_row


def list_attempts_between(
    conn: Connection,
    start: datetime,
    end: datetime,
    tables: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the attempts of a project that started in `[start, end)`, oldest first.

    Rows have the form of `history.list_attempts`, with their `steps`. By default those of all
    tables are returned.
    """
    found: dict[int, dict[str, Any]] = {}
    for log, step in ((job_log, step_log), (job_log_archive, step_log_archive)):
        rows = _find_started(conn, log, start, end)
        kept = [convert_row(row) for row in rows if tables is None or row.job_name in tables]
        steps: dict[int, list[dict[str, Any]]] = {row["job_id"]: [] for row in kept}
        for ids in split_into_chunks(list(steps)):
            query = select(step).where(step.c.job_id.in_(ids))
            for item in conn.execute(query.order_by(step.c.start_time, step.c.step_id)):
                steps[item.job_id].append(convert_row(item))
        # By id: an attempt may be archived between the two queries.
        found |= {row["job_id"]: row | {"steps": steps[row["job_id"]]} for row in kept}
    return [found[job_id] for job_id in sorted(found)]


def list_job_runs_between(conn: Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return the runs of a project's jobs that began in `[start, end)`, oldest first."""
    query = select(job_run).where(
        match_project(job_run),
        job_run.c.begin_time >= _convert_to_utc(start),
        job_run.c.begin_time < _convert_to_utc(end),
    )
    return [convert_row(row) for row in conn.execute(query.order_by(job_run.c.job_run_id))]


def _find_started(conn: Connection, log: Table, start: datetime, end: datetime) -> list[Any]:
    # Rows that started since then have ended since then, or run: both are indexed, starts are not.
    since = log.c.job_end_time >= _convert_to_utc(start)
    running = (log.c.status == Status.RUNNING.value) & (log.c.latest == 1)
    query = select(log).where(
        or_(since, running) if log is job_log else since,  # archived rows have ended
        log.c.job_start_time >= _convert_to_utc(start),
        log.c.job_start_time < _convert_to_utc(end),
        match_project(log),
    )
    return list(conn.execute(query).all())


def _convert_to_utc(instant: datetime) -> datetime:
    return instant.astimezone(timezone.utc).replace(tzinfo=None)
