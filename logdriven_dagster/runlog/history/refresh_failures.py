"""Failed refreshes that were not repeated: the window, the error, and the published result."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, union_all
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import in_brief
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts.failed_refreshes import MARKED
from logdriven_dagster.runlog.history.logs import list_attempts_by_id
from logdriven_dagster.runlog.history.windows import build_window
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.projects import match_project

_OF_TABLES = select(job_log.c.job_id).where(match_project(job_log), among(job_log.c.job_name))
_FAILED = union_all(
    _OF_TABLES.where(job_log.c.failed_refresh == MARKED),
    _OF_TABLES.where(
        job_log.c.latest == 1,
        job_log.c.status.in_((Status.FAILURE.value, Status.DISCARDED.value)),
        job_log.c.standing.is_not(None),
    ),
)
"""The newest attempts at finished windows that changed nothing: failed and dead ones."""


@dataclass(frozen=True, slots=True)
class RefreshFailure:
    """A failed refresh of a window whose earlier published result is intact."""

    window: TimeWindow
    job_id: int
    error: str
    """The error in brief; empty if the attempt died."""
    published_by: int | None
    """The attempt that published the result in force."""
    published_at: str | None
    """The time of its end, ISO 8601 in UTC; None if it is archived."""


def refresh_failures(
    conn: Connection, tables: Collection[TableConfig]
) -> dict[str, list[RefreshFailure]]:
    """Return the failed refreshes by table and ascending start; omit tables without any."""
    by_name = {table.table: table for table in tables}
    job_ids = conn.execute(_FAILED, {"names": list(by_name)}).scalars().all()
    rows = list_attempts_by_id(conn, job_ids)
    standing = [row["standing"] for row in rows if row["standing"] is not None]
    published = {row["job_id"]: row["job_end_time"] for row in list_attempts_by_id(conn, standing)}
    found: dict[str, list[RefreshFailure]] = {}
    for row in sorted(rows, key=lambda row: row["window_start"] or 0):
        window, by = build_window(by_name[row["job_name"]], row), row["standing"]
        failure = RefreshFailure(window, row["job_id"], _build_error(row), by, published.get(by))
        found.setdefault(row["job_name"], []).append(failure)
    return found


def _build_error(row: dict[str, Any]) -> str:
    return next((in_brief(step["error"]) for step in row["steps"] if step["error"]), "")
