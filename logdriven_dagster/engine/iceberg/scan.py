"""Scan planning for Iceberg tables; files that cannot be read correctly are refused by name."""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.schema import refuse_unreadable_types
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table


def plan(table: "Table", condition: "BooleanExpression | None" = None) -> "list[FileScanTask]":
    """Return the files of the current snapshot that may contain such rows, with their deletes.

    Raises TerminalStepError if rows could be read incorrectly, before any query runs.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.manifest import FileFormat

    refuse_unreadable(table)
    tasks = list(table.scan(row_filter=condition or AlwaysTrue()).plan_files())
    for task in tasks:
        forms = {FileFormat.PARQUET, FileFormat.PUFFIN}
        for file in (task.file, *task.delete_files):
            if file.file_format not in forms:
                raise TerminalStepError(
                    f"{name_of_table(table)}: {file.file_path} is an {file.file_format.value} "
                    "file; only Parquet files of Iceberg tables are read here: rewrite them"
                )
    return tasks


def matching_files(
    table: "Table", condition: "BooleanExpression | None" = None
) -> "list[DataFile]":
    """Return the data files of the current snapshot that may contain such rows.

    Without a condition, returns all of them.
    """
    return [task.file for task in plan(table, condition)]


def refuse_unreadable(table: "Table") -> None:
    """Raise TerminalStepError for a type that is not read here, and for equality deletes.

    PyIceberg cannot resolve equality deletes to rows.
    """
    from pyiceberg.manifest import DataFileContent, ManifestContent

    refuse_unreadable_types(table.schema(), name_of_table(table))
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                raise TerminalStepError(
                    f"{name_of_table(table)}: another engine deleted rows by their values "
                    f"(equality deletes: {entry.data_file.file_path}), which cannot be read here; "
                    "compact the table with that engine first"
                )
