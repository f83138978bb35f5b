"""Files of a Delta table by window, for compaction."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.engine.storage.spark_files import read_files
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.engine.targets.compaction import WindowFile
from logdriven_dagster.model.windows import on_clock
from logdriven_dagster.plugins.delta.format.pruning import Selection
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot, sizes
from logdriven_dagster.plugins.delta.models import DeltaTarget
from logdriven_dagster.plugins.delta.target.commits import commit_files
from logdriven_dagster.plugins.delta.target.statistics import statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaNow:
    """The current version of a Delta table; see `compaction.TableNow`."""

    def __init__(
        self, snapshot: Snapshot, config: TableConfig, target: DeltaTarget, storage: Storage
    ) -> None:
        self._snapshot, self._config, self._target = snapshot, config, target
        self._storage = storage

    @property
    def name(self) -> str:
        return self._snapshot.name

    @cached_property
    def files(self) -> Sequence[WindowFile]:
        """The active files; those that stay as they are belong to no window.

        These are files without a row count or with deleted rows, and all with column mapping.
        """
        if self._snapshot.column_mapping == "none":
            kept = {file.number for file in self._snapshot.reduced_files}
        else:
            kept = {file.number for file in self._snapshot.files}
        return [
            WindowFile(file.location, file.rows or 0, file.bytes, window)
            for file in self._snapshot.files
            for alone in (file.rows is None or file.number in kept,)
            for window in (None if alone else self._window(file),)
        ]

    def rows(self, spark: "SparkSession", paths: Collection[str]) -> "DataFrame":
        files = [file for file in self._snapshot.files if file.location in paths]
        return read_files(spark, "parquet", sizes(files), self._snapshot.schema)

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        return frame

    def swap(self, removed: Collection[str], added: Sequence[str]) -> bool:
        """Commit a replacement of files that changes no row."""
        gone = [file for file in self._snapshot.files if file.location in removed]
        new = {path: statistics(path, self._storage) for path in added}
        said = {"upkeep": "compact_files"}
        return commit_files(self._snapshot, gone, new, {}, said, changes_rows=False)

    def _window(self, file: DataFile) -> Any:
        """Return a sortable value for the window of a file; None if it is of no single window."""
        if self._target.write_mode.merges_by_key:
            return 0  # its rows are not ordered by window
        column = self._snapshot.column_name(window_column(self._target))
        if column is None:
            return None
        least, most = self._snapshot.bounds(column)[file.number]
        if least is None:
            return None
        if column == WINDOW_START:
            full = self._snapshot.nulls(column)[file.number] == 0
            return least if least == most and full else None
        if self._config.is_sliced:
            return None
        number = self._config.grid.index(self._on_clock(least))
        wanted = Selection(self._snapshot, column, [self._config.grid.window(number)])
        return number if wanted.holds_all_of([file]) else None

    def _on_clock(self, value: Any) -> datetime:
        zone = self._config.grid.zone
        if not isinstance(value, datetime):
            value = datetime.combine(value, datetime.min.time())
        return on_clock(value, zone)
