"""Transactions of Iceberg tables whose cost does not grow with the number of commits."""

from collections.abc import Mapping

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import TableUpdate
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.utils.properties import property_as_bool, property_as_int


class CachedTransaction(Transaction):
    """A PyIceberg transaction that remembers its metadata until the next update.

    PyIceberg applies all updates and copies the result at each use of the metadata, about 20 times
    per commit. A copy includes all snapshots: with 100 of them, a commit took three times as long.
    """

    _known: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None
    """The table's metadata and the updates, and the metadata with these updates."""

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates = self._table.metadata, self._updates
        known = self._known
        if known is None or known[0] is not base or known[1] is not updates:
            known = self._known = base, updates, super().table_metadata
        return known[2]

    def replace_files(self, properties: Mapping[str, str]) -> "MergingOverwrite":
        """Return an update that removes and adds files of the table, with snapshot properties."""
        return MergingOverwrite(
            operation=Operation.OVERWRITE,
            transaction=self,
            io=self._table.io,
            snapshot_properties=dict(properties),
        )


class MergingOverwrite(_OverwriteFiles):
    """An overwrite that drops manifests without live files and merges small ones, as appends do.

    Each overwrite of PyIceberg adds a manifest of the removed files, and keeps all earlier ones:
    every later scan and commit would open them.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        found = super()._existing_manifests()
        return [each for each in found if each.has_added_files() or each.has_existing_files()]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        properties, known = self._transaction.table_metadata.properties, TableProperties
        size = (known.MANIFEST_TARGET_SIZE_BYTES, known.MANIFEST_TARGET_SIZE_BYTES_DEFAULT)
        number = (known.MANIFEST_MIN_MERGE_COUNT, known.MANIFEST_MIN_MERGE_COUNT_DEFAULT)
        enabled = (known.MANIFEST_MERGE_ENABLED, known.MANIFEST_MERGE_ENABLED_DEFAULT)
        merging = _ManifestMergeManager(
            property_as_int(properties, *size) or known.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
            property_as_int(properties, *number) or known.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
            merge_enabled=property_as_bool(properties, *enabled),
            snapshot_producer=self,
        )
        data = [each for each in manifests if each.content == ManifestContent.DATA]
        deletes = [each for each in manifests if each.content == ManifestContent.DELETES]
        return merging.merge_manifests(data) + deletes
