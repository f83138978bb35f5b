"""Places of tables: where the rows of targets lie, to be compared with what the log recorded."""

from logdriven_dagster.config.locations import as_path, location_of, same_place
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError


def place_of_table(project: Project, table: TableConfig) -> str | None:
    """Where the rows of a table lie: a folder, a table of the catalog, or what its target names.

    None where this environment cannot say it, as without a variable that the path needs.
    """
    target = table.output
    try:
        if target.in_catalog:
            return f"{target.place(table.table)} in {_warehouse(project)}"
        if "path" not in target.folders:
            return target.place(table.table)
        if path := target.folders["path"]:
            return as_path(same_place(location_of(project.path(path))))
        return "/".join([_warehouse(project), *table.table.split(".")])
    except UsageError:
        return None


def place_of_project(project: Project) -> str | None:
    """The warehouse; None where no table is stored in it, or this environment cannot say it."""
    outputs = [table.output for table in project.tables.values()]
    try:
        if any(t.in_catalog or not t.folders.get("path", "elsewhere") for t in outputs):
            return _warehouse(project)
    except UsageError:
        pass
    return None


def _warehouse(project: Project) -> str:
    return as_path(same_place(project.warehouse))
