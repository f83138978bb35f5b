"""Unused staging tables of JDBC targets."""

import re
from collections.abc import Callable, Iterator

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.databases.tables import split_name
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.jdbc.table import staging_prefix

_STAGING_TABLE = re.compile(r"(.+)(__staging_(\d+)_[0-9a-f]{6})")


def leftovers(search: Search, table: str, target: JdbcTarget) -> Iterator[Garbage]:
    """Yield the staging tables of one target that are not in use."""
    from sqlalchemy import inspect

    schema, name = split_name(target.table)
    with database(search.project.connection(target.connection)) as engine:
        for found in sorted(inspect(engine).get_table_names(schema)):
            match = _STAGING_TABLE.fullmatch(found)
            if not match or staging_prefix(name, match[2]) != match[1]:
                continue
            if not search.in_use(int(match[3]), found):
                yield Garbage(table, "rows", found, None, None, _dropper(search, target, found))


def _dropper(search: Search, target: JdbcTarget, name: str) -> Callable[[], None]:
    def drop() -> None:
        from sqlalchemy import MetaData, Table

        schema, _ = split_name(target.table)
        with database(search.project.connection(target.connection)) as engine:
            Table(name, MetaData(), schema=schema).drop(engine, checkfirst=True)

    return drop
