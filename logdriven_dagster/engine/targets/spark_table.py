"""Tables of Spark's own catalog.

Not atomic, and documented as such: the staged rows replace their window by Spark's dynamic
partition overwrite over `_window_start`, and a process killed in the middle may leave some of them.
The window is then unfinished in the run log, and running it again repairs the table.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import CatalogTarget
from logdriven_dagster.engine.queries.instants import lies_within
from logdriven_dagster.engine.queries.schemas import WINDOW_START, conform, ddl
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.parquet_staging import stage_parquet
from logdriven_dagster.engine.storage.staging import (
    Place,
    StagedRows,
    Stamp,
    parquet_is_whole,
    read_files,
    remove_folder,
)
from logdriven_dagster.errors import NotPublishedError, TerminalStepError
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse_other_partitions(spark: "SparkSession", target: CatalogTarget) -> None:
    """TerminalStepError for a table of which Spark would replace more than the window."""
    if target.mode == "overwrite":
        return
    columns = spark.catalog.listColumns(target.name)
    if (found := [c.name for c in columns if c.isPartition]) != [WINDOW_START]:
        by = ", ".join(found) or "nothing"
        raise TerminalStepError(
            f"{target.name} is partitioned by {by}, so that a window would replace rows "
            f"that are not its own; make it anew, partitioned by {WINDOW_START}, or write "
            "mode: overwrite"
        )


class CatalogTable:
    """A target of type `table`; see `Store`."""

    def __init__(self, place: Place, table: str, target: CatalogTarget) -> None:
        self._place, self._target, self._spark = place, target, place.spark
        self._staging = place.project.staging / table

    def stage(self, frame: "DataFrame", stamp: Stamp) -> StagedRows:
        """Write Parquet files into the warehouse, outside of the catalog."""
        known = self._spark.table(self._target.name).schema if self._exists() else None
        missing = self._place.missing_columns(stamp.table)
        frame = conform(frame, known, self._target.name, missing=missing)
        if known is not None and frame.columns != known.fieldNames():
            raise TerminalStepError(
                f"{self._target.name}: the result has new columns; add them with ALTER TABLE\n"
                f"  table:  {ddl(known)}\n  result: {ddl(frame.schema)}"
            )
        if known is not None:
            refuse_other_partitions(self._spark, self._target)
        return stage_parquet(frame, self._staging, stamp, {})

    def staged_frame(self, staged: StagedRows) -> "DataFrame":
        """The staged files."""
        return read_files(self._spark, "parquet", staged.files, staged.schema)

    def holds(self, staged: StagedRows) -> bool:
        """Whether all staged files are there and whole."""
        return parquet_is_whole(staged, self._staging)

    def fence(self, stamp: Stamp) -> None:
        """Nothing can be: a runner frozen during its insert finishes it when it wakes up."""

    def publish(self, staged: StagedRows, verify: Callable[[], None]) -> Published:
        """Insert the rows in place of their window's; not atomic, so `verify` comes right before.

        Spark's own insert is no compare-and-swap.
        """
        verify()
        rows = self.staged_frame(staged)
        run_action(
            self._spark, f"{staged.stamp.label}: publish", lambda: self._insert(rows, staged)
        )
        remove_folder(staged.location)
        return Published(staged.stamp.step_id, self._target.name, rows=staged.rows)

    def _insert(self, rows: "DataFrame", staged: StagedRows) -> None:
        options = option_texts(self._target.options)
        writer = rows.write.format(self._target.format).options(**options)
        if not self._exists():
            writer.partitionBy(WINDOW_START).saveAsTable(self._target.name)
            return
        if self._target.mode != "overwrite" and not staged.files:
            self._empty(staged)
            return
        how = "static" if self._target.mode == "overwrite" else "dynamic"
        self._spark.conf.set("spark.sql.sources.partitionOverwriteMode", how)
        columns = self._spark.table(self._target.name).columns
        rows.select(*columns).write.mode("overwrite").insertInto(self._target.name)

    def _empty(self, staged: StagedRows) -> None:
        """A dynamic overwrite by no rows would leave the old ones."""
        start = staged.stamp.window.start
        name = ".".join(f"`{part}`" for part in self._target.name.split("."))
        self._spark.sql(
            f"ALTER TABLE {name} DROP IF EXISTS PARTITION ({WINDOW_START} = "
            f"timestamp'{start.isoformat()}')"
        )

    def discard(self, staged: StagedRows) -> None:
        """Remove the staging folder."""
        remove_folder(staged.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """The table, or the partitions of the windows."""
        if not self._exists():
            raise NotPublishedError(f"{self._target.name} does not exist yet")
        frame = self._spark.table(self._target.name)
        if window is None or WINDOW_START not in frame.columns:
            return frame
        return frame.where(lies_within(WINDOW_START, window))

    def _exists(self) -> bool:
        return self._spark.catalog.tableExists(self._target.name)
