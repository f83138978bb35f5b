"""Files of a Delta table for an upsert, selected by the statistics of their keys."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from logdriven_dagster.engine.arrow.keys import FEW_BYTES
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.engine.targets.upserted_files import KeyRanges
from logdriven_dagster.plugins.delta.format.arrow_rows import read_columns
from logdriven_dagster.plugins.delta.format.frames import frame_of
from logdriven_dagster.plugins.delta.format.pruning import files_before, files_meeting
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot, sizes
from logdriven_dagster.plugins.delta.target.requirements import refuse_deletion_vectors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class DeltaFiles:
    """The files of a Delta table; implements `KeyedFiles`."""

    def __init__(self, snapshot: Snapshot, storage: Storage) -> None:
        self._snapshot, self._storage = snapshot, storage

    @property
    def schema(self) -> "StructType":
        return self._snapshot.schema

    def rows(self, spark: "SparkSession", files: Sequence[str]) -> "DataFrame":
        found = self.find_files(files)
        refuse_deletion_vectors(self._snapshot, found)
        return frame_of(spark, self._snapshot, found, with_files=True)

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        return frame

    def with_keys(self, ranges: KeyRanges) -> list[str]:
        numbers = {file.number for file in self._snapshot.files}
        for name, keys in ranges.items():
            numbers &= files_meeting(self._snapshot, name, keys.may_meet)
        return [file.location for file in self._snapshot.files if file.number in numbers]

    def list_past_files(self, columns: Sequence[str], before: datetime) -> Collection[str]:
        names = [self._snapshot.column_name(name) for name in columns]
        past = [files_before(self._snapshot, name, before) for name in names if name is not None]
        numbers = set.intersection(*past)
        return {file.location for file in self._snapshot.files if file.number in numbers}

    def read_few(
        self, files: Sequence[str], schema: "pa.Schema"
    ) -> "Iterator[tuple[str, pa.RecordBatch]] | None":
        found = self.find_files(files)
        if sum(sizes(found).values()) > FEW_BYTES or self._snapshot.column_mapping != "none":
            return None
        return read_columns(self._snapshot, found, schema, self._storage.open)

    def hold_plain_rows(self, files: Sequence[str]) -> bool:
        reduced = {file.location for file in self._snapshot.reduced_files}
        is_plain = self._snapshot.column_mapping == "none" and reduced.isdisjoint(files)
        return is_plain and not self._snapshot.partition_columns

    def find_files(self, locations: Iterable[str]) -> list[DataFile]:
        """Return the table's files at these locations."""
        wanted = set(locations)
        return [file for file in self._snapshot.files if file.location in wanted]
