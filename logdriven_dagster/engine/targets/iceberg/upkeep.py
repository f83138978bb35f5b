"""Upkeep of Iceberg tables: removal of old snapshots and of the files that only they name."""

from collections.abc import Collection
from datetime import datetime, timezone
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.iceberg.added_files import data_location, refuse_unwritable
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.storage.locations import Folder, folder_at
from logdriven_dagster.engine.targets.iceberg.catalog import (
    load_existing,
    open_catalog,
    remove_snapshots,
)
from logdriven_dagster.engine.targets.iceberg.commits import tries
from logdriven_dagster.engine.targets.iceberg.compaction import IcebergNow
from logdriven_dagster.engine.targets.iceberg.garbage import list_named_files
from logdriven_dagster.engine.targets.iceberg.history import indispensable, of_windows
from logdriven_dagster.engine.targets.upkeep import Expiring, Upkeep, remove_files, sizes_of
from logdriven_dagster.model.upkeep import Upkept

if TYPE_CHECKING:
    from pyiceberg.table import Table


class IcebergUpkeep(Upkeep):
    """Upkeep of an Iceberg table.

    Snapshots of windows whose attempts did not finish stay: a runner that takes such an attempt
    over finds its publications there.
    """

    @property
    def name(self) -> str:
        return self.target.name or self.table.table

    @property
    def data(self) -> Folder:
        table = self._now()
        assert table is not None
        refuse_unwritable(table)
        return folder_at(data_location(table), self.project.storage)

    def load(self) -> IcebergNow | None:
        table = self._now()
        return None if table is None else IcebergNow(table, self.table, self.target)

    def expire(self, rule: Expiring, *, really: bool) -> Upkept:
        """Remove snapshots, and files that no remaining snapshot names."""
        first = self._now()
        assert first is not None
        for table in chain([first], tries(self._now)):
            old = _find_expired(table, rule)
            sizes = sizes_of(self.project, _only_of(table, old))
            verb = "removed" if really else "would be removed"
            text = f"{len(old)} of {len(table.metadata.snapshots)} snapshots {verb}"
            text = text if old else "no old snapshots"
            done = Upkept(text, 0, len(sizes), sum(sizes.values()), self.table.table)
            if not really:
                return done
            if not old or remove_snapshots(table, old):
                remove_files(
                    self.project, sizes, list_named_files(table, table.metadata.snapshots).all
                )
                return done
        text = "it is being written: nothing is removed this time"
        return Upkept(text, table=self.table.table)

    @cached_property
    def _catalog(self) -> Any:
        return open_catalog(self.project)

    def _now(self) -> "Table | None":
        return load_existing(self._catalog, identifier(self.name))


def _find_expired(table: "Table", rule: Expiring) -> list[int]:
    """Return the snapshots that may be removed, oldest first."""
    before = (datetime.now(timezone.utc) - rule.older_than).timestamp() * 1000
    snapshots = table.metadata.snapshots
    replaced = [old for old, new in pairwise(snapshots) if new.timestamp_ms < before]
    kept = {snapshot.snapshot_id for snapshot in snapshots[-rule.options.keep :]}
    kept |= indispensable(table)
    if replaced:
        kept |= of_windows(table, rule.unfinished())
    return [old.snapshot_id for old in replaced if old.snapshot_id not in kept]


def _only_of(table: "Table", expired: Collection[int]) -> set[str]:
    """Return the files that no other snapshot names."""
    if not expired:
        return set()
    gone = set(expired)
    kept = [item for item in table.metadata.snapshots if item.snapshot_id not in gone]
    return list_named_files(table, table.metadata.snapshots).all - list_named_files(table, kept).all
