"""Files of an Iceberg table by window, for compaction."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.engine.iceberg.files import (
    all_within,
    build_window_filter,
    is_partitioned_by,
)
from logdriven_dagster.engine.iceberg.partitions import with_partition
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import FileTask, plan
from logdriven_dagster.engine.queries.schemas import window_column
from logdriven_dagster.engine.targets.compaction import WindowFile
from logdriven_dagster.engine.targets.iceberg.commits import commit_files
from logdriven_dagster.model.windows import on_clock

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession


class IcebergNow:
    """The current version of an Iceberg table; see `compaction.TableNow`."""

    def __init__(self, table: "Table", config: TableConfig, target: IcebergTarget) -> None:
        self._table, self._config, self._target = table, config, target

    @property
    def name(self) -> str:
        return ".".join(self._table.name())

    @cached_property
    def files(self) -> Sequence[WindowFile]:
        """The files of the current snapshot, each with its window and partition.

        Files of another partition spec, and files from which another engine deleted rows, belong to
        no window. A window is divided by partition.
        """
        window_of = _windows(self._table, self._config, self._target)
        spec, found = self._table.spec().spec_id, []
        for task in self._tasks:
            file = task.file
            window = None if task.has_deletes or file.spec_id != spec else window_of(file)
            place = None if window is None else (window, repr(file.partition))
            found.append(
                WindowFile(file.file_path, file.record_count, file.file_size_in_bytes, place)
            )
        return found

    @cached_property
    def _tasks(self) -> list[FileTask]:
        return plan(self._table)

    def rows(self, spark: "SparkSession", paths: Collection[str]) -> "DataFrame":
        return rows_of(spark, self._table, [t for t in self._tasks if t.file.file_path in paths])

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        return with_partition(frame, self._table)

    def swap(self, removed: Collection[str], added: Sequence[str]) -> bool:
        """Commit by compare-and-swap; return False if another writer was faster."""
        gone = [task.file for task in self._tasks if task.file.file_path in removed]
        return commit_files(self._table, gone, added, {"upkeep": "compact_files"})


def _windows(
    table: "Table", config: TableConfig, target: IcebergTarget
) -> "Callable[[DataFile], Any]":
    """Return a function that maps a file to a sortable window value, or None for several windows.

    Rows of an `upsert` table are not ordered by window.
    """
    column = window_column(target)
    if target.write_mode.merges_by_key:
        return lambda _: 0
    if is_partitioned_by(table, column):
        number = [field.name for field in table.spec().fields].index(column)
        return lambda file: file.partition[number]
    if config.is_sliced:
        return lambda _: None
    grid = config.grid

    def index(file: "DataFile") -> int | None:
        instant = _earliest(table, column, file, config)
        if instant is None:
            return None
        number = grid.index(instant)
        condition = build_window_filter(table.schema(), column, grid.window(number))
        return number if all_within(table, condition, [file]) else None

    return index


def _earliest(
    table: "Table", column: str, file: "DataFile", config: TableConfig
) -> datetime | None:
    """Return the smallest value of a window column in a file, from its statistics."""
    from pyiceberg.conversions import from_bytes

    field = table.schema().find_field(column, case_sensitive=False)
    bound = (file.lower_bounds or {}).get(field.field_id)
    if bound is None:
        return None
    value: Any = from_bytes(field.field_type, bound)  # type: ignore[arg-type]
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    match str(field.field_type):
        case "date":
            clock = epoch + timedelta(days=value)
        case "timestamptz":
            return epoch + timedelta(microseconds=value)
        case _:
            clock = epoch + timedelta(microseconds=value)
    return on_clock(clock.replace(tzinfo=None), config.grid.zone)
