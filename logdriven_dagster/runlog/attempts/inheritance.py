"""Values that an attempt takes over from the one before it: version, range, durable steps."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import or_, select, true
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Claim, Status
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.runlog.attempts import failed_refreshes, steps
from logdriven_dagster.runlog.attempts.names import find_names
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.projects import match_project


def find_last_version(
    conn: Connection, table: str, window: TimeWindow
) -> tuple[Status, int | None] | None:
    """Return the status of the latest attempt at a window, and the version of its table."""
    (name,) = find_names(conn, table, [window])
    mine = match_project(job_log) & (job_log.c.job_schedule_id == name)
    newest = or_(job_log.c.latest == 1, job_log.c.failed_refresh == failed_refreshes.MARKED)
    query = select(job_log.c.status, job_log.c.table_version).where(mine, newest)
    row = conn.execute(query.order_by(job_log.c.job_id.desc()).limit(1)).first()
    return None if row is None else (Status(row.status), row.table_version)


def inherit_source_state(request: Claim, previous: Row[Any] | None) -> dict[str, Any]:
    """Return the time at which the source of a bounded range was read, and if it had more rows."""
    if previous is None or not isinstance(request.window, Slice) or request.window.high is None:
        return {}
    return {"data_now": previous.data_now, "has_more": previous.has_more}


def find_resumable_results(
    conn: Connection, request: Claim, previous: Row[Any]
) -> Mapping[str, str]:
    """Return the previous attempt's staged results if this one has the same code and inputs."""
    if request.definition is None or previous.definition != request.definition:
        return {}
    if isinstance(request.window, Slice):
        same = previous.data_range_end == request.window.range_end
    else:  # its text may be in another time zone
        same = previous.window_end == int(request.window.span[1])
    if not same:
        return {}
    found = steps.find_staged_results(conn, previous.job_id)
    return found if found and not _has_newer_inputs(conn, request, previous) else {}


def _has_newer_inputs(conn: Connection, request: Claim, previous: Row[Any]) -> bool:
    """Return True if a window that the steps read may have changed since that attempt began."""
    for upstream, spans in request.reads.items():
        within = [
            (job_log.c.window_start < int(span.end.timestamp()))
            & (job_log.c.window_end > int(span.start.timestamp()))
            for span in spans or ()
        ]
        if spans is not None and not within:
            continue
        newer = select(job_log.c.job_id).where(
            match_project(job_log),
            job_log.c.job_name == upstream,
            job_log.c.latest == 1,
            or_(
                job_log.c.job_id > previous.job_id,
                job_log.c.job_end_time.is_(None),
                job_log.c.job_end_time >= previous.job_start_time,
            ),
            or_(*within) if within else true(),
        )
        if conn.execute(newer.limit(1)).first() is not None:
            return True
    return False
