"""Contents of database tables, read through SQLAlchemy."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database, is_missing_file, spark_type
from logdriven_dagster.engine.databases.tables import reflect_table, split_name
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.contents import Contents, Holdings
from logdriven_dagster.engine.targets.first_contact import what_becomes
from logdriven_dagster.engine.targets.jdbc.first_contact import holds_others
from logdriven_dagster.engine.targets.jdbc.garbage import leftovers, list_table_parts
from logdriven_dagster.model.runs import Column

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_MOST_COUNTED = 2_000_000
"""The number of rows that a database counts within about a second."""


class JdbcContents(Contents):
    """Reader of the contents of targets of type jdbc."""

    def holdings(self, project: Project, table: str, target: JdbcTarget) -> Holdings:
        _ = table
        with database(project.connection(target.connection)) as engine, engine.connect() as conn:
            found = _reflect(target, conn)
            if found is None:
                return Holdings()
            rows = _count_rows(conn, found)
        kinds = [(each.name, spark_type(each.type, engine.dialect.name)) for each in found.columns]
        columns = tuple(Column(name, kind) for name, kind in kinds if name != WINDOW_START)
        return Holdings(columns, rows)

    def effects_on_existing_rows(
        self, project: Project, targets: Sequence[tuple[str, JdbcTarget]]
    ) -> Iterator[str | None]:
        connection = project.connection(targets[0][1].connection)
        if is_missing_file(connection.url):
            yield from (None for _ in targets)
            return
        with database(connection) as engine, engine.connect() as conn:
            for _, target in targets:
                found = _reflect(target, conn)
                holds = found is not None and holds_others(conn, found)
                yield what_becomes(target.table, target, target.pre_sql) if holds else None

    def leftovers(self, search: Search, table: str, target: JdbcTarget) -> Iterator[Garbage]:
        return leftovers(search, table, target)

    def list_parts(self, project: Project, table: str, target: JdbcTarget) -> Iterator[Garbage]:
        return list_table_parts(project, table, target)


def _reflect(target: JdbcTarget, conn: "Connection") -> "Table | None":
    schema, name = split_name(target.table)
    return reflect_table(name, schema, conn)


def _count_rows(conn: "Connection", table: "Table") -> int | None:
    """Return the row count of a database table by counting; None for very many rows."""
    from sqlalchemy import func, literal, select

    some = select(literal(1)).select_from(table).limit(_MOST_COUNTED + 1).subquery()
    rows = conn.execute(select(func.count()).select_from(some)).scalar_one()
    return rows if rows <= _MOST_COUNTED else None
