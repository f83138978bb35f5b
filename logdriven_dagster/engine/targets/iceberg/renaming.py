"""Renaming and removing Iceberg tables in their catalog."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import as_path, normalize_location
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.creation import create
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.storage.garbage import Garbage, list_folder_parts
from logdriven_dagster.engine.storage.locations import storage_of
from logdriven_dagster.engine.targets.iceberg.catalog import (
    is_listed,
    is_ours,
    load_existing,
    open_catalog,
)
from logdriven_dagster.engine.targets.iceberg.garbage import find_table_folder
from logdriven_dagster.engine.targets.iceberg.table import TAKEN, choose_table_folder
from logdriven_dagster.errors import TerminalStepError, UsageError

if TYPE_CHECKING:
    from pyiceberg.table import Table

_PARTS = {"metadata": "metadata", "data": "rows", TAKEN: "metadata"}


def find_existing_table(project: Project, name: str) -> "Table | None":
    """Return a table of the project's catalog, or None; the catalog is not created."""
    known = identifier(name)
    if not is_listed(project, known):
        return None  # opening an SQL catalog would create it
    return load_existing(open_catalog(project), known)


def find_rename_obstacle(project: Project, old: str, new: str) -> str | None:
    """Return the reason why a table cannot be renamed, with the fix; None if it can."""
    # The new name first: another process may rename the table now.
    if find_existing_table(project, new) is None or find_existing_table(project, old) is None:
        return None
    fix = "drop the one that is not needed, or write `name` into the target"
    return f"the Iceberg catalog has both {old} and {new}; {fix}"


def rename_table(project: Project, old: str, new: str) -> None:
    """Rename a table in its catalog; do nothing if that was done before, or if there is none.

    Its files stay in their folder, which is marked before: a new table of the earlier name must not
    have the same one.
    """
    from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

    if (found := find_existing_table(project, old)) is None:
        return
    catalog, folder = open_catalog(project), choose_table_folder(project, old)
    if normalize_location(found.location()) == normalize_location(folder.location):
        folder.storage.put(f"{folder.location}/{TAKEN}", f"{new}\n".encode())
    for length in range(1, len(identifier(new))):
        create(partial(catalog.create_namespace_if_not_exists, identifier(new)[:length]))
    try:
        catalog.rename_table(identifier(old), identifier(new))
    except (NoSuchTableError, TableAlreadyExistsError):
        if find_existing_table(project, old) is not None:  # else another process was faster
            raise TerminalStepError(str(find_rename_obstacle(project, old, new))) from None


def list_table_parts(project: Project, table: str, name: str) -> Iterator[Garbage]:
    """Yield the table in its catalog, and then its files.

    Raises UsageError for a table that another program created, or whose files lie elsewhere.
    """
    found = find_existing_table(project, name)
    if found is not None and not is_ours(found):
        raise UsageError(f"another program created the Iceberg table {name}; drop it there")
    folder = find_table_folder(project, name, found)
    if not storage_of(folder.location, project.storage).is_below(
        folder.location, project.warehouse
    ):
        place, warehouse = as_path(folder.location), as_path(project.warehouse)
        raise UsageError(
            f"the files of {name} are in {place}, outside of the warehouse {warehouse}"
        )
    if found is not None:
        drop: Any = partial(open_catalog(project).drop_table, identifier(name))
        yield Garbage(table, "table", f"iceberg {name}", None, None, drop)
    yield from list_folder_parts(folder, table, _PARTS)
