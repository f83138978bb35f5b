"""Files that dead attempts left in a Delta table's folder and that its log does not name."""

from collections.abc import Iterator

from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.storage.locations import Folder, folder_of
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.plugins.delta.models import DeltaTarget
from logdriven_dagster.plugins.delta.target.table import open_target


def leftovers(search: Search, table: str, target: DeltaTarget) -> Iterator[Garbage]:
    """Yield the garbage of one target of type delta.

    Files that were removed from the table do not count: readers of an older version may need them.
    """
    folder = target_folder(search.project, table, target)
    idle = search.idle(folder.get_subfolder("data"))
    files = {staged: _parquet_files(Folder(folder.storage, staged)) for staged in idle}
    found = open_target(search.project, table, target) if idle else None
    named = found.list_named_files() if found else set()
    needed = {folder_of(location) for location in named}
    for staged in idle:
        for location in files[staged] if staged in needed else [staged]:
            if location not in named:
                yield from search.old(table, "rows", location)


def _parquet_files(folder: Folder) -> list[str]:
    return [f"{folder.location}/{name}" for name in folder.names() if name.endswith(".parquet")]
