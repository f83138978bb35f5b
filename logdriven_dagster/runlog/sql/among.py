"""Many names or numbers as one parameter, however long the list is.

SQLAlchemy would write a parameter for each name into the statement, anew at every call, which takes
longer than the database takes to answer; and databases take so many parameters and no more.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Dialect,
    Integer,
    Text,
    TypeDecorator,
    bindparam,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeEngine


class _Values(TypeDecorator[Collection[Any]]):
    """A list of texts or of whole numbers, as each database takes it in one parameter."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[BigInteger | Text]) -> None:
        super().__init__()
        self.kind = kind

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return ARRAY(self.kind) if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        values = list(value or ())
        match dialect.name:
            case "postgresql":
                return values
            case "sqlite":
                return json.dumps(values)
            case _:  # drivers of MySQL and MariaDB write the values into the statement
                return tuple(values) or (None,)


class among(FunctionElement[bool]):  # noqa: N801 - reads as the SQL operator that it is
    """Whether a column holds one of the values with which the statement is executed.

    They are no part of the statement, so that one can be made for good: SQLAlchemy works out its
    cache key once, which takes longer than the rest of a short query.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], name: str = "names") -> None:
        """`name` is that of the parameter; its values are texts, or whole numbers as the column."""
        kind = BigInteger if isinstance(column.type, Integer) else Text
        super().__init__(column, bindparam(name, type_=_Values(kind)))

    def self_group(self, against: Any = None) -> "among":  # noqa: ARG002 - SQLAlchemy's own signature
        """Stay a condition: where there is no BOOLEAN it would be compared with 1, by no index."""
        return self


@compiles(among, "sqlite")
def _sqlite(element: among, compiler: Any, **kw: Any) -> str:
    column, values = (compiler.process(each, **kw) for each in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - they are bound


@compiles(among, "postgresql")
def _postgresql(element: among, compiler: Any, **kw: Any) -> str:
    column, values = (compiler.process(each, **kw) for each in element.clauses)
    return f"{column} = ANY ({values})"


@compiles(among, "mysql")
@compiles(among, "mariadb")
def _mysql(element: among, compiler: Any, **kw: Any) -> str:
    column, values = (compiler.process(each, **kw) for each in element.clauses)
    return f"{column} IN {values}"
