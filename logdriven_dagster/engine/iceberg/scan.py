"""Scan planning for Iceberg tables; files that cannot be read correctly are refused by name."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.iceberg.equality_deletes import EqualityDeleteIndex, EqualityDeletes
from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.schema import refuse_unreadable_types
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table


@dataclass(frozen=True, eq=False)
class FileTask:
    """A data file, and the deletes that apply to it."""

    file: "DataFile"
    sequence_number: int
    delete_files: "Collection[DataFile]"
    """Position deletes and deletion vectors."""
    equality_deletes: tuple[EqualityDeletes, ...] = ()

    @property
    def has_deletes(self) -> bool:
        return bool(self.delete_files or self.equality_deletes)


def plan(table: "Table", condition: "BooleanExpression | None" = None) -> list[FileTask]:
    """Return the files of the current snapshot that may contain such rows, with their deletes.

    Raises TerminalStepError if rows could be read incorrectly, before any query runs.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table import ManifestGroupPlanner

    refuse_unreadable_types(table.schema(), name_of_table(table))
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    sequences: dict[str, int] = {}

    def is_planned(entry: "ManifestEntry") -> bool:
        """Leave out equality deletes, which PyIceberg does not plan."""
        if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
            return False
        sequences[entry.data_file.file_path] = entry.sequence_number or 0
        return True

    manifests = snapshot.manifests(table.io)
    planner = ManifestGroupPlanner(table.metadata, table.io, condition or AlwaysTrue())
    index, tasks = EqualityDeleteIndex(table, manifests), []
    for found in planner.plan_files(manifests, is_planned):
        number = sequences[found.file.file_path]
        deletes = index.find(found.file, number)
        tasks.append(FileTask(found.file, number, found.delete_files, deletes))
    _refuse_formats(table, tasks)
    return tasks


def _refuse_formats(table: "Table", tasks: Collection[FileTask]) -> None:
    from pyiceberg.manifest import FileFormat

    files = [file for each in find_equality_deletes(tasks) for file, _ in each.files]
    for file in (*(file for task in tasks for file in (task.file, *task.delete_files)), *files):
        if file.file_format not in (FileFormat.PARQUET, FileFormat.PUFFIN):
            raise TerminalStepError(
                f"{name_of_table(table)}: {file.file_path} is an {file.file_format.value} "
                "file; only Parquet files of Iceberg tables are read here: set "
                "write.format.default and write.delete.format.default to parquet, and rewrite them"
            )


def find_equality_deletes(tasks: Iterable[FileTask]) -> list[EqualityDeletes]:
    """Return the equality deletes of these files, each once."""
    return list({each.number: each for task in tasks for each in task.equality_deletes}.values())


def matching_files(
    table: "Table", condition: "BooleanExpression | None" = None
) -> "list[DataFile]":
    """Return the data files of the current snapshot that may contain such rows.

    Without a condition, returns all of them.
    """
    return [task.file for task in plan(table, condition)]
