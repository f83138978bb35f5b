"""Finished windows that ran before any window of a new upstream had run."""

from collections.abc import Iterable
from datetime import datetime

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.definitions.homes import look_at_run_log
from logdriven_dagster.execution.logs import read_logs
from logdriven_dagster.planning.plan import plan
from logdriven_dagster.planning.unread import MadeWithout, iter_made_without
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import find_published_tables


def find_made_without(
    run_log: RunLog, project: Project, names: Iterable[str], now: datetime
) -> list[MadeWithout]:
    """Find such windows of the given tables, and those whose upstream is given; reads only.

    The log is queried only for tables of which an upstream has never run.
    """
    wanted = set(names)
    edges = [
        (reader, upstream)
        for upstream, readers in project.rerun_behind.items()
        for reader in readers
        if wanted & {reader, upstream}
    ]
    if not edges:
        return []
    known = run_log.ask(
        lambda conn: find_published_tables(conn, {name for edge in edges for name in edge})
    )
    new = [edge for edge in edges if edge[0] in known and edge[1] not in known]
    if not new:
        return []
    selected = [name for name in project.tables if any(name in edge for edge in new)]
    logs = run_log.ask(lambda conn: read_logs(conn, project, selected))
    found = iter_made_without(plan(project.tables, logs, now, selected).tables)
    return [made for made in found if (made.table, made.upstream) in new]


def find_made_without_when_loaded(project: Project) -> dict[str, list[MadeWithout]]:
    """Find such windows, by table, of a project whose run log may not exist or be reachable."""
    try:
        run_log = look_at_run_log(project) if project.rerun_behind else None
        if run_log is None:
            return {}
        now = datetime.now(project.zone)
        found: dict[str, list[MadeWithout]] = {}
        for made in find_made_without(run_log, project, project.tables, now):
            found.setdefault(made.table, []).append(made)
        return found
    except RunLogError:
        return {}
