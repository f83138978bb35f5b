"""The first window of an Iceberg table that other programs filled."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.engine.iceberg.files import (
    is_partitioned_by,
    not_null,
)
from logdriven_dagster.engine.iceberg.scan import matching_files
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.targets.first_contact import leaves_existing_rows, refusal

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


def find_replaced_files(table: "Table", target: IcebergTarget) -> "list[DataFile]":
    """Return the files that the first window of a table replaces; TerminalStepError if refused."""
    others = unknown_files(table) if leaves_existing_rows(target) else []
    if others and target.existing_rows == "refuse":
        raise refusal(".".join(table.name()))
    return others


def unknown_files(table: "Table") -> "list[DataFile]":
    """Return all files if no window wrote any of their rows; otherwise none.

    A table that is partitioned by window was created by this package, so its files are not
    searched.
    """
    if is_partitioned_by(table, WINDOW_START):
        return []
    known = WINDOW_START in table.schema().column_names
    if known and matching_files(table, not_null(WINDOW_START)):
        return []
    return matching_files(table)
