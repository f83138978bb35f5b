"""The state of the log before a claim: earlier attempts, and attempts that run concurrently.

Every window runs these queries, so the statements are built once, with parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, func, null, select, union_all
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Claim
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.names import EVERY_STATUS, apply_logged_name, choose_names
from logdriven_dagster.runlog.attempts.rows import schedule_id
from logdriven_dagster.runlog.leases import is_expired
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project

_ROWS = select(
    job_log.c.job_id,
    job_log.c.job_schedule_id,
    job_log.c.status,
    job_log.c.covered,
    job_log.c.owner,
    job_log.c.dagster_run_id,
    job_log.c.attempt_number,
    job_log.c.fencing_token,
    job_log.c.failures,
    job_log.c.job_start_time,
    job_log.c.data_range_end,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.data_now,
    job_log.c.has_more,
    job_log.c.definition,
    is_expired(job_log),
    utc_now().label("now"),
)
"""The columns that a claim reads: half of them, since the long ones are only for display."""


def _build_null_columns(**known: Any) -> Select[Any]:
    """Return the same columns, all NULL except those in `known` and the current time."""
    known["now"] = utc_now()
    return select(*(known.get(c.name, null()).label(c.name) for c in _ROWS.selected_columns))


_EARLIER = union_all(
    _ROWS.where(
        match_project(job_log),
        job_log.c.job_schedule_id.in_(bindparam("windows", expanding=True)),
        job_log.c.latest == 1,
    ),
    _ROWS.where(
        match_project(job_log),
        ATTEMPTS.running,
        job_log.c.job_name == bindparam("name"),
        job_log.c.window_start < bindparam("end"),
        job_log.c.window_end > bindparam("start"),
        job_log.c.job_schedule_id.not_in(bindparam("windows", expanding=True)),
    ),
    *(
        _build_null_columns(
            job_schedule_id=log.c.job_schedule_id,
            window_start=log.c.window_start,
        ).where(
            match_project(log),
            log.c.job_name == bindparam("name"),
            log.c.latest == 1,
            log.c.status.in_(EVERY_STATUS),
            log.c.window_start.in_(bindparam("starts", expanding=True)),
            log.c.job_schedule_id.not_in(bindparam("windows", expanding=True)),
        )
        for log in (job_log, job_log_archive)
    ),
    _build_null_columns(
        job_schedule_id=job_log_archive.c.job_schedule_id,
        window_start=func.max(job_log_archive.c.window_start),
        attempt_number=func.max(job_log_archive.c.attempt_number),
        fencing_token=func.max(job_log_archive.c.fencing_token),
    )
    .where(
        match_project(job_log_archive),
        job_log_archive.c.job_schedule_id.in_(bindparam("windows", expanding=True)),
    )
    .group_by(job_log_archive.c.job_schedule_id),
    _build_null_columns(),
)
"""The latest attempts at windows of a table, running attempts at other windows within their range,
archived attempts at the windows (without a job), and a row without a window, so that the current
time is always returned.

Also the names of windows that begin at the same instants under another name (`choose_names`).
"""


@dataclass(frozen=True, slots=True)
class EarlierAttempts:
    """The earlier attempts at some windows, by `job_schedule_id`."""

    requests: list[Claim]
    """The requests, with the names that their windows have in the log."""
    now: datetime
    latest: Mapping[str, Row[Any]]
    """The latest rows; `expired` marks a RUNNING row whose lease has expired."""
    overlapping: Sequence[Row[Any]]
    """The attempts that run at other, overlapping windows of the table."""
    archived: Mapping[str, tuple[int, int]]
    """The greatest attempt numbers and tokens of archived attempts."""

    def find(self, request: Claim) -> Row[Any] | None:
        return self.latest.get(schedule_id(request))


def read_earlier_attempts(conn: Connection, requests: Sequence[Claim]) -> EarlierAttempts:
    """Read the earlier attempts at these windows and the attempts that run concurrently."""
    rows = _read_rows(conn, requests)
    known = [(row.job_schedule_id, row.window_start) for row in rows if row.job_schedule_id]
    windows = [request.window for request in requests]
    if not isinstance(windows[0], Slice):
        called = choose_names(requests[0].table, windows, known)
        changed = [apply_logged_name(r, name) for r, name in zip(requests, called, strict=True)]
        if changed != list(requests):
            requests, rows = changed, _read_rows(conn, changed)
    mine = {schedule_id(request) for request in requests}
    found = {row.job_schedule_id: row for row in rows if row.job_id is not None}
    archived = [row for row in rows if row.job_id is None and row.job_schedule_id in mine]
    return EarlierAttempts(
        list(requests),
        rows[-1].now,
        {name: row for name, row in found.items() if name in mine},
        [row for name, row in found.items() if name not in mine],
        {row.job_schedule_id: (row.attempt_number, row.fencing_token or 0) for row in archived},
    )


def _read_rows(conn: Connection, requests: Sequence[Claim]) -> list[Row[Any]]:
    wanted = {
        schedule_id(request): int(request.window.span[0])
        for request in sorted(requests, key=schedule_id)
    }
    span = {
        "name": requests[0].table,
        "start": int(min(request.window.span[0] for request in requests)),
        "end": int(max(request.window.span[1] for request in requests)),
    }
    is_sliced = isinstance(requests[0].window, Slice)
    rows: list[Row[Any]] = []
    for part in split_into_chunks(list(wanted)):
        starts = [] if is_sliced else [wanted[name] for name in part]
        rows += conn.execute(_EARLIER, span | {"windows": part, "starts": starts})
    return rows
