"""Rows of Parquet files, completed from the metadata of a table."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from logdriven_dagster.engine.arrow.rows import fit_batch

if TYPE_CHECKING:
    import pyarrow as pa

SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""The key of the schema that Spark writes into a file, as JSON."""
_ROWS = 8192
"""Rows per batch; previews need few of them."""


def rows_of_file(
    file: BinaryIO,
    schema: "pa.Schema",
    values: Mapping[str, Any] | None = None,
    deleted: Collection[int] = (),
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a file with the columns of `schema`; columns that it lacks are NULL.

    `values` are those of columns that only the table's metadata contain; `deleted` are the numbers
    of deleted rows in the file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    known = values or {}
    wanted = {name.lower() for name in schema.names if name not in known}
    with file, parquet.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
        names = [name for name in opened.schema_arrow.names if name.lower() in wanted]
        read, number = opened.iter_batches(_ROWS, columns=names), 0
        for batch in read:
            kept = range(number, number + len(batch))
            number += len(batch)
            if deleted:
                batch = batch.filter(pa.array([row not in deleted for row in kept]))  # noqa: PLW2901
            for name, value in known.items():
                field = schema.field(name)
                column = pa.array([value] * len(batch), field.type)
                batch = batch.append_column(field, column)  # noqa: PLW2901
            yield fit_batch(batch, schema)
