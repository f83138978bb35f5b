"""Rows of one project: a log holds the rows of several projects next to each other.

Every table whose rows belong to a project has a `project_id`, a part of its unique constraints and
of the indexes by names. Inserts get it by a default of the column. Every other statement uses
`of_project(table)`, unless it selects rows by their primary key. Both take the number from the
connection that executes the statement, which has it from its `RunLog`, so that statements can be
built once, for all projects.
"""

from contextvars import ContextVar
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Engine, bindparam, event
from sqlalchemy.engine import Connection
from sqlalchemy.sql.selectable import FromClause

from logdriven_dagster.errors import RunLogError

PROJECT_ID = "logdriven_project_id"
"""The option of a connection that holds the number of its project."""
UNRECORDED = 0
"""The number of a project that is not in the log yet: it has no rows."""
OWN_PROJECT = "own_project"
"""The parameter of `of_project`."""

_present: ContextVar[int | None] = ContextVar(PROJECT_ID, default=None)


def of_project(rows: FromClause) -> ColumnElement[bool]:
    """Match the rows of the connection's project in a table of the log, or in an alias of one."""
    own = bindparam(OWN_PROJECT, callable_=_own_project, type_=BigInteger())
    condition: ColumnElement[bool] = rows.c.project_id == own
    return condition


def own_parameter(conn: Connection) -> dict[str, int]:
    """Return the parameter of `of_project`, for statements that are executed as text."""
    return {OWN_PROJECT: _required(conn.get_execution_options().get(PROJECT_ID))}


def new_row_project() -> int:
    """Return the `project_id` of a new row.

    Raises RunLogError if the project is not in the log.
    """
    number = _own_project()
    if number == UNRECORDED:
        raise RunLogError("the project of this row is not in the run log yet")
    return number


def follow_connections(engine: Engine) -> None:
    """Pass the project of a connection to the statements that it executes."""
    if not event.contains(engine, "before_execute", _note_project):
        event.listen(engine, "before_execute", _note_project)


def _note_project(conn: Connection, *_: Any) -> None:
    _present.set(conn.get_execution_options().get(PROJECT_ID))


def _own_project() -> int:
    return _required(_present.get())


def _required(number: int | None) -> int:
    if number is None:
        raise RunLogError("the run log was opened without a project; call `RunLog.enter` with one")
    return number
