"""Columns excluded from index lookups: SQLite has no statistics by which to choose an index."""

from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement


class unindexed(FunctionElement[Any]):  # noqa: N801 - reads as the SQL function that it is
    """A column whose index SQLite must not use; other databases have statistics.

    SQLite would prefer an index whose first columns are compared for equality, however many rows
    that leaves, to one on a range of time.
    """

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.type = column.type
        super().__init__(column)


@compiles(unindexed)
def _compile_plain(element: unindexed, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.clauses, **kw))


@compiles(unindexed, "sqlite")
def _compile_sqlite(element: unindexed, compiler: Any, **kw: Any) -> str:
    return f"+{compiler.process(element.clauses, **kw)}"
