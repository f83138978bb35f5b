"""Upkeep of Delta tables: removal of long-replaced files and of old log commits."""

from datetime import timedelta
from math import ceil

from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.engine.targets.upkeep import Expiring, Upkeep, remove_files, sizes_of
from logdriven_dagster.model.upkeep import Upkept
from logdriven_dagster.plugins.delta.format.features import refuse_unwritable
from logdriven_dagster.plugins.delta.format.tables import Snapshot
from logdriven_dagster.plugins.delta.target.compaction import DeltaNow
from logdriven_dagster.plugins.delta.target.table import open_target


class DeltaUpkeep(Upkeep):
    """Upkeep of a Delta table.

    Publications and fences are transactions, which the log keeps regardless of removed versions. So
    expiry does not need the list of unfinished attempts.
    """

    @property
    def name(self) -> str:
        return self.table.table

    @property
    def data(self) -> Folder:
        return target_folder(self.project, self.name, self.target).get_subfolder("data")

    def load(self) -> DeltaNow | None:
        snapshot = self._now()
        if snapshot is None:
            return None
        return DeltaNow(snapshot, self.table, self.target, self.data.storage)

    def expire(self, rule: Expiring, *, really: bool) -> Upkept:
        """Remove files that were replaced longer ago than the given age.

        Commits older than `delta.logRetentionDuration` are replaced by a checkpoint.
        """
        snapshot = self._now()
        assert snapshot is not None
        hours = max(0, ceil(rule.older_than / timedelta(hours=1)))
        sizes = sizes_of(self.project, snapshot.list_removed_files(hours, keep=rule.options.keep))
        if really:
            remove_files(self.project, sizes, snapshot.list_named_files() - set(sizes))
            snapshot.table.create_checkpoint()
            snapshot.table.cleanup_metadata()
        verb = "removed" if really else "would be removed"
        text = f"{len(sizes)} files of older versions {verb}" if sizes else "no old files"
        return Upkept(text, 0, len(sizes), sum(sizes.values()), self.name)

    def _now(self) -> Snapshot | None:
        snapshot = open_target(self.project, self.name, self.target)
        if snapshot is not None:
            refuse_unwritable(snapshot)
        return snapshot
