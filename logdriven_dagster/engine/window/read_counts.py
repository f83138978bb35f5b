"""Rows read per window of a pass, including queries that read for several windows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.time_columns import WindowColumn
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.stretching import Counting, choose_counting
from logdriven_dagster.engine.queries.window_index import (
    BINS,
    bins_by_window,
    count_by_window,
    counts_of_bins,
    index_by,
)
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.mode import ROWS, WINDOWS
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class ReadCounts:
    """Division of the rows that a pass reads by its windows; see `Counting`.

    A single window gets all rows. If no query plan has the number, each frame is counted by the
    mode of the session.
    """

    def __init__(
        self,
        project: Project,
        table: TableConfig,
        windows: Sequence[TimeWindow],
        spark: "SparkSession",
    ) -> None:
        self._windows, self._several = windows, len(windows) > 1
        self._counting: Counting = choose_counting(project, table) if self._several else "unknown"
        self._counted: list[Callable[[], list[int] | None]] = []
        self._counter = mode_of(spark).create_read_counter(spark)

    def add_counter(self, column: WindowColumn | None, frame: "DataFrame") -> "DataFrame":
        """Return the frame with a counter, if needed; `column` determines the rows' windows."""
        if self._counter is not None:
            index = None
            if column is not None and self._several:
                index = partial(index_by, column=column, windows=self._windows)
            return self._counter.see(frame, lambda rows: self._metric(rows, column), index)
        if column is None or self._counting != "reads":
            return frame
        frame, counts = count_by_window(frame, column, self._windows)
        self._counted.append(counts)
        return frame

    def push_filters(
        self, sql: str, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "tuple[str, Mapping[str, DataFrame]]":
        """Return the query and its frames, changed so that its filters apply before the counts.

        `values` are the query's parameters, `frames` the views that it may name.
        """
        if self._counter is None:
            return sql, frames
        return self._counter.push_filters(sql, values, frames)

    def assign_counts(
        self, staged: tuple[StagedRows, ...], made: "DataFrame"
    ) -> tuple[StagedRows, ...]:
        """Return the rows of each window with the number of rows read for it, if known.

        `made` is the frame whose rows are staged.
        """
        if self._counter is not None:
            seen = self._counter.read_counts(made, [each.rows for each in staged])
            return staged if seen is None else self._by_observation(staged, seen)
        query = staged[0].query
        total = None if query is None else query.source
        if self._counting == "results" and total == sum(each.made or 0 for each in staged):
            return tuple(replace(each, source_rows=each.made) for each in staged)
        found = [counts() for counts in self._counted]
        known = [each for each in found if each is not None]
        if not found or len(known) < len(found) or total is None:
            return staged
        by_window = [sum(each) for each in zip(*known, strict=True)]
        # Shared rows were read once here; a window that runs by itself reads them, too.
        return _each(staged, by_window, total - sum(by_window))

    def _metric(self, rows: "DataFrame", column: WindowColumn | None) -> "Column":
        if column is None or not self._several:
            return sf.count(sf.lit(1)).alias(ROWS)
        return bins_by_window(rows, column, self._windows).alias(BINS)

    def _by_observation(
        self, staged: tuple[StagedRows, ...], found: list[Mapping[str, Any]]
    ) -> tuple[StagedRows, ...]:
        if self._several and self._counting == "unknown":
            return staged
        divided = [counts_of_bins(each[BINS], len(staged)) for each in found if BINS in each]
        divided += [each[WINDOWS] for each in found if WINDOWS in each]
        by_window = [sum(each) for each in zip(*divided, strict=True)] or [0] * len(staged)
        return _each(staged, by_window, sum(each.get(ROWS, 0) for each in found))


def _each(
    staged: tuple[StagedRows, ...], by_window: list[int], shared: int
) -> tuple[StagedRows, ...]:
    """Add to each window the rows read for it, and the rows read for all."""
    if shared < 0:
        return staged
    pairs = zip(staged, by_window, strict=True)
    return tuple(replace(each, source_rows=found + shared) for each, found in pairs)
