"""The windows of `job_log` rows."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.model.windows import ALONG, Slice, TimeWindow


def build_window_of_row(kind: str | None, row: Mapping[Any, Any], zone: ZoneInfo) -> TimeWindow:
    """Return the window of a `job_log` row of any table, by the names of its columns.

    `kind` is its incremental type.
    """
    along = ALONG.get(kind or "")
    if along is None:
        return TimeWindow.from_seconds(row["window_start"], row["window_end"], zone)
    low, high = row["data_range_start"] or "", row["data_range_end"]
    return Slice.nth(row["window_start"], low, high, zone, along)
