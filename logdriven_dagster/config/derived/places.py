"""Storage places of tables, compared with those that the run log recorded."""

from logdriven_dagster.config.locations import as_path, normalize_location, resolve_location
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError


def place_of_table(project: Project, table: TableConfig) -> str | None:
    """Return the place of a table's rows, as `place_of_target` does."""
    return place_of_target(project, table.table, table.output)


def place_of_target(project: Project, table: str, target: Target) -> str | None:
    """Return the place of a target's rows: a folder, a catalog table, or the target's own place.

    Returns None if it cannot be resolved here, as without a variable that the path needs.
    """
    try:
        if target.in_catalog:
            return f"{target.place(table)} in {_get_warehouse(project)}"
        if "path" not in target.folders:
            return target.place(table)
        if path := target.folders["path"]:
            return as_path(normalize_location(resolve_location(project.path(path))))
        return "/".join([_get_warehouse(project), *table.split(".")])
    except UsageError:
        return None


def place_of_project(project: Project) -> str | None:
    """Return the warehouse, or None if no table is stored in it or it cannot be resolved here."""
    outputs = [table.output for table in project.tables.values()]
    try:
        if any(t.in_catalog or not t.folders.get("path", "elsewhere") for t in outputs):
            return _get_warehouse(project)
    except UsageError:
        pass
    return None


def _get_warehouse(project: Project) -> str:
    return as_path(normalize_location(project.warehouse))
