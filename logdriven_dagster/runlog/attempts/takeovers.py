"""Windows that another system finished before the project: finished without an attempt.

A time range is one row of `job_log` with the status SUCCESS that is not the latest attempt at any
window. It is part of the covered ranges, like an archived finished window, while refreshes,
lookback, batches and Dagster use attempts of the project only. A key or offset range is a row like
any other, behind which the next one begins. Its only step is SKIPPED and names the origin of the
row. Nothing was read or written, so it has no counts.
"""

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Claim, Status, Trigger
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog.attempts import coverage, steps
from logdriven_dagster.runlog.attempts.rows import insert_rows
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.projects import match_project

STEP = "taken_over"
"""The `step_log` row with the reason."""


def has_run(conn: Connection, table: str) -> bool:
    """Return True if the log holds an attempt by this project at a window of the table."""
    for log in (job_log, job_log_archive):
        trigger = log.c.run_trigger
        ours = (
            match_project(log)
            & (log.c.job_name == table)
            & (trigger.is_(None) | (trigger != Trigger.TAKEOVER.value))
        )
        if conn.execute(select(log.c.job_id).where(ours).limit(1)).first() is not None:
            return True
    return False


def take_over(conn: Connection, request: Claim, reason: str) -> None:
    """Record that another system has processed the window, or range, of the request.

    The data clock of the request is the time at which that system read its source. Another
    takeover, when that system has progressed, adds to the first one.
    """
    window = request.window
    fields: dict[str, Any] = {"covered": 1}
    if isinstance(window, Slice):
        further = {"data_range_end": window.high, "data_now": int(request.now.timestamp())}
        slices = (
            match_project(job_log) & (job_log.c.job_name == request.table) & (job_log.c.latest == 1)
        )
        if conn.execute(update(job_log).where(slices).values(**further)).rowcount:
            return
    else:
        known = f"{request.table}-until-{window.end_text}"
        if _is_known(conn, known):
            return
        fields |= {"latest": None, "job_schedule_id": known}
    jobs = insert_rows(conn, [request], Status.SUCCESS, [fields])
    steps.add_skipped(conn, jobs, [STEP], reason)
    coverage.cover(conn, request.table, Status.SUCCESS, window)


def _is_known(conn: Connection, schedule_id: str) -> bool:
    return any(
        conn.execute(
            select(log.c.job_id).where(match_project(log), log.c.job_schedule_id == schedule_id)
        ).first()
        for log in (job_log, job_log_archive)
    )
