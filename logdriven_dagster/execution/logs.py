"""The logs of tables for planning, in which attempts of dead runners count as failed."""

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy.engine import Connection

from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.planning.dependencies import list_with_upstreams
from logdriven_dagster.runlog.history import logs as history


def read_logs(conn: Connection, project: Project, names: Collection[str]) -> dict[str, TableLog]:
    """Read the logs of tables and their upstreams; attempts of dead runners count as failed."""
    wanted = {
        upstream.table: upstream
        for name in names
        for upstream in list_with_upstreams(project.tables[name], project.tables)
    }
    logs = history.read_table_logs(conn, list(wanted.values()))
    return {
        name: replace(log, open=tuple(map(_as_failed_if_dead, log.open))) if log.open else log
        for name, log in logs.items()
    }


def _as_failed_if_dead(item: OpenWindow) -> OpenWindow:
    if item.status is not Status.RUNNING:
        return item
    if item.expired:
        return replace(item, status=Status.FAILURE, error="its lease ran out", presumed=True)
    if item.owner and is_dead(item.owner):
        return replace(item, status=Status.FAILURE, error="its runner died", presumed=True)
    return item
