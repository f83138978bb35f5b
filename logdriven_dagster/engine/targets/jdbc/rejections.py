"""Rows that a database rejects: its error with the table, the column if it is known, and a fix."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.databases.declarations import MARIADB
from logdriven_dagster.engine.databases.tables import plain_quoted
from logdriven_dagster.engine.failures import is_transient
from logdriven_dagster.engine.spark.jvm_errors import list_jvm_errors
from logdriven_dagster.engine.targets.jdbc.moves import Move
from logdriven_dagster.errors import TerminalStepError, get_driver_message

if TYPE_CHECKING:
    from sqlalchemy import Connection, FromClause
    from sqlalchemy.exc import DBAPIError

_PROBE = "logdriven_probe"
_BAD_DATA = "22"
"""The class of error codes for values that a type rejects."""
_TRUNCATED = 1292
"""MariaDB's error number for a text that is not a number or time."""

_VALUE = "convert the value in the step's SQL, or change the column"
_ROWS = "correct or filter these rows in the step's SQL, or change the constraint"
_NULL = "write a value, such as COALESCE(…), in the step's SQL, or give the column a default"
_REFERENCES = (
    "write the referenced rows first; if the window replaces rows to which others refer, use "
    "mode: upsert"
)
_DUPLICATE = "write each key once in the step's SQL, or use mode: upsert with this key"
_PARTITION = "create a partition for these rows, or filter them in the step's SQL"
_GENERATED = "leave the column out of the step's SQL, since the database computes it"
_TRIGGER = "correct these rows in the step's SQL, or change the trigger or function"
_VIEW = "set `table` to the table behind the view"
_RIGHTS = "grant the user of the connection SELECT, INSERT, UPDATE and DELETE on the table"
_TOO_LONG = "shorten the values in the step's SQL, or change the column or its index"
_FIXES: dict[str | int, str] = {
    _BAD_DATA: _VALUE,
    **dict.fromkeys(("23502", 1048, 1364, "SQLITE_CONSTRAINT_NOTNULL"), _NULL),
    **dict.fromkeys(("23503", 1216, 1217, 1451, 1452, "SQLITE_CONSTRAINT_FOREIGNKEY"), _REFERENCES),
    **dict.fromkeys(
        ("23505", 1062, 1586, "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE"),
        _DUPLICATE,
    ),
    **dict.fromkeys(
        ("23514", "23P01", "44000", 1369, 3819, 4025, "SQLITE_CONSTRAINT_CHECK"), _ROWS
    ),
    **dict.fromkeys((1526, 1748), _PARTITION),
    **dict.fromkeys(("428C9", 1906, 3105), _GENERATED),
    **dict.fromkeys(("P0001", 1644, "SQLITE_CONSTRAINT_TRIGGER"), _TRIGGER),
    **dict.fromkeys(("55000", 1288, 1348, 1471), _VIEW),
    **dict.fromkeys(("42501", 1142, 1143), _RIGHTS),
    **dict.fromkeys(("54000", 1118), _TOO_LONG),
    **dict.fromkeys((_TRUNCATED, 1264, 1265, 1366, 1406, 1416), _VALUE),
}
"""Fix by error: an SQLSTATE or its class, a number of MariaDB, or a name of SQLite."""
_AT_ROW = re.compile(r" at row \d+$")
_STAGING = re.compile(r"^\(conn=\d+\) |(`[^`]+`[.])?`[^`]*__staging_[^`]*`[.]")
"""The parts of a JDBC driver's message about our own connection and table."""
_COPIED_COLUMN = re.compile(r"^COPY .*, line \d+, column ([^:]+)", re.MULTILINE)
_KEYS = ("Key ", "Partition key ")
"""Details of PostgreSQL that name keys; others contain whole rows."""


