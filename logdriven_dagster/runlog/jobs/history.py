"""Reading the log of jobs for display. Source: Kettle, `v_etl_kjb_log` and `v_etl_tbl_log`."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.leases import is_expired
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.schema.observations import job_run, job_run_step
from logdriven_dagster.runlog.sql.projects import match_project

_MOST_ATTEMPTS = 10_000


def read_latest_runs(conn: Connection, codes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the newest run by job name, by number: two runs may begin in the same second.

    A run is its `job_run` row with its `steps`. Timestamps are ISO 8601 in UTC; `expired` marks a
    RUNNING row whose lease has expired.
    """
    newest = (
        select(func.max(job_run.c.job_run_id))
        .where(match_project(job_run), job_run.c.job_code.in_(codes))
        .group_by(job_run.c.job_code)
    )
    ids = conn.execute(newest).scalars().all()
    return {run["job_name"]: run for run in _read_runs(conn, ids)}


def list_attempts_of_run(conn: Connection, job_run_id: int) -> list[dict[str, Any]]:
    """Return the attempts at windows that belong to a run, oldest first, with their steps.

    Attempts of other jobs at the same tables are not included.
    """
    query = select(job_log.c.job_id).where(
        match_project(job_log), job_log.c.job_run_id == job_run_id
    )
    ids = conn.execute(query.order_by(job_log.c.job_id).limit(_MOST_ATTEMPTS)).scalars().all()
    return history.list_attempts_by_id(conn, ids)


def _read_runs(conn: Connection, ids: Sequence[int]) -> list[dict[str, Any]]:
    query = select(job_run, is_expired(job_run)).where(job_run.c.job_run_id.in_(ids))
    found = {row.job_run_id: _convert_row(row) | {"steps": []} for row in conn.execute(query)}
    steps = select(job_run_step).where(job_run_step.c.job_run_id.in_(ids))
    for row in conn.execute(steps.order_by(job_run_step.c.exec_order)):
        found[row.job_run_id]["steps"].append(_convert_row(row))
    return [found[job_run_id] for job_run_id in ids]


def _convert_row(row: Any) -> dict[str, Any]:
    values = dict(row._mapping)
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = f"{value.isoformat()}+00:00"
    if "parameters" in values:
        values["parameters"] = json.loads(values["parameters"] or "{}")
        values["expired"] = bool(values["expired"])
        del values["running"]
    return values
