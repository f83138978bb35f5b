"""The incremental types whose windows are ranges of time."""

from logdriven_dagster.config.models.incremental.types import IncrementalType


class TimeWindows(IncrementalType):
    """A window is a range of data time."""

    name = "time_window"
    tells_windows_by = "window_column"


class Snapshots(IncrementalType):
    """A window is a snapshot of all rows, taken once a period."""

    name = "full"
    is_snapshot = True
