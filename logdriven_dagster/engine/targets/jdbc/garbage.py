"""Unused staging tables of JDBC targets, and the targets of removed tables."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database, is_missing_file
from logdriven_dagster.engine.databases.tables import reflect_table, split_name
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.jdbc.commit_markers import markers_in
from logdriven_dagster.engine.targets.jdbc.first_contact import has_existing_rows
from logdriven_dagster.engine.targets.jdbc.table import staging_prefix
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_STAGING_TABLE = re.compile(r"(.+)(__staging_(\d+)_[0-9a-f]{6})")


def leftovers(search: Search, table: str, target: JdbcTarget) -> Iterator[Garbage]:
    """Yield the staging tables of one target that are not in use."""
    with database(search.project.connection(target.connection)) as engine:
        for job_id, found in _staging_tables(engine, target):
            if not search.in_use(job_id, found):
                drop = _dropper(search.project, target, found)
                yield Garbage(table, "rows", found, None, None, drop)


def list_table_parts(project: Project, table: str, target: JdbcTarget) -> Iterator[Garbage]:
    """Yield the staging tables of a removed table's target, and the target with commit markers.

    Raises UsageError if no window wrote to the target, or if it has other rows.
    """
    connection = project.connection(target.connection)
    if is_missing_file(connection.url):
        return
    schema, name = split_name(target.table)
    with database(connection) as engine:
        with engine.connect() as conn:
            found = reflect_table(name, schema, conn)
            was_written = _has_markers(conn, target)
            if found is not None and (not was_written or has_existing_rows(conn, found)):
                problem = "has rows that no window wrote" if was_written else "has no commit marker"
                fix = "drop it with the tools of the database"
                raise UsageError(f"{target.table} {problem}; {fix}")
        staging = [each for _, each in _staging_tables(engine, target)]
    for each in staging:
        yield Garbage(table, "rows", each, None, None, _dropper(project, target, each))
    if found is not None or was_written:
        drop = _dropper(project, target, name, with_markers=True)
        yield Garbage(table, "table", f"{target.connection}:{target.table}", None, None, drop)


def _has_markers(conn: "Connection", target: JdbcTarget) -> bool:
    """Return True if a window was ever published to the target."""
    from sqlalchemy import inspect, select

    schema, _ = split_name(target.table)
    markers = markers_in(schema)
    if not inspect(conn).has_table(markers.name, schema):
        return False
    query = select(markers.c.target_table).where(markers.c.target_table == target.table).limit(1)
    return conn.execute(query).first() is not None


def _staging_tables(engine: "Engine", target: JdbcTarget) -> Iterator[tuple[int, str]]:
    """Yield the staging tables of a target, each after the job that wrote it."""
    from sqlalchemy import inspect

    schema, name = split_name(target.table)
    for found in sorted(inspect(engine).get_table_names(schema)):
        match = _STAGING_TABLE.fullmatch(found)
        if match and staging_prefix(name, match[2]) == match[1]:
            yield int(match[3]), found


def _dropper(
    project: Project, target: JdbcTarget, name: str, *, with_markers: bool = False
) -> Callable[[], None]:
    def drop() -> None:
        from sqlalchemy import MetaData, Table, delete

        schema, _ = split_name(target.table)
        with database(project.connection(target.connection)) as engine:
            Table(name, MetaData(), schema=schema).drop(engine, checkfirst=True)
            if with_markers:  # last: they prove that windows wrote the table
                markers = markers_in(schema)
                with engine.begin() as conn:
                    conn.execute(delete(markers).where(markers.c.target_table == target.table))

    return drop
