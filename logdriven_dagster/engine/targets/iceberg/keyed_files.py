"""Files of an Iceberg table for an upsert, selected by the statistics of their keys."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from logdriven_dagster.engine.arrow.keys import FEW_BYTES
from logdriven_dagster.engine.iceberg.arrow_rows import read_columns
from logdriven_dagster.engine.iceberg.files import build_range_filter
from logdriven_dagster.engine.iceberg.partitions import with_partition
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import FileTask, matching_files, plan
from logdriven_dagster.engine.iceberg.schema import spark_schema
from logdriven_dagster.engine.targets.upserted_files import KeyRanges

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

    @property
    def schema(self) -> "StructType":
        return spark_schema(self._table.schema())

    @cached_property
    def _all(self) -> dict[str, FileTask]:
        return {task.file.file_path: task for task in plan(self._table)}

    def rows(self, spark: "SparkSession", files: Sequence[str]) -> "DataFrame":
        tasks = [self._all[path] for path in files]
        return rows_of(spark, self._table, tasks, with_files=True)

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        return with_partition(frame, self._table)

    def with_keys(self, ranges: KeyRanges) -> list[str]:
        """Return the files that may hold rows whose keys lie in all these ranges."""
        from pyiceberg.expressions import And

        if not ranges:
            return list(self._all)
        terms = [build_range_filter(name, low, high) for name, (low, high) in ranges.items()]
        return [file.file_path for file in matching_files(self._table, reduce(And, terms))]

    def read_few(
        self, files: Sequence[str], schema: "pa.Schema"
    ) -> "Iterator[tuple[str, pa.RecordBatch]] | None":
        tasks = [self._all[path] for path in files]
        is_large = sum(task.file.file_size_in_bytes for task in tasks) > FEW_BYTES
        if is_large or any(task.equality_deletes for task in tasks):
            return None
        return read_columns(self._table, tasks, schema)

    def find_files(self, paths: "Iterable[str]") -> "list[DataFile]":
        """Return the table's files at these locations."""
        return [self._all[path].file for path in paths]
