"""Staging rows as files, in one folder per window."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX, bins_of, counts_of_bins
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import QueryCounts, run_action, run_counted
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.spark_files import read_files
from logdriven_dagster.engine.storage.staging import (
    JOB,
    ONLY_COMMITTED,
    PARTITION,
    STRETCH,
    data_files,
    folder_in_stretch,
    folder_of_pass,
    rows_of_files,
    staging_folder,
)
from logdriven_dagster.engine.storage.storage import FOOTERS
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.model.runs import WindowRun, combine_runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = "rows"
_PLAIN = re.compile(r"[A-Za-z0-9_./:=-]+")
_SMALL_BYTES = 4 * 1024 * 1024


def in_few_files(frame: "DataFrame") -> "DataFrame":
    """Use one task if all input of the frame is small, since each task writes a file.

    Otherwise thousands of windows would each leave as many files as there are cores.
    """
    size = mode_of(frame.sparkSession).estimate_bytes(frame)
    return frame.coalesce(1) if size < _SMALL_BYTES else frame


def stage_files(
    frame: "DataFrame",
    parent: Folder,
    runs: Sequence[WindowRun],
    *,
    form: str = "parquet",
    options: Mapping[str, str] | None = None,
    check: Callable[[Sequence[StagedRows]], None] = lambda _: None,
) -> tuple[StagedRows, ...]:
    """Write the frame below `parent` in one query, count its rows, and check the staged rows.

    Rows of several windows are divided by WINDOW_INDEX, and their source rows are not counted per
    window. With a single run, WINDOW_INDEX is an ordinary column. No folder is left if anything
    fails.

    Args:
        runs: The attempts that stage the rows, one per window.
        form: The file format.
        options: Options of Spark's writer.
        check: Called with the staged rows; its errors fail the staging.

    Raises:
        TransientStepError: The row counts of windows are not known, or files are not found.
    """
    several = len(runs) > 1
    # Over Connect, each new frame requests its columns from the server.
    ours = (PARTITION, WINDOW_INDEX) if several else (PARTITION,)
    own = [name for name in ours if name in frame.columns]
    schema = (frame.drop(*own) if own else frame).schema
    whole = combine_runs(runs).for_step(runs[0].step_id + STRETCH) if several else runs[0]
    folder = staging_folder(parent, whole.job_id, whole.step_id)
    folders = [folder_in_stretch(folder, run.job_id) for run in runs] if several else [folder]
    frame, count_rows = _add_row_counter(frame, form, len(runs))
    divided = _by_job(frame, runs) if several else frame
    given = {**(options or {}), **ONLY_COMMITTED}
    writer = divided.write.format(form).mode("append").options(**given)
    mode = mode_of(frame.sparkSession)
    if not mode.capabilities.has_input_file_name and not _PLAIN.fullmatch(folder.location):
        folder.remove()
        raise TerminalStepError(
            f"{runs[0].table}: {mode.title} would write into another folder than "
            f"{folder.location}, whose path contains special characters; use letters "
            "and digits, or spark.engine: spark"
        )
    by = [name for name in (JOB, PARTITION) if name in divided.columns]
    if PARTITION in by and not mode.capabilities.can_partition_by_string:
        folder.remove()
        raise TerminalStepError(
            f"{runs[0].table}: tables with their own partitions are not supported on "
            f"{mode.title}; use spark.engine: spark"
        )
    writer = writer.partitionBy(*by) if by else writer
    try:
        counts = run_counted(frame.sparkSession, whole.label, partial(writer.save, folder.location))
        found = [
            _files_in(own, form, rows)
            for own, rows in zip(folders, count_rows(counts), strict=True)
        ]
        staged = tuple(
            StagedRows(
                run=run,
                location=own.location,
                schema=schema,
                source_rows=None if several else counts.source,
                rows=rows,
                files=tuple(files),
                staged_by=run.fencing_token,
                query=counts,
            )
            for run, own, (files, rows) in zip(runs, folders, found, strict=True)
        )
        _refuse_missing(staged, counts, folder)
        check(staged)
    except BaseException:
        folder.remove()
        raise
    return staged


def _add_row_counter(
    frame: "DataFrame", form: str, number: int
) -> "tuple[DataFrame, Callable[[QueryCounts], Sequence[int | None]]]":
    """Attach a row counter to the frame, unless its files have footers with row counts.

    Returns the frame and a function that returns the row count of each of `number` windows after
    the write, from the counts of the query; None where footers are to be read.
    """
    from pyspark.sql import Observation

    mode, several = mode_of(frame.sparkSession), number > 1
    if form in FOOTERS:
        return frame, lambda _: [None] * number
    if not several and mode.create_read_counter(frame.sparkSession) is None:
        return frame, lambda counts: [counts.written]
    observation = Observation()
    metric = bins_of(sf.col(WINDOW_INDEX), number) if several else sf.count(sf.lit(1))

    def read_counts(counts: QueryCounts) -> Sequence[int | None]:
        values = mode.read_observation(observation)
        if not several:
            return [values.get(_ROWS)]
        rows = counts_of_bins(values[_ROWS], number) if _ROWS in values else []
        if not rows or counts.written not in (None, sum(rows)):
            raise TransientStepError("Spark did not report the number of rows of each window")
        return rows

    return frame.observe(observation, metric.alias(_ROWS)), read_counts


def _by_job(frame: "DataFrame", runs: Sequence[WindowRun]) -> "DataFrame":
    """Replace the window's number in each row with its job, by which Spark divides the rows.

    A row without a window fails the query: some engines write it next to those of any job.
    """
    jobs = sf.lit([run.job_id for run in runs])
    job = sf.element_at(jobs, sf.col(WINDOW_INDEX) + 1)
    problem = sf.raise_error(sf.lit("a row does not belong to any of the windows")).cast("bigint")
    return frame.withColumn(JOB, sf.coalesce(job.cast("bigint"), problem)).drop(WINDOW_INDEX)


def _files_in(folder: Folder, form: str, rows: int | None) -> tuple[list[str], int | None]:
    """Return the files with rows and their row count, from footers or from the writer's count."""
    if form in FOOTERS:
        found = rows_of_files(folder, form)
        return [file for file in found if found[file]], sum(found.values())
    return (data_files(folder) if rows != 0 else []), rows


