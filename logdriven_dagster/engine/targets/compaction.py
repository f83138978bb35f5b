"""Compaction: replace the small files of each window with a few large ones.

A commit replaces files with others that hold the same rows, provided that none of the old files was
removed in between. It carries no attempt, window or token, so queries of the publication history
skip it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from logdriven_dagster.config.models.types.targets import TableTarget
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.staging import (
    UPKEEP,
    staging_folder,
)
from logdriven_dagster.engine.targets.staged_files import write_divided
from logdriven_dagster.errors import TransientStepError
from logdriven_dagster.model.upkeep import Compaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRIES = 5


@dataclass(frozen=True, slots=True)
class WindowFile:
    """A data file of a table and the window it belongs to."""

    path: str
    rows: int
    bytes: int
    window: Any
    """A sortable value that identifies the window; None if the rows belong to no single window."""


class TableNow(Protocol):
    """The current version of a table."""

    @property
    def name(self) -> str:
        """The table's name in messages."""
        ...

    @property
    def files(self) -> Sequence[WindowFile]:
        """All data files of the table."""
        ...

    def rows(self, spark: "SparkSession", paths: Collection[str]) -> "DataFrame":
        """Return the rows of the given files, none of which has rows deleted by an engine."""
        ...

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        """Add the column that divides rows among files, if the table needs one."""
        ...

    def swap(self, removed: Collection[str], added: Sequence[str]) -> bool:
        """Replace files with others in one commit; return False if another writer was faster."""
        ...


Load: TypeAlias = Callable[[], TableNow | None]
"""A function that returns the current version of the table, or None if there is no table."""


@dataclass(frozen=True)
class SmallFiles:
    """Files of one window that are worth rewriting."""

    files: tuple[WindowFile, ...]
    wanted: int
    """The number of files to write instead."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def paths(self) -> set[str]:
        return {file.path for file in self.files}


@dataclass(frozen=True)
class Rewritten:
    """New files with the rows of old ones, not yet named by any commit."""

    replaced: SmallFiles
    folder: Folder
    files: tuple[str, ...]


def small_files(files: Sequence[WindowFile], options: Compaction) -> list[SmallFiles]:
    """Find the windows with too many small files, oldest first; an upsert table is one window.

    A file that no single window owns stays unchanged, because the rows of other windows are cut out
    of it.
    """
    groups: dict[Any, list[WindowFile]] = {}
    for file in files:
        large = file.bytes >= options.target_size * 3 / 4
        if not large and file.window is not None:
            groups.setdefault(file.window, []).append(file)
    found = []
    for _, small in sorted(groups.items()):
        wanted = ceil(sum(file.bytes for file in small) / options.target_size)
        if len(small) >= options.min_files and wanted < len(small):
            found.append(SmallFiles(tuple(small), wanted))
    return found


def rewrite(
    spark: "SparkSession",
    load: Load,
    groups: list[SmallFiles],
    target: TableTarget,
    parent: Folder,
) -> list[Rewritten]:
    """Write the rows of each group into a new folder below `parent`, which no reader opens.

    Groups whose files no longer belong to the table are skipped. Everything written is removed if
    anything fails.

    Args:
        load: Returns the current version of the table.
        groups: The files to replace, by window.
        target: The target, whose options and key the new files follow.
        parent: The folder for the new folders.

    Raises:
        TransientStepError: Rows are missing from the written files.
    """
    done: list[Rewritten] = []
    table = load()
    there = _paths(table)
    try:
        for group in groups:
            if table is None or not group.paths <= there:
                continue
            folder = staging_folder(parent, UPKEEP, "compacted")
            done.append(Rewritten(group, folder, ()))
            try:
                files = _write_files(spark, table, group, target, folder)
            except Exception:
                if group.paths <= _paths(load()):
                    raise
                done.pop().folder.remove()  # expired while being read
                continue
            done[-1] = Rewritten(group, folder, files)
    except BaseException:
        for item in done:
            item.folder.remove()
        raise
    return done


def _paths(table: TableNow | None) -> set[str]:
    return {file.path for file in table.files} if table is not None else set()


def _write_files(
    spark: "SparkSession",
    table: TableNow,
    group: SmallFiles,
    target: TableTarget,
    folder: Folder,
) -> tuple[str, ...]:
    frame = table.rows(spark, group.paths)
    label = f"{table.name}: compact {len(group.files)} files"
    divided = table.add_partition_column(_in_files(frame, group.wanted, target))
    rows = write_divided(divided, folder, label, option_texts(target.options))
    if sum(rows.values()) != group.rows:
        raise TransientStepError(f"{label}: {sum(rows.values())} of {group.rows} rows were written")
    return tuple(rows)


def _in_files(frame: "DataFrame", number: int, target: TableTarget) -> "DataFrame":
    """Split the rows into `number` files; those of an upsert by key range, to open few of them."""
    if number > 1 and target.write_mode.merges_by_key:
        return frame.repartitionByRange(number, *map(quote_name, target.key))
    return frame.coalesce(number)


def commit(load: Load, rewritten: list[Rewritten]) -> list[Rewritten]:
    """Replace the old files with the new ones in one commit; return the groups that were committed.

    A group is dropped if one of its files was removed in the meantime because its window was
    published again.
    """
    kept: list[Rewritten] = []
    for table in tries(load):
        current = _paths(table)
        kept = [item for item in rewritten if item.replaced.paths <= current]
        if not kept or _commit(table, kept):
            break
        kept = []
    for item in rewritten:
        if item not in kept:
            item.folder.remove()
    return kept


def _commit(table: TableNow, items: list[Rewritten]) -> bool:
    """Commit by compare-and-swap; return False if another writer was faster."""
    removed = {path for item in items for path in item.replaced.paths}
    return table.swap(removed, [path for item in items for path in item.files])


def tries(load: Load) -> Iterator[TableNow]:
    """Yield the current version of the table for each try of a change; nothing without a table."""
    for _ in range(_TRIES):
        if (table := load()) is not None:
            yield table
