"""Equality deletes of Iceberg: rows that another engine, such as Flink, deleted by their values.

A delete file lists values of its key columns. It applies to the data files of its partition, or of
the whole table if it has no partition, that were committed before it. A NULL equals a NULL.

Spark reads the delete files and removes the rows by anti-joins, one per set of key columns, so
memory does not grow with the number of deletes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.iceberg.columns import by_ids
from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.schema import refuse_unreadable_types
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.query_plans import SURVIVING
from logdriven_dagster.engine.storage.locations import spark_path
from logdriven_dagster.engine.storage.spark_files import FILE, read_files
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField
    from pyspark.sql import Column, DataFrame, SparkSession

SEQUENCE, PARTITION = "logdriven_sequence", "logdriven_partition"
"""Columns with the sequence number of a row's file, and the number of its `EqualityDeletes`."""

_DELETED = "logdriven_deleted"
"""Prefix of the columns of deleted values."""


@dataclass(frozen=True, eq=False)
class EqualityDeletes:
    """The delete files of one partition, or those that apply to the whole table."""

    number: int
    is_global: bool
    files: "Sequence[tuple[DataFile, int]]"
    """Delete files with their sequence numbers."""

    @property
    def newest(self) -> int:
        """The largest sequence number; data files from then on are not affected."""
        return max(sequence for _, sequence in self.files)


class EqualityDeleteIndex:
    """All equality deletes of a snapshot, by the data files to which they apply."""

    def __init__(self, table: "Table", manifests: "Iterable[ManifestFile]") -> None:
        from pyiceberg.manifest import DataFileContent, ManifestContent

        self._specs = table.specs()
        found: dict[Any, list[tuple[DataFile, int]]] = {}
        for manifest in manifests:
            if manifest.content != ManifestContent.DELETES:
                continue
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                    place = self._place(entry.data_file)
                    pair = (entry.data_file, entry.sequence_number or 0)
                    found.setdefault(place, []).append(pair)
        self._deletes = {
            place: EqualityDeletes(number, place is None, files)
            for number, (place, files) in enumerate(found.items())
        }

    def find(self, file: "DataFile", sequence: int) -> tuple[EqualityDeletes, ...]:
        """Return the deletes that apply to a data file with this sequence number."""
        if not self._deletes:
            return ()
        found = (self._deletes.get(place) for place in dict.fromkeys((None, self._place(file))))
        return tuple(each for each in found if each is not None and each.newest > sequence)

    def _place(self, file: "DataFile") -> tuple[int, tuple[str, ...]] | None:
        """Return the partition of a file; None without partition, also if all fields are void."""
        from pyiceberg.transforms import VoidTransform

        fields = self._specs[file.spec_id].fields
        if all(isinstance(field.transform, VoidTransform) for field in fields):
            return None
        # As texts: NaN equals itself, and 0.0 is not -0.0.
        return file.spec_id, tuple(repr(file.partition[number]) for number in range(len(fields)))


def find_dropped_columns(table: "Table", deletes: Iterable[EqualityDeletes]) -> "list[NestedField]":
    """Return the columns that the table dropped after rows were deleted by their values.

    Their names are new, because another column may have the old one. Raises TerminalStepError if
    their values are not read here.
    """
    from pyiceberg.schema import Schema, index_by_id

    files = [file for each in deletes for file, _ in each.files]
    keys = {id_ for file in files for id_ in _get_key(table, file)}
    dropped = [
        _find_old_field(table, id_) for id_ in sorted(keys - set(index_by_id(table.schema())))
    ]
    refuse_unreadable_types(Schema(*dropped), name_of_table(table))
    return [
        field.model_copy(update={"name": f"logdriven_dropped_{field.field_id}", "required": False})
        for field in dropped
    ]


