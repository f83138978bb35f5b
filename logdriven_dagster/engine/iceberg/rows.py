"""Rows of an Iceberg table as a Spark frame, for files and deletes of any engine.

Most files are read unchanged, through one list. Files with deleted rows, and files that lack their
partition columns, are joined by path with the table's metadata; a file without a match fails the
query.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.iceberg.columns import (
    Columns,
    by_ids,
    by_names,
    is_staged_here,
    refuse_unreadable_by_ids,
    without_ids,
)
from logdriven_dagster.engine.iceberg.deletion_vectors import read_deleted_positions
from logdriven_dagster.engine.iceberg.equality_deletes import (
    PARTITION,
    SEQUENCE,
    find_dropped_columns,
    leave_out_deleted,
)
from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.scan import FileTask, find_equality_deletes
from logdriven_dagster.engine.iceberg.schema import spark_schema, spark_type
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.query_plans import LOOKED_UP, SURVIVING
from logdriven_dagster.engine.storage.locations import spark_path
from logdriven_dagster.engine.storage.spark_files import FILE, read_files
from logdriven_dagster.errors import TerminalStepError, TransientStepError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

_NAMED, _ROW = "logdriven_named", f"{SURVIVING}_row"
"""Columns with the path of a row's file in the table's spelling, and the row number in it."""

_NUMBERS = count()
"""Counter for names: Spark requires a different name for each `observe` of a query."""

_BY_ID = "spark.sql.parquet.fieldId.read.enabled"


def rows_of(
    spark: "SparkSession",
    table: "Table",
    tasks: Sequence[FileTask],
    *,
    with_files: bool = False,
) -> "DataFrame":
    """Return the rows of these files with the table's current columns.

    `with_files` adds FILE. Raises TerminalStepError if the mode of the session cannot read the
    files exactly.
    """
    if not tasks:
        return read_files(spark, "parquet", [], spark_schema(table.schema()))
    frames = list(_frames(spark, table, tasks, with_files=with_files))
    return _requiring(table, reduce(lambda one, other: one.union(other), frames))


def _requiring(table: "Table", frame: "DataFrame") -> "DataFrame":
    """Fail the query at a row that lacks a required column, because its file does not have it."""
    conditions = []
    for name in (field.name for field in table.schema().fields if field.required):
        problem = (
            f"{name_of_table(table)}: column {name} is required, but a file of the "
            "table has rows without it; rewrite the file with the engine that wrote "
            "it, or make the column optional"
        )
        failed = f"CAST(raise_error({text_literal(problem)}) AS BOOLEAN)"
        conditions.append(f"({quote_name(name)} IS NOT NULL OR {failed})")
    return frame.where(sf.expr(" AND ".join(conditions))) if conditions else frame


def _frames(
    spark: "SparkSession", table: "Table", tasks: Sequence[FileTask], *, with_files: bool
) -> "Iterator[DataFrame]":
    """Yield one frame per way to read files."""
    from pyiceberg.schema import Schema

    by_name = without_ids(table, (task.file.file_path for task in tasks))
    deletes = find_equality_deletes(tasks)  # their files are always read by ids
    dropped = find_dropped_columns(table, deletes)
    if dropped and by_name:
        raise TerminalStepError(
            f"{name_of_table(table)}: rows were deleted by the values of a column that was dropped "
            f"since, which cannot be found in files without field ids, such as {min(by_name)}; "
            "compact the table with the engine that wrote it"
        )
    schema = Schema(*table.schema().fields, *dropped)
    if deletes or len(by_name) < len(tasks):
        _require_input_file_names(spark, table)
        refuse_unreadable_by_ids(table, schema, spark.version)
        spark.conf.set(_BY_ID, "true")
    has_names = mode_of(spark).capabilities.has_input_file_name
    for named in (True, False):
        group = [task for task in tasks if (task.file.file_path in by_name) is named]
        special = [
            task
            for task in group
            if task.has_deletes or _partition_values(table, schema, task.file)
        ]
        left_out = set(map(id, special))
        plain = [task for task in group if id(task) not in left_out]
        for part, read in ((plain, _plain), (special, _join_metadata)):
            if part:
                columns = by_names(table) if named else by_ids(schema)
                frame = read_files(spark, "parquet", _sizes(part), columns.schema)
                if part is plain and columns.select is None and not with_files:
                    yield frame
                elif part is plain and columns.select is None and not has_names:
                    yield from (_alone(spark, table, task, columns) for task in part)
                else:
                    _require_input_file_names(spark, table)
                    frame, select = read(frame, columns, part, table, schema)
                    yield frame.select(*select, *([FILE] if with_files else []))


def _require_input_file_names(spark: "SparkSession", table: "Table") -> None:
    """Raise TerminalStepError if this session cannot query a row's file, which the table needs."""
    mode = mode_of(spark)
    if not mode.capabilities.has_input_file_name:
        raise TerminalStepError(
            f"{name_of_table(table)}: on {mode.title}, only files can be read that windows "
            "wrote, with rows of one window and without deleted rows; use "
            "spark.engine: spark"
        )


