"""Which window a row of `job_log` is about."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.tables import SLICED, TableConfig
from logdriven_dagster.model.windows import Along, Slice, TimeWindow, in_zone


def is_of(table: TableConfig, incremental_type: str | None) -> bool:
    """Whether a row is of a window of the table as it is now, not from before its type changed."""
    if table.is_sliced:
        return incremental_type == table.incremental_type
    return incremental_type not in SLICED


def window_of(table: TableConfig, row: Mapping[Any, Any]) -> TimeWindow:
    """The window of a `job_log` row of the table, by the names of its columns."""
    return window_of_row(table.incremental_type, row, table.grid.zone)


def window_of_row(
    incremental_type: str | None, row: Mapping[Any, Any], zone: ZoneInfo
) -> TimeWindow:
    """The window of a `job_log` row of any table."""
    if incremental_type not in SLICED:
        return TimeWindow(in_zone(row["window_start"], zone), in_zone(row["window_end"], zone))
    low, high = row["data_range_start"] or "", row["data_range_end"]
    return Slice.nth(row["window_start"], low, high, zone, Along.of(str(incremental_type)))
