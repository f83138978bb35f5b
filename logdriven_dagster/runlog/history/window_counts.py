"""The numbers of rows that the latest attempts at a table's newest windows wrote."""

from collections.abc import Sequence

from sqlalchemy import bindparam, func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import WindowCount
from logdriven_dagster.runlog.history.windows import build_window, is_of
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.chunks import LOOKED_UP, split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unions import execute_each

_NEWEST = (
    select(
        job_log.c.job_id,
        job_log.c.status,
        job_log.c.incremental_type,
        job_log.c.window_start,
        job_log.c.window_end,
        job_log.c.data_range_start,
        job_log.c.data_range_end,
    )
    .where(
        match_project(job_log),
        job_log.c.job_name == bindparam("name"),
        job_log.c.latest == 1,
        job_log.c.status == bindparam("status"),
        job_log.c.window_start.is_not(None),
    )
    .order_by(job_log.c.window_start.desc())
    .limit(bindparam("most"))
)
"""The newest windows of a table with this status, by one index step."""


def read_window_counts(conn: Connection, table: TableConfig, most: int) -> Sequence[WindowCount]:
    """Return the newest windows that were ever begun and are not archived, oldest first."""
    stands = [status.value for status in Status if status is not Status.READY]
    asked = [{"name": table.table, "status": status, "most": most} for status in stands]
    found = [
        row for row in execute_each(conn, _NEWEST, asked) if is_of(table, row.incremental_type)
    ]
    newest = sorted(found, key=lambda row: row.window_start)[-most:]
    rows = _count_rows(conn, [row.job_id for row in newest])
    return [
        WindowCount(build_window(table, row._mapping), Status(row.status), rows.get(row.job_id))
        for row in newest
    ]


def _count_rows(conn: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """Return the total of rows that the steps of each attempt wrote."""
    found: dict[int, int] = {}
    for part in split_into_chunks(job_ids, LOOKED_UP):
        counted = (
            select(step_log.c.job_id, func.sum(step_log.c.success_count).label("rows"))
            .where(step_log.c.job_id.in_(part))
            .group_by(step_log.c.job_id)
        )
        found |= {
            row.job_id: int(row.rows) for row in conn.execute(counted) if row.rows is not None
        }
    return found