def _alone(spark: "SparkSession", table: "Table", task: FileTask, columns: Columns) -> "DataFrame":
    """Return the rows of one file with its name, for sessions that cannot query a row's file.

    Raises TransientStepError if the file does not exist, which such an engine skips.
    """
    path = task.file.file_path
    if not table.io.new_input(path).exists():
        raise TransientStepError(f"{name_of_table(table)}: the file {path} does not exist")
    frame = read_files(spark, "parquet", [path], columns.schema)
    return frame.withColumn(FILE, sf.lit(spark_path(path)))


def _sizes(tasks: Sequence[FileTask]) -> dict[str, int]:
    return {task.file.file_path: task.file.file_size_in_bytes for task in tasks}


def _plain(
    frame: "DataFrame",
    columns: Columns,
    tasks: Sequence[FileTask],
    table: "Table",
    schema: "Schema",
) -> "tuple[DataFrame, list[Column]]":
    """Return the rows of unchanged files, and the columns to select from them."""
    _ = tasks, schema
    frame = frame.withColumn(FILE, sf.col("_metadata.file_path"))
    return frame, [columns.get_column(field).alias(field.name) for field in table.schema().fields]


def _join_metadata(
    frame: "DataFrame",
    columns: Columns,
    tasks: Sequence[FileTask],
    table: "Table",
    schema: "Schema",
) -> "tuple[DataFrame, list[Column]]":
    """Return the rows of files that need the table's metadata, and the columns to select.

    `schema` has the columns of the table, and those that deletes need.
    """
    spark = frame.sparkSession
    paths = {FILE: sf.col("_metadata.file_path"), _ROW: sf.col("_metadata.row_index")}
    frame = frame.withColumns(paths).join(
        sf.broadcast(_build_file_metadata(spark, tasks, table, schema)), FILE, "left"
    )
    if any(task.delete_files for task in tasks):
        frame = frame.withColumn(_NAMED, _there(sf.col(_NAMED), "string"))
        frame = frame.join(_read_deleted_rows(spark, tasks, table), [_NAMED, _ROW], "left_anti")
    completed = dict(_complete_columns(columns, table, schema))
    if deletes := find_equality_deletes(tasks):
        frame = frame.withColumn(SEQUENCE, _there(sf.col(SEQUENCE), "bigint"))
        known = {field.field_id: (field, completed[field.field_id]) for field in schema.fields}
        frame = leave_out_deleted(frame, table, deletes, known)
    fields = table.schema().fields
    return frame, [completed[field.field_id].alias(field.name) for field in fields]


def _there(column: "Column", kind: str) -> "Column":
    """Return the table's value for a row's file; a file that it does not name fails the query."""
    problem = sf.concat(sf.lit("the file is not in the Iceberg table "), sf.col(FILE))
    return sf.coalesce(column, sf.raise_error(problem).cast(kind))


def _complete_columns(
    columns: Columns, table: "Table", schema: "Schema"
) -> "Iterator[tuple[int, Column]]":
    """Yield id and value of each column; partition columns have the values of the partition."""
    partitioned = _partition_sources(table, schema)
    for field in schema.fields:
        found = columns.get_column(field)
        if field.field_id in partitioned:
            known = _there(sf.col(f"_known_{field.field_id}"), "boolean")
            value = sf.col(f"_value_{field.field_id}")
            typed = sf.unbase64(value) if str(field.field_type) == "binary" else value
            found = sf.when(known, typed.cast(spark_type(field.field_type))).otherwise(found)
        yield field.field_id, found


