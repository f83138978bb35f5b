"""Rows staged as files, each window's in a folder of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX
from logdriven_dagster.engine.spark.metrics import QueryCounts, counted
from logdriven_dagster.engine.storage.staging import (
    data_files,
    new_folder,
    read_files,
    remove_folder,
)
from logdriven_dagster.engine.targets.iceberg.files import location, parquet_rows
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.model.runs import WindowRun, whole_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.types import StructType


def stage_files(
    frame: "DataFrame",
    parent: Path,
    runs: Sequence[WindowRun],
    *,
    form: str = "parquet",
    options: Mapping[str, str] | None = None,
    check: Callable[[Sequence[StagedRows]], None] = lambda _: None,
) -> tuple[StagedRows, ...]:
    """Write the frame below `parent` in one query, count its rows, and check what is staged.

    Rows of several windows carry WINDOW_INDEX, and what each of them has read is not known here.
    No folder is left if anything fails.
    """
    several = len(runs) > 1
    schema = (frame.drop(WINDOW_INDEX) if several else frame).schema
    writer = frame.write.format(form).mode("append").options(**(options or {}))
    folders: list[Path] = []
    try:
        if several:
            counts = _write_divided(frame, writer, parent, runs, folders)
        else:
            folders.append(_folder_of(runs[0], parent))
            save = partial(writer.save, str(folders[0]))
            counts = counted(frame.sparkSession, runs[0].label, save)
        pairs = zip(runs, folders, strict=True)
        staged = tuple(_staged(run, folder, form, schema, counts) for run, folder in pairs)
        if not several:
            staged = (replace(staged[0], source_rows=counts.source),)
        check(staged)
    except BaseException:
        for folder in folders:
            remove_folder(folder)
        raise
    return staged


def _write_divided(
    frame: "DataFrame",
    writer: "DataFrameWriter",
    parent: Path,
    runs: Sequence[WindowRun],
    folders: list[Path],
) -> QueryCounts:
    """Let Spark divide the rows by the number of their window, and give each window its folder."""
    whole = whole_run(runs).at(f"{runs[0].step_id}__stretch")
    divided = _folder_of(whole, parent)
    try:
        save = partial(writer.partitionBy(WINDOW_INDEX).save, str(divided))
        counts = counted(frame.sparkSession, whole.label, save)
        for number, run in enumerate(runs):
            folders.append(_folder_of(run, parent))
            part = divided / f"{WINDOW_INDEX}={number}"
            if part.is_dir():
                part.rename(folders[-1])
    finally:
        remove_folder(divided)
    return counts


def _folder_of(run: WindowRun, parent: Path) -> Path:
    return new_folder(parent, run.job_id, run.step_id)


def _staged(
    run: WindowRun, folder: Path, form: str, schema: "StructType", counts: QueryCounts
) -> StagedRows:
    """The rows of one window: exactly as many as footers tell, else what the writer counted."""
    files, rows = data_files(folder), counts.written
    if form in FOOTERS:
        found = {path: FOOTERS[form](path) for path in files}
        files, rows = [path for path in files if found[path]], sum(found.values())
    return StagedRows(
        run=run,
        location=str(folder),
        schema=schema,
        source_rows=None,
        rows=rows,
        files=tuple(location(path) for path in files) if rows != 0 else (),
        staged_by=run.fencing_token,
        query=counts,
    )


def staged_frame(
    spark: "SparkSession",
    staged: Sequence[StagedRows],
    form: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """The rows of staged files, read with the schema that wrote them."""
    files = [path for rows in staged for path in rows.files]
    return read_files(spark, form, files, staged[0].schema, options)


def are_whole(staged: StagedRows, parent: Path, form: str = "parquet") -> bool:
    """Whether all staged files lie below `parent` and, where footers tell, have all their rows."""
    folder = Path(staged.location)
    files = [Path(path.removeprefix("file://")) for path in staged.files]
    if not _is_below(folder, files, parent):
        return False
    if not folder.is_dir() or not all(file.is_file() for file in files):
        return False
    try:
        return form not in FOOTERS or sum(map(FOOTERS[form], files)) == staged.rows
    except (OSError, ValueError):
        return False


def _is_below(folder: Path, files: Sequence[Path], parent: Path) -> bool:
    """Whether what the log says of a staging folder is about one below `parent`, links resolved."""
    folder, parent = folder.resolve(), parent.resolve()
    inside = folder != parent and folder.is_relative_to(parent)
    return inside and all(file.resolve().is_relative_to(folder) for file in files)


@contextmanager
def kept_for_a_while(
    frame: "DataFrame", parent: Path, run: WindowRun
) -> "Iterator[tuple[DataFrame, StagedRows]]":
    """The rows from files of their own, for writers that take several queries.

    An `observe` knows the first query only, which is that of the files then.
    """
    (kept,) = stage_files(frame, parent, [run.at(f"{run.step_id}__rows")])
    try:
        yield staged_frame(frame.sparkSession, [kept]), kept
    finally:
        remove_folder(kept.location)


def _orc_rows(path: Path) -> int:
    from pyarrow.orc import ORCFile

    return int(ORCFile(str(path)).nrows)


FOOTERS: dict[str, Callable[[Path], int]] = {"parquet": parquet_rows, "orc": _orc_rows}
"""Formats whose files say how many rows they hold."""
