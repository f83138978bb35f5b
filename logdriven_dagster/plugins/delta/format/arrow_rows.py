"""Rows of a Delta table without Spark: its files, completed from its log."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

from logdriven_dagster.config.locations import resolve_location
from logdriven_dagster.engine.arrow.parquet import rows_of_file
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.delta.format.features import (
    lists_deletion_vectors,
    refuse_unreadable,
)
from logdriven_dagster.plugins.delta.format.pruning import Selection
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_rows(
    snapshot: Snapshot, open_file: Callable[[str], BinaryIO], column: str, window: TimeWindow | None
) -> ArrowRows | None:
    """Return the rows of the snapshot, or of one window; files are opened one by one.

    `open_file` opens a location for reading; `column` is the window column. Returns None if the
    table has a column or a column mapping that only Spark reads. Raises TerminalStepError if the
    table uses unsupported features.
    """
    refuse_unreadable(snapshot)
    schema = arrow_schema(snapshot.schema)
    if schema is None or snapshot.column_mapping != "none":
        return None
    if window is None:
        return ArrowRows(schema, _batches(snapshot, snapshot.files, schema, open_file))
    named = snapshot.column_name(column)
    if named is None:
        return ArrowRows(schema, ())
    wanted = Selection(snapshot, named, [window])
    rows = ArrowRows(schema, _batches(snapshot, wanted.possible(), schema, open_file))
    return rows.filter_by_window(named, window)


def _batches(
    snapshot: Snapshot,
    files: Sequence[DataFile],
    schema: "pa.Schema",
    open_file: Callable[[str], BinaryIO],
) -> "Iterator[pa.RecordBatch]":
    for _, batch in read_columns(snapshot, files, schema, open_file):
        yield batch


def read_columns(
    snapshot: Snapshot,
    files: Sequence[DataFile],
    schema: "pa.Schema",
    open_file: Callable[[str], BinaryIO],
) -> "Iterator[tuple[str, pa.RecordBatch]]":
    """Yield batches of the columns of `schema`, each with its file; names match in any case.

    Columns that the table lacks are NULL. The table must have no column mapping.
    """
    deleted = _read_deleted_rows(snapshot)
    spelled = {name.lower(): name for name in schema.names}
    for file in files:
        values = {
            spelled[name.lower()]: snapshot.bounds(name)[file.number][0]
            for name in snapshot.partition_columns
            if name.lower() in spelled
        }
        gone = deleted.get(_place(file.location), ())
        for batch in rows_of_file(open_file(file.location), schema, values, gone):
            yield file.location, batch


def _read_deleted_rows(snapshot: Snapshot) -> dict[str, set[int]]:
    """Return the row numbers in deletion vectors, by the location of the file."""
    found: dict[str, set[int]] = defaultdict(set)
    for file, keeps in snapshot.deletion_vectors() if lists_deletion_vectors(snapshot) else ():
        rows = {row for row, keep in enumerate(keeps) if not keep}
        found[_place(resolve_location(unquote(file)))] |= rows
    return found


def _place(location: str) -> str:
    return location.partition("://")[2].lstrip("/")
