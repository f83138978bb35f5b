"""The first window of a database table that other programs filled."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.tables import column_of
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.targets.first_contact import leaves_existing_rows, refusal

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table


def refuse_in_database(engine: "Engine", table: "Table", target: JdbcTarget) -> None:
    """Refuse existing rows of other programs before any work, and before the table gains a column.

    `pre_sql` may remove them; in that case the publication decides.
    """
    decided = target.existing_rows == "replace" or target.pre_sql
    if not leaves_existing_rows(target) or decided or WINDOW_START in table.c:
        return
    with engine.connect() as conn:
        if holds_others(conn, table):
            raise refusal(target.table)


def meet_in_database(conn: "Connection", table: "Table", target: JdbcTarget) -> None:
    """Remove existing rows of other programs in the first window's transaction, or refuse.

    This costs one statement per window, on an indexed column in tables that this package created.
    """
    from sqlalchemy import delete

    if not leaves_existing_rows(target) or not holds_others(conn, table):
        return
    if target.existing_rows != "replace":
        raise refusal(target.table)
    conn.execute(delete(table))


def holds_others(conn: "Connection", table: "Table") -> bool:
    """Return True if a database table has rows, none of which a window wrote."""
    from sqlalchemy import literal, select

    if WINDOW_START in (column.name.lower() for column in table.columns):
        start = column_of(table, WINDOW_START)
        if conn.execute(select(start).where(start.is_not(None)).limit(1)).first():
            return False
    return conn.execute(select(literal(1)).select_from(table).limit(1)).first() is not None


def has_existing_rows(conn: "Connection", table: "Table") -> bool:
    """Return True if a database table has a row that no window wrote.

    The rows of a table without `_window_start` cannot be distinguished.
    """
    from sqlalchemy import literal, select

    if WINDOW_START not in (column.name.lower() for column in table.columns):
        return False
    unknown = column_of(table, WINDOW_START).is_(None)
    query = select(literal(1)).select_from(table).where(unknown).limit(1)
    return conn.execute(query).first() is not None
