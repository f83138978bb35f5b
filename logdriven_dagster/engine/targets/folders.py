"""Folders of targets whose files lie in a folder of their own."""

from logdriven_dagster.config.locations import resolve_location, validate_location
from logdriven_dagster.config.models.types.targets import FolderTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.storage.locations import Folder, folder_at
from logdriven_dagster.errors import TerminalStepError


def target_folder(project: Project, table: str, target: FolderTarget) -> Folder:
    """Return the folder of a target; TerminalStepError for an unknown file system."""
    if not target.path:
        return folder_at("/".join([project.warehouse, *table.split(".")]), project.storage)
    try:
        place = resolve_location(validate_location(project.path(target.path)))
    except ValueError as error:
        raise TerminalStepError(f"target.path: {error}") from None
    return folder_at(place, project.storage)
