"""Catalogs of every PyIceberg type, with commit timestamps that never decrease.

Clocks of hosts differ and are set back. Iceberg for Java, and every engine built on it, refuses a
table whose history goes back by more than a minute ("Expected sorted snapshot log entries").
PyIceberg stamps each commit with its own host's clock.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

_OUR_REST = "logdriven_dagster.engine.targets.iceberg.rest.PatientRestCatalog"


def load_ordered(name: str, properties: Mapping[str, str]) -> Catalog:
    """Load a PyIceberg catalog whose commits each get a later timestamp than the one before."""
    given = dict(properties)
    if given.get("type") == "rest":
        given = {**given, "py-catalog-impl": _OUR_REST}
        del given["type"]
    catalog = load_catalog(name, **given)
    catalog.__class__ = _make_ordered(type(catalog))
    return catalog


class _OrderedCommits(Catalog):
    """A mixin that corrects the commit timestamps of a host whose clock is late."""

    def commit_table(
        self, table: Table, requirements: Any, updates: tuple[TableUpdate, ...]
    ) -> Any:
        last = table.metadata.last_updated_ms
        later = tuple(_later_than(last, update) for update in updates)
        return super().commit_table(table, requirements, later)  # type: ignore[safe-super]

    def _update_and_stage_table(
        self, current_table: Table | None, *given: Any, **named: Any
    ) -> StagedTable:
        """Stage a commit with a timestamp no older than the last one, also without a snapshot."""
        staged: StagedTable = super()._update_and_stage_table(  # type: ignore[misc]
            current_table, *given, **named
        )
        last = current_table.metadata.last_updated_ms if current_table else 0
        if staged.metadata.last_updated_ms < last:
            staged.metadata = staged.metadata.model_copy(update={"last_updated_ms": last})
        return staged


@cache
def _make_ordered(kind: type[Catalog]) -> type[Catalog]:
    return type(f"Ordered{kind.__name__}", (_OrderedCommits, kind), {})


def _later_than(last: int, update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms > last:
        return update
    snapshot = update.snapshot.model_copy(update={"timestamp_ms": last + 1})
    return update.model_copy(update={"snapshot": snapshot})
