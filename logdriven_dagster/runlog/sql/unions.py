"""One small query for each of many tables, in few statements.

With constants in each, every database takes a step or two in an index for it. SQLAlchemy would take
longer to combine hundreds of them than the database to answer, so the query, a constant, is
compiled once and repeated as text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Select
from sqlalchemy.engine import Connection, Row
from sqlalchemy.sql.compiler import SQLCompiler

from logdriven_dagster.runlog.sql.chunks import QUERIES, split_into_chunks
from logdriven_dagster.runlog.sql.projects import own_parameter

_NAMED = re.compile(r"%\((\w+)\)s")


_COMPILED = 100
"""The number of cached queries, each with a dialect; there are a few of either."""


def execute_each(
    conn: Connection, query: Select[Any], values: Sequence[Mapping[str, Any]]
) -> Iterator[Row[Any]]:
    """Yield the rows of a query for each set of values of its `bindparam`s, in no certain order.

    Only numbers and texts are supported: neither parameters nor results are converted.
    """
    if not values:
        return
    own = own_parameter(conn)
    compiled = _compile_query(query, conn.dialect)
    text = f"SELECT * FROM ({compiled}) AS each_of"  # noqa: S608 - compiled, values are bound
    fixed, names = {**compiled.construct_params(own, _check=False), **own}, compiled.positiontup
    for part in split_into_chunks(values, QUERIES):
        parameters: Any
        if names is not None:
            statement = " UNION ALL ".join([text] * len(part))
            parameters = tuple((fixed | {**of})[name] for of in part for name in names)
        else:
            numbered = [_NAMED.sub(rf"%(\1_{n})s", text) for n in range(len(part))]
            statement = " UNION ALL ".join(numbered)
            parameters = {
                f"{name}_{n}": value
                for n, of in enumerate(part)
                for name, value in (fixed | {**of}).items()
            }
        yield from conn.exec_driver_sql(statement, parameters)


@lru_cache(_COMPILED)
def _compile_query(query: Select[Any], dialect: Dialect) -> SQLCompiler:
    compiled = query.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled
