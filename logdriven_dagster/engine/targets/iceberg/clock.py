"""An SQL catalog whose tables never go back in time.

Hosts' clocks differ and are set back. Iceberg for Java, and all that is built on it, refuses a
table whose history goes back by more than a minute ("Expected sorted snapshot log entries");
PyIceberg stamps each commit with the time of its own host.
"""

from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate


class OrderedCatalog(SqlCatalog):
    """Commits as PyIceberg does, each later than the one before, whatever its host's clock says."""

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Any,
        requirements: Any,
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None:
            return super()._update_and_stage_table(None, table_identifier, requirements, updates)
        last = current_table.metadata.last_updated_ms
        later = tuple(_later_than(last, update) for update in updates)
        staged = super()._update_and_stage_table(
            current_table, table_identifier, requirements, later
        )
        if staged.metadata.last_updated_ms < last:  # the host's time, of a commit without snapshot
            staged.metadata = staged.metadata.model_copy(update={"last_updated_ms": last})
        return staged


def _later_than(last: int, update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms > last:
        return update
    snapshot = update.snapshot.model_copy(update={"timestamp_ms": last + 1})
    return update.model_copy(update={"snapshot": snapshot})
