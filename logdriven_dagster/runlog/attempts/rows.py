"""The rows of `job_log` that attempts begin with."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Attempt, Claim, Status
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.clock import utc_now


def schedule_id(of: Claim | Attempt) -> str:
    """`job_log.job_schedule_id`: names the window that a row is an attempt at."""
    return f"{of.table}-{of.window.key}"


def insert_rows(
    conn: Connection,
    requests: Sequence[Claim],
    status: Status,
    each: Sequence[Mapping[str, Any]],
    **values: Any,
) -> list[int]:
    """Log attempts with this status; their jobs, in order.

    `each` has the values by which a row differs from its claim, `values` what all have, which may
    be expressions of the database.
    """
    rows = [
        {**_columns(r), "status": status.value, **own}
        for r, own in zip(requests, each, strict=True)
    ]
    result = conn.execute(insert(job_log).values(**_times(status), **values), rows)
    if len(rows) == 1:
        key = result.inserted_primary_key
        assert key is not None
        return [int(key[0])]
    mine = [schedule_id(request) for request in requests]
    jobs: dict[str, int] = {}
    for part in chunks(mine):
        found = select(job_log.c.job_schedule_id, job_log.c.job_id).where(
            job_log.c.job_schedule_id.in_(part), job_log.c.latest == 1
        )
        jobs |= {row.job_schedule_id: row.job_id for row in conn.execute(found)}
    return [jobs[each] for each in mine]


def _columns(request: Claim) -> dict[str, Any]:
    """What of a window's first row is known without the database."""
    return {
        "job_name": request.table,
        "job_period": request.period_minutes,
        "job_schedule_id": schedule_id(request),
        "data_range_start": request.window.range_start,
        "data_range_end": request.window.range_end,
        "incremental_type": request.incremental_type,
        "project_name": request.project,
        "run_trigger": request.trigger.value,
        **numbered(1),
        "owner": str(request.owner),
        "dagster_run_id": request.owner.dagster_run_id,
        "runtime_args": json.dumps(dict(request.runtime_args)) if request.runtime_args else None,
        "data_now": int(request.now.timestamp()),
        "window_start": int(request.window.start.timestamp()),
        "window_end": int(request.window.end.timestamp()),
        "latest": 1,
        "definition": request.definition,
        "table_version": request.version,
        "parameters": json.dumps(dict(request.parameters), ensure_ascii=False),
        "job_run_id": request.job_run_id,
        "seen_until": int(request.seen_until.timestamp()) if request.seen_until else None,
    }


def numbered(attempt_number: int) -> dict[str, int | None]:
    """The columns that say the how manieth attempt at its window a row is."""
    return {"attempt_number": attempt_number, "again": 1 if attempt_number > 1 else None}


def _times(status: Status) -> dict[str, Any]:
    return {
        "job_start_time": utc_now(),
        "job_end_time": None if status is Status.RUNNING else utc_now(),
        "create_time": utc_now(),
        "last_update_time": utc_now(),
    }
