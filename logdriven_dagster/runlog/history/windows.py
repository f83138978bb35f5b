"""The windows of a table's `job_log` rows."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import ALONG, TimeWindow
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.windows import build_window_of_row


def is_of(table: TableConfig, kind: str | None) -> bool:
    """Return True if a row's window has the table's current type, not one from before a change."""
    return kind == table.incremental_type if table.is_sliced else kind not in ALONG


def build_window(table: TableConfig, row: Mapping[Any, Any]) -> TimeWindow:
    """Return the window of a `job_log` row of the table, by the names of its columns."""
    return build_window_of_row(table.incremental_type, row, table.grid.zone)


def list_latest_attempts(
    conn: Connection, table: TableConfig, match: Callable[[Table], ColumnElement[bool]]
) -> list[Row[Any]]:
    """Return the rows of the latest attempts at windows of a table, oldest window first.

    `match` returns the condition on the rows of a log, the current or the archived one.
    """
    rows = [
        row
        for log in (job_log, job_log_archive)
        for row in conn.execute(
            select(
                log.c.job_id,
                log.c.status,
                log.c.table_version,
                log.c.incremental_type,
                log.c.window_start,
                log.c.window_end,
                log.c.data_range_start,
                log.c.data_range_end,
            ).where(
                match_project(log),
                log.c.job_name == table.table,
                log.c.latest == 1,
                match(log),
            )
        )
        if is_of(table, row.incremental_type)
    ]
    return sorted(rows, key=lambda row: row.window_start)
