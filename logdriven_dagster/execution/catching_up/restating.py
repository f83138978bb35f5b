"""Requests of operators to restate windows: to run those again that older versions made."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.logs import read_logs
from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.plan import Plan
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions.rows import Author
from logdriven_dagster.runlog.history import restating


@dataclass(frozen=True, slots=True)
class RestatedTable:
    """A table of which windows run again because of a request."""

    table: str
    windows: int


def list_with_downstream(project: Project, table: str) -> tuple[str, ...]:
    """Return a table and the tables that read it, also through others."""
    return select_tables(project, (f"{table}+",))


def restate(
    project: Project,
    run_log: RunLog,
    tables: Sequence[str],
    span: TimeWindow | None,
    author: Author,
) -> list[RestatedTable]:
    """Record that the windows by older versions run again, in a range or all of them.

    They are pending from now on. `tables` begins with the table that the operator named. Of the
    others, one with `on_upstream_refresh: ignore` reruns all windows, since it does not follow its
    upstreams by itself. Raises UsageError if the first table has no such window, if it has numbered
    windows and a range is given, or if the reason is empty; nothing is recorded then.
    """
    first = project.table(tables[0])
    if not author.reason.strip():
        raise UsageError("the reason must not be empty; give a reason")
    if span is not None and first.is_sliced:
        fix = "leave out --from and --to to restate all windows by older versions"
        raise UsageError(f"{first.table} has numbered windows, not time windows; {fix}")

    def write(conn: Connection) -> list[RestatedTable]:
        for name in tables:
            follows = name == first.table or project.table(name).on_upstream_refresh == "rerun"
            version = (project.version(Kind.TABLE, name) or 1) if follows else None
            restating.request(conn, name, span, version, author)
        logs = read_logs(conn, project, tables)
        restating.close(conn, [each for name in tables for each in logs[name].restated])
        found = [RestatedTable(name, _count_requested(logs[name])) for name in tables]
        if not found[0].windows:
            within = f" in {span}" if span else ""
            fix = "`logdriven refresh` runs windows of any version again"
            problem = f"{first.table} has no finished window by an older version{within}"
            raise UsageError(f"{problem}; {fix}")
        return [each for each in found if each.windows]

    return run_log.write(write)


def _count_requested(log: TableLog) -> int:
    return sum(old.reason is not None for old in log.old)


def close_finished_requests(run_log: RunLog, plan: Plan) -> None:
    """Record which requests have no window left; usually there is none, and nothing is written."""
    done = [each for table in plan.tables.values() for each in table.log.restated]
    if done:
        run_log.write(lambda conn: restating.close(conn, done))