def _build_file_metadata(
    spark: "SparkSession", tasks: Sequence[FileTask], table: "Table", schema: "Schema"
) -> "DataFrame":
    """Return the table's metadata of files: their paths, partition values, and sequence numbers.

    PARTITION is the number of the deletes of the file's partition, if there are any.
    """
    sources = _partition_sources(table, schema)
    kinds = [f"_known_{each} boolean, _value_{each} string" for each in sources]
    rows: list[tuple[Any, ...]] = []
    for task in tasks:
        known = _partition_values(table, schema, task.file)
        values = [part for each in sources for part in (each in known, known.get(each))]
        numbers = (each.number for each in task.equality_deletes if not each.is_global)
        own = (task.file.file_path, task.sequence_number, next(numbers, None))
        rows.append((spark_path(task.file.file_path), *own, *values))
    columns = [f"{_NAMED} string", f"{SEQUENCE} bigint", f"{PARTITION} int", *kinds]
    return spark.createDataFrame(rows, ", ".join([f"{FILE} string", *columns])).observe(
        f"{LOOKED_UP}_{next(_NUMBERS)}", sf.count(sf.lit(1))
    )


def _partition_sources(table: "Table", schema: "Schema") -> list[int]:
    """Return the columns that have identity partitions in any spec."""
    from pyiceberg.transforms import IdentityTransform

    fields = [field for spec in table.specs().values() for field in spec.fields]
    found = {f.source_id for f in fields if isinstance(f.transform, IdentityTransform)}
    return sorted(found & {field.field_id for field in schema.fields})


def _partition_values(table: "Table", schema: "Schema", file: "DataFile") -> dict[int, str | None]:
    """Return the columns with one value in all rows of a file, and that value.

    A file of another writer may lack these columns, like Hive's, even if it has statistics; so its
    own values are ignored. Files that windows staged have the columns.
    """
    from pyiceberg.transforms import IdentityTransform

    if is_staged_here(file.file_path):
        return {}
    kinds = {field.field_id: field.field_type for field in schema.fields}
    values: dict[int, str | None] = {}
    for number, field in enumerate(table.specs()[file.spec_id].fields):
        if isinstance(field.transform, IdentityTransform) and field.source_id in kinds:
            value, kind = file.partition[number], kinds[field.source_id]
            if value is not None and str(kind) in ("timestamp_ns", "timestamptz_ns"):
                raise TerminalStepError(
                    f"{name_of_table(table)}: partitions by values of type {kind} cannot be read "
                    f"here ({field.name}); write files with another partition spec"
                )
            text = field.transform.to_human_string(kind, value)
            values[field.source_id] = None if value is None else text
    return values


def _read_deleted_rows(
    spark: "SparkSession", tasks: Sequence[FileTask], table: "Table"
) -> "DataFrame":
    """Return file and position of each row that another engine deleted."""
    from pyiceberg.manifest import FileFormat
    from pyspark.sql.types import LongType, StringType, StructType

    schema = StructType().add("file_path", StringType()).add("pos", LongType())
    files = {file.file_path: file for task in tasks for file in task.delete_files}
    listed = {
        path: file.file_size_in_bytes
        for path, file in files.items()
        if file.file_format == FileFormat.PARQUET
    }
    vectors = [file for file in files.values() if file.file_format == FileFormat.PUFFIN]
    frame = read_files(spark, "parquet", listed, schema)
    if vectors:
        made = spark.createDataFrame(read_deleted_positions(table, vectors))
        frame = frame.union(made.select("file_path", "pos"))
    named = frame.select(sf.col("file_path").alias(_NAMED), sf.col("pos").alias(_ROW))
    return _exclude_from_counts(named)


def _exclude_from_counts(frame: "DataFrame") -> "DataFrame":
    """Mark rows that serve only for comparison, so that they do not count as rows of a source."""
    return frame.observe(f"{LOOKED_UP}_{next(_NUMBERS)}", sf.count(sf.lit(1)))
