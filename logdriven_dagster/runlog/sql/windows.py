"""The windows of `job_log` rows."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.incremental.registered import get_incremental_type
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.windows import Slice, TimeWindow


def is_of(table: TableConfig, kind: str | None) -> bool:
    """Return True if a row's window has the table's current type, not one from before a change."""
    if table.is_sliced:
        return kind == table.incremental_type
    return not get_incremental_type(kind).is_sliced


def build_window(table: TableConfig, row: Mapping[Any, Any]) -> TimeWindow:
    """Return the window of a `job_log` row of the table, by the names of its columns."""
    return build_window_of_row(table.incremental_type, row, table.grid.zone)


def build_window_of_row(kind: str | None, row: Mapping[Any, Any], zone: ZoneInfo) -> TimeWindow:
    """Return the window of a `job_log` row of any table."""
    along = get_incremental_type(kind).along
    if along is None:
        return TimeWindow.from_seconds(row["window_start"], row["window_end"], zone)
    low, high = row["data_range_start"] or "", row["data_range_end"]
    return Slice.nth(row["window_start"], low, high, zone, along)
