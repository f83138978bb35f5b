"""The windows of a table's `job_log` rows."""

from collections.abc import Mapping
from typing import Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import ALONG, TimeWindow
from logdriven_dagster.runlog.sql.windows import build_window_of_row


def is_of(table: TableConfig, kind: str | None) -> bool:
    """Return True if a row's window has the table's current type, not one from before a change."""
    return kind == table.incremental_type if table.is_sliced else kind not in ALONG


def build_window(table: TableConfig, row: Mapping[Any, Any]) -> TimeWindow:
    """Return the window of a `job_log` row of the table, by the names of its columns."""
    return build_window_of_row(table.incremental_type, row, table.grid.zone)
