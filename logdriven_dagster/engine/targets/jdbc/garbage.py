"""Unused staging tables of JDBC targets, and the targets of removed tables."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database, is_missing_file
from logdriven_dagster.engine.databases.tables import reflected, split_name
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.jdbc.commit_markers import markers_in
from logdriven_dagster.engine.targets.jdbc.first_contact import has_rows_of_others
from logdriven_dagster.engine.targets.jdbc.table import staging_prefix
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

_STAGING_TABLE = re.compile(r"(.+)(__staging_(\d+)_[0-9a-f]{6})")


def leftovers(search: Search, table: str, target: JdbcTarget) -> Iterator[Garbage]:
    """Yield the staging tables of one target that are not in use."""
    with database(search.project.connection(target.connection)) as engine:
        for job_id, found in _staging_tables(engine, target):
            if not search.in_use(job_id, found):
                drop = _dropper(search.project, target, found)
                yield Garbage(table, "rows", found, None, None, drop)


def list_table_parts(project: Project, table: str, target: JdbcTarget) -> Iterator[Garbage]:
    """Yield the target of a removed table with its commit markers, and its staging tables.

    Raises UsageError if the target has rows that no window wrote.
    """
    connection = project.connection(target.connection)
    if is_missing_file(connection.url):
        return
    schema, name = split_name(target.table)
    with database(connection) as engine:
        with engine.connect() as conn:
            found = reflected(name, schema, conn)
            if found is not None and has_rows_of_others(conn, found):
                fix = "drop it with the tools of the database"
                raise UsageError(f"{target.table} has rows that no window wrote; {fix}")
        staging = [each for _, each in _staging_tables(engine, target)]
    for each in staging:
        yield Garbage(table, "rows", each, None, None, _dropper(project, target, each))
    if found is not None:
        drop = _dropper(project, target, name, with_markers=True)
        yield Garbage(table, "table", f"{target.connection}:{target.table}", None, None, drop)


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
        from sqlalchemy import MetaData, Table, delete, inspect

        schema, _ = split_name(target.table)
        with database(project.connection(target.connection)) as engine:
            markers = markers_in(schema)
            if with_markers and inspect(engine).has_table(markers.name, schema):
                # Before the table: a later one of this name must not find them.
                with engine.begin() as conn:
                    conn.execute(delete(markers).where(markers.c.target_table == target.table))
            Table(name, MetaData(), schema=schema).drop(engine, checkfirst=True)

    return drop
