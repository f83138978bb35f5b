"""Unneeded data folders and pointers of plain file targets."""

from collections.abc import Iterator

from logdriven_dagster.config.models.types.files import FileTarget
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.files.pointers import Pointers
from logdriven_dagster.engine.targets.folders import target_folder


def leftovers(search: Search, table: str, target: FileTarget) -> Iterator[Garbage]:
    """Yield the garbage of one target of plain files: unnamed folders and old pointers."""
    folder = target_folder(search.project, table, target)
    data, pointers = folder.get_subfolder("data"), Pointers(folder, search.project.zone)
    idle = search.idle(data)
    needed = {data.get_subfolder(each).location for each in pointers.folders()}
    for staged in idle:
        if staged not in needed:
            yield from search.old(table, "rows", staged)
    for pointer in pointers.leftovers():
        yield from search.old(table, "pointer", pointer)
