"""Small files of a table that become few, window by window.

A commit replaces files by others with the same rows, if none of them has gone since. It carries no
attempt, window or token, so whoever asks the history about those passes over it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from logdriven_dagster.config.models.types.targets import TableTarget
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.staging import (
    UPKEEP,
    staging_folder,
)
from logdriven_dagster.engine.targets.staged_files import write_anew
from logdriven_dagster.errors import TransientStepError
from logdriven_dagster.model.upkeep import Compaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRIES = 5


@dataclass(frozen=True, slots=True)
class WindowFile:
    """A file of a table, and the window that it belongs to."""

    path: str
    rows: int
    bytes: int
    window: Any
    """Something that sorts; None where its rows are of no single window."""


class TableNow(Protocol):
    """A table as it is at a moment."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def files(self) -> Sequence[WindowFile]:
        """All its files."""
        ...

    def rows(self, spark: "SparkSession", paths: Collection[str]) -> "DataFrame":
        """Return the rows of some of its files, of which no engine has deleted any."""
        ...

    def divided(self, frame: "DataFrame") -> "DataFrame":
        """Return rows with the column that divides them among files, if the table wants one."""
        ...

    def swap(self, removed: Collection[str], added: Sequence[str]) -> bool:
        """Put files in the place of others; False if another writer was faster."""
        ...


Load: TypeAlias = Callable[[], TableNow | None]
"""Returns the table as it is now; None: it is not there."""


@dataclass(frozen=True)
class SmallFiles:
    """Files of one window that are worth writing anew."""

    files: tuple[WindowFile, ...]
    wanted: int
    """How many there should be."""

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
    """New files with the rows of old ones, which no commit names yet."""

    replaced: SmallFiles
    folder: Folder
    files: tuple[str, ...]


def small_files(files: Sequence[WindowFile], options: Compaction) -> list[SmallFiles]:
    """Find the windows with too many small files, oldest first; an upsert table is one window.

    A file that no single window holds as a whole stays as it is: other windows cut their rows out.
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
    """Write the rows of each group into a new folder below `parent`, where no reader looks.

    Groups whose files are not the table's any more are left out. TransientStepError if a row is
    missing then; nothing stays of what was written.
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
                files = _written(spark, table, group, target, folder)
            except Exception:
                if group.paths <= _paths(load()):
                    raise
                done.pop().folder.remove()  # expired while they were read
                continue
            done[-1] = Rewritten(group, folder, files)
    except BaseException:
        for item in done:
            item.folder.remove()
        raise
    return done


def _paths(table: TableNow | None) -> set[str]:
    return {file.path for file in table.files} if table is not None else set()


def _written(
    spark: "SparkSession",
    table: TableNow,
    group: SmallFiles,
    target: TableTarget,
    folder: Folder,
) -> tuple[str, ...]:
    frame = table.rows(spark, group.paths)
    label = f"{table.name}: compact {len(group.files)} files"
    divided = table.divided(_in_files(frame, group.wanted, target))
    rows = write_anew(divided, folder, label, option_texts(target.options))
    if sum(rows.values()) != group.rows:
        raise TransientStepError(f"{label}: {sum(rows.values())} of {group.rows} rows were written")
    return tuple(rows)


def _in_files(frame: "DataFrame", number: int, target: TableTarget) -> "DataFrame":
    """The rows in so many files; those of an upsert apart by key, so that it opens few of them."""
    if number > 1 and target.write_mode.merges_by_key:
        return frame.repartitionByRange(number, *target.key)
    return frame.coalesce(number)


def commit(load: Load, rewritten: list[Rewritten]) -> list[Rewritten]:
    """Put the new files in the place of the old ones, in one commit; those that made it.

    A group of which a file has gone meanwhile, since its window was published anew, is dropped.
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
    """Commit by compare-and-swap; False if another writer was faster."""
    removed = {path for item in items for path in item.replaced.paths}
    return table.swap(removed, [path for item in items for path in item.files])


def tries(load: Load) -> Iterator[TableNow]:
    """Yield the table as it is now for each try of a change; nothing while it is not there."""
    for _ in range(_TRIES):
        if (table := load()) is not None:
            yield table
