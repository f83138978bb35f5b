"""Windows with attempts and windows without, for display."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import TableLog, WindowCount
from logdriven_dagster.planning.pending import find_unfinished_windows


def add_missing(
    table: TableConfig, log: TableLog, counts: Sequence[WindowCount], now: datetime, most: int
) -> list[WindowCount]:
    """Return the newest windows, oldest first: those with attempts, and those that are due.

    An attempt of a dead runner counts as failed.
    """
    found = {count.window.key: count for count in counts}
    for item in log.open:
        if known := found.get(item.window.key):
            found[item.window.key] = replace(known, status=item.status)
    due = [] if table.is_sliced else find_unfinished_windows(table, log, now)[-most:]
    missing = [WindowCount(window, None) for window in due if window.key not in found]
    return sorted([*found.values(), *missing], key=lambda count: count.window.span)[-most:]
