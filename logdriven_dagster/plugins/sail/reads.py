"""Row counts of a query's sources on Sail, which reports no metrics.

A projection has as many rows as it read. For other queries, additional queries count the rows that
each table delivers after its own conditions, and read only the columns that these conditions need.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.sql.own_filters import TableUse, find_table_uses
from logdriven_dagster.engine.spark.mode import ROWS, WINDOWS
from logdriven_dagster.plugins.sail.found_files import files_found, refuse_gone
from logdriven_dagster.plugins.sail.queries import proven, sail_query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Index: TypeAlias = "Callable[[DataFrame], Column]"
"""Function that returns a column with the window number of each row of a frame."""


class SailReads:
    """The frames of a window that count as read, and the query over them."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._seen: dict[int, tuple[DataFrame, Index | None]] = {}
        """Id of a counted frame → the frame (kept alive) and its windows."""
        self._files: set[Path] = set()
        self._query: tuple[str, Mapping[str, DataFrame]] | None = None

    def see(
        self,
        frame: "DataFrame",
        metric: "Callable[[DataFrame], Column]",
        index: "Index | None",
    ) -> "DataFrame":
        """Register the frame, so that its rows are counted, and return it."""
        _ = metric
        self._seen[id(frame)] = frame, index
        self._files |= files_found(frame)
        return frame

    def push_filters(
        self, sql: str, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "tuple[str, Mapping[str, DataFrame]]":
        """Return the query as it is: Sail itself pushes conditions down to the tables."""
        _ = values
        self._query = sql, dict(frames)
        return sql, frames

    def read_counts(
        self, frame: "DataFrame", written: Sequence[int | None]
    ) -> list[Mapping[str, Any]] | None:
        """Return the count of each source; None if the number of written rows is unknown."""
        _ = frame
        refuse_gone(self._files)
        query, self._query = self._query, None  # the next step may have no query
        if query is None or proven(*query).is_projection:
            known = [rows for rows in written if rows is not None]
            return [{WINDOWS: known}] if len(known) == len(written) else None
        sql, frames = query
        counted = [name for name, read in frames.items() if id(read) in self._seen]
        uses = find_table_uses(sql, counted, lambda name: frames[name].columns)
        return [self._count(use, frames[use.table], len(written)) for use in uses]

    def _count(self, use: TableUse, frame: "DataFrame", number: int) -> Mapping[str, Any]:
        """Count the rows that one use of a table delivers, for each of `number` windows."""
        behind = f"FROM counted AS `{use.alias}` WHERE {use.condition or 'true'}"
        _, index = self._seen[id(frame)]
        if index is None:
            sql = f"SELECT count(*) AS n {behind}"
            row = sail_query(self._spark, sql, {"counted": frame}).first()
            return {ROWS: 0 if row is None else int(row["n"])}
        delivered = sail_query(self._spark, f"SELECT * {behind}", {"counted": frame})
        rows = delivered.groupBy(index(delivered).alias("window")).count().collect()
        found = {int(window): int(count) for window, count in rows}
        return {WINDOWS: [found.get(window, 0) for window in range(number)]}
