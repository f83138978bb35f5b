"""Rewriting rows of an Iceberg table into files that no snapshot names yet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.iceberg.partitions import with_partition
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import FileTask
from logdriven_dagster.engine.queries.schemas import conform
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.spark_files import FILE, files_named
from logdriven_dagster.engine.storage.staging import staging_folder
from logdriven_dagster.engine.targets.staged_files import write_divided
from logdriven_dagster.engine.targets.store import StagedRows

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def without(
    spark: "SparkSession",
    table: "Table",
    tasks: Sequence[FileTask],
    condition: str,
    staged: StagedRows,
    *,
    data: Folder,
) -> "tuple[list[DataFile], tuple[str, ...]]":
    """Return the files with rows that meet the condition, and new files with their other rows.

    Args:
        tasks: The files to search.
        condition: SQL over the table's columns.
        staged: The new rows, whose schema and attempt the new files get.
        data: The folder for the new files.
    """
    label, found = staged.run.label, rows_of(spark, table, tasks, with_files=True)
    with_hits = found.where(condition).select(FILE).distinct()
    paths = {row[0] for row in run_action(spark, f"{label}: match", with_hits.collect)}
    by_path = {task.file.file_path: task for task in tasks}
    hit = [by_path[path] for path in files_named(list(by_path), paths)]
    if not hit:
        return [], ()
    met = sf.coalesce(sf.expr(condition), sf.lit(False))  # noqa: FBT003 - a literal
    kept = conform(rows_of(spark, table, hit).where(~met), staged.schema, staged.run.table)
    folder = staging_folder(data, staged.run.job_id, staged.run.step_id)
    added = write_divided(with_partition(kept, table), folder, f"{label}: rows of other windows")
    return [task.file for task in hit], tuple(added)
