"""A column to be looked at, not looked up: SQLite has no statistics by which to choose an index."""

from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement


class unindexed(FunctionElement[Any]):  # noqa: N801 - reads as the SQL function that it is
    """A column by whose index SQLite is not to find rows; other databases know what is rare.

    It would take an index whose first columns are compared for equality, however many rows that
    leaves, before one on a range of time.
    """

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.type = column.type
        super().__init__(column)


@compiles(unindexed)
def _plain(element: unindexed, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.clauses, **kw))


@compiles(unindexed, "sqlite")
def _sqlite(element: unindexed, compiler: Any, **kw: Any) -> str:
    return f"+{compiler.process(element.clauses, **kw)}"
