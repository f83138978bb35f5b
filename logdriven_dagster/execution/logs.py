"""The logs of tables for planning, in which attempts of dead runners count as failed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.dependencies import list_with_upstreams
from logdriven_dagster.runlog.definitions.effects import read_effect_versions
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.history import restating
from logdriven_dagster.runlog.observed import source_changes


def read_logs(conn: Connection, project: Project, names: Collection[str]) -> dict[str, TableLog]:
    """Read the logs of tables and their upstreams; attempts of dead runners count as failed."""
    wanted = {
        upstream.table: upstream
        for name in names
        for upstream in list_with_upstreams(project.tables[name], project.tables)
    }
    logs = history.read_table_logs(conn, list(wanted.values()))
    logs |= read_restated(conn, project, wanted.values(), logs)
    logs |= read_changed(conn, wanted.values(), logs)
    return {
        name: replace(log, open=tuple(map(_as_failed_if_dead, log.open))) if log.open else log
        for name, log in logs.items()
    }


def read_restated(
    conn: Connection,
    project: Project,
    tables: Collection[TableConfig],
    logs: Mapping[str, TableLog],
    span: TimeWindow | None = None,
) -> dict[str, TableLog]:
    """Return the logs of those of some tables of which windows may be restated, with them.

    `logs` holds the logs of all of them. Contents of the registry are not read, only numbers of
    versions, and only of tables that restate windows and have several. `span` limits the windows
    to those that begin in a range; no request counts as done then.
    """
    requests = restating.read_restatements(conn, [table.table for table in tables])
    asked = [
        table
        for table in tables
        if table.table in requests
        or (table.on_change.restates and (project.version(Kind.TABLE, table.table) or 1) > 1)
    ]
    codes = {build_code(project.name, Kind.TABLE, table.table): table.table for table in asked}
    effects = {codes[code]: of for code, of in read_effect_versions(conn, codes).items()}
    found = {}
    for table in asked:
        name, log = table.table, logs[table.table]
        older = [
            version
            for version, of in effects.get(name, {}).items()
            if of.effect_version != project.effect_version(name)
        ]
        old, done = restating.find_restated(conn, table, older, requests.get(name, ()), span)
        # The refresh of a window may fail, which makes the window old again.
        running = any(item.status is Status.RUNNING for item in log.open)
        is_partial = running or span is not None
        found[name] = replace(log, old=tuple(old), restated=() if is_partial else tuple(done))
    return found


def read_changed(
    conn: Connection, tables: Iterable[TableConfig], logs: Mapping[str, TableLog]
) -> dict[str, TableLog]:
    """Return the logs of those of some tables with recorded changes of source files, with them."""
    found = source_changes.read_changed_windows(conn, list(tables))
    return {
        name: replace(logs[name], changed=each.windows, settled=each.settled)
        for name, each in found.items()
    }


def _as_failed_if_dead(item: OpenWindow) -> OpenWindow:
    if item.status is not Status.RUNNING:
        return item
    if item.expired:
        return replace(item, status=Status.FAILURE, error="its lease ran out", presumed=True)
    if item.owner and is_dead(item.owner):
        return replace(item, status=Status.FAILURE, error="its runner died", presumed=True)
    return item
