"""Finished windows whose source files changed after they ran, as the asset pages show them."""

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.definitions.homes import look_at_run_log
from logdriven_dagster.execution.logs import read_changed
from logdriven_dagster.execution.source_files.changes import (
    OutdatedWindows,
    detect,
    list_outdated_windows,
)
from logdriven_dagster.model.logs import TableLog


def find_outdated_windows_at_load(project: Project) -> dict[str, OutdatedWindows]:
    """Return the outdated windows of a project whose run log may not exist or be reachable."""
    tables = [table for table in project.tables.values() if _reads_files_by_time(table)]
    try:
        run_log = look_at_run_log(project) if tables else None
        if run_log is None:
            return {}
        logs = {table.table: TableLog() for table in tables}
        logs |= run_log.ask(lambda conn: read_changed(conn, tables, logs))
        logs |= detect(run_log, project, list(logs), logs)
    except RunLogError:
        return {}
    return list_outdated_windows((table, logs[table.table]) for table in tables)


def _reads_files_by_time(table: TableConfig) -> bool:
    sources = (step.source for step in table.steps)
    return any(isinstance(each, FilesSource) and each.window_column for each in sources)
