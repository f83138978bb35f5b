"""Rows of an Iceberg table without Spark, read by PyIceberg."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from logdriven_dagster.engine.arrow.rows import ArrowRows, fit_batch
from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.engine.iceberg.files import build_window_filter, is_partitioned_by
from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.scan import FileTask, plan
from logdriven_dagster.engine.iceberg.schema import refuse_unreadable_types, spark_schema
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

_FEW = 10_000
"""Rows in the first batch of a file; previews need fewer."""


def arrow_rows(table: "Table", column: str, window: TimeWindow | None) -> ArrowRows | None:
    """Return the rows of the current snapshot, or of one window; files are opened one by one.

    `column` is the window column. Returns None if the table has a column or equality deletes that
    only Spark reads, or values that PyIceberg changes. Raises TerminalStepError if rows could be
    read incorrectly.
    """
    refuse_unreadable_types(table.schema(), name_of_table(table))
    schema = arrow_schema(spark_schema(table.schema()))
    kinds = (str(table.schema().find_type(name)) for name in table.schema().column_names)
    if schema is None or any(kind.endswith("_ns") for kind in kinds):
        return None
    tasks = (
        plan(table, build_window_filter(table.schema(), column, window)) if window else plan(table)
    )
    if any(task.equality_deletes for task in tasks) or _may_lose_nulls(table, tasks):
        return None
    if window is None:
        return ArrowRows(schema, _batches(table, tasks, schema))
    rows = ArrowRows(schema, _batches(table, tasks, schema))
    if is_partitioned_by(table, column, [task.file for task in tasks]):
        return rows
    return rows.filter_by_window(
        table.schema().find_field(column, case_sensitive=False).name, window
    )


def _may_lose_nulls(table: "Table", tasks: list[FileTask]) -> bool:
    """Return whether a list or map of structs may be NULL, which PyIceberg reads as empty.

    A nested field counts as NULL where its list is NULL, so a field without NULLs rules that out.
    """
    for fields in _fields_of_collections(table):
        for task in tasks:
            nulls = task.file.null_value_counts or {}
            if all(nulls.get(number) != 0 for number in fields):
                return True
    return False


def _fields_of_collections(table: "Table") -> Iterator[list[int]]:
    """Yield the ids of the leaf fields in each list or map of structs."""
    from pyiceberg.schema import Schema, index_by_id
    from pyiceberg.types import ListType, MapType, StructType

    for field in index_by_id(table.schema()).values():
        kind, numbers = field.field_type, list[int]()
        if isinstance(kind, ListType):
            inner = kind.element_type
        elif isinstance(kind, MapType):
            inner, numbers = kind.value_type, [kind.key_id]
        else:
            continue
        if isinstance(inner, StructType):
            yield [*numbers, *index_by_id(Schema(*inner.fields))]


def read_columns(
    table: "Table", tasks: Iterable[FileTask], schema: "pa.Schema"
) -> "Iterator[tuple[str, pa.RecordBatch]]":
    """Yield batches of some columns, each with its file; names match in any case.

    Columns that the table lacks are NULL. The files must have no equality deletes.
    """
    from pyiceberg.schema import Schema

    names = {name.lower() for name in schema.names}
    wanted = Schema(*(field for field in table.schema().fields if field.name.lower() in names))
    for task in tasks:
        for batch in _of_file(table, task, wanted):
            yield task.file.file_path, fit_batch(batch, schema)


def _batches(
    table: "Table", tasks: list[FileTask], schema: "pa.Schema"
) -> "Iterator[pa.RecordBatch]":
    for task in tasks:
        for batch in _of_file(table, task, table.schema()):
            yield fit_batch(batch, schema)


def _of_file(table: "Table", task: FileTask, schema: "Schema") -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a file: a small batch first, and then the others.

    PyIceberg reads as many rows of a file as requested, or all, before it returns any.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import FileScanTask

    given, read = 0, FileScanTask(task.file, delete_files=set(task.delete_files))
    for limit in (_FEW, None) if task.file.record_count > _FEW else (None,):
        scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue(), limit=limit)
        for batch in scan.to_record_batches([read]):
            known = min(given, len(batch)) if limit is None else 0
            given += len(batch) if limit is not None else -known
            yield batch.slice(known)
