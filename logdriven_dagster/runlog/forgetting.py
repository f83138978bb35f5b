"""Rows of tables that a project no longer defines: counts them and removes them.

The registry keeps the versions of a removed table, so that it can be rolled back. Files stay
registered: a table of the same name takes all of them again, since none is queued for it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Column, ColumnElement, Delete, Table, delete, func, or_, select
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import AlreadyRunningError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.definitions import Kind, Operation, build_code
from logdriven_dagster.runlog.leases import is_expired
from logdriven_dagster.runlog.schema import attempts, observations
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.schema.definitions import table_definition_log, table_rename
from logdriven_dagster.runlog.sql.projects import match_project

TABLE_NAMES: Mapping[Table, tuple[str, ...]] = MappingProxyType(
    {
        attempts.job_log: ("job_name",),
        attempts.job_log_archive: ("job_name",),
        attempts.log_range: ("job_name",),
        attempts.refresh_bookmark: ("job_name", "upstream"),
        attempts.restatement: ("job_name",),
        attempts.table_home: ("name",),
        attempts.batch_queue: ("job_name", "source_job_name"),
        attempts.batch_archive: ("job_name", "source_job_name"),
        observations.source_audit: ("job_name",),
        observations.source_file: ("job_name",),
        observations.source_change: ("job_name",),
        observations.quality_check_log: ("job_name",),
        observations.process_log: ("job_name",),
        observations.lineage_query: ("job_name",),
        observations.notification_log: ("subject",),
        table_rename: ("name",),
    }
)
"""The columns of the run log that hold names of tables, outside of the registry."""

_OF_ATTEMPTS = (
    attempts.step_log,
    attempts.step_log_archive,
    observations.lineage_run,
    observations.process_log,
)
"""Tables whose rows belong to attempts, by `job_id`."""


def list_removed_tables(conn: Connection, project: str) -> list[str]:
    """Return the names of the tables whose removal is registered; some may be defined again."""
    log = table_definition_log.c
    query = select(log.name).where(
        log.project_code == build_code(project, Kind.PROJECT, project),
        log.operation == Operation.DELETE.value,
    )
    return sorted(conn.execute(query.distinct()).scalars())


def count_attempts(conn: Connection, table: str) -> int:
    """Count the attempts at windows of a table, including archived ones."""
    return sum(
        conn.execute(
            select(func.count()).where(match_project(log), log.c.job_name == table)
        ).scalar_one()
        for log in (job_log, job_log_archive)
    )


def count_rows(conn: Connection, table: str) -> dict[str, int]:
    """Count the rows that `forget` would remove, by tables of the run log that have any."""
    counts = {
        rows.name: conn.execute(select(func.count()).select_from(rows).where(which)).scalar_one()
        for rows, which in _rows_of(table)
    }
    return {name: count for name, count in counts.items() if count}


def forget(conn: Connection, table: str) -> dict[str, int]:
    """Remove every row of a table, and return the numbers as `count_rows` does.

    Raises AlreadyRunningError, and removes nothing, while a runner holds one of its windows.
    """
    refuse_held(conn, table)
    removed = {rows.name: conn.execute(each).rowcount for rows, each in _deletes(table)}
    return {name: count for name, count in removed.items() if count}


def refuse_held(conn: Connection, table: str) -> None:
    """Raise AlreadyRunningError if a runner holds a window of a table."""
    held = select(job_log.c.job_id, job_log.c.owner).where(
        match_project(job_log),
        job_log.c.job_name == table,
        job_log.c.status == Status.RUNNING.value,
        is_expired(job_log) == 0,
    )
    if (row := conn.execute(held.limit(1)).first()) is not None:
        by = f"job {row.job_id} of {row.owner}"
        raise AlreadyRunningError(f"{table} is running in {by}; stop that runner first")


def _deletes(table: str) -> list[tuple[Table, Delete]]:
    return [(rows, delete(rows).where(which)) for rows, which in _rows_of(table)]


def _rows_of(table: str) -> list[tuple[Table, ColumnElement[bool]]]:
    """Return conditions for the rows of a table, those that refer to others first."""
    job_ids = [
        select(log.c.job_id).where(match_project(log), log.c.job_name == table)
        for log in (job_log, job_log_archive)
    ]
    of_attempts = [
        (rows, or_(*(rows.c.job_id.in_(each) for each in job_ids))) for rows in _OF_ATTEMPTS
    ]
    queries = observations.lineage_query
    relation = observations.lineage_relation
    mine = select(queries.c.query_id).where(match_project(queries), queries.c.job_name == table)
    of_queries = (relation, relation.c.query_id.in_(mine))
    named = [(rows, _names(rows, table)) for rows in TABLE_NAMES if rows not in _OF_ATTEMPTS]
    return [*of_attempts, of_queries, *named]


def _names(rows: Table, table: str) -> ColumnElement[bool]:
    columns: list[Column[str]] = [rows.c[name] for name in TABLE_NAMES[rows]]
    which = match_project(rows) & or_(*(column == table for column in columns))
    return which & (rows.c.subject_type != "job") if "subject_type" in rows.c else which
