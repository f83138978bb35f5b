"""Catalogs of every type that PyIceberg knows, whose tables never go back in time.

Hosts' clocks differ and are set back. Iceberg for Java, and all that is built on it, refuses a
table whose history goes back by more than a minute ("Expected sorted snapshot log entries");
PyIceberg stamps each commit with the time of its own host.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

_OUR_REST = "logdriven_dagster.engine.targets.iceberg.rest.PatientRestCatalog"


def load_ordered(name: str, properties: Mapping[str, str]) -> Catalog:
    """Load a catalog that commits as PyIceberg does, each time later than before."""
    given = dict(properties)
    if given.get("type") == "rest":
        given = {**given, "py-catalog-impl": _OUR_REST}
        del given["type"]
    catalog = load_catalog(name, **given)
    catalog.__class__ = _ordered(type(catalog))
    return catalog


class _OrderedCommits(Catalog):
    """Commits of a host whose clock may be late."""

    def commit_table(
        self, table: Table, requirements: Any, updates: tuple[TableUpdate, ...]
    ) -> Any:
        last = table.metadata.last_updated_ms
        later = tuple(_later_than(last, update) for update in updates)
        return super().commit_table(table, requirements, later)  # type: ignore[safe-super]

    def _update_and_stage_table(
        self, current_table: Table | None, *given: Any, **named: Any
    ) -> StagedTable:
        """Return what a catalog commits, no older than before, also without a snapshot."""
        staged: StagedTable = super()._update_and_stage_table(  # type: ignore[misc]
            current_table, *given, **named
        )
        last = current_table.metadata.last_updated_ms if current_table else 0
        if staged.metadata.last_updated_ms < last:
            staged.metadata = staged.metadata.model_copy(update={"last_updated_ms": last})
        return staged


@cache
def _ordered(kind: type[Catalog]) -> type[Catalog]:
    return type(f"Ordered{kind.__name__}", (_OrderedCommits, kind), {})


def _later_than(last: int, update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms > last:
        return update
    snapshot = update.snapshot.model_copy(update={"timestamp_ms": last + 1})
    return update.model_copy(update={"snapshot": snapshot})
