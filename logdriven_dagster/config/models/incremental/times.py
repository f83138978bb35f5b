"""Incremental types whose windows are ranges of data time."""

from logdriven_dagster.config.models.incremental.types import IncrementalType


class TimeWindows(IncrementalType):
    """Windows of data time, one for each period."""

    name = "time_window"
    assigns_windows_by = "window_column"


class Snapshots(IncrementalType):
    """Windows that each hold a snapshot of all rows, one for each period."""

    name = "full"
    is_snapshot = True
