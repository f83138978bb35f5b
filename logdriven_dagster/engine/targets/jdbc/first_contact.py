"""The first window of a table of a database that others filled."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.tables import column_of
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.targets.first_contact import refusal, stay_beside

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table


def refuse_in_database(engine: "Engine", table: "Table", target: JdbcTarget) -> None:
    """Refuse rows of others before any work is done, and before the table gains a column.

    `pre_sql` may remove them; then the publication decides.
    """
    decided = target.existing_rows == "replace" or target.pre_sql
    if not stay_beside(target) or decided or WINDOW_START in table.c:
        return
    with engine.connect() as conn:
        if holds_others(conn, table):
            raise refusal(target.table)


def meet_in_database(conn: "Connection", table: "Table", target: JdbcTarget) -> None:
    """Remove rows of others in the transaction of the first window, or refuse to go on.

    It is one statement for each window; of an indexed column, as tables of ours have it.
    """
    from sqlalchemy import delete

    if not stay_beside(target) or not holds_others(conn, table):
        return
    if target.existing_rows != "replace":
        raise refusal(target.table)
    conn.execute(delete(table))


def holds_others(conn: "Connection", table: "Table") -> bool:
    """Whether a table of a database has rows, and none of them is a window's."""
    from sqlalchemy import literal, select

    if WINDOW_START in (column.name.lower() for column in table.columns):
        start = column_of(table, WINDOW_START)
        if conn.execute(select(start).where(start.is_not(None)).limit(1)).first():
            return False
    return conn.execute(select(literal(1)).select_from(table).limit(1)).first() is not None
