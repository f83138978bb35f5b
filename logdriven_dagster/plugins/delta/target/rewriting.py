"""Rewriting files of a Delta table without some of their rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.staging import (
    ONLY_COMMITTED,
    rows_of_files,
    staging_folder,
)
from logdriven_dagster.engine.targets.staged_files import in_few_files
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.plugins.delta.format.frames import frame_of
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_but(
    spark: "SparkSession",
    snapshot: Snapshot,
    files: Sequence[DataFile],
    condition: str,
    *,
    run: WindowRun,
    data: Folder,
) -> tuple[str, ...]:
    """Write new files for a window with the rows of `files` that do not meet the condition.

    Returns the locations of the new files that have rows. Removes the new folder if writing fails.
    """
    frame = frame_of(spark, snapshot, files)
    return write_files(spark, frame.where(f"NOT coalesce({condition}, false)"), run, data, "kept")


def write_files(
    spark: "SparkSession", frame: "DataFrame", run: WindowRun, data: Folder, what: str
) -> tuple[str, ...]:
    """Write a frame into a new folder of a window's step; `what` names its content.

    Returns the locations of the new files that have rows. Removes the folder if writing fails.
    """
    folder = staging_folder(data, run.job_id, f"{run.step_id}__{what}")
    writer = in_few_files(frame).write.mode("append").options(**ONLY_COMMITTED)
    try:
        run_action(spark, f"{run.label}: {what} rows", lambda: writer.parquet(folder.location))
    except BaseException:
        folder.remove()
        raise
    return tuple(file for file, rows in rows_of_files(folder).items() if rows)
