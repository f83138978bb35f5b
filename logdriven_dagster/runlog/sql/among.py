"""Lists of names as one parameter, regardless of their length.

SQLAlchemy would write a parameter for each name into the statement at every call, which takes
longer than the database takes to answer; and databases limit the number of parameters.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Dialect, Text, TypeDecorator, bindparam
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeEngine


class _Names(TypeDecorator[Collection[str]]):
    """A list of texts, as each database takes it in one parameter."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return ARRAY(Text) if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> Any:
        names = list(value or ())
        match dialect.name:
            case "postgresql":
                return names
            case "sqlite":
                return json.dumps(names)
            case _:  # drivers of MySQL and MariaDB write the values into the statement
                return tuple(names) or (None,)


class among(FunctionElement[bool]):  # noqa: N801 - reads as the SQL operator that it is
    """The condition that a column holds one of the `names` with which the statement is executed.

    The names are no part of the statement, so a statement can be built once: SQLAlchemy computes
    its cache key once, which takes longer than the rest of a short query.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: ColumnElement[str]) -> None:
        super().__init__(column, bindparam("names", type_=_Names()))

    def self_group(self, against: Any = None) -> "among":  # noqa: ARG002 - SQLAlchemy's own signature
        """Stay a condition: without BOOLEAN it would be compared with 1, which uses no index."""
        return self


@compiles(among, "sqlite")
def _compile_sqlite(element: among, compiler: Any, **kw: Any) -> str:
    column, names = (compiler.process(each, **kw) for each in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({names}))"  # noqa: S608 - names are bound


@compiles(among, "postgresql")
def _compile_postgresql(element: among, compiler: Any, **kw: Any) -> str:
    column, names = (compiler.process(each, **kw) for each in element.clauses)
    return f"{column} = ANY ({names})"


@compiles(among, "mysql")
@compiles(among, "mariadb")
def _compile_mysql(element: among, compiler: Any, **kw: Any) -> str:
    column, names = (compiler.process(each, **kw) for each in element.clauses)
    return f"{column} IN {names}"
