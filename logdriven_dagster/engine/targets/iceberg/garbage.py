"""Files in the folder of an Iceberg table that no snapshot names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import normalize_location
from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.storage.locations import Folder, folder_at, folder_of
from logdriven_dagster.engine.storage.staging import data_files
from logdriven_dagster.engine.targets.iceberg.catalog import is_ours, load_existing, open_catalog
from logdriven_dagster.engine.targets.iceberg.table import choose_table_folder, table_folder

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def leftovers(search: Search, table: str, target: IcebergTarget) -> Iterator[Garbage]:
    """Yield the garbage of one target of type iceberg."""
    name, catalog = target.name or table, open_catalog(search.project)
    folder = find_table_folder(search.project, name, load_existing(catalog, identifier(name)))
    idle, known = (
        search.idle(folder.get_subfolder("data")),
        _files(folder.get_subfolder("metadata")),
    )
    files = {staged: data_files(Folder(folder.storage, staged)) for staged in idle}
    found = load_existing(catalog, identifier(name))
    named = Named(set(), set(map(normalize_location, known)))
    if found:
        named = list_named_files(found, found.metadata.snapshots)
    needed = _folders(named.data)
    for staged in idle:
        for location in files[staged] if normalize_location(staged) in needed else [staged]:
            if normalize_location(location) not in named.data:
                yield from search.old(table, "rows", location)
    for location in known:
        if normalize_location(location) not in named.metadata:
            yield from search.old(table, "metadata", location)


def find_table_folder(project: Project, name: str, table: "Table | None") -> Folder:
    """Return the folder with the files of a table, or of a table still to be created."""
    if table is None:
        return choose_table_folder(project, name)
    if is_ours(table):  # a renamed table keeps its folder
        return folder_at(table.location(), project.storage)
    return table_folder(project, name)


def _folders(locations: Iterable[str]) -> set[str]:
    """Return all folders that contain one of these files, at any depth."""
    found: set[str] = set()
    for location in locations:
        folder = folder_of(location)
        while folder and folder not in found:
            found.add(folder)
            folder = folder_of(folder)
    return found


def _files(folder: Folder, ending: str = "") -> list[str]:
    return [f"{folder.location}/{name}" for name in folder.names() if name.endswith(ending)]


@dataclass(frozen=True, slots=True)
class Named:
    """The data files and metadata files that a table names."""

    data: set[str]
    metadata: set[str]

    @property
    def all(self) -> set[str]:
        return self.data | self.metadata


def list_named_files(table: "Table", snapshots: "Sequence[Snapshot]") -> Named:
    """Return the data files and metadata files that these snapshots of the table name."""
    locations = [table.metadata_location]
    locations += [entry.metadata_file for entry in table.metadata.metadata_log]
    statistics = [*table.metadata.statistics, *table.metadata.partition_statistics]
    locations += [file.statistics_path for file in statistics]
    manifests: dict[str, Any] = {}
    for snapshot in snapshots:
        locations.append(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    files = {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
    return Named(
        set(map(normalize_location, files)), set(map(normalize_location, [*locations, *manifests]))
    )