@contextmanager
def explain_rejections(table: str) -> Iterator[None]:
    """Convert errors of SQLAlchemy and Spark about rejected rows to TerminalStepErrors with a fix.

    Errors that a retry may solve, and errors of other kinds, propagate unchanged.
    """
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except Exception as error:
        if is_transient(error):
            raise
        found = _of_driver(error) if isinstance(error, DBAPIError) else _of_spark(error)
        if found is None:
            raise
        said, fix = found
        raise TerminalStepError(f"{table}: {said}. Nothing was written; {fix}") from None


def _of_driver(error: "DBAPIError") -> tuple[str, str] | None:
    """Return the message of a Python driver with its column, and a fix; None for other errors."""
    origin: Any = error.orig
    state = str(getattr(origin, "sqlstate", None) or "")
    number = origin.args[0] if origin.args[:1] and isinstance(origin.args[0], int) else None
    codes = (number, getattr(origin, "sqlite_errorname", None), state, state[:2])
    fix = next((_FIXES[code] for code in codes if code in _FIXES), None)
    if fix is None:
        return None
    said = _AT_ROW.sub("", get_driver_message(origin))
    diagnosis = getattr(origin, "diag", None)
    if diagnosis is not None:
        if copied := _COPIED_COLUMN.search(diagnosis.context or ""):
            said = f"column {copied[1]}: {said}"
        if (diagnosis.message_detail or "").startswith(_KEYS):
            said = f"{said}: {diagnosis.message_detail.rstrip('.')}"
        if state == "23514" and diagnosis.table_name and not diagnosis.constraint_name:
            fix = _PARTITION  # the code is that of check constraints
    return said, fix


def _of_spark(error: Exception) -> tuple[str, str] | None:
    """Return the message of a JDBC driver, and a fix: staging tables reject nothing but values."""
    thrown = [each for each in list_jvm_errors(error) if "java.sql.SQLException" in each.types]
    if not thrown:
        return None
    said = thrown[-1].message.strip().partition("\n")[0]
    return _AT_ROW.sub("", _STAGING.sub("", said)), _VALUE


@contextmanager
def name_rejected_column(
    conn: "Connection", moves: Sequence[Move], source: "FromClause", table: str
) -> Iterator[None]:
    """Name the column whose values the database rejects, if its own message does not."""
    from sqlalchemy.exc import DBAPIError

    try:
        with _savepoint(conn):
            yield
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", ""))
        if not state.startswith(_BAD_DATA) and error.orig.args[:1] != (_TRUNCATED,):  # type: ignore[union-attr]
            raise
        for move in moves:
            if words := _refusal(conn, move, source):
                raise TerminalStepError(
                    f"{table}: column {move.target.name} ({move.declared}): {words}. Nothing was "
                    f"written; {_VALUE}"
                ) from None
        raise


def _refusal(conn: "Connection", move: Move, source: "FromClause") -> str | None:
    """Return the database's error on the staged values of one column; None if it accepts them."""
    from sqlalchemy import Column, MetaData, Table, insert, select, text
    from sqlalchemy.exc import DBAPIError

    if move.is_proven:
        return None
    column, of = plain_quoted(conn, move.target.name), move.target.table
    like = f"SELECT {column} FROM {plain_quoted(conn, of.schema, of.name)} WHERE false"  # noqa: S608
    probe = Table(_PROBE, MetaData(), Column(move.target.name, move.target.type, quote=True))
    conn.execute(text(f"CREATE TEMPORARY TABLE {_PROBE} AS {like}".replace(":", "\\:")))
    values = select(move.value).select_from(source)
    try:
        with _savepoint(conn):
            conn.execute(insert(probe).from_select(list(probe.columns), values))
    except DBAPIError as error:
        return get_driver_message(error.orig)
    finally:
        # Without TEMPORARY, MariaDB commits the transaction.
        word = "TEMPORARY " if conn.dialect.name in MARIADB else ""
        conn.execute(text(f"DROP {word}TABLE {_PROBE}"))
    return None


def _savepoint(conn: "Connection") -> AbstractContextManager[object]:
    """Return a savepoint where a failed statement would end the transaction."""
    return conn.begin_nested() if conn.dialect.name == "postgresql" else nullcontext()
