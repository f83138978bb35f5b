"""Files of Delta tables with column mapping, which have stored names and ids of columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.spark_files import read_files
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.plugins.delta.format.schema import build_stored_fields, spark_schema
from logdriven_dagster.plugins.delta.format.tables import Snapshot
from logdriven_dagster.plugins.delta.target.commits import new_columns
from logdriven_dagster.plugins.delta.target.rewriting import write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def write_mapped_files(
    spark: "SparkSession", snapshot: Snapshot, files: Sequence[str], *, run: WindowRun, data: Folder
) -> tuple[str, ...]:
    """Write the rows of new files again, with the names and ids that the table's files have.

    Returns the files themselves if the table has no column mapping.
    """
    if snapshot.column_mapping == "none" or not files:
        return tuple(files)
    held = spark_schema(build_stored_fields(snapshot.fields, "both"), snapshot.name)
    frame = read_files(spark, "parquet", files, snapshot.schema).select(
        *(
            sf.col(quote_name(field.name))
            .cast(stored.dataType)
            .alias(stored.name, metadata=stored.metadata)
            for field, stored in zip(snapshot.schema.fields, held.fields, strict=True)
        )
    )
    return write_files(spark, frame, run, data, "mapped")


def refuse_new_columns(snapshot: Snapshot, schema: "StructType") -> None:
    """Raise TerminalStepError if a table with column mapping would need a new column."""
    new = new_columns(snapshot, schema)
    if snapshot.column_mapping != "none" and new:
        names = ", ".join(field["name"] for field in new)
        raise TerminalStepError(
            f"the Delta table {snapshot.name} has column mapping by {snapshot.column_mapping}, and "
            f"its columns cannot be added here: {names}; run ALTER TABLE ... ADD COLUMN in the "
            "engine that wrote it; mode overwrite_window with window_column needs no _window_start"
        )
