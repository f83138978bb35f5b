"""Files of an Iceberg table for an upsert, selected by the statistics of their keys."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.arrow.keys import FEW_BYTES
from logdriven_dagster.engine.iceberg.arrow_rows import read_columns
from logdriven_dagster.engine.iceberg.columns import has_stable_names
from logdriven_dagster.engine.iceberg.files import (
    all_within,
    build_past_filter,
    build_range_filter,
    read_bound,
)
from logdriven_dagster.engine.iceberg.partitions import with_partition
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import FileTask, plan
from logdriven_dagster.engine.iceberg.schema import spark_schema
from logdriven_dagster.engine.targets.upserted_files import KeyRange, KeyRanges

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class IcebergFiles:
    """The files of an Iceberg table; implements `KeyedFiles`."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._tasks: dict[str, FileTask] = {}
        """The files that `with_keys` returned."""

    @property
    def schema(self) -> "StructType":
        return spark_schema(self._table.schema())

    def rows(self, spark: "SparkSession", files: Sequence[str]) -> "DataFrame":
        tasks = [self._tasks[path] for path in files]
        return rows_of(spark, self._table, tasks, with_files=True)

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        return with_partition(frame, self._table)

    def with_keys(self, ranges: KeyRanges) -> list[str]:
        from pyiceberg.expressions import And

        terms = [
            build_range_filter(name, _as_literal(keys.low), _as_literal(keys.high))
            for name, keys in ranges.items()
        ]
        found = [
            task
            for task in plan(self._table, reduce(And, terms) if terms else None)
            if all(self._may_hold(task, name, keys) for name, keys in ranges.items())
        ]
        self._tasks |= {task.file.file_path: task for task in found}
        return [task.file.file_path for task in found]

    def _may_hold(self, task: FileTask, name: str, keys: KeyRange) -> bool:
        """Return True if a file may hold one of the keys, by its bounds of the column."""
        field = self._table.schema().find_field(name)
        ends = (task.file.lower_bounds, task.file.upper_bounds)
        bounds = [read_bound(field.field_type, (each or {}).get(field.field_id)) for each in ends]
        return keys.may_meet(*bounds)

    def list_past_files(self, columns: Sequence[str], before: datetime) -> Collection[str]:
        condition = build_past_filter(self._table.schema(), columns, before)
        return {
            path
            for path, task in self._tasks.items()
            if all_within(self._table, condition, [task.file])
        }

    def read_few(
        self, files: Sequence[str], schema: "pa.Schema"
    ) -> "Iterator[tuple[str, pa.RecordBatch]] | None":
        tasks = [self._tasks[path] for path in files]
        is_large = sum(task.file.file_size_in_bytes for task in tasks) > FEW_BYTES
        if is_large or any(task.equality_deletes for task in tasks):
            return None
        return read_columns(self._table, tasks, schema)

    def hold_plain_rows(self, files: Sequence[str]) -> bool:
        are_whole = not any(self._tasks[path].has_deletes for path in files)
        return are_whole and self._table.spec().is_unpartitioned() and has_stable_names(self._table)

    def find_files(self, paths: "Iterable[str]") -> "list[DataFile]":
        """Return the table's files at these locations."""
        return [self._tasks[path].file for path in paths]


def _as_literal(key: Any) -> int | str:
    return key if isinstance(key, int) else str(key)