def leave_out_deleted(
    frame: "DataFrame",
    table: "Table",
    deletes: Iterable[EqualityDeletes],
    columns: "Mapping[int, tuple[NestedField, Column]]",
) -> "DataFrame":
    """Return the rows without those that equality deletes delete.

    Args:
        frame: Rows with the columns SEQUENCE and PARTITION.
        table: The table of the rows.
        deletes: Those that apply to any of the rows.
        columns: Field id → field and column, for each top-level column of the frame.
    """
    groups: dict[tuple[tuple[int, ...], bool], list[tuple[DataFile, int, int]]] = {}
    for each in deletes:
        for file, sequence in each.files:
            group = groups.setdefault((_get_key(table, file), each.is_global), [])
            group.append((file, sequence, each.number))
    for number, ((key, is_global), files) in enumerate(groups.items()):
        paths = [_find_path(table, [field for field, _ in columns.values()], id_) for id_ in key]
        own, deleted = f"{SURVIVING}_{number}", f"{_DELETED}_{number}"
        values = {
            f"{own}_{n}": _get_comparable(columns[path[0].field_id][1], path)
            for n, path in enumerate(paths)
        }
        right = _read_deletes(frame.sparkSession, files, paths, deleted)
        terms = [sf.col(f"{own}_{n}").eqNullSafe(sf.col(f"{deleted}_{n}")) for n in range(len(key))]
        if not is_global:
            terms.append(sf.col(PARTITION) == sf.col(f"{deleted}_partition"))
        terms.append(sf.col(SEQUENCE) < sf.col(f"{deleted}_sequence"))
        frame = frame.withColumns(values).join(right, reduce(and_, terms), "left_anti")
    return frame


def _read_deletes(
    spark: "SparkSession",
    files: "Sequence[tuple[DataFile, int, int]]",
    paths: "Sequence[Sequence[NestedField]]",
    prefix: str,
) -> "DataFrame":
    """Return each deleted key once per partition, with its newest sequence number."""
    from pyiceberg.schema import Schema

    tops = {path[0].field_id: path[0] for path in paths}
    columns = by_ids(Schema(*tops.values()))
    sizes = {file.file_path: file.file_size_in_bytes for file, _, _ in files}
    rows = [(spark_path(file.file_path), number, sequence) for file, sequence, number in files]
    partition, sequence = f"{prefix}_partition", f"{prefix}_sequence"
    known = spark.createDataFrame(rows, f"{FILE} string, {partition} int, {sequence} bigint")
    problem = sf.concat(sf.lit("the file is not in the Iceberg table "), sf.col(FILE))
    found = sf.coalesce(sf.col(sequence), sf.raise_error(problem).cast("bigint"))
    frame = read_files(spark, "parquet", sizes, columns.schema)
    frame = frame.withColumn(FILE, sf.col("_metadata.file_path"))
    frame = frame.join(sf.broadcast(known), FILE, "left").withColumn(sequence, found)
    keys = [
        _get_comparable(columns.get_column(path[0]), path).alias(f"{prefix}_{n}")
        for n, path in enumerate(paths)
    ]
    names = [partition, *(f"{prefix}_{n}" for n in range(len(paths)))]
    frame = frame.select(partition, sequence, *keys)
    return frame.groupBy(*names).agg(sf.max(sequence).alias(sequence))


def _get_comparable(column: "Column", path: "Sequence[NestedField]") -> "Column":
    """Return the value of a key column, possibly nested, as Spark compares it exactly.

    In Iceberg -0.0 is not 0.0, but in Spark's joins it is.
    """
    for field in path[1:]:
        column = column.getField(field.name)
    floating = str(path[-1].field_type) in ("float", "double")
    return column.cast("string") if floating else column


def _get_key(table: "Table", file: "DataFile") -> tuple[int, ...]:
    if not file.equality_ids:
        raise TerminalStepError(
            f"{name_of_table(table)}: the delete file {file.file_path} has no equality_ids, so its "
            "columns are unknown; compact the table with the engine that wrote it"
        )
    return tuple(sorted(file.equality_ids))


def _find_old_field(table: "Table", id_: int) -> "NestedField":
    """Return a top-level column of the newest old schema that has it."""
    schemas = sorted(table.metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in schemas:
        for field in schema.fields:
            if field.field_id == id_:
                return field
    raise TerminalStepError(
        f"{name_of_table(table)}: rows were deleted by the values of the column with field id "
        f"{id_}, which is dropped and nested, or in no schema of the table; compact the table "
        "with the engine that wrote it"
    )


def _find_path(table: "Table", fields: "Sequence[NestedField]", id_: int) -> "list[NestedField]":
    """Return the field with this id, after the structs that contain it."""
    from pyiceberg.types import StructType

    ways = [[field] for field in fields]
    for way in ways:  # grows
        if way[-1].field_id == id_:
            return way
        kind = way[-1].field_type
        if isinstance(kind, StructType):
            ways += [[*way, field] for field in kind.fields]
    raise TerminalStepError(
        f"{name_of_table(table)}: rows were deleted by the values of the column with field id "
        f"{id_}, which is in a list or map; compact the table with the engine that wrote it"
    )
