"""The first window of a table that others filled: what becomes of their rows.

It is the first contact as long as the table has rows and none of them has a `_window_start`. That
can be seen in the table itself, so windows that come side by side, again after a crash, or later
beside rows that were kept, see the right thing. Where a window replaces rows by their key, by a
column of theirs, or all of them, nobody has to decide.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import IcebergTarget, JdbcTarget
from logdriven_dagster.engine.databases.tables import column_of
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.engine.storage.locations import storage_of
from logdriven_dagster.engine.targets.iceberg.files import (
    is_partitioned_by,
    matching_files,
    not_null,
)
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    import pyiceberg.table
    from pyiceberg.manifest import DataFile
    from sqlalchemy import Connection, Engine, Table

HOW_TO_DECIDE = (
    "Write `existing_rows: keep` in the target if they should, `existing_rows: replace` if the "
    "first window should remove them all, or use `mode: upsert` with a `key` to update them"
)


def refuse_in_database(engine: "Engine", table: "Table", target: JdbcTarget) -> None:
    """Refuse rows of others before any work is done, and before the table gains a column.

    `pre_sql` may remove them; then the publication decides.
    """
    decided = target.existing_rows == "replace" or target.pre_sql
    if not stay_beside(target) or decided or WINDOW_START in table.c:
        return
    with engine.connect() as conn:
        if holds_others(conn, table):
            raise _refusal(target.table)


def meet_in_database(conn: "Connection", table: "Table", target: JdbcTarget) -> None:
    """Remove rows of others in the transaction of the first window, or refuse to go on.

    It is one statement for each window; of an indexed column, as tables of ours have it.
    """
    from sqlalchemy import delete

    if not stay_beside(target) or not holds_others(conn, table):
        return
    if target.existing_rows != "replace":
        raise _refusal(target.table)
    conn.execute(delete(table))


def holds_others(conn: "Connection", table: "Table") -> bool:
    """Whether a table of a database has rows, and none of them is a window's."""
    from sqlalchemy import literal, select

    if WINDOW_START in (column.name.lower() for column in table.columns):
        start = column_of(table, WINDOW_START)
        if conn.execute(select(start).where(start.is_not(None)).limit(1)).first():
            return False
    return conn.execute(select(literal(1)).select_from(table).limit(1)).first() is not None


def files_of_others(table: "pyiceberg.table.Table", target: IcebergTarget) -> "list[DataFile]":
    """The files that the first window of an Iceberg table replaces; TerminalStepError: refused."""
    others = unknown_files(table) if stay_beside(target) else []
    if others and target.existing_rows == "refuse":
        raise _refusal(".".join(table.name()))
    return others


def unknown_files(table: "pyiceberg.table.Table") -> "list[DataFile]":
    """The files of an Iceberg table whose rows are all others'; none once a window wrote one.

    A table that is partitioned by window is ours, so nothing is looked for there.
    """
    if is_partitioned_by(table, WINDOW_START):
        return []
    known = WINDOW_START in table.schema().column_names
    if known and matching_files(table, not_null(WINDOW_START)):
        return []
    return matching_files(table)


def file_of_others(folder: str) -> str | None:
    """The name of a file that others have put into a folder before the first window."""
    names = storage_of(folder).names(folder)
    if "_windows" in names:
        return None
    return next((name for name in names if name[0] not in "._" and name != "data"), None)


def stay_beside(target: IcebergTarget | JdbcTarget) -> bool:
    """Whether rows of others would stay beside those of windows, and nobody wants that."""
    by_window = target.mode in ("append", "overwrite_window")
    return by_window and window_column(target) == WINDOW_START and target.existing_rows != "keep"


def _refusal(table: str) -> TerminalStepError:
    """What to raise at the first contact if nobody has decided."""
    return TerminalStepError(
        f"{table} holds rows that no window wrote (none has a {WINDOW_START}); they would stay "
        f"beside what is loaded now. {HOW_TO_DECIDE}"
    )
