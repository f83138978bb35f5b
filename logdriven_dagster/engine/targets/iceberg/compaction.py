"""Small files of an Iceberg table that become few, window by window.

A commit replaces files by others with the same rows, if none of them has gone since. Its snapshot
carries no attempt, window or token, so whoever asks the history about those passes over it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from math import ceil
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.engine.queries.schemas import window_column
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.staging import (
    ONLY_COMMITTED,
    UPKEEP,
    read_files,
    rows_of_files,
    staging_folder,
)
from logdriven_dagster.engine.targets.iceberg.commits import commit_files, tries
from logdriven_dagster.engine.targets.iceberg.files import (
    all_within,
    is_partitioned_by,
    matching_files,
    within,
)
from logdriven_dagster.engine.targets.iceberg.schema import spark_schema
from logdriven_dagster.errors import TransientStepError
from logdriven_dagster.model.upkeep import Compaction
from logdriven_dagster.model.windows import on_clock

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SmallFiles:
    """Files of one window that are worth writing anew."""

    files: "tuple[DataFile, ...]"
    wanted: int
    """How many there should be."""

    @property
    def rows(self) -> int:
        return sum(file.record_count for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in self.files)

    @property
    def paths(self) -> set[str]:
        return {file.file_path for file in self.files}


@dataclass(frozen=True)
class Rewritten:
    """New files with the rows of old ones, which no snapshot names yet."""

    replaced: SmallFiles
    folder: Folder
    files: tuple[str, ...]


def small_files(
    table: "Table", config: TableConfig, target: IcebergTarget, options: Compaction
) -> list[SmallFiles]:
    """Find the windows with too many small files, oldest first; an upsert table is one window.

    A file that no single window holds as a whole stays as it is: other windows cut their rows out.
    """
    window_of = _windows(table, config, target)
    groups: dict[Any, list[DataFile]] = {}
    for file in matching_files(table):
        large = file.file_size_in_bytes >= options.target_size * 3 / 4
        window = None if large or file.spec_id != table.spec().spec_id else window_of(file)
        if window is not None:
            groups.setdefault(window, []).append(file)
    found = []
    for _, files in sorted(groups.items()):
        wanted = ceil(sum(file.file_size_in_bytes for file in files) / options.target_size)
        if len(files) >= options.min_files and wanted < len(files):
            found.append(SmallFiles(tuple(files), wanted))
    return found


def _windows(
    table: "Table", config: TableConfig, target: IcebergTarget
) -> "Callable[[DataFile], Any]":
    """What tells to which window a file belongs, as something that sorts; None: to no single one.

    Rows of an `upsert` table lie in no order of windows.
    """
    column = window_column(target)
    if target.mode == "upsert":
        return lambda _: 0
    if is_partitioned_by(table, column):
        number = [field.name for field in table.spec().fields].index(column)
        return lambda file: file.partition[number]
    if config.is_sliced:
        return lambda _: None
    grid = config.grid

    def index(file: "DataFile") -> int | None:
        moment = _earliest(table, column, file, config)
        if moment is None:
            return None
        number = grid.index(moment)
        condition = within(table.schema(), column, grid.window(number))
        return number if all_within(table, condition, [file]) else None

    return index


def _earliest(
    table: "Table", column: str, file: "DataFile", config: TableConfig
) -> datetime | None:
    """Return the smallest value of a window column in a file, as its statistics tell."""
    from pyiceberg.conversions import from_bytes

    field = table.schema().find_field(column, case_sensitive=False)
    bound = (file.lower_bounds or {}).get(field.field_id)
    if bound is None:
        return None
    value: Any = from_bytes(field.field_type, bound)  # type: ignore[arg-type]
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    match str(field.field_type):
        case "date":
            clock = epoch + timedelta(days=value)
        case "timestamptz":
            return (epoch + timedelta(microseconds=value)).astimezone(config.grid.zone)
        case _:
            clock = epoch + timedelta(microseconds=value)
    return on_clock(clock.replace(tzinfo=None), config.grid.zone)


def rewrite(
    spark: "SparkSession",
    load: "Callable[[], Table | None]",
    groups: list[SmallFiles],
    target: IcebergTarget,
    parent: Folder,
) -> list[Rewritten]:
    """Write the rows of each group into a new folder below `parent`, where no reader looks.

    Groups whose files are not the table's any more are left out. TransientStepError if a row is
    missing then; nothing stays of what was written.
    """
    done: list[Rewritten] = []
    try:
        for group in groups:
            table = load()
            if table is None or not group.paths <= _current(table):
                continue
            folder = staging_folder(parent, UPKEEP, "compacted")
            done.append(Rewritten(group, folder, ()))
            try:
                files = _written(spark, table, group, target, folder)
            except Exception:
                if group.paths <= _current(table.refresh()):
                    raise
                done.pop().folder.remove()  # expired while they were read
                continue
            done[-1] = Rewritten(group, folder, files)
    except BaseException:
        for item in done:
            item.folder.remove()
        raise
    return done


def _current(table: "Table") -> set[str]:
    return {file.file_path for file in matching_files(table)}


def _written(
    spark: "SparkSession",
    table: "Table",
    group: SmallFiles,
    target: IcebergTarget,
    folder: Folder,
) -> tuple[str, ...]:
    paths = sorted(group.paths)
    frame = read_files(spark, "parquet", paths, spark_schema(table.schema()))
    options = option_texts(target.options) | ONLY_COMMITTED
    writer = _in_files(frame, group.wanted, target).write.mode("append").options(**options)
    label = f"{'.'.join(table.name())}: compact {len(paths)} files"
    run_action(spark, label, lambda: writer.parquet(folder.location))
    rows = rows_of_files(folder)
    if sum(rows.values()) != group.rows:
        raise TransientStepError(f"{label}: {sum(rows.values())} of {group.rows} rows were written")
    return tuple(file for file, count in rows.items() if count)


def _in_files(frame: "DataFrame", number: int, target: IcebergTarget) -> "DataFrame":
    """The rows in so many files; those of an upsert apart by key, so that it opens few of them."""
    if number > 1 and target.mode == "upsert":
        return frame.repartitionByRange(number, *target.key)
    return frame.coalesce(number)


def commit(load: "Callable[[], Table | None]", rewritten: list[Rewritten]) -> list[Rewritten]:
    """Put the new files in the place of the old ones, in one commit; those that made it.

    A group of which a file has gone meanwhile, since its window was published anew, is dropped.
    """
    for table in tries(load):
        current = _current(table)
        kept = [item for item in rewritten if item.replaced.paths <= current]
        if not kept or _commit(table, kept):
            for item in rewritten:
                if item not in kept:
                    item.folder.remove()
            return kept
    for item in rewritten:
        item.folder.remove()
    return []


def _commit(table: "Table", items: list[Rewritten]) -> bool:
    """Commit by compare-and-swap; False if another writer was faster."""
    removed = [file for item in items for file in item.replaced.files]
    added = [path for item in items for path in item.files]
    return commit_files(table, removed, added, {"upkeep": "compact_files"})
