"""Finished windows whose source files changed after they ran, as the asset pages show them."""

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.definitions.homes import look_at_run_log
from logdriven_dagster.execution.logs import read_changed
from logdriven_dagster.execution.source_files.changes import (
    OutdatedWindows,
    detect,
    list_observed_tables,
    list_outdated_windows,
)
from logdriven_dagster.model.logs import TableLog


def find_outdated_windows_at_load(project: Project) -> dict[str, OutdatedWindows]:
    """Return the outdated windows of a project whose run log may not exist or be reachable."""
    tables = list_observed_tables(project, project.tables)
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
