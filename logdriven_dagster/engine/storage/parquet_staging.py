"""Rows staged as Parquet files in a folder of the attempt's own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.engine.storage.staging import (
    StagedRows,
    Stamp,
    data_files,
    read_files,
    remove_folder,
    staging_folder,
    write,
)
from logdriven_dagster.engine.targets.iceberg.files import location, parquet_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_parquet(
    frame: "DataFrame",
    parent: Path,
    stamp: Stamp,
    options: Mapping[str, str],
    check: Callable[[StagedRows], None] = lambda _: None,
) -> StagedRows:
    """Write the frame below `parent`, count its rows by the files' footers, and check them.

    The folder is gone if anything fails on the way.
    """
    folder = staging_folder(parent, stamp)
    writer = frame.write.mode("append").options(**options)
    try:
        counts = write(frame, stamp, lambda: writer.parquet(str(folder)))
        rows = {path: parquet_rows(path) for path in data_files(folder)}
        staged = StagedRows(
            stamp,
            str(folder),
            frame.schema,
            counts.source,
            sum(rows.values()),
            tuple(location(path) for path, count in rows.items() if count),
            stamp.fencing_token,
            most_rows=counts.most,
        )
        check(staged)
    except BaseException:
        remove_folder(folder)
        raise
    return staged


@contextmanager
def kept_for_a_while(
    frame: "DataFrame", parent: Path, stamp: Stamp
) -> "Iterator[tuple[DataFrame, StagedRows]]":
    """The rows from files of their own, for writers that take several queries.

    An `observe` knows the first query only, which is that of the files then.
    """
    kept = stage_parquet(frame, parent, replace(stamp, step_id=f"{stamp.step_id}__rows"), {})
    try:
        yield read_files(frame.sparkSession, "parquet", kept.files, kept.schema), kept
    finally:
        remove_folder(kept.location)