def _refuse_missing(staged: Sequence[StagedRows], counts: QueryCounts, folder: Folder) -> None:
    """Raise TransientStepError if Spark wrote rows that this process does not find."""
    found = [rows.rows for rows in staged if rows.rows is not None]
    if found and sum(found) < (counts.written or 0):
        raise TransientStepError(
            f"{staged[0].run.table}: Spark wrote {counts.written} rows, of which {sum(found)} are "
            f"in {as_path(folder.location)}; the warehouse must be a folder that this process and "
            "Spark's executors share"
        )


def write_divided(
    frame: "DataFrame", folder: Folder, label: str, options: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Write rows into an empty folder, divided by PARTITION if present; return file → row count.

    Files without rows are left out. The folder is removed if writing fails.
    """
    writer = frame.write.mode("append").options(**{**(options or {}), **ONLY_COMMITTED})
    if PARTITION in frame.columns:
        writer = writer.partitionBy(PARTITION)
    try:
        run_action(frame.sparkSession, label, lambda: writer.parquet(folder.location))
        found = rows_of_files(folder)
    except BaseException:
        folder.remove()
        raise
    return {file: rows for file, rows in found.items() if rows}


def staged_frame(
    spark: "SparkSession",
    staged: Sequence[StagedRows],
    form: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """Read staged files with the schema that wrote them."""
    files = [path for rows in staged for path in rows.files]
    return read_files(spark, form, files, staged[0].schema, options)


def are_whole(staged: StagedRows, parent: Folder, form: str = "parquet") -> bool:
    """Return True if all staged files lie below `parent` and have all rows that footers count."""
    storage, folder = parent.storage, staged.location
    if not storage.is_below(folder, parent.location):
        return False
    if not all(storage.is_below(file, folder) for file in staged.files):
        return False
    if not all(map(storage.exists, staged.files)):
        return False
    try:
        found = [storage.rows(file, form) for file in staged.files if form in FOOTERS]
    except (OSError, ValueError):
        return False
    return form not in FOOTERS or sum(found) == staged.rows


@contextmanager
def keep_temporarily(
    frame: "DataFrame", parent: Folder, runs: Sequence[WindowRun]
) -> Iterator[tuple[StagedRows, ...]]:
    """Keep the rows of each window in temporary files until they are loaded into the target."""
    kept = stage_files(frame, parent, [run.for_step(f"{run.step_id}__rows") for run in runs])
    try:
        yield kept
    finally:
        parent.storage.remove(folder_of_pass(kept[0].location))
