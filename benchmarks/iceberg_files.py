"""The files of an Iceberg table, for the neutral reader."""

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.checking import WrongRowsError

if TYPE_CHECKING:
    from pyiceberg.table import Table


def files_of(table: "Table") -> tuple[Path, ...]:
    """Return the data files of the current snapshot; WrongRowsError if rows of them are deleted."""
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise WrongRowsError("rows are deleted by files beside the data, which nobody reads here")
    return tuple(sorted(Path(task.file.file_path.removeprefix("file://")) for task in tasks))
