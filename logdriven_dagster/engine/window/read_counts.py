"""How many rows were read for each of several windows, which one query read together."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.stretching import Counting, counting
from logdriven_dagster.engine.queries.window_index import count_by_window
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ReadCounts:
    """Divides what a pass reads by its windows; see `Counting`. One window has all of it."""

    def __init__(self, project: Project, table: TableConfig, windows: Sequence[TimeWindow]) -> None:
        self._windows = windows
        several = len(windows) > 1
        self._counting: Counting = counting(project, table) if several else "unknown"
        self._observed: list[Callable[[], list[int] | None]] = []

    def seen(self, column: str | None, frame: "DataFrame") -> "DataFrame":
        """Count on the way what a query reads window by window; `column` tells the windows."""
        if column is None or self._counting != "reads":
            return frame
        frame, counts = count_by_window(frame, column, self._windows)
        self._observed.append(counts)
        return frame

    def divided(self, staged: tuple[StagedRows, ...]) -> tuple[StagedRows, ...]:
        """Return the rows of each window with what was read for it, as far as that is known."""
        query = staged[0].query
        total = None if query is None else query.source
        if self._counting == "results" and total == sum(each.rows or 0 for each in staged):
            return tuple(replace(each, source_rows=each.rows) for each in staged)
        found = [counts() for counts in self._observed]
        known = [each for each in found if each is not None]
        if not found or len(known) < len(found) or total is None:
            return staged
        by_window = [sum(each) for each in zip(*known, strict=True)]
        # What all windows share was read once here, and is read for each that runs by itself.
        shared = total - sum(by_window)
        if shared < 0:
            return staged
        pairs = zip(staged, by_window, strict=True)
        return tuple(replace(each, source_rows=found + shared) for each, found in pairs)
