"""The rows of `job_log` with which attempts begin."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Insert, bindparam, insert, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Attempt, Claim, Status
from logdriven_dagster.runlog.leases import build_lease_columns
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project

_OF_WINDOWS = select(job_log.c.job_schedule_id, job_log.c.job_id).where(
    match_project(job_log),
    job_log.c.job_schedule_id.in_(bindparam("windows", expanding=True)),
    job_log.c.latest == 1,
)
"""The latest attempts at windows."""


def schedule_id(of: Claim | Attempt) -> str:
    """Return `job_log.job_schedule_id`, the name of the window of a claim or an attempt."""
    claim = of.claim if isinstance(of, Attempt) else of
    return claim.name or f"{claim.table}-{claim.window.key}"


def insert_rows(
    conn: Connection,
    requests: Sequence[Claim],
    status: Status,
    each: Sequence[Mapping[str, Any]],
    lease: timedelta | None = None,
) -> list[int]:
    """Insert attempts with this status, and return their job ids in order.

    `each` has the values by which a row differs from its claim. If `lease` is given, the leases of
    all rows begin now.
    """
    rows = [
        {**_build_columns(r), "status": status.value, **own}
        for r, own in zip(requests, each, strict=True)
    ]
    result = conn.execute(_build_insert(status, lease), rows)
    if len(rows) == 1:
        key = result.inserted_primary_key
        assert key is not None
        return [int(key[0])]
    mine = [schedule_id(request) for request in requests]
    jobs: dict[str, int] = {}
    for part in split_into_chunks(mine):
        found = conn.execute(_OF_WINDOWS, {"windows": part})
        jobs |= {row.job_schedule_id: row.job_id for row in found}
    return [jobs[each] for each in mine]


def _build_columns(request: Claim) -> dict[str, Any]:
    """Return the columns of a window's first row that are known without the database."""
    return {
        "job_name": request.table,
        "job_period": request.period_minutes,
        "job_schedule_id": schedule_id(request),
        **_build_range_columns(request),
        "incremental_type": request.incremental_type,
        "project_name": request.project,
        "run_trigger": request.trigger.value,
        **build_number_columns(1),
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


def _build_range_columns(request: Claim) -> dict[str, str | None]:
    """Return the bounds as texts, with offsets if the log has the window in another time zone."""
    window = request.window
    if request.name:
        return {
            "data_range_start": window.exact_start_text,
            "data_range_end": window.exact_end_text,
        }
    return {"data_range_start": window.range_start, "data_range_end": window.range_end}


def build_number_columns(attempt_number: int) -> dict[str, int | None]:
    """Return the columns that hold the number of the attempt at its window."""
    return {"attempt_number": attempt_number, "again": 1 if attempt_number > 1 else None}


@cache
def _build_insert(status: Status, lease: timedelta | None) -> Insert:
    """Build the INSERT of rows with timestamps by the database's clock."""
    names = {"job_start_time", "job_end_time", "create_time", "last_update_time"}
    if status is Status.RUNNING:
        names.remove("job_end_time")
    moments = {name: utc_now() for name in sorted(names)}
    return insert(job_log).values(
        **moments, **({} if lease is None else build_lease_columns(lease))
    )
